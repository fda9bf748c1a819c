"""Rules 18, 20 and 22 over bins: an epoch between any two rounds of a lookup, in every position.

Then the rule is switched off, and some position must give a wrong answer.
"""

from __future__ import annotations

from typing import Any

import pytest
from partial_rehearsal import PartialRehearsal
from raced import BEFORE, RELATIONS
from support import tuples

import sharedstate_lite as ss
from sharedstate_lite.spark.partial import engine as driver

VIEWS = {
    "one": "SELECT product, COUNT(*) AS n, MAX(length) AS m FROM visit GROUP BY product",
    "joined": "SELECT category, COUNT(*) AS n, SUM(length) AS s FROM info JOIN visit USING (product) GROUP BY category",
    "both": "SELECT product, length FROM visit UNION ALL SELECT product, n AS length FROM counts",
    "counts": "SELECT product, COUNT(*) AS n FROM info GROUP BY product",
    "by_author": "SELECT author, COUNT(*) AS n FROM story GROUP BY author",
    "stories": "SELECT s.id, s.author, a.n FROM story s JOIN by_author a ON s.author = a.author",
}
RACES: dict[str, tuple[str, str, list[Any], Any, Any]] = {
    "a change of the key that is read": ("rule18", "one", [], "b", {"visit": [(("b", "x", 7), 1)]}),
    "both sides of a join": (
        "rule18", "joined", [], "F", {"info": [(("d", "F"), 1)], "visit": [(("d", "z", 9), 1), (("b", "x", 5), -1)]},
    ),
    "a half of a join that is there already": (
        "rule22", "joined", [], "F", {"info": [(("b", "F"), -1), (("d", "F"), 1)], "visit": [(("d", "z", 9), 1)]},
    ),
    "a story moves to an author who is a hole": (
        "rule20", "stories", [7], 7, {"story": [((7, "Elena"), -1), ((7, "Talia"), 1)]},
    ),
}  # fmt: skip


def wrong(name: str, without: list[str], at: int, seed: int) -> bool:
    """Whether the filled keys differ from full state's, if the epoch comes before round ``at`` of the lookup."""
    _, view, filled, key, epoch = RACES[name]
    catalog = ss.Catalog(**RELATIONS)
    declared = {n: catalog.view(f"CREATE VIEW {n} AS {VIEWS[n]}") for n in ("counts", "by_author")}
    declared |= {n: catalog.view(f"CREATE VIEW {n} AS {sql}") for n, sql in VIEWS.items() if n not in declared}
    there, full = PartialRehearsal([declared[view]], 2, 0, seed, without=without), ss.engine("full", [declared[view]])
    for engine in (there, full):
        engine.step(BEFORE)
    for each in filled:
        there.read(view, key=each)
    left = [at]

    def between() -> None:
        left[0] -= 1
        if left[0] == 0:
            there.later(epoch)

    there.between = between
    there.read(view, key=key)
    there.between = None
    if left[0] > 0:
        there.step(epoch)
    full.step(epoch)
    return tuples(there.read(view, key=key)) != tuples(full.read(view, key=key))


@pytest.mark.parametrize("name", RACES)
def test_rules_18_20_22_wherever_the_epoch_comes(name: str) -> None:
    """With the rules the answer is right wherever the epoch comes; without one rule it is wrong somewhere."""
    places = [(at, seed) for at in range(1, 8) for seed in range(2)]
    assert not [p for p in places if wrong(name, [], *p)]
    assert any(wrong(name, [RACES[name][0]], *p) for p in places)


def shop() -> tuple[PartialRehearsal, Any]:
    """The shopping view over bins, and in one process."""
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view(f"CREATE VIEW joined AS {VIEWS['joined']}")
    made = PartialRehearsal([view], 2), ss.engine("full", [view])
    for engine in made:
        engine.step(BEFORE)
    return made


def test_many_keys_in_one_call_share_their_rounds() -> None:
    """A lookup of several keys takes the micro-batches of one key; a key twice counts once."""
    other, full = shop()
    other.clear_count()
    other.read("joined", key="F")
    there, _ = shop()
    there.clear_count()
    assert tuples(there.lookup("joined", ["F", "G", "nowhere", "F"])) == tuples(full.read("joined"))
    assert there.rounds == other.rounds
    assert there.filled("joined") == [("F",), ("G",), ("nowhere",)]


