"""Rules 6 to 9: full state, as in Flink; what is emitted holds for every engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from cases import CASES, RELATIONS
from hypothesis import given
from hypothesis import strategies as st
from places import ENGINES, IN_BINS, make, partial
from support import IN_BINS_TOO, Input, bag, entries, epochs, examples, keys_of, labels, pairs, relations_of, tuples

import sharedstate_lite as ss

GROUPED = [name for name, case in CASES.items() if (view := case.declare()[1][-1]).unique and view.key]
every_engine = pytest.mark.parametrize("label", [*ENGINES, *IN_BINS, "full on Spark"])
every_engine_here = pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])


def shopping(label: str, sql: str = "MAX(length) AS top", **more: Any) -> ss.Engine:
    """An engine over the longest visit a category; of partial state, both categories are filled."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(
        f"CREATE VIEW result AS SELECT category, {sql} FROM info JOIN visit USING (product) GROUP BY category"
    )
    engine = make(label, [view], **more)
    engine.step({"info": [(("Apple", "Fruit"), 1), (("Kale", "Green"), 1)]})
    if partial(label):
        engine.read("result", key="Fruit")
        engine.read("result", key="Green")
    return engine


def visit(engine: ss.Engine, *rows: tuple[str, int, int]) -> list[tuple[str, Any, int]]:
    """One epoch of visits (product, length, diff); what is emitted as (kind, row, diff)."""
    out = engine.step({"visit": [((product, "u", length), diff) for product, length, diff in rows]})["result"]
    return [(kind, row, diff) for kind, (row, diff) in zip(out.kinds(), pairs(out), strict=True)]


@every_engine
def test_rule_06_kinds_of_one_group(label: str) -> None:
    """First row +I; unchanged nothing; changed -U then +U; last row gone -D."""
    with shopping(label) as engine:
        assert visit(engine, ("Apple", 10, 1)) == [("+I", ("Fruit", 10), 1)]
        assert visit(engine, ("Apple", 10, 1)) == []
        assert visit(engine, ("Apple", 5, 1)) == []
        assert visit(engine, ("Apple", 20, 1)) == [("-U", ("Fruit", 10), -1), ("+U", ("Fruit", 20), 1)]
        assert visit(engine, ("Apple", 20, -1), ("Apple", 30, 1)) == [
            ("-U", ("Fruit", 20), -1),
            ("+U", ("Fruit", 30), 1),
        ]
        # By the epoch: what comes and goes within one is not seen.
        assert visit(engine, ("Apple", 99, 1), ("Apple", 99, -1)) == []
        gone = visit(engine, ("Apple", 30, -1), ("Apple", 10, -2), ("Apple", 5, -1))
        assert gone == [("-D", ("Fruit", 30), -1)]
        assert visit(engine, ("Apple", 1, 1)) == [("+I", ("Fruit", 1), 1)]


@pytest.mark.parametrize(
    ("name", "place"),
    [*((name, ENGINES) for name in GROUPED), *((name, IN_BINS) for name in GROUPED if name in IN_BINS_TOO)],
)
def test_rule_06_each_retraction_matches_the_last_emission(name: str, place: dict[str, Any]) -> None:
    """A -U or -D is the row last emitted for its key; +I comes only where there is none; unchanged emits nothing."""
    view = CASES[name].declare()[1][-1]

    @examples(3)
    @given(epochs(relations_of(view)), st.lists(keys_of(view), max_size=3))
    def run(steps: list[Input], keys: list[Any]) -> None:
        for label in labels(CASES[name], view, place):
            with make(label, [view]) as engine:
                for key in keys:
                    engine.read("result", key=key)
                follow(engine, view, steps)

    run()


def follow(engine: ss.Engine, view: ss.View, steps: list[Input]) -> None:
    """Steps, with every emission checked against the last one of its key."""
    last: dict[Any, Any] = {}
    for step in steps:
        out = engine.step(step)["result"]
        before = dict(last)
        for kind, (row, diff) in zip(out.kinds(), pairs(out), strict=True):
            key = tuple(row[i] for i in view.key)
            assert abs(diff) == 1
            if kind in ("-U", "-D"):
                assert last.pop(key) == row
            else:
                assert key not in last
                assert (kind == "+U") == (key in before)
                last[key] = row
            assert kind != "-D" or key not in {tuple(r[i] for i in view.key) for r, d in pairs(out) if d > 0}
        if engine.kind == "partial":
            # A key that became a hole within the step is no longer followed.
            there = set(engine.filled("result"))
            last = {key: row for key, row in last.items() if key in there}
        assert Counter(last.values()) == Counter(tuples(engine.read("result")))


