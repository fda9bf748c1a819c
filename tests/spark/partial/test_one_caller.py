"""What partial state on Spark does not have, and one process does: each call is refused with what to use.

The contract that both have is in tests/engine/test_contract.py.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from partial_rehearsal import PartialRehearsal

import sharedstate_lite as ss

SQL = "CREATE VIEW v AS SELECT k, SUM(n) AS total FROM t GROUP BY k"


def view() -> ss.View:
    """A view in a catalog of its own."""
    return ss.Catalog(t="k STRING, n INT").view(SQL)


@pytest.mark.parametrize("option", ["max_rows", "max_bytes"])
@pytest.mark.parametrize("kind", ["partial", "full"])
def test_a_budget_is_refused(kind: str, option: str) -> None:
    """Before a session is started."""
    with pytest.raises(ss.ViewError, match=rf"^{option}: on Spark, no state has a budget, .*in one process$"):
        ss.spark.engine(kind, [view()], **{option: 5})


def test_a_stream_is_refused() -> None:
    """Before a session is started, and before a folder is opened."""
    with pytest.raises(ss.ViewError, match=r"^stream\('partial'\): .*one caller at a time.*in one process$"):
        ss.spark.stream("partial", [view()], {"t": "nowhere"}, "out", checkpoint="nowhere else")


def test_views_do_not_come_and_go() -> None:
    """install and drop are refused; the engine goes on."""
    there = PartialRehearsal([view()])
    there.step({"t": [(("a", 1), 1)]})
    late = there.catalog.view("CREATE VIEW late AS SELECT n, COUNT(*) AS rows FROM t GROUP BY n")
    first = there.catalog.view("CREATE VIEW w AS SELECT k FROM t")
    both = PartialRehearsal([there.views["v"], first])
    for call in (lambda: there.install(late), lambda: both.drop("w")):
        with pytest.raises(ss.ViewError, match="keeps the views that it was started with; .*in one process$"):
            call()
    assert there.read("v", key="a")["total"].tolist() == [1]


def test_a_second_caller_is_refused() -> None:
    """Between two rounds of a read, a call of another thread raises, and the read is right."""
    there, told = PartialRehearsal([view()]), list[str]()
    there.step({"t": [(("a", 1), 1)]})

    def call(act: Any) -> None:
        with pytest.raises(ss.Error) as caught:
            act()
        told.append(str(caught.value))

    def between() -> None:
        for act in (lambda: there.read("v", key="b"), lambda: there.step({}), lambda: there.lookup("v", ["a"])):
            thread = threading.Thread(target=call, args=(act,))
            thread.start()
            thread.join()

    there.between = between
    assert there.read("v", key="a")["total"].tolist() == [1]
    assert {text.partition(":")[0] for text in told} == {"read()", "step()", "lookup()"}
    assert all("serves one caller at a time; wait until that call returns, or give each" in text for text in told)


@pytest.mark.parametrize(("options", "text"), [({"seed": 3}, "seed"), ({"without": ["rule18"]}, "without")])
def test_options_of_partial_state_alone(options: Any, text: str) -> None:
    """Full and shared state have no seed and no rule to switch off."""
    with pytest.raises(ss.ViewError, match=f"^{text}: only partial state has this option; leave it out for full state"):
        ss.spark.engine("full", [view()], **options)


def made(*sql: str) -> list[Any]:
    """A partial engine over bins and one in process, over the same views of two relations."""
    catalog = ss.Catalog(t="k STRING, n INT", u="k STRING, g STRING")
    views = [catalog.view(f"CREATE VIEW v{n} AS SELECT {text}") for n, text in enumerate(sql)]
    return [PartialRehearsal(views, lose=2), ss.engine("partial", views)]


def test_what_is_shown() -> None:
    """The graph, the state, and the errors for other times and unknown operators are those of the engine in process."""
    there, here = made("g, MAX(n) AS top FROM u JOIN t USING (k) GROUP BY g")
    for engine in (there, here):
        engine.step({"u": [(("a", "F"), 1), (("b", "G"), 1)], "t": [(("a", 1), 2), (("b", 5), 1)]})
        engine.read("v0", key="F")
        assert engine.read("v0", at=1).equals(engine.read("v0"))
        with pytest.raises(ss.TimeError, match="shared"):
            engine.read("v0", at=0)
        with pytest.raises(ss.ViewError, match="no partial operator"):
            engine.filled("unknown")
    graphs = [[f.drop(columns="tables", errors="ignore").to_json() for f in engine.graph()] for engine in (there, here)]
    assert graphs[0] == graphs[1]
    for name in ("t[k]", "u[g]", "v0"):
        assert there.state(name).equals(here.state(name))
    assert set(here.state().operator) - {"u[k]"} <= set(there.state().operator)


def test_a_relation_that_no_view_uses_is_stored() -> None:
    """Its rows can be retracted, and a retraction of an absent row is refused as in process."""
    told = []
    for engine in made("g FROM u"):
        engine.step({"t": [(("a", 1), 1)]})
        engine.step({"t": [(("a", 1), -1)]})
        with pytest.raises(ss.RowError) as caught:
            engine.step({"t": [(("a", 1), -1)]})
        told.append(str(caught.value))
    assert told[0] == told[1]