def test_what_a_kernel_refuses_is_undone() -> None:
    """An epoch that a kernel refuses, at once or rounds later, raises the error and leaves answers as they were."""
    catalog = ss.Catalog(t="k STRING, b BIGINT", s="k STRING, g STRING")
    sql = "CREATE VIEW v AS SELECT g, SUM(b) AS total FROM s JOIN t USING (k) GROUP BY g"
    there, full = PartialRehearsal([catalog.view(sql)], 2), ss.engine("full", [catalog.views["v"]])
    big = 2**62
    first = {"s": [(("x", "G"), 1), (("y", "H"), 1)], "t": [(("x", big), 1), (("y", 1), 1), (("z", big), 1)]}
    for engine in (there, full):
        engine.step(first)
    for key in ("G", "H"):
        there.read("v", key=key)
    at_once, later = {"t": [(("x", big), 1)]}, {"s": [(("z", "G"), 1)]}
    for bad in (at_once, later):
        for engine in (there, full):
            with pytest.raises(ss.RowError, match="BIGINT"):
                engine.step(bad)
        assert there.epoch == full.epoch
        for key in ("G", "H"):
            assert tuples(there.read("v", key=key)) == tuples(full.read("v", key=key))
    good = {"t": [(("y", 4), 1)]}
    assert there.step(good)["v"] == full.step(good)["v"]


def test_a_lookup_that_is_refused_does_not_harm_others() -> None:
    """A lookup of a key whose sum overflows raises; lookups of other keys in the same round are answered."""
    catalog = ss.Catalog(t="k STRING, b BIGINT")
    there = PartialRehearsal([catalog.view("CREATE VIEW v AS SELECT k, SUM(b) AS total FROM t GROUP BY k")], 2)
    there.step({"t": [(("x", 2**62), 1), (("x", 2**62 + 1), 1), (("y", 5), 1)]})
    with pytest.raises(ss.RowError, match="BIGINT"):
        there.read("v", key="x")
    assert tuples(there.read("v", key="y")) == [("y", 5)]
    with pytest.raises(ss.RowError, match="BIGINT"):
        there.lookup("v", ["x", "y"])
    assert there.filled("v") == [("y",)]


def test_a_hole_that_is_filled_at_once_is_stored() -> None:
    """A view that another view in the same bin fills at once is also stored as filled (rule 16)."""
    catalog = ss.Catalog(**RELATIONS)
    sql = "AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product"
    there = PartialRehearsal([catalog.view(f"CREATE VIEW {name} {sql}") for name in ("early", "late")], 1)
    there.step(BEFORE)
    for name in ("early", "late"):
        there.read(name, key="b")
        assert there.filled(name) == [("b",)]
        there.forget_processes()
        there.clear_count()
        there.read(name, key="b")
        assert (there.rounds, there.reads) == (1, 0)


def test_what_was_joined_with_an_evicted_aggregate_is_evicted_too() -> None:
    """If an aggregate becomes a hole, rows that were joined with it do too, and evict returns all of them (rule 19)."""
    catalog = ss.Catalog(**RELATIONS)
    by_author, stories = (catalog.view(f"CREATE VIEW {n} AS {VIEWS[n]}") for n in ("by_author", "stories"))
    there, full = PartialRehearsal([by_author, stories], 2), ss.engine("full", [by_author, stories])
    for engine in (there, full):
        engine.step(BEFORE)
    for key in (7, 8, 9):
        there.read("stories", key=key)
    gone = there.evict("by_author", key="Elena")
    assert gone["stories"] == [(7,), (8,)] and gone["stories.join1.right"] == [("Elena",)]
    assert there.filled("stories") == [(9,)] and there.filled("stories.join1.right") == [("Talia",)]
    for key in (7, 8, 9):
        assert tuples(there.read("stories", key=key)) == tuples(full.read("stories", key=key))


def test_a_lookup_that_cannot_be_put_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error before an upquery is sent reaches the caller, and the next lookup is answered."""
    engine = PartialRehearsal([ss.Catalog(**RELATIONS).view(f"CREATE VIEW one AS {VIEWS['one']}")], 2)

    def broken(*given: Any, **more: Any) -> Any:
        raise MemoryError("no room for a letter")

    with monkeypatch.context() as changed:
        changed.setattr(driver, "encode_message", broken)
        with pytest.raises(MemoryError, match="no room"):
            engine.read("one", key="b")
    assert len(engine.read("one", key="b")) == 0
