"""Pictures of an engine's graph have what the engine has, as JSON, as HTML without a script, and as text."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from cases import CASES, DOMAINS, RELATIONS
from contrast import contrast
from drawn import TAKEN

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.replay.texts import shown
from sharedstate_lite.show.palette import DARK, LIGHT

KINDS = ["full", "shared", "partial"]
SQL = "CREATE VIEW v AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"
HOSTILE = ["<script>alert(1)</script>", "a & b \"c\" 'd'", "\x00\x1f\n\t", "北京市 🍎 مرحبا", "W" * 80, "", None]


def engine(kind: str, case: Any, rows: int) -> ss.Engine:
    """An engine with the case's views and some rows in every relation."""
    _, views = case.declare()
    made = ss.engine(kind, views)
    for relation, schema in RELATIONS.items():
        columns = [c.split()[0] for c in schema.split(", ")]
        values = [tuple(DOMAINS[c][n * (i + 1) % len(DOMAINS[c])] for i, c in enumerate(columns)) for n in range(rows)]
        made.step({relation: [(row, 1 + n % 2) for n, row in enumerate(values)]})
    if kind == "partial":
        width = len(views[-1].key)
        made.read(views[-1].name, key=tuple([None] * width))
    return made


def drawn(made: ss.Engine, carried: bool = False) -> Any:
    """The graph of an engine."""
    edges = made.trace.rows_by_edge() if carried else None
    return show.graph(
        made.graph(), made.state, title=f"{made.kind} state", filled=getattr(made, "filled", None), carried=edges
    )


def states(picture: Any) -> dict[str, Any]:
    """The states of the picture's one step."""
    return dict(picture.data()["steps"][0]["states"])


@pytest.mark.parametrize(("kind", "name"), TAKEN)
def test_every_view_has_what_its_engine_stores(kind: str, name: str) -> None:
    """For every view and strategy, the rows that are listed are rows of the engine, and all are counted."""
    with engine(kind, CASES[name], 6) as made:
        picture = drawn(made, carried=len(name) % 2 == 0)
        held = made.state()
        sizes = dict(zip(held["operator"], held["rows"], strict=True))
        operators = {o["name"]: o for o in picture.data()["operators"]}
        for of, state in states(picture).items():
            parts = [row["tables"] for row in made.graph()[0].to_dict("records") if row["name"] == of][0]
            assert state["rows"] == sum(sizes.get(part, 0) for part in parts) and operators[of]["holds"] == bool(parts)
            for part, table in zip(parts, state["tables"], strict=True):
                rows = [[*map(shown, row)] for row in made.state(part).itertuples(index=False, name=None)]
                if table["form"] == "rows":
                    at = list(made.state(part).columns).index("diff")
                    assert [row["values"] for row in table["rows"]] == [
                        [*row[:at], *row[at + 1 :]] for row in rows[: len(table["rows"])]
                    ]
                    assert len(table["rows"]) == min(8, len(rows)) and table["total"] == len(rows)
                else:
                    bags = {(*g["key"], *i["values"]) for g in table["groups"] for b in g["bags"] for i in b["items"]}
                    assert bags <= {tuple(row[:-1]) for row in rows}
        edges = {(e["source"], e["target"]) for e in picture.data()["edges"]}
        assert all(a in operators and b in operators for a, b in edges)
        assert "<table>" in picture.html() and repr(picture).startswith(f"{kind} state\n")


