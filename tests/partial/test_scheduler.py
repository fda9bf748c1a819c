"""scheduler: messages of a partial engine delivered by hand, in which order, and results that wait for them."""

from __future__ import annotations

import copy
import json
import random
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partial_rehearsal import PartialRehearsal

import sharedstate_lite as ss

SQL = "CREATE VIEW result AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"


def paused() -> Any:
    """A paused partial engine after two epochs, with one filled key."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
    engine: Any = ss.engine("partial", [catalog.view(SQL)])
    engine.step({"info": [(("a", "F"), 1), (("b", "G"), 1)], "visit": [(("a", 1), 1)]})
    engine.read("result", key="F")
    engine.pause()
    engine.pause()
    return engine


def test_messages_say_what_is_under_way() -> None:
    """A message has an edge (sender, receiver), kind, view, keys and number of rows; messages are in the order sent."""
    engine = paused()
    engine.step({"visit": [(("a", 5), 2), (("a", 6), 1)], "info": [(("c", "F"), 1)]})
    engine.read("result", key="G")
    told = [(m.edge[0], m.kind, m.view, m.key, m.rows) for m in engine.messages()]
    assert ("visit", "change", "result", None, 2) in told
    assert ("info", "change", "result", None, 1) in told
    assert told[-1] == ("result", "upquery", "result", [("G",)], 0)
    engine.resume()
    assert engine.messages() == []


def test_answers_are_there_when_their_messages_have_arrived() -> None:
    """Step, and a read of a hole, return a PendingResult, done once its messages arrived; a hit answers at once."""
    engine = paused()
    assert engine.read("result", key="F")["m"].tolist() == [1]
    step, read = engine.step({"visit": [(("a", 5), 1)]}), engine.read("result", key="G")
    assert not step.done and not read.done
    for answer in (step, read):
        with pytest.raises(ss.Error, match="not available.*resume"):
            answer.result()
    # What has been committed is in the base tables; the view is still as it was.
    assert (engine.epoch, engine.read("result", key="F")["m"].tolist()) == (2, [1])
    while engine.messages():
        engine.deliver(0)
    assert (step.done, read.done) == (True, True)
    assert step.result()["result"].kinds() == ["-U", "+U"]
    assert read.result().empty
    engine.step({"visit": [(("b", 3), 1)]})
    engine.resume()
    # An answer is what it was when it came.
    assert read.result().empty
    assert engine.read("result", key="G")["m"].tolist() == [3]


def test_an_edge_is_first_in_first_out() -> None:
    """Only the oldest message of an edge can be delivered; other numbers, and engines that are not paused, raise."""
    engine = paused()
    for length in (5, 6):
        engine.step({"visit": [(("a", length), 1)]})
    first, second = [n for n, m in enumerate(engine.messages()) if m.edge[0] == "visit"]
    before = engine.messages()
    with pytest.raises(ss.Error, match=f"deliver\\({second}\\): the edge visit -> .* deliver message {first} first"):
        engine.deliver(second)
    for wrong in (-1, len(before), True, "0"):
        with pytest.raises(ss.Error, match="messages are in flight, numbered from 0"):
            engine.deliver(wrong)
    assert engine.messages() == before
    for call in (engine.compact, lambda: engine.checkpoint("nowhere"), lambda: engine.drop("result")):
        with pytest.raises(ss.Error, match="paused with 2 messages in flight"):
            call()
    engine.resume()
    with pytest.raises(ss.Error, match="not paused; call pause"):
        engine.deliver(0)
    assert engine.read("result", key="F")["m"].tolist() == [6]


def test_a_pause_holds_the_base_tables() -> None:
    """While messages wait, base tables keep the past that they will read; afterwards since advances."""
    engine = paused()
    engine.step({"visit": [(("a", 5), 1)]})
    engine.step({"visit": [(("a", 5), -1)]})
    assert {index.since for index in engine.indexes.values()} == {1}
    engine.resume()
    assert {index.since for index in engine.indexes.values()} == {3}
    assert engine.read("result", key="F")["m"].tolist() == [1]


def test_numbers_of_numpys_are_numbers(tmp_path: Path) -> None:
    """numpy integers work as options, as n of evict, as message numbers, and in checkpoints."""
    view = ss.Catalog(r="a INT").view("CREATE VIEW v AS SELECT a FROM r")
    options: Any = {"max_rows": np.int64(9), "max_bytes": np.int32(10**6), "seed": np.uint8(7)}
    make = import_module("sharedstate_lite.spark")._engine_spec
    asked = make("partial", [view], "auto", "used", options["seed"])
    assert json.loads(json.dumps(asked.options)) == {"seed": 7, "without": []}
    engine = ss.engine("partial", [view], **options)
    engine.step({"r": [((1,), 1)]})
    engine.read("v", key=1)
    engine.checkpoint(tmp_path / "kept")
    assert ss.restore(tmp_path / "kept").evict("v", n=np.int64(1)) == engine.evict("v", n=1) == {"v": [(1,)]}
    engine.pause()
    waits: Any = engine.read("v", key=1)
    while not waits.done:
        engine.deliver(np.int64(0))
    for odd in (True, np.bool_(False), 0.0):
        with pytest.raises(ss.Error, match="numbered from 0"):
            engine.deliver(odd)
        with pytest.raises(ss.ViewError, match="at least 0"):
            engine.evict("v", n=odd)


@pytest.mark.parametrize(
    "odd",
    [
        {"without": 18},
        {"without": [["rule18"]]},
        {"seed": -1},
        {"seed": "seven"},
        {"seed": True},
        {"max_rows": True},
        {"max_bytes": 1.5},
    ],
)
def test_options_that_cannot_be_are_refused(odd: dict[str, Any]) -> None:
    """An unknown fix and an invalid seed raise an error that names the option."""
    view = ss.Catalog(r="a INT").view("CREATE VIEW v AS SELECT a FROM r")
    with pytest.raises(ss.ViewError, match=next(iter(odd))):
        ss.engine("partial", [view], **odd)
    with pytest.raises(ss.ViewError, match="list of at least one view"):
        ss.engine("partial", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["in one process", "in bins"])
@pytest.mark.parametrize("both", ["a.g = b.g", "a.g = b.g AND a.h = b.h"])
def test_evict_tells_the_keys_of_each_side_of_a_join(both: str, place: str) -> None:
    """A join with two cached sides reports the evicted keys of each side under its name in state()."""
    catalog = ss.Catalog(r="k STRING, g INT, h DATE", s="g INT, h DATE, m INT")
    on = ["g", "h"][: both.count("=")]
    a = catalog.view("CREATE VIEW a AS SELECT k, g, h, COUNT(*) AS n FROM r GROUP BY k, g, h", key="k")
    b = catalog.view(f"CREATE VIEW b AS SELECT {', '.join(on)}, SUM(m) AS m FROM s GROUP BY {', '.join(on)}")
    v = catalog.view(f"CREATE VIEW v AS SELECT a.k, b.m FROM a JOIN b ON {both}", key="k")
    engine: Any = ss.engine("partial", [a, b, v]) if place == "in one process" else PartialRehearsal([a, b, v], 2)
    day = date(2024, 1, 31)
    engine.step({"r": [(("x", 1, day), 1), (("y", 2, None), 1)], "s": [((1, day, 3), 1), ((2, day, 4), 1)]})
    one = (1, day)[: len(on)]

    def once(keys: Any) -> list[Any]:
        return sorted(set(keys))  # in bins, a key stands in each bin that has rows of it

    def gone(view: str, key: Any = None) -> dict[str, list[Any]]:
        for k in ("x", "y"):
            engine.read("v", key=k)
        return {name: once(keys) for name, keys in engine.evict(view, key=key).items()}

    engine.read("v", key="x")
    engine.read("v", key="y")
    right = once(engine.filled("v.join1.right"))
    assert once(engine.filled("v.join1.left")) == [("x",), ("y",)] and one in right
    assert gone("b", one) == {"b.group1": [one], "v.join1.right": [one], "v": [("x",)]}
    assert gone("a") == {name: [("x",), ("y",)] for name in ("a.group1", "v.join1.left", "v")}
    met = [("x",), ("y",)][: len(right)]
    assert gone("b") == {"b.group1": right, "v.join1.right": right, "v": met}
    assert engine.read("v", key="x")["m"].tolist() == [3]


def test_evict_of_what_a_join_meets_twice_tells_both_sides() -> None:
    """A view joined with itself loses keys on both sides, and both are reported."""
    catalog = ss.Catalog(r="k STRING, g INT")
    d = catalog.view("CREATE VIEW d AS SELECT DISTINCT k, g FROM r", key="k")
    v = catalog.view("CREATE VIEW v AS SELECT x.k, y.k AS k2 FROM d x JOIN d y ON x.g = y.g", key="k")
    engine: Any = ss.engine("partial", [d, v])
    engine.step({"r": [(("x", 1), 1), (("y", 1), 1)]})
    assert engine.read("v", key="x")["k2"].tolist() == ["x", "y"]
    engine.read("d", key="x")
    assert engine.evict("v") == {"v": [("x",)]}
    engine.read("v", key="x")
    gone = engine.evict("d", key="x")
    assert (gone["v.join1.left"], gone["v"]) == ([("x",)], [("x",)])
    assert engine.read("v", key="x")["k2"].tolist() == ["x", "y"]


def test_a_paused_read_can_show_half_an_epoch_of_a_self_join() -> None:
    """A read in progress while an epoch arrives can pair an old row with a new one; after resume() the key is right."""
    catalog = ss.Catalog(r="k STRING, g INT, n INT")
    view = catalog.view("CREATE VIEW v AS SELECT x.k, x.n, y.n AS m FROM r x JOIN r y ON x.g = y.g")
    seen = set()
    for seed in range(60):
        order = random.Random(seed)
        engine: Any = ss.engine("partial", [view])
        engine.step({"r": [(("a", 1, 1), 1)]})
        engine.pause()
        read = engine.read("v", key="a")
        for turn in range(100):
            if turn == seed % 6:
                engine.step({"r": [(("a", 1, 1), -1), (("a", 1, 2), 1)]})
            if read.done:
                break
            # The two edges of the self-join have the same ends, so messages() does not tell them apart.
            oldest = {m.lane: n for n, m in reversed(list(enumerate(engine.in_flight)))}
            engine.deliver(order.choice(list(oldest.values())))
        seen.add(tuple(read.result().iloc[0, 1:]))
        engine.resume()
        assert engine.read("v", key="a").values.tolist() == [["a", 2, 2] if turn >= seed % 6 else ["a", 1, 1]]
    assert seen == {(1, 1), (1, 2), (2, 1), (2, 2)}


MOST = 2**31 - 1


def doubled() -> Any:
    """A paused engine over a view that can overflow, with key a filled."""
    catalog = ss.Catalog(r="k STRING, n INT")
    most = catalog.view("CREATE VIEW most AS SELECT k, MAX(n) AS n FROM r GROUP BY k")
    engine: Any = ss.engine("partial", [catalog.view("CREATE VIEW v AS SELECT k, n * 2 AS d FROM most"), most])
    engine.step({"r": [(("a", 1), 1)]})
    engine.read("v", key="a")
    engine.pause()
    return engine


def seen(engine: Any) -> Any:
    """Everything that an engine shows."""
    tables = {name: engine.state(name).to_dict("list") for name in engine.state().operator}
    filled = [engine.filled(name) for name in ("v", "most.group1")]
    return tables, filled, engine.messages(), engine.epoch, engine.paused, engine.read("v", key="a")["d"].tolist()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_row_that_refuses_takes_its_step_back(by_hand: bool) -> None:
    """On a paused engine, a step whose row overflows is rolled back once; the engine goes on from there."""
    engine = doubled()
    good = engine.step({"r": [(("a", 2), 1)]})
    before = seen(engine)
    bad = engine.step({"r": [(("a", MOST), 1)]})
    late = engine.step({"r": [(("b", 3), 1)]})
    unread = engine.read("v", key="c")
    hold = engine.handle(3)
    copied = copy.deepcopy(engine)
    with pytest.raises(ss.RowError, match="2147483647 .* rolled back.* paused at epoch 2; step without"):
        while by_hand:
            engine.deliver(0)
        engine.resume()
    assert seen(engine) == before
    for lost in (bad, late, unread):
        assert not lost.done
        with pytest.raises(ss.RowError, match="rolled back"):
            lost.result()
    engine.resume()
    assert good.result()["v"].to_pandas()[["d", "diff"]].values.tolist() == [[2, -1], [4, 1]]
    # A handle on an epoch that was rolled back moves to the last epoch.
    assert {index.since for index in engine.indexes.values()} == {2}
    hold.close()
    assert engine.step({"r": [(("a", 3), 1), (("new", 9), 1)]})["v"].to_pandas()["d"].tolist() == [4, 6]
    assert engine.read("v", key="new")["d"].tolist() == [18]
    # A copy of the paused engine has a past of its own.
    after = seen(engine)
    with pytest.raises(ss.RowError, match="rolled back"):
        copied.resume()
    assert seen(copied) == before and seen(engine) == after


def test_a_read_that_refuses_is_taken_back() -> None:
    """A read that overflows raises once and leaves a hole; a result rolled back with it can be read again."""
    engine = doubled()
    first = engine.read("v", key="b")
    engine.step({"r": [(("c", MOST), 1)]})
    engine.deliver(len(engine.messages()) - 1)
    before = seen(engine)
    second = engine.read("v", key="c")
    while not first.done:
        engine.deliver(next(i for i, m in enumerate(engine.messages()) if m.key != [("c",)]))
    assert first.result().empty
    with pytest.raises(ss.RowError, match="rolled back"):
        engine.resume()
    assert seen(engine) == before and not first.done
    with pytest.raises(ss.RowError, match="rolled back"):
        second.result()
    engine.resume()
    assert first.result().empty and engine.filled("v") == [("a",), ("b",)]
    with pytest.raises(ss.RowError, match=r"^view v: key \('c'\) cannot be read: INT overflow.*No step was lost"):
        engine.read("v", key="c")
    engine.step({"r": [(("c", MOST), -1), (("c", 4), 1)]})
    assert engine.read("v", key="c")["d"].tolist() == [8]