@every_engine
def test_rule_07_one_of_several_maxima(label: str) -> None:
    """Of duplicate maxima, deleting one emits nothing; deleting the last one does."""
    with shopping(label) as engine:
        visit(engine, ("Apple", 40, 2), ("Apple", 20, 1))
        assert visit(engine, ("Apple", 40, -1)) == []
        assert visit(engine, ("Apple", 40, -1)) == [("-U", ("Fruit", 40), -1), ("+U", ("Fruit", 20), 1)]


@every_engine_here
def test_rule_08_deleting_the_maximum_yields_the_second(label: str) -> None:
    """Deleting maximum after maximum yields each next one, in whatever order they came."""
    with shopping(label) as engine:
        lengths = [3, 50, 7, 50, 21, 8]
        for length in lengths:
            visit(engine, ("Apple", length, 1))
        for top, second in [(50, 21), (21, 8), (8, 7), (7, 3)]:
            emitted = visit(engine, ("Apple", top, -lengths.count(top)))
            assert emitted == [("-U", ("Fruit", top), -1), ("+U", ("Fruit", second), 1)]
        assert visit(engine, ("Apple", 3, -1)) == [("-D", ("Fruit", 3), -1)]


@pytest.mark.parametrize(
    "sql", ["MAX(length) AS top", "MIN(length) AS a, SUM(length) AS b, AVG(length) AS c, COUNT(*) AS d"]
)
@every_engine_here
def test_rule_08_an_emptied_group_keeps_nothing(label: str, sql: str) -> None:
    """A group whose rows are gone keeps zero entries, in every operator above the joins' inputs."""
    with shopping(label, sql) as engine:
        before = entries(engine)
        visit(engine, ("Apple", 40, 2), ("Apple", 20, 1), ("Kale", 3, 1))
        visit(engine, ("Apple", 40, -2), ("Apple", 20, -1))
        visit(engine, ("Kale", 3, -1))
        # Nothing has to be compacted for that: so few rows are merged as they come.
        assert entries(engine) == before
        assert tuples(engine.read("result")) == []


def join_rows(engine: ss.Engine) -> Counter[str]:
    """What the joins of an engine store: relation -> rows."""
    table = engine.state()
    joins = table[table.kind == "join"]
    out: Counter[str] = Counter()
    for relation, rows in zip(joins["relation"], joins["rows"], strict=True):
        out[relation] += rows
    return out


CHAIN = "SELECT category, cents, length FROM info JOIN visit USING (product) JOIN price USING (product)"
ROWS: Input = {
    "info": [(("a", "x"), 1), (("b", "y"), 1)],
    "visit": [(("a", "u", n), 1) for n in range(5)],
    "price": [(("a", 7), 1)],
}


@pytest.mark.parametrize("label", ["full", "full in bins", "full on Spark"])
def test_rule_09_a_chain_stores_the_intermediate_join(label: str) -> None:
    """A three-way chain stores its intermediate join, on one key too."""
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view(f"CREATE VIEW result AS {CHAIN}")
    with make(label, [view]) as engine:
        engine.step(ROWS)
        stored = join_rows(engine)
        assert stored["π(info ⋈ π(visit))"] == 5
        assert (stored["info"], stored["π(visit)"], stored["price"]) == (2, 5, 1)


@pytest.mark.parametrize(("one", "other"), [("full multi", "full"), ("full multi in bins", "full in bins")])
def test_rule_09_multi_stores_no_intermediate_join(one: str, other: str) -> None:
    """On one key, join="multi" stores its inputs only, and answers the same."""
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view(f"CREATE VIEW result AS {CHAIN}")
    with make(one, [view]) as multi, make(other, [view]) as linear:
        assert bag(multi.step(ROWS)["result"]) == bag(linear.step(ROWS)["result"])
        assert join_rows(multi) == Counter({"info": 2, "π(visit)": 5, "price": 1})


@pytest.mark.parametrize("label", ["full multi", "full multi in bins"])
def test_rule_09_multi_needs_one_key(label: str) -> None:
    """On several keys, join="multi" is refused by name."""
    view = CASES["chain of three, two keys"].declare()[1][-1]
    with pytest.raises(ss.ViewError, match="result.*same key.*linear"):
        make(label, [view])