def test_hostile_data() -> None:
    """Markup, control characters, wide, long, empty and absent values are shown as data."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(SQL)
    for kind in KINDS:
        with ss.engine(kind, [view]) as made:
            made.step({"info": [((p, p), 1) for p in HOSTILE], "visit": [((p, p, 7), 1) for p in HOSTILE]})
            made.read("v", key=HOSTILE[0])
            picture = drawn(made)
            assert "<script>" not in picture.html() and "&lt;script&gt;" in picture.html()
            values = (
                {v for s in states(picture).values() for t in s["tables"] for r in t["rows"] for v in r["values"]}
                if kind == "partial"
                else set()
            )
            assert not values or {"NULL", "''", "\\x00\\x1f\\n\\t"} <= values


def test_large_state_is_counted_not_listed() -> None:
    """A table of many rows shows the first ones and counts the rest; a huge one is not even fetched."""
    view = ss.Catalog(visit="product STRING, length INT").view(
        "CREATE VIEW v AS SELECT product, MAX(length) AS m FROM visit GROUP BY product"
    )
    asked: list[str] = []
    with ss.engine("full", [view]) as made:
        made.step({"visit": [((f"p{n % 300}", n), 1) for n in range(21_000)]})

        def state(operator: str | None = None) -> pd.DataFrame:
            asked.append(operator or "")
            return made.state(operator)

        told = states(show.graph(made.graph(), state))
    assert [(t["total"], t["listed"]) for t in told["v"]["tables"]] == [(300, 8)]
    assert told["visit"]["rows"] == 21_000 and told["visit"]["tables"][0]["rows"] == []
    assert [a for a in asked if a] == ["v"]


@pytest.mark.parametrize(
    ("kind", "sizes"), [("full", (2, 4, 0)), ("shared", (2, 4, 0)), ("partial", (2, 3, 2))], ids=KINDS
)
def test_a_picture_has_the_bill(kind: str, sizes: tuple[int, int, int]) -> None:
    """The rows of the three columns of the bill; a join's side has its table's name, also without unused columns."""
    with ss.engine(kind, [ss.Catalog(**RELATIONS).view(SQL)]) as made:
        made.step({"info": [(("Kiwi", "Fruit"), +1)], "visit": [(("Kiwi", "Eve", 5), +1)]})
        made.read("v", key="Fruit")
        picture = show.graph(made.graph(), made.state)
        assert sizes == tuple(made.bill()["rows"].head(3))
    totals = picture.data()["steps"][0]["totals"]
    assert sizes == tuple(totals[column]["rows"] for column in ("durable", "working", "cached"))
    captions = {t["caption"] for s in states(picture).values() for t in s["tables"]}
    assert ("visit side" in captions) == (kind == "full")


def test_a_picture_needs_no_engine() -> None:
    """Frames made by hand are drawn like an engine's: what is drawn is what was handed over."""
    operators = pd.DataFrame(
        [["t", "source", "t", "", ("t[a]",), ""], ["v", "view", "v", "", (), "v"]],
        columns=["name", "kind", "title", "detail", "tables", "view"],
    )
    edges = pd.DataFrame([["t", "v", "change"]], columns=["source", "target", "kind"])
    held = pd.DataFrame(
        [["t[a]", "t", ("a",), 1, 8, "base", "durable"]],
        columns=["operator", "relation", "key", "rows", "bytes", "kind", "bill"],
    )
    rows = pd.DataFrame({"a": ["only"], "diff": [1]})
    picture = show.graph((operators, edges), lambda name=None: held if name is None else rows)
    assert "<td>only</td>" in picture.html() and "t: 1 row -> v" in repr(picture)


def test_themes() -> None:
    """A picture follows JupyterLab's theme, else the reader's system; text has a contrast of 4.5, frames of 3."""

    for colours in (LIGHT, DARK):
        for under in ("page", "panel"):
            assert all(contrast(colours[k], colours[under]) >= 4.5 for k in ("ink", "muted", "deleted", "upquery"))
            assert contrast(colours["frame"], colours[under]) >= 3
        assert all(contrast(colours["badge"], colours[k]) >= 4.5 for k in ("inserted", "deleted", "upquery", "handle"))
        assert contrast(colours["badge"], colours["frame"]) >= 3
    html = show.rungs_chart({}, "rows").html
    assert "prefers-color-scheme:dark" in html and "data-jp-theme-light=false" in html
