"""The state of an engine as tables for ``state()`` and ``bill()``, and handles on all its arrangements.

A strategy lists its state as :class:`StatePart` objects. The tables are built only from these objects, so they have the
same format for every strategy, and also on Spark.

The bill has the same three columns for every strategy. *Durable inputs* are the base tables, which must be kept or be
readable again. *Working state* is what operators keep to go on. *Cached answers* are what may be dropped and computed
again. A base table in which operators look rows up is in two columns: it is a durable input and working state. Each
further index of it is working state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..changelog.changes import frame, value_order
from ..errors import ViewError
from ..plan.nodes import Column, Schema
from ..storage.arrangement import Arrangement, TraceHandle
from ..storage.batch import count_rows, merged
from ..storage.encoding import Dictionary

DURABLE, WORKING, CACHED = "durable", "working", "cached"
BILL = {DURABLE: "durable inputs", WORKING: "working state", CACHED: "cached answers"}
"""The columns of the bill, with their names."""
TOTAL = "stored in all"


@dataclass(frozen=True)
class StatePart:
    """One arrangement of an engine, which is one row of ``state()``. ``schema`` contains its column names.

    ``bill`` lists the columns of the bill in which it is.
    """

    operator: str
    relation: str
    kind: str
    arrangement: Arrangement
    schema: tuple[str, ...]
    bill: tuple[str, ...] = (WORKING,)
    extra: int = 0
    """Bytes in addition to those of the arrangement, for indexes and sets of filled keys."""
    identity: str = ""
    """A name for checkpoints that does not depend on views dropped earlier. If empty, ``operator`` is used instead."""

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the columns by which the arrangement is looked up."""
        return tuple(self.schema[i] for i in self.arrangement.layout.key)

    @property
    def base(self) -> bool:
        """Whether this is the base table of a relation."""
        return DURABLE in self.bill


def check_names(parts: Sequence[StatePart], relations: Mapping[str, Schema]) -> None:
    """Raise ViewError if two parts of the state have the same name.

    ``relations`` must contain all declared relations, including those that no view reads. The base table of such a
    relation is not created before its first row, but its name is already reserved.
    """
    later = relations.keys() - {p.relation for p in parts if p.base}
    owner = {f"{r}[{', '.join(c.name for c in relations[r])}]": f"base of {r}" for r in later}
    for part in parts:
        for name in {part.operator, part.identity or part.operator}:
            if name in owner:
                raise ViewError(
                    f"{name} would name both the {owner[name]} and the {part.kind} of {part.relation}, but state() and "
                    f"checkpoints need a unique name for each part; rename that view or relation"
                )
            owner[name] = f"{part.kind} of {part.relation}"


def state_table(parts: Iterable[StatePart], strings: Dictionary) -> pd.DataFrame:
    """Return a data frame with one row per part and the columns operator, relation, key, rows, bytes, kind and bill.

    ``rows`` counts distinct rows whose multiplicity is not 0. ``bytes`` is the size of all buffers, so it also includes
    entries that a later merge cancels. It does not include the dictionary of strings, which all parts share.
    """
    table = []
    for part in parts:
        size = part.arrangement.nbytes + part.extra
        rows = count_rows(part.arrangement.runs, part.arrangement.layout, strings)
        table.append([part.operator, part.relation, part.key, rows, size, part.kind, " + ".join(part.bill)])
    out = pd.DataFrame(table, columns=["operator", "relation", "key", "rows", "bytes", "kind", "bill"])
    return out.astype({"rows": "int64", "bytes": "int64"})


def bill_table(state: pd.DataFrame, strings: int = 0, place: str = "memory") -> pd.DataFrame:
    """Return the bill of a table that `state_table` returned: rows, bytes and place of its three columns.

    Two more lines follow: the dictionary of ``strings`` bytes that the rows refer to, and the sum, in which a part that
    is in two columns counts once. ``place`` is "memory" or "disk".
    """
    sizes = state[["rows", "bytes"]]
    columns = {name: sizes[state["bill"].str.contains(column)].sum() for column, name in BILL.items()}
    more = pd.Series({"rows": 0, "bytes": strings})
    return pd.DataFrame(columns | {"strings": more, TOTAL: sizes.sum() + more}).T.assign(place=place)


def state_rows(operator: str, parts: Iterable[StatePart], strings: Dictionary) -> pd.DataFrame:
    """Return the consolidated, sorted rows of one part as a data frame. Raises ViewError for an unknown ``operator``.

    The last column is ``diff``. If diffs are vectors, it is followed by ``sum1``, ``sum2`` and so on.
    """
    parts = list(parts)
    part = next((p for p in parts if p.operator == operator), None)
    if part is None:
        raise ViewError(f"there is no operator {operator}; the operators are {', '.join(p.operator for p in parts)}")
    layout = part.arrangement.layout
    body = merged(part.arrangement.runs, layout, strings)
    schema = tuple(Column(n, t) for n, t in zip(part.schema, layout.types, strict=True))
    body = body.take(value_order(schema, body[1 : 1 + layout.columns], strings), axis=1)
    out = frame(schema, body[1 : 1 + layout.columns], strings)
    for i in range(layout.width):
        name = "diff" if i == 0 else f"sum{i}"
        out.insert(len(out.columns), name, body[1 + layout.columns + i].copy(), allow_duplicates=True)
    return out


def state_html(title: str, bill: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return the bill and the state table of an engine as HTML."""
    return f"<p>{title}</p>{bill.to_html()}{table.to_html(index=False)}"


class Handles:
    """Trace handles on all arrangements of an engine, at one epoch. As a context manager, it closes them on exit."""

    def __init__(self, handles: list[TraceHandle], time: int) -> None:
        self._handles, self.time = handles, time

    def advance(self, time: int) -> None:
        """Move all handles forward to ``time``. Raises TimeError, and moves none, if a handle cannot be moved."""
        # Dropping a view closes the handles on arrangements that only this view needed.
        live = [handle for handle in self._handles if handle.open] or self._handles
        for handle in live:
            handle.check(time)
        for handle in live:
            handle.advance(time)
        self.time = time

    def close(self) -> None:
        """Close all handles. Closing them again has no effect."""
        for handle in self._handles:
            handle.close()

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
