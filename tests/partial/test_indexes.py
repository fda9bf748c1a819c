"""The bill of base tables under partial state: a table in which operators look rows up is working state as well."""

from __future__ import annotations

from pathlib import Path

import sharedstate_lite as ss

INFO = [("Apple", "Fruit"), ("Banana", "Fruit"), ("Carrot", "Vegetable")]
VISIT = [("Apple", "Bob", 20), ("Apple", "Eve", 20), ("Carrot", "Bob", 50), ("Carrot", "Bob", 50)]
LONGEST = (
    "CREATE VIEW longest AS SELECT category, MAX(length) AS n FROM info JOIN visit USING (product) GROUP BY category"
)
USERS = "CREATE VIEW users AS SELECT user, MAX(length) AS n FROM visit GROUP BY user"
TABLES = {"info[category]": 3, "info[product]": 3, "visit[product]": 3, "other[a]": 1}
"""The distinct rows of each arrangement of a table. An upquery for a category looks up info first, then visit."""


def loaded() -> ss.Engine:
    """A partial engine with the rows above, and a relation that no view reads."""
    catalog = ss.Catalog(
        info="product STRING, category STRING", visit="product STRING, user STRING, length INT", other="a INT"
    )
    engine = ss.engine("partial", [catalog.view(LONGEST)])
    engine.step({"info": [(row, 1) for row in INFO], "visit": [(row, 1) for row in VISIT], "other": [((1,), 1)]})
    return engine


def rows(engine: ss.Engine) -> dict[str, int]:
    """The rows of each arrangement of a table."""
    state = engine.state()
    tables = state[state["kind"].isin(["base", "index"])]
    return dict(zip(tables["operator"], tables["rows"], strict=True))


def test_a_table_that_is_looked_up_is_in_two_columns() -> None:
    """A base table with lookups is durable and working, each further index only working; in all, each counts once."""
    engine = loaded()
    assert rows(engine) == TABLES
    bills = engine.state().set_index("operator")["bill"]
    assert bills[["info[category]", "visit[product]"]].tolist() == ["durable + working"] * 2
    assert bills["info[product]"] == "working" and bills["other[a]"] == "durable"
    engine.read("longest", key="Fruit")
    bill = engine.bill()
    assert bill["rows"].tolist() == [7, 9, 2, 0, 12]
    sizes = engine.state()["bytes"].sum()
    assert bill.loc["stored in all", "bytes"] == sizes + bill.loc["strings", "bytes"]
    assert sizes < bill["bytes"].iloc[:3].sum()


def test_a_further_view_adds_its_index() -> None:
    """A view by another column adds an index with all rows of the table; changes keep it equal to the table."""
    engine = loaded()
    engine.install(engine.catalog.view(USERS))
    assert rows(engine) == TABLES | {"visit[user]": 3}
    engine.step({"visit": [(("Banana", "Eve", 7), 1), (("Carrot", "Bob", 50), -2)]})
    by_user, table = (engine.state(name) for name in ("visit[user]", "visit[product]"))
    columns = [*table.columns]
    assert by_user.sort_values(columns).values.tolist() == table.sort_values(columns).values.tolist()
    assert engine.read("users", key="Eve")["n"].tolist() == [20]


def test_a_restored_engine_has_its_indexes(tmp_path: Path) -> None:
    """A checkpoint has each table once; the engine that is restored from it has the same bill and the same rows."""
    engine = loaded()
    engine.read("longest", key="Fruit")
    engine.compact()
    engine.checkpoint(tmp_path / "kept")
    assert "info[product]" not in engine.parts()
    back = ss.restore(tmp_path / "kept")
    assert back.bill()["rows"].equals(engine.bill()["rows"]) and rows(back) == rows(engine)
    assert back.state("info[product]").equals(engine.state("info[product]"))


def test_a_budget_is_for_cached_answers() -> None:
    """max_rows bounds the cached answers alone: tables and indexes have more rows, and no key is evicted for them."""
    catalog = ss.Catalog(visit="product STRING, user STRING, length INT")
    engine = ss.engine("partial", [catalog.view(USERS)], max_rows=2)
    engine.step({"visit": [(row, 1) for row in VISIT]})
    engine.read("users", key="Bob")
    assert engine.filled("users") == [("Bob",)] and engine.bill()["rows"]["working state"] == 3
