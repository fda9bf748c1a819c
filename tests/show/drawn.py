"""Views and histories to draw: those of the rules' cases, and views that hypothesis makes up."""

from __future__ import annotations

from typing import Any

from cases import CASES, DOMAINS, RELATIONS, Case
from hypothesis import strategies as st

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons.demo import MESSAGES, SCHEMA, SQL
from sharedstate_lite.replay.messages import Epoch, Read
from sharedstate_lite.show.stepper import Stepper

KINDS = ("full", "shared", "partial")
WORDS = ["a", "", "NULL", "Vegetable", "北京市", "<b>&", "a word that is much longer than any column is wide", None]


def takes(kind: str, case: Case) -> bool:
    """Whether an engine of that kind takes the case's views: partial state refuses some keys."""
    try:
        ss.engine(kind, case.declare()[1]).close()
    except ss.ViewError:
        return False
    return True


TAKEN = [(kind, name) for kind in KINDS for name, case in CASES.items() if takes(kind, case)]
"""Every kind with every case that it takes."""


def seed(kind: str) -> Stepper:
    """The shopping visits, a deletion, and under partial state some reads between them."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    messages: list[Any] = [*MESSAGES, Epoch((("visit", ("Carrot", "Bob", 50), -1),))]
    if kind == "partial":
        messages[8:8] = [Read("result", ("Fruit",)), Read("result", ("Nut",))]
        messages += [Read("result", ("Vegetable",)), ("visit", ("Apple", "Dan", 99))]
    return show.stepper(ss.replay(kind, [view]), messages)


def of_case(case: Case, kind: str, rows: int = 12) -> Stepper:
    """A case's views with some rows in every relation, a row more and a row less."""
    _, views = case.declare()
    messages: list[Any] = []
    for relation, schema in RELATIONS.items():
        if any(relation in sql for sql in case.sql):
            columns = [c.split()[0] for c in schema.split(", ")]
            made = [
                tuple(DOMAINS[c][n * (i + 1) % len(DOMAINS[c])] for i, c in enumerate(columns)) for n in range(rows)
            ]
            messages.append(Epoch(tuple((relation, row, 1 + n % 2) for n, row in enumerate(made))))
            messages += [Epoch(((relation, made[0], 1),)), Epoch(((relation, made[1], -1),))]
    if kind == "partial":
        key = tuple([None] * len(views[-1].key))
        messages[2:2] = [Read(views[-1].name, key)]
        messages.append(Read(views[-1].name, key))
    return show.stepper(ss.replay(kind, views), messages)


@st.composite
def steppers(draw: st.DrawFn) -> Stepper:
    """A view over up to three relations and up to eight operators, and a few messages for it."""
    kind = draw(st.sampled_from(KINDS))
    names = draw(st.permutations(["v", "visit", "a_relation_with_a_rather_long_name"]))[: draw(st.integers(1, 3))]
    k = draw(st.sampled_from(["k", "a_key_column_with_a_rather_long_name"]))
    extra = draw(st.integers(0, 4))
    more = "".join(f", more_{n} STRING" for n in range(extra))
    catalog = ss.Catalog(
        **{n: f"{k} STRING, s{i} STRING, n{i} INT{more if not i else ''}" for i, n in enumerate(names)}
    )
    source = names[0] + "".join(f" JOIN {n} USING ({k})" for n in names[1:])
    where = draw(
        st.sampled_from(["", " WHERE n0 > 0", f" WHERE n0 + 1 > 0 AND s0 <> 'b' AND {k} IN ('a', 'b', 'Vegetable')"])
    )
    last = len(names) - 1
    shapes = [
        f"SELECT {k}, s0, n{last} AS n FROM {source}{where}",
        f"SELECT DISTINCT s{last} FROM {source}{where}",
        f"SELECT s0, MAX(n{last}) AS most FROM {source}{where} GROUP BY s0",
        f"SELECT s0, s{last} AS other, COUNT(*) AS c, MIN(n0) AS least, MAX(n{last}) AS most FROM {source}{where} "
        f"GROUP BY s0, s{last} HAVING COUNT(*) > 0",
        f"SELECT {k}, n0 AS n FROM {names[0]} UNION ALL SELECT {k}, n{last} AS n FROM {names[-1]}",
    ]
    view = catalog.view(f"CREATE VIEW drawn AS {draw(st.sampled_from(shapes))}")
    rows = st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS), st.integers(-(2**31), 2**31 - 1))
    messages: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, last))
        found = draw(st.lists(rows, min_size=1, max_size=12))
        tail = tuple(draw(st.sampled_from(WORDS)) for _ in range(extra)) if not at else ()
        messages.append(Epoch(tuple((names[at], (*row, *tail), 1) for row in found)))
        if kind == "partial":
            messages.append(Read("drawn", tuple(draw(st.sampled_from(WORDS)) for _ in view.key)))
    return show.stepper(ss.replay(kind, [view]), messages)
