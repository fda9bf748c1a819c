"""Names that mean something to Python, SQL, pandas, PostgreSQL or the kit itself, and that a user may give to a column.

`ALL` has each of them once, whatever its case. `INTERNAL` are those that the kit's own tables, statements and callbacks
use, and PostgreSQL's system columns. `SOME` are these and a few others.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pandas as pd

import sharedstate_lite as ss
from sharedstate_lite import managed as m
from sharedstate_lite.managed.declare import StatefulOperator
from sharedstate_lite.managed.events import BatchKeys, Events, Output, RowBatch
from sharedstate_lite.managed.instance import Instance

INTERNAL = (
    "value", "key", "deadline", "time", "weight", "bin", "step", "diff", "at", "position", "number", "expires", "hash",
    "items", "version", "epoch", "worker", "rows", "index", "count", "xmin", "ctid", "tableoid", "select", "excluded",
)  # fmt: skip


def _all() -> tuple[str, ...]:
    sql = duckdb.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    python = [*keyword.kwlist, *keyword.softkwlist, *dir(builtins)]
    states = [getattr(m, name) for name in m.__all__]
    used = [*states, StatefulOperator, BatchKeys, Events, Output, RowBatch, Instance, m.ManagedRun, tuple, pd.DataFrame]
    kit = [*ss.__all__, *m.__all__, *(name for each in used for name in dir(each))]
    found: dict[str, str] = {}
    for name in (*INTERNAL, *(name for (name,) in sql), *python, *kit):
        if name.isidentifier() and not name.startswith("_"):
            found.setdefault(name.lower(), name)
    return tuple(found.values())


ALL = _all()
SOME = ALL[: len(INTERNAL)] + ALL[len(INTERNAL) :: 30]


def columns_of(names: Sequence[str]) -> list[m.Operator]:
    """A chain that emits its rows as they are: by row, with timers and expiries, and by column."""
    declared = ", ".join(f"{name} INT" for name in names)

    class Columns(m.Operator):
        """By row."""

        out = declared
        state_1 = m.Value("INT", ttl="1 hour")
        state_2 = m.Map("INT", "STRUCT<value: INT, items: LIST<INT>>", ttl="1 hour")
        state_3 = m.Timer()

        def row(self, key: Any, row: Any, out: Any) -> None:
            assert [row[name] for name in names] == [getattr(row, name) for name in names] == list(row[:-1])
            assert key == tuple(row[name] for name in INTERNAL)
            self.state_1.set(row["value"])
            self.state_2.put(1, {"value": row["value"], "items": [1, 2]})
            self.state_3.set(row["time_1"] + timedelta(minutes=10))
            out(*row[:-1])

        def on_state_3(self, key: Any, at: datetime, out: Any) -> None:
            out(*key, *[at.minute] * (len(names) - len(key)))

    class Again(m.Operator):
        """By column."""

        out = declared
        key = INTERNAL
        state_1 = m.Reducing("BIGINT", "sum")

        def rows(self, batch: Any, out: Any) -> None:
            self.state_1.add(batch.keys, batch["count"])
            out.add({name: batch[name] for name in names})

    return [Columns(), Again()]


def states_of(names: Sequence[str], key: str = "") -> m.Operator:
    """An operator with states of these names, each with a value of its own, from the last column of its rows."""

    def row(self: Any, key: Any, row: Any, out: Any) -> None:
        for at, name in enumerate(names):
            getattr(self, name).set(row[-1] + at)

    made: m.Operator = type(
        "Named", (m.Operator,), {name: m.Value("INT") for name in names} | {"row": row, "key": key}
    )()
    return made
