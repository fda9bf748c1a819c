"""Rules 6 to 9: full state, as Flink's streaming SQL keeps it."""

from typing import Any

import pytest

import sharedstate_lite as ss

SEED = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)


def shop(*sql: str, **options: Any) -> ss.Engine:
    """A full engine over the shopping visits."""
    catalog = ss.Catalog(
        info="product STRING, category STRING",
        visit="product STRING, user STRING, length INT",
        price="product STRING, cents BIGINT",
    )
    return ss.engine("full", [catalog.view(text) for text in sql or (SEED,)], **options)


def changelog(engine: ss.Engine, view: str = "result", **inputs: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """One step's changes of a view as (kind, row)."""
    out = engine.step(inputs)[view]
    rows = out.to_pandas().drop(columns=["time", "diff"]).astype(object)
    return list(zip(out.kinds(), rows.itertuples(index=False, name=None), strict=True))


def filled_shop() -> ss.Engine:
    """Two products of one category, one visit each."""
    engine = shop()
    engine.step({"info": [(("Apple", "Fruit"), 1), (("Kiwi", "Fruit"), 1)]})
    return engine


def test_rule_06_the_changelog_of_a_group() -> None:
    """First row +I; unchanged: nothing; changed: -U of the last emission, then +U; last row gone: -D."""
    engine = filled_shop()
    assert changelog(engine, visit=[(("Apple", "a", 10), 1)]) == [("+I", ("Fruit", 10))]
    assert changelog(engine, visit=[(("Kiwi", "a", 5), 1)]) == []
    assert changelog(engine, visit=[(("Kiwi", "b", 20), 1)]) == [("-U", ("Fruit", 10)), ("+U", ("Fruit", 20))]
    assert changelog(engine, visit=[(("Kiwi", "b", 20), -1)]) == [("-U", ("Fruit", 20)), ("+U", ("Fruit", 10))]
    gone = [(("Apple", "a", 10), -1), (("Kiwi", "a", 5), -1)]
    assert changelog(engine, visit=gone) == [("-D", ("Fruit", 10))]


def test_rule_06_retractions_match_the_last_emission() -> None:
    """Over a long run every retraction takes back exactly the row that was emitted last for its key."""
    engine = shop("CREATE VIEW v AS SELECT product, SUM(length) AS s, COUNT(*) AS n FROM visit GROUP BY product")
    last: dict[str, tuple[Any, ...]] = {}
    for epoch in range(40):
        sign = -1 if epoch % 4 == 3 else 1
        rows = [((f"p{(epoch - (sign < 0)) % 3}", "u", 7), sign), ((f"p{epoch % 2}", "w", epoch), 1)]
        for kind, row in changelog(engine, "v", visit=rows):
            if kind in ("-U", "-D"):
                assert last.pop(row[0]) == row
            else:
                assert row[0] not in last
                last[row[0]] = row
    assert sorted(last.values()) == sorted(engine.read("v").astype(object).itertuples(index=False, name=None))


def test_rule_07_one_of_duplicate_maxima_emits_nothing() -> None:
    """Of two equal maxima, deleting one changes nothing; deleting the other does."""
    engine = filled_shop()
    engine.step({"visit": [(("Apple", "a", 10), 1), (("Kiwi", "b", 10), 1), (("Apple", "c", 3), 1)]})
    assert changelog(engine, visit=[(("Apple", "a", 10), -1)]) == []
    assert changelog(engine, visit=[(("Kiwi", "b", 10), -1)]) == [("-U", ("Fruit", 10)), ("+U", ("Fruit", 3))]


def test_rule_08_the_second_maximum_and_an_emptied_group() -> None:
    """Deleting the maximum yields the second; an emptied group keeps no entry anywhere."""
    engine = filled_shop()
    engine.step({"visit": [(("Apple", "a", n), 1) for n in (10, 20, 30)]})
    for best in (30, 20):
        changes = changelog(engine, visit=[(("Apple", "a", best), -1)])
        assert changes == [("-U", ("Fruit", best)), ("+U", ("Fruit", best - 10))]
    assert changelog(engine, visit=[(("Apple", "a", 10), -1)]) == [("-D", ("Fruit", 10))]
    engine.compact()
    state = engine.state()
    assert state[state.kind.isin(["aggregate", "reader"])]["rows"].sum() == 0


def test_rule_08_every_maximum_in_turn() -> None:
    """A thousand maxima deleted one by one each yield the next, whatever the batches look like."""
    engine = filled_shop()
    engine.step({"visit": [(("Apple", f"u{n}", n), 1) for n in range(1000)]})
    for n in range(999, 0, -1):
        assert changelog(engine, visit=[(("Apple", f"u{n}", n), -1)]) == [
            ("-U", ("Fruit", n)),
            ("+U", ("Fruit", n - 1)),
        ]


CHAIN = (
    "CREATE VIEW chain AS SELECT i.product, i.category, v.length, p.cents "
    "FROM info i JOIN visit v ON i.product = v.product JOIN price p ON p.product = v.product"
)
CHAIN_ROWS = {
    "info": [(("a", "F"), 1), (("b", "F"), 1)],
    "visit": [(("a", "x", 1), 1), (("a", "y", 2), 1), (("b", "x", 3), 1)],
    "price": [(("a", 100), 1)],
}


def test_rule_09_a_chain_stores_the_intermediate_join() -> None:
    """Joined one after the other, even on one key, the first join's rows are stored again for the second."""
    engine = shop(CHAIN)
    engine.step(CHAIN_ROWS)
    state = engine.state()
    joins = state[state.kind == "join"].set_index("relation")["rows"].to_dict()
    assert joins == {"info": 2, "visit": 3, "info ⋈ visit": 3, "price": 1}


def test_rule_09_a_multi_way_join_does_not() -> None:
    """join='multi' on one common key stores each input once and no intermediate rows, with the same answer."""
    engine, linear = shop(CHAIN, join="multi"), shop(CHAIN)
    for each in (engine, linear):
        each.step(CHAIN_ROWS)
    joins = engine.state()[engine.state().kind == "join"].set_index("relation")["rows"].to_dict()
    assert joins == {"info": 2, "visit": 3, "price": 1}
    assert engine.read("chain").equals(linear.read("chain"))


def test_rule_09_multi_needs_one_key() -> None:
    """A chain on several keys cannot be one multi-way operator; it is refused by name."""
    with pytest.raises(ss.ViewError, match="needs one key"):
        shop(
            "CREATE VIEW v AS SELECT a.product, b.user, c.length FROM visit a "
            "JOIN visit b ON a.product = b.product JOIN visit c ON b.user = c.user",
            join="multi",
        )
