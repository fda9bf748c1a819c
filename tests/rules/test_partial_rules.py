"""Rules 16, 17, 19 and 21 by example: partial state, as in Noria; drawn sequences are in test_partial_drawn.py."""

import random
from typing import Any

import pytest
from support import own

import sharedstate_lite as ss
from sharedstate_lite.oracle import difference

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
}
RESULT = "SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) GROUP BY category"
START: dict[str, Any] = {
    "info": [(("Apple", "Fruit"), 1), (("Kiwi", "Fruit"), 1), (("Carrot", "Vegetable"), 1)],
    "visit": [(("Apple", "a", 10), 1), (("Kiwi", "b", 20), 1), (("Carrot", "b", 50), 1)],
}


def shop(**views: str) -> tuple[ss.Engine, ss.Engine]:
    """A partial engine, and a full one to compare with."""
    catalog = ss.Catalog(**RELATIONS)
    made = [catalog.view(f"CREATE VIEW {name} AS {sql}") for name, sql in (views or {"result": RESULT}).items()]
    engines = ss.engine("partial", made), ss.engine("full", made)
    for engine in engines:
        engine.step(START)
    return engines


def test_rule_16_a_read_after_a_miss_equals_recomputation() -> None:
    """The first read of a key asks the base tables and equals full state; the second sends no upquery."""
    partial, full = shop()
    assert own(partial.state())["rows"].sum() == 0
    for _ in range(2):
        assert difference(partial.read("result", key="Fruit"), full.read("result", key="Fruit")) is None
    names = [e.name for e in partial.trace]
    assert names.count("hit") == 1
    partial.trace.clear()
    partial.read("result", key="Fruit")
    assert not partial.trace.rows_by_edge()


def test_rule_16_an_empty_answer_is_cached_as_present() -> None:
    """A key without rows is filled after a read: the next read sends no upquery, and a write to it is applied."""
    partial, full = shop()
    assert partial.read("result", key="Nut").empty
    assert partial.filled("result") == [("Nut",)]
    partial.trace.clear()
    assert partial.read("result", key="Nut").empty
    assert [e.name for e in partial.trace] == ["hit"]
    nut = {"info": [(("Pecan", "Nut"), 1)], "visit": [(("Pecan", "c", 3), 1)]}
    assert partial.step(nut)["result"].kinds() == ["+I"]
    full.step(nut)
    assert difference(partial.read("result", key="Nut"), full.read("result", key="Nut")) is None


def test_rule_16_an_upquery_reads_the_nearest_filled_ancestor() -> None:
    """A view over a filled view is answered from it; no base table is read again."""
    by_product = "SELECT product, MAX(length) AS m FROM visit GROUP BY product"
    partial, full = shop(top=by_product, above="SELECT product, m FROM top WHERE m > 5")
    partial.read("top", key="Kiwi")
    partial.trace.clear()
    assert difference(partial.read("above", key="Kiwi"), full.read("above", key="Kiwi")) is None
    assert not [edge for edge in partial.trace.rows_by_edge("response") if edge[0] in RELATIONS]


def test_rule_17_a_write_to_a_hole_changes_nothing() -> None:
    """A change of a hole changes no state and emits nothing; a change of a filled key updates it."""
    partial, full = shop()
    partial.read("result", key="Fruit")
    before = own(partial.state())
    vegetable, fruit = {"visit": [(("Carrot", "e", 60), 1)]}, {"visit": [(("Apple", "e", 70), 1)]}
    assert len(partial.step(vegetable)["result"]) == 0
    assert own(partial.state()).equals(before)
    assert [e.name for e in partial.trace].count("dropped") == 2
    out, want = partial.step(fruit)["result"], (full.step(vegetable), full.step(fruit))[1]["result"]
    assert (out.kinds(), out.to_pandas()["max_length"].tolist()) == (["-U", "+U"], [20, 70])
    assert out.to_pandas().equals(want.to_pandas())


def chained() -> tuple[ss.Engine, ss.Engine]:
    """Aggregate over aggregate over join, with readers at two levels."""
    return shop(
        by_user="SELECT category, user, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY category, user",
        busiest="SELECT category, MAX(n) AS most FROM by_user GROUP BY category",
    )


