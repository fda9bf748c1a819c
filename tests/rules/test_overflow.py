"""An epoch is judged by what it comes to: an overflow on the way there, or in rows that are gone, refuses nothing."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from places import ENGINES, IN_BINS, make, partial
from support import Row, tuples, unchanged

import sharedstate_lite as ss

INT, BIG = 2**31 - 1, 2**63 - 1
RELATIONS = {"a": "s STRING, x INT, n BIGINT", "b": "s STRING, x INT, n BIGINT", "c": "s STRING, x INT, n BIGINT"}
VIEWS: dict[str, tuple[str, ...]] = {
    "a sum of columns": ("SELECT s, a.x + b.x AS z FROM a JOIN b USING (s)",),
    "WHERE": ("SELECT s, a.x FROM a JOIN b USING (s) WHERE a.x + b.x > 0",),
    "ON": ("SELECT a.s, a.x FROM a JOIN b ON a.s = b.s AND a.x + b.x > 0",),
    "LEFT JOIN": ("SELECT a.s, a.x + b.x AS z FROM a LEFT JOIN b ON a.s = b.s",),
    "MAX of a product": ("SELECT s, MAX(a.x * b.x) AS z FROM a JOIN b USING (s) GROUP BY s",),
    "a chain": ("SELECT a.s, a.x + c.x AS z FROM a JOIN b ON a.s = b.s JOIN c ON b.s = c.s",),
    "a join over a map": ("SELECT s, x + 1 AS y FROM a", "SELECT v0.s, v0.y + b.x AS z FROM v0 JOIN b ON v0.s = b.s"),
    "MAX under a filter": ("SELECT s, MAX(x) AS m FROM b WHERE x + 1 > 0 GROUP BY s",),
    "SUM of a union": ("SELECT s, n FROM a UNION ALL SELECT s, n FROM b", "SELECT s, SUM(n) AS t FROM v0 GROUP BY s"),
    "SUM of a join": ("SELECT s, SUM(a.n) AS t FROM a JOIN b USING (s) GROUP BY s",),
    "AVG of DOUBLE": (
        "SELECT s, n FROM a UNION ALL SELECT s, n FROM b",
        "SELECT s, AVG(CAST(n AS DOUBLE) * 1e289) AS t FROM v0 GROUP BY s",
    ),
    "a self-join": ("SELECT l.s, SUM(r.n) AS t FROM a l JOIN a r ON l.s = r.s GROUP BY l.s",),
    "a sum of MAX": (
        "SELECT s, x, MAX(n) AS m FROM a GROUP BY s, x",
        "SELECT s, SUM(m) AS t FROM v0 GROUP BY s",
    ),
    "an aggregate joined": (
        "SELECT s, MAX(x) AS m FROM a GROUP BY s",
        "SELECT b.s, b.x + v0.m AS z FROM b JOIN v0 ON b.s = v0.s",
    ),
}


def declared(name: str) -> ss.View:
    """The view of that name, in a catalog of its own."""
    catalog = ss.Catalog(**RELATIONS)
    return [catalog.view(f"CREATE VIEW v{n} AS {sql}") for n, sql in enumerate(VIEWS[name])][-1]


def started(label: str, view: ss.View) -> Any:
    """An engine with every key that occurs filled."""
    engine = make(label, [view])
    if partial(label):
        for key in ("p", "q"):
            engine.read(view.name, key)
    return engine


LABELS = [label for label in [*ENGINES, *IN_BINS] if label != "partial in bins"]
"""On Spark partial state goes round by round, and may refuse (docs/spark.md)."""


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("handle", [False, True])
def test_a_partner_of_an_earlier_epoch_is_gone(label: str, handle: bool) -> None:
    """What a row would have overflowed with is no matter once that is deleted, merged away or not (it was once)."""
    engine = started(label, declared("a sum of columns"))
    held = engine.handle() if handle and label in ENGINES else None
    engine.step({"b": [((f"k{n}", 0, 0), 1) for n in range(1000)] + [(("p", INT, 0), 1)]})
    engine.step({"b": [(("p", INT, 0), -1)]})
    engine.step({"b": [(("p", 0, 0), 1)]})
    assert len(engine.step({"a": [(("p", 1, 0), 1)]})["v0"]) == 1
    with unchanged(engine, ss.RowError, f"INT overflow: 1 . {INT}"):
        engine.step({"b": [(("p", INT, 0), 1), (("p", 5, 0), 1)]})
    if held is not None:
        held.close()
    engine.close()


@pytest.mark.parametrize("label", ENGINES)
def test_a_view_comes_late_over_rows_that_are_gone(label: str) -> None:
    """Neither installing it, nor finding its second greatest value, looks at what was deleted."""
    catalog = ss.Catalog(**RELATIONS)
    first = catalog.view("CREATE VIEW f AS SELECT s, MAX(x) AS m FROM b GROUP BY s")
    late = [
        catalog.view("CREATE VIEW w AS SELECT s, MAX(x) AS m FROM b WHERE x + 1 > 0 GROUP BY s"),
        catalog.view("CREATE VIEW y AS SELECT s, x + 1 AS z FROM b"),
    ]
    engine = make(label, [first])
    rows = [(("p", x, 0), 1) for x in (INT, 5, 4)]
    engine.step({"b": [((f"k{n}", 0, 0), 1) for n in range(1000)] + rows})
    engine.step({"b": [(("p", INT, 0), -1)]})
    for view in late:
        engine.install(view)
        assert len(engine.read(view.name, "p"))
    engine.step({"b": [(("p", 5, 0), -1)]})
    assert tuples(engine.read("w", "p")) == [("p", 4)]


@pytest.mark.parametrize("label", ["full", "shared", "partial", "shared in bins"])
def test_multiplicities_of_rows_that_are_gone(label: str) -> None:
    """A row that was stored 2**33 times, and is retracted, is no partner that occurs too often."""
    engine, many = started(label, declared("a sum of columns")), 2**31 - 1
    engine.step({"b": [((f"k{n}", 0, 0), 1) for n in range(1000)]})
    for diff in [many] * 4 + [-many] * 3:
        engine.step({"b": [(("p", 1, 0), diff)]})
    assert len(engine.step({"a": [(("p", 1, 0), many)]})["v0"]) == 1
    engine.step({"a": [(("p", 1, 0), -many)]})
    for _ in range(4):
        engine.step({"b": [(("p", 1, 0), many)]})
    with pytest.raises(ss.RowError, match="2..62 times or more"):
        engine.step({"a": [(("p", 1, 0), many)]})
    engine.close()


def drawn(draw: random.Random, there: dict[str, Counter[Row]]) -> dict[str, list[tuple[Row, int]]]:
    """An epoch of few keys and values near the bounds, with what it leaves in ``there``."""
    out: dict[str, list[tuple[Row, int]]] = {}
    for relation in draw.sample(sorted(there), draw.randint(1, 3)):
        net: Counter[Row] = Counter()
        for _ in range(draw.randint(1, 3)):
            held = [row for row in there[relation] if there[relation][row] + net[row] > 0]
            if held and draw.random() < 0.5:
                net[draw.choice(held)] -= 1
            else:
                x = draw.choice([-INT - 1, -INT, -1, 0, 1, 2, INT - 1, INT])
                net[draw.choice("ppq"), x, draw.choice([-BIG, -1, 0, 1, BIG])] += 1
        out[relation] = [(row, diff) for row, diff in net.items() if diff]
        draw.shuffle(out[relation])
    return out


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))])
@pytest.mark.parametrize("name", VIEWS)
def test_what_recomputation_accepts_every_engine_accepts(name: str, seed: int, scale: str) -> None:
    """An epoch is refused where an engine that starts with what it leaves refuses, whatever came before, and else not.

    Handles are opened and closed, and state is compacted, at random. Partial state may accept more: it does
    not compute what nobody asked for.
    """
    draw = random.Random(f"{name} {seed}")
    view = declared(name)
    there: dict[str, Counter[Row]] = {relation: Counter() for relation in RELATIONS}
    engines = {label: started(label, view) for label in ("full", "shared delta", "partial", "shared in bins")}
    held: list[Any] = []
    refused, epochs = 0, 25 if scale == "full" else 10
    for _ in range(epochs):
        epoch = drawn(draw, there)
        after = {relation: Counter(rows) for relation, rows in there.items()}
        for relation, rows in epoch.items():
            after[relation].update(dict(rows))
        anew = ss.engine("full", [view])
        try:
            anew.step({relation: list(rows.items()) for relation, rows in ((r, +c) for r, c in after.items())})
        except ss.RowError:
            refused += 1
            for label, engine in engines.items():
                if not partial(label):
                    with unchanged(engine, ss.RowError, "overflow|exceeds"):
                        engine.step(epoch)
            continue
        there = {relation: +rows for relation, rows in after.items()}
        for label, engine in engines.items():
            engine.step(epoch)
            for key in "pq":
                # Of partial state a key may have become a hole.
                assert tuples(engine.read(view.name, key)) == tuples(anew.read(view.name, key)), label
        if draw.random() < 0.3:
            held += [e.handle() for label, e in engines.items() if label in ENGINES]
        elif draw.random() < 0.3:
            for handle in held:
                handle.close()
            held = []
        elif draw.random() < 0.2:
            draw.choice(list(engines.values())).compact()
    assert refused < epochs
    for engine in engines.values():
        engine.close()
