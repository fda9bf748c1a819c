"""The order of lookups in a join of n inputs."""

from __future__ import annotations

import sharedstate_lite as ss
from sharedstate_lite.kernels.join_order import Multiway, flatten
from sharedstate_lite.plan.nodes import Join, Scan


def chain(sql: str) -> Multiway:
    """Return the join of a view over r(k, a), s(k, b), t(a, b), u(k, a)."""
    catalog = ss.Catalog(r="k INT, a INT", s="k INT, b INT", t="a INT, b INT", u="k INT, a INT")
    view = catalog.view(f"CREATE VIEW v AS SELECT COUNT(*) AS n FROM {sql}")
    return max((flatten(n) for n in view.plan.walk() if isinstance(n, Join)), key=lambda chain: len(chain.inputs))


def paths(joined: Multiway) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return, for each input, the (input, key columns) that its change looks up, in order."""
    return [[(step.input, step.key) for step in path] for path in joined.paths]


def test_a_chain_on_one_key() -> None:
    """If all inputs have one key, each path visits the others from left to right."""
    joined = chain("r JOIN s ON r.k = s.k JOIN u ON s.k = u.k")
    assert [n.relation for n in joined.inputs if isinstance(n, Scan)] == ["r", "s", "u"]
    assert paths(joined) == [[(1, (0,)), (2, (0,))], [(0, (0,)), (2, (0,))], [(1, (0,)), (0, (0,))]]


def test_a_chain_on_two_keys() -> None:
    """In a chain, the outer inputs are reached through the inner one, from both sides."""
    joined = chain("t JOIN r ON t.a = r.a JOIN s ON r.k = s.k")
    assert paths(joined) == [[(1, (1,)), (2, (0,))], [(0, (0,)), (2, (0,))], [(1, (0,)), (0, (0,))]]


def test_a_cycle_is_looked_up_by_all_that_is_there() -> None:
    """The last input of a triangle is looked up by two columns, with values of two inputs."""
    joined = chain("r JOIN s ON r.k = s.k JOIN t ON t.a = r.a AND t.b = s.b")
    assert paths(joined)[0] == [(1, (0,)), (2, (0, 1))]
    assert joined.paths[0][1].lookup == ((0, 1), (1, 1))
    # A change of t finds r by one column, and then s by two.
    assert paths(joined)[2] == [(0, (1,)), (1, (0, 1))]
    assert joined.paths[2][1].lookup == ((0, 0), (2, 1))


def test_a_column_is_looked_up_once() -> None:
    """A second equality of a key column is checked on the rows found."""
    joined = chain("r JOIN s ON r.k = s.k JOIN u ON u.k = r.a AND u.k = s.b")
    steps = [next(step for step in path if step.input == 2) for path in joined.paths[:2]]
    for step in steps:
        assert step.key == (0,)
        assert len(step.checks) == 1
        assert {step.lookup[0], step.checks[0][1]} == {(0, 1), (1, 1)}


def test_a_left_join_is_one_input() -> None:
    """A LEFT JOIN is an input like any other."""
    catalog = ss.Catalog(r="k INT, a INT", s="k INT, b INT", u="k INT, a INT")
    view = catalog.view("CREATE VIEW v AS SELECT r.k, s.b FROM r LEFT JOIN s ON r.k = s.k JOIN u ON u.k = r.k")
    joined = flatten(next(n for n in view.plan.walk() if isinstance(n, Join) and not n.outer))
    assert len(joined.inputs) == 2
    assert any(isinstance(n, Join) and n.outer for n in joined.inputs[0].walk())
