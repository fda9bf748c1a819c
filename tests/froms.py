"""Draws FROM clauses that no person would think of: commas, JOIN and LEFT JOIN in any order, and epochs for them."""

from __future__ import annotations

import random
from typing import Any

RELATIONS = dict.fromkeys(("r", "t", "u"), "k INT, n INT, s STRING")
"""All have the same columns, so that any two can be joined, and a name is ambiguous unless USING has merged it."""
DOMAINS: dict[str, list[Any]] = {"k": [0, 1, None], "n": [0, 1, 2, None], "s": ["a", "b", None]}


def equality(draw: random.Random, left: str, right: str) -> str:
    """An equality between a column of each table."""
    one = draw.choice("kns")
    return f"{left}.{one} = {right}.{one if one == 's' else draw.choice('kn')}"


def condition(draw: random.Random, tables: str) -> str:
    """A condition on one or two of these tables that may join them, reject a padded row, or keep only these."""
    one, other = draw.sample(tables, 2)
    forms = [f"{one}.k IS NULL", f"{one}.n > 0", f"{one}.n <= {other}.n", f"({one}.s = 'a' OR {other}.k = 0)"]
    return draw.choice([*forms, *[equality(draw, one, other)] * 4])


def query(draw: random.Random) -> str:
    """A SELECT over 2 to 4 tables, with an equality for each comma, and up to two other conditions in WHERE."""
    text, where, item, plain = f"{draw.choice('rtu')} a", [], "a", set("kns")
    tables = "abcd"[: draw.choice([2, 3, 3, 4, 4])]
    for new in tables[1:]:
        how = draw.choice([",", ",", " JOIN", " LEFT JOIN", " LEFT JOIN"])
        text += f"{how} {draw.choice('rtu')} {new}"
        if how == ",":
            where.append(equality(draw, draw.choice(tables[: tables.index(new)]), new))
            item, plain = new, set("kns")
            continue
        if plain and draw.random() < 0.5:
            plain = set(draw.sample(sorted(plain), draw.randint(1, len(plain))))
            text += f" USING ({', '.join(sorted(plain))})"
        else:
            on = [equality(draw, draw.choice(item), new) for _ in range(draw.choice([1, 1, 2]))]
            if how == " JOIN" and draw.random() < 0.3:
                on.append(condition(draw, item + new))
            text, plain = f"{text} ON {' AND '.join(on)}", set()
        item += new
    apart = tables if item == tables else tables[0] + item[-1]  # two tables that only a comma connects
    where += [condition(draw, draw.choice([tables, apart, apart])) for _ in range(draw.choice([0, 1, 1, 2]))]
    columns = [f"{table}.{column} AS {table}{column}" for table in tables for column in "kns"]
    columns += sorted(plain) if item == tables else []
    draw.shuffle(where)
    return f"SELECT {', '.join(columns)} FROM {text}" + (f" WHERE {' AND '.join(where)}" if where else "")


def changes(draw: random.Random, there: dict[str, list[Any]]) -> dict[str, Any]:
    """An epoch that adds rows to each relation, and takes some of the old ones."""
    out = {}
    for relation, rows in there.items():
        gone = draw.sample(rows, len(rows) // 3)
        come = [tuple(map(draw.choice, DOMAINS.values())) for _ in range(4)]
        out[relation] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        for row in gone:
            rows.remove(row)
        rows += come
    return out
