"""Column lineage."""

from __future__ import annotations

import pytest

from sharedstate_lite.plan.lineage import copied_from, input_columns, why_computed
from sharedstate_lite.plan.nodes import Node
from sharedstate_lite.sql.catalog import Catalog


def plan(select: str) -> Node:
    """The plan of a view over two relations."""
    catalog = Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
    return catalog.view(f"CREATE VIEW v AS {select}").plan


@pytest.mark.parametrize(
    ("select", "copies"),
    [
        ("SELECT product, length FROM visit", [(), ()]),
        ("SELECT product, length FROM visit WHERE length > 1", [((0, 0),), ((0, 1),)]),
        ("SELECT length, length + 1 AS more, product FROM visit", [((0, 1),), (), ((0, 0),)]),
        ("SELECT length, MAX(product) AS p FROM visit GROUP BY length", [((0, 1),), ()]),
        ("SELECT DISTINCT length FROM visit", [((0, 1),)]),
        (
            "SELECT i.product AS a, category, v.product AS b, length FROM info i JOIN visit v ON i.product = v.product",
            [((0, 0),), ((0, 1),), ((0, 2),), ((0, 3),)],
        ),
        ("SELECT product FROM visit UNION ALL SELECT category FROM info", [((0, 0), (1, 0))]),
    ],
)
def test_each_operator_says_what_a_column_copies(select: str, copies: list[tuple[tuple[int, int], ...]]) -> None:
    """A column that is copied has an input and a column there; one that is computed has none."""
    node = plan(select)
    assert [copied_from(node, column) for column in range(len(node.schema))] == copies


def test_the_sides_of_a_join() -> None:
    """Right columns are numbered from the right input's first; those that a LEFT JOIN pads are no copies."""
    for join, right in (("JOIN", ((1, 1),)), ("LEFT JOIN", ())):
        node = plan(f"SELECT i.product AS a, length FROM info i {join} visit v ON i.product = v.product").inputs[0]
        assert copied_from(node, 1) == ((0, 1),)
        assert copied_from(node, 3) == right


def test_columns_of_the_one_input() -> None:
    """All columns together, in the order asked for; None as soon as one is computed."""
    node = plan("SELECT length, length + 1 AS more, product FROM visit")
    assert input_columns(node, (2, 0)) == (0, 1)
    assert input_columns(node, (0, 1)) is None
    assert input_columns(node, ()) == ()


@pytest.mark.parametrize(
    ("select", "column", "reason"),
    [
        ("SELECT product FROM visit WHERE length > 1", 0, None),
        ("SELECT product FROM visit UNION ALL SELECT product FROM info", 0, None),
        ("SELECT product FROM visit UNION ALL SELECT COALESCE(product, '') AS product FROM info", 0, "is computed"),
        ("SELECT MAX(length) AS top FROM visit GROUP BY product", 0, "is an aggregate"),
        ("SELECT length % 2 AS odd, COUNT(*) AS n FROM visit GROUP BY odd", 0, "is computed"),
        (
            "SELECT v.length FROM info i LEFT JOIN visit v ON i.product = v.product WHERE i.category = 'a'",
            0,
            "comes from the right side of a LEFT JOIN",
        ),
    ],
)
def test_the_reason_is_that_of_the_operator_that_computes(select: str, column: int, reason: str | None) -> None:
    """The walk goes down to the base relations and stops at the first operator that does not copy."""
    assert why_computed(plan(select), column) == reason