def test_rule_19_filled_below_means_filled_above() -> None:
    """Along a chain of operators with the same key, filled below means filled above, also after evictions."""
    partial, full = chained()
    draw = random.Random(19)
    for _ in range(60):
        key = draw.choice(["Fruit", "Vegetable", "Nut"])
        if draw.random() < 0.6:
            assert difference(partial.read("busiest", key=key), full.read("busiest", key=key)) is None
        else:
            partial.evict("busiest", key=key)
        below, above = set(partial.filled("busiest")), set(partial.filled("busiest.group1"))
        assert below <= above


def test_rule_19_evicting_above_evicts_below() -> None:
    """A key evicted from an operator is evicted from all operators below it."""
    partial, _ = shop(result=RESULT, long="SELECT category, max_length FROM result WHERE max_length > 15")
    for view in ("result", "long"):
        partial.read(view, key="Fruit")
    gone = partial.evict("result", key="Fruit")
    assert gone["result"] == gone["long"] == [("Fruit",)]
    assert partial.filled("result") == partial.filled("long") == []
    assert partial.evict("result", key="Fruit") == {}


@pytest.mark.parametrize("n", [None, 1])
def test_rule_19_evicting_an_aggregate_evicts_what_was_joined_with_it(n: int | None) -> None:
    """Rows joined with an aggregate that becomes a hole would miss its changes: they become holes with it."""
    partial, full = shop(
        by_user="SELECT user, COUNT(*) AS n FROM visit GROUP BY user",
        busy="SELECT v.product, v.user, u.n FROM visit v JOIN by_user u ON v.user = u.user",
    )
    for product in ("Apple", "Kiwi"):
        partial.read("busy", key=product)
    partial.read("by_user", key="b")
    # All users, or the only one who was asked for by himself; he visits Kiwi.
    partial.evict("by_user", n=n)
    assert partial.filled("busy") == ([] if n is None else [("Apple",)])
    more = {"visit": [(("Carrot", "b", 1), 1), (("Carrot", "a", 1), 1)]}
    partial.step(more)
    full.step(more)
    for product in ("Apple", "Kiwi", "Carrot"):
        assert difference(partial.read("busy", key=product), full.read("busy", key=product)) is None


def test_rule_21_deleting_the_extremum_reads_the_parent_again() -> None:
    """After the maximum of a filled key is deleted, the step emits the second largest value, as full state does."""
    partial, full = shop()
    partial.read("result", key="Fruit")
    partial.trace.clear()
    change = {"visit": [(("Kiwi", "b", 20), -1)]}
    out, want = partial.step(change)["result"], full.step(change)["result"]
    assert out.to_pandas().equals(want.to_pandas())
    assert out.kinds() == ["-U", "+U"]
    assert partial.trace.named("upquery")
    last = {"visit": [(("Apple", "a", 10), -1)]}
    assert partial.step(last)["result"].kinds() == full.step(last)["result"].kinds() == ["-D"]
    assert partial.filled("result") == [("Fruit",)]


def test_the_least_recently_used_key_goes_first() -> None:
    """A budget evicts the key whose last use is the oldest, counted in operations."""
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view("CREATE VIEW v AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product")
    engine = ss.engine("partial", [view], max_rows=9)
    engine.step({"visit": [((p, "u", 1), 1) for p in "abcdef"]})
    for key in "abc":
        engine.read("v", key=key)
    engine.read("v", key="a")
    engine.read("v", key="d")
    assert ("a",) in engine.filled("v")
    assert ("b",) not in engine.filled("v")


def test_eviction_at_random_is_drawn_by_seed() -> None:
    """The same seed evicts the same keys; another seed evicts others."""
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view("CREATE VIEW v AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product")
    gone = []
    for seed in (5, 5, 6):
        engine = ss.engine("partial", [view], seed=seed)
        for i in range(40):
            engine.read("v", key=f"p{i}")
        gone.append(engine.evict("v", n=10)["v"])
    assert gone[0] == gone[1] != gone[2]
    assert len(gone[0]) == 10
