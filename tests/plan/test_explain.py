"""A view as text: its columns and key, then its operators."""

from __future__ import annotations

import pytest

from sharedstate_lite.plan.explain import explain
from sharedstate_lite.plan.nodes import Map
from sharedstate_lite.plan.view import View
from sharedstate_lite.sql.catalog import Catalog


def view(select: str) -> View:
    """A view over the shop's relations."""
    catalog = Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT, day DATE")
    return catalog.view(f"CREATE VIEW v AS {select}")


def test_the_seed_view() -> None:
    """The text shows the view first and the relations last."""
    text = view("SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) GROUP BY category")
    assert text.explain() == (
        "view v(category STRING, max_length INT), key (category), unique\n"
        "reduce max(length) AS max_length by category\n"
        "  map category, length\n"
        "    join on info.product = visit.product\n"
        "      scan info(product STRING, category STRING)\n"
        "      scan visit(product STRING, user STRING, length INT, day DATE)"
    )


def test_the_name_of_every_operator() -> None:
    """Filter, left join, distinct and union all have their usual names."""
    text = view(
        "SELECT DISTINCT a.user FROM visit a LEFT JOIN visit b ON a.product = b.user WHERE b.length > 1 "
        "UNION ALL SELECT product FROM info"
    ).explain()
    assert [line.split("(")[0].strip() for line in text.splitlines()[1:]] == [
        "union all",
        "distinct user",
        "map visit.user AS user",
        "filter visit#2.length > 1",
        "left join on visit.product = visit#2.user",
        "scan visit",
        "scan visit",
        "map product",
        "scan info",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(length + 1) * 2",
        "-(length % 3)",
        "length > 1 AND (user = 'it''s' OR product IS NULL)",
        "NOT (length IN (1, 2, NULL))",
        "CASE WHEN length > 1 THEN 'a' ELSE NULL END",
        "COALESCE(length, 0)",
        "CAST(length AS STRING)",
        "day >= DATE '2024-01-31'",
        "CAST(day AS TIMESTAMP) = TIMESTAMP '2024-01-31 10:00:00.5'",
        "TRUE OR length <> -1",
        "CAST(length AS DOUBLE) / 2.5",
    ],
)
def test_the_text_of_an_expression_is_sql(text: str) -> None:
    """The text of an expression binds to the same expression."""
    plan = view(f"SELECT {text} AS x FROM visit").plan
    again = view(f"SELECT {explain(plan).splitlines()[0][4:]} FROM visit").plan
    assert isinstance(plan, Map)
    assert again == plan


def test_a_view_shows_itself_in_a_notebook() -> None:
    """The HTML is the escaped text."""
    assert "length &gt; 1" in view("SELECT user FROM visit WHERE length > 1")._repr_html_()
