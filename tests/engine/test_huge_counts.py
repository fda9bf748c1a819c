"""Multiplicities near 2**62: an answer is right, or its epoch is refused; none has wrapped round."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from places import ENGINES, IN_BINS, make, partial
from support import tuples

import sharedstate_lite as ss

LIMIT = 2**62
UNION = " UNION ALL ".join(["SELECT s FROM a"] * 16)
Rows = dict[tuple[Any, ...], int]
VIEWS: dict[str, tuple[tuple[str, ...], Callable[[int], Rows]]] = {
    "a projection": (("SELECT s FROM a",), lambda n: {("p",): n}),
    "a union": ((UNION,), lambda n: {("p",): 16 * n}),
    "DISTINCT": (("SELECT DISTINCT s FROM a",), lambda n: {("p",): 1}),
    "DISTINCT of a union": ((UNION, "SELECT DISTINCT s FROM v0"), lambda n: {("p",): 1}),
    "MAX of a union": ((UNION, "SELECT s, MAX(s) AS m FROM v0 GROUP BY s"), lambda n: {("p", "p"): 1}),
    "MAX of a projection": (
        ("SELECT s, s AS t FROM a", "SELECT s, MAX(t) AS m FROM v0 GROUP BY s"),
        lambda n: {("p", "p"): 1},
    ),
    "COUNT of a union": ((UNION, "SELECT s, COUNT(*) AS n FROM v0 GROUP BY s"), lambda n: {("p", 16 * n): 1}),
    "a join with a union": ((UNION, "SELECT b.s FROM b JOIN v0 ON b.s = v0.s"), lambda n: {("p",): 16 * n}),
    "a left join with a union": (
        (UNION, "SELECT b.s, v0.s AS t FROM b LEFT JOIN v0 ON b.s = v0.s"),
        lambda n: {("p", "p"): 16 * n},
    ),
    "a left join of a union": ((UNION, "SELECT v0.s FROM v0 LEFT JOIN b ON b.s = v0.s"), lambda n: {("p",): 16 * n}),
    "a left join in front of DISTINCT": (
        ("SELECT b.s, a.s AS t FROM b LEFT JOIN a ON b.s = a.s", "SELECT DISTINCT s, t FROM v0"),
        lambda n: {("p", "p"): 1},
    ),
}
"""The last view's rows where relation `a` has n rows of `p` and `b` has one."""


def shown(engine: Any, view: str) -> Rows:
    """A view's rows with how often each is there; a frame could not repeat them."""
    there = engine.state(view)
    return dict(zip(tuples(there.drop(columns="diff")), there["diff"], strict=True))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_what_passes_the_limit_is_refused(label: str, name: str) -> None:
    """Row after row that the view cannot tell apart: each epoch's answer is right, until one is refused."""
    sqls, expected = VIEWS[name]
    catalog = ss.Catalog(a="s STRING, x INT", b="s STRING")
    view = [catalog.view(f"CREATE VIEW v{n} AS {sql}") for n, sql in enumerate(sqls)][-1]
    # Of a union sixteen times as much arrives at once: it passes the limit, and 64 bits, within an epoch or over two.
    for diff in (2**57, 2**60) if UNION in sqls else (2**60,):
        with make(label, [view]) as engine:
            if partial(label):
                engine.read(view.name, "p")
            engine.step({"b": [(("p",), 1)]})
            done, before = 0, shown(engine, view.name)
            with suppress(ss.RowError):
                for x in range(40):
                    engine.step({"a": [(("p", x), diff)]})
                    done, before = x + 1, shown(engine, view.name)
                    assert before == expected(diff * done)
            assert (engine.epoch, shown(engine, view.name)) == (done + 1, before)
            most = diff * (16 if UNION in sqls else 1)
            least = (LIMIT - 1) // most
            # What is not counted, as nobody needs its number, may be there more often.
            assert done == least or (done > least and max(expected(LIMIT).values()) == 1)
            engine.step({"b": [(("q",), 1)], **({"a": [(("p", 0), -diff)]} if 0 < done == least else {})})
            assert engine.epoch == done + 2
