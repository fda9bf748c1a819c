"""Changes: a batch of rows with a diff and a time, as a caller sees it.

A Z-set (Budiu et al., VLDB 2023): each row with how many copies of it came (+) or went
(-). Holds its columns as words, with the dictionary that reads them; turns into pandas
and Arrow and back. Immutable. Engines emit Changes and accept them as input; inside,
they pass :class:`~..storage.batch.Delta`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..errors import RowError, TimeError, shorten
from ..kernels.minmax import ordinals
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from ..storage.batch import Delta, Layout
from ..storage.encoding import Strings, Words
from . import convert, read_tables

MOST = 1 << 31
"""A frame that is read has fewer rows than this: so many take 16 GiB a column."""


class Changes:
    """Consolidated rows of ``schema`` with diffs, all at one ``time``.

    ``unique`` names the columns (positions) of a unique key, if the rows have one: then
    a retraction and an insertion of one key are an update. Rows are in order: by key,
    retraction first, then by value, NULL last.
    """

    def __init__(
        self, schema: Schema, delta: Delta, time: int, strings: Strings, unique: tuple[int, ...] | None = None
    ) -> None:
        self.schema, self.time, self.unique = schema, time, unique
        self._delta, self._strings = delta, strings

    # --- making them ----------------------------------------------------------

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, schema: Schema | None = None, time: int = 0) -> Changes:
        """Changes from a frame with a ``diff`` column; a ``time`` column, if there is one, is the same throughout.

        Types are those of ``schema``, else read off the dtypes. Raises RowError, TimeError.
        """
        return cls._made(frame, schema, time)

    @classmethod
    def from_arrow(cls, table: pa.Table, schema: Schema | None = None, time: int = 0) -> Changes:
        """Changes from an Arrow table with a ``diff`` column; see :meth:`from_pandas`."""
        return cls._made(table, schema, time)

    @classmethod
    def _made(cls, table: Any, schema: Schema | None, time: int) -> Changes:
        if not isinstance(table, pd.DataFrame | pa.Table):
            raise RowError(f"changes: {type(table).__name__} is no table; give a pandas frame or an Arrow table")
        if isinstance(time, bool) or not isinstance(time, Integral) or not -(2**63) < int(time) < 2**63:
            raise TimeError(f"changes: {shorten(time)} is no time; epochs are whole numbers of 64 bits")
        if schema is not None:
            listed = tuple(schema) if isinstance(schema, Iterable) else (schema,)
            if not all(isinstance(c, Column) for c in listed):
                raise RowError(
                    f"changes: {shorten(schema)} is no schema; take a view's or a relation's: catalog.schema(name)"
                )
            schema = listed
        strings = Strings()
        schema = schema or read_tables.infer(table)
        delta, given = read_tables.table(table, schema, "changes", strings)
        return cls.consolidated(schema, delta, int(time) if given is None else given, strings)

    @classmethod
    def consolidated(
        cls, schema: Schema, delta: Delta, time: int, strings: Strings, unique: tuple[int, ...] | None = None
    ) -> Changes:
        """Changes of a delta whose rows may repeat or cancel."""
        layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
        body = layout.body(delta.rows, delta.diffs, strings)
        return cls(schema, Delta(body[1 : 1 + len(schema)], body[1 + len(schema)]), time, strings, unique)

    # --- reading them ---------------------------------------------------------

    @cached_property
    def _ordered(self) -> Delta:
        if len(self) < 2:
            return self._delta
        by = self.unique if self.unique is not None else tuple(range(len(self.schema)))
        # Under a unique key a retraction and an insertion are all that there can be.
        rest = [] if self.unique is not None else [i for i in range(len(self.schema)) if i not in by]
        key = [*(self._rank(i) for i in reversed(rest)), self._delta.diffs, *(self._rank(i) for i in reversed(by))]
        return self._delta.take(np.lexsort(key))

    def _rank(self, i: int) -> npt.NDArray[np.int64]:
        # Reversed twice: a greater value has the greater rank and NULL, least in reverse order, comes last.
        return ~ordinals(self.schema[i].type, True, self._strings, self._delta.rows[i]).ranks[0]

    def kinds(self) -> list[str]:
        """+I, -U, +U or -D for each row, in the order of :meth:`to_pandas` (Flink's changelog kinds).

        Updates exist only where there is a unique key; elsewhere +I and -D.
        """
        delta = self._ordered
        plain = np.where(delta.diffs > 0, "+I", "-D").astype(object)
        if self.unique is not None and len(self) > 1:
            keys = delta.rows[list(self.unique)]
            pair = (keys[:, 1:] == keys[:, :-1]).all(axis=0) & (delta.diffs[:-1] < 0) & (delta.diffs[1:] > 0)
            at = np.flatnonzero(pair)
            plain[at], plain[at + 1] = "-U", "+U"
        return [str(k) for k in plain]

    def to_pandas(self) -> pd.DataFrame:
        """The columns in SELECT order with the contract's dtypes, then ``time`` and ``diff`` (int64)."""
        delta = self._ordered
        out = frame(self.schema, delta.rows, self._strings)
        out.insert(len(out.columns), "time", np.full(len(out), self.time, dtype=np.int64), allow_duplicates=True)
        out.insert(len(out.columns), "diff", delta.diffs.copy(), allow_duplicates=True)
        return out

    def to_arrow(self) -> pa.Table:
        """The columns in SELECT order, then ``time`` and ``diff`` (int64)."""
        delta = self._ordered
        arrays = [convert.to_arrow(w, c.type, self._strings) for w, c in zip(delta.rows, self.schema, strict=True)]
        names = [c.name for c in self.schema]
        times = pa.array(np.full(len(delta.diffs), self.time, dtype=np.int64))
        return pa.table([*arrays, times, pa.array(delta.diffs)], names=[*names, "time", "diff"])

    def negate(self) -> Changes:
        """The changes that take these back."""
        return Changes(self.schema, Delta(self._delta.rows, -self._delta.diffs), self.time, self._strings, self.unique)

    def words(self, strings: Strings) -> Delta:
        """The rows as words of another dictionary."""
        delta = self._delta
        if strings is self._strings or not len(self):
            return delta
        rows = delta.rows.copy()
        for i, column in enumerate(self.schema):
            if column.type is Type.STRING:
                rows[i] = convert.from_values(self._strings.to_list(delta.rows[i]), column, "changes", strings)
        return Delta(rows, delta.diffs)

    def __len__(self) -> int:
        return len(self._delta.diffs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Changes):
            return NotImplemented
        same = self.schema == other.schema and self.time == other.time
        return same and bool(self.to_arrow().equals(other.to_arrow()))

    __hash__ = None  # type: ignore[assignment]  # equality is by value and costs a comparison of all rows

    def __repr__(self) -> str:
        shown = [f"{k} {tuple(r)}" for k, r in zip(self.kinds()[:6], self._tuples(6), strict=False)]
        more = f", and {len(self) - 6} more" if len(self) > 6 else ""
        return f"Changes(time={self.time}, rows={len(self)}{': ' if shown else ''}{', '.join(shown)}{more})"

    def _tuples(self, most: int) -> list[tuple[Any, ...]]:
        head = self.to_arrow().slice(0, most)
        return list(zip(*(head.column(i).to_pylist() for i in range(len(self.schema))), strict=True))

    def _repr_html_(self) -> str:
        out = self.to_pandas().astype(object)
        out = out.where(out.notna(), "NULL")
        out.insert(0, "kind", self.kinds(), allow_duplicates=True)
        more = f"<p>{len(out) - 50} more rows</p>" if len(out) > 50 else ""
        return str(out.head(50).to_html(index=False)) + more


def frame(schema: Schema, rows: Words, strings: Strings) -> pd.DataFrame:
    """Rows int64[k, n] as a frame with the contract's dtypes, in the order given."""
    data: dict[Any, Any] = {i: convert.to_series(rows[i], c.type, strings) for i, c in enumerate(schema)}
    out = pd.DataFrame(data, index=pd.RangeIndex(rows.shape[1]))
    out.columns = pd.Index([c.name for c in schema])
    return out


def sorted_frame(view: View, delta: Delta, strings: Strings) -> pd.DataFrame:
    """Rows of a view, repeated by their multiplicity, sorted by all columns with NULL last.

    Raises RowError where they are more than a frame, or the memory, can hold.
    """
    order = value_order(view.schema, delta.rows, strings)
    rows, counts = delta.rows.take(order, axis=1), np.maximum(delta.diffs.take(order), 0)
    try:
        if counts.sum(dtype=np.float64) >= MOST:
            raise MemoryError
        return frame(view.schema, np.repeat(rows, counts, axis=1), strings)
    except MemoryError as error:
        most = int(counts.argmax())
        shown = convert.shown(rows[:, most], view.schema, strings)
        raise RowError(
            f"view {view.name}: row {shown} is there {counts[most]} times, and a frame that repeats each row as often "
            f"as it is there does not fit; state({view.name!r}) shows each row once, with its diff"
        ) from error


def value_order(schema: Schema, rows: Words, strings: Strings) -> npt.NDArray[np.intp]:
    """The order of rows int64[k, n] by all columns, NULL last."""
    ranks = [~ordinals(c.type, True, strings, w).ranks[0] for c, w in zip(schema, rows, strict=True)]
    return np.lexsort(ranks[::-1]) if ranks else np.arange(rows.shape[1])


def as_delta(data: Changes, schema: Schema, relation: str, strings: Strings) -> tuple[Delta, int | None]:
    """Changes as a delta: columns by name, types as the relation declares them. Their own time is not used."""
    if [(c.name.lower(), c.type) for c in data.schema] == [(c.name.lower(), c.type) for c in schema]:
        delta = data.words(strings)
        return Delta(delta.rows, read_tables.checked_diffs(delta.diffs, relation)), None
    return read_tables.table(data.to_arrow().drop_columns(["time"]), schema, relation, strings)


__all__ = ["Changes", "Column", "frame", "sorted_frame"]
