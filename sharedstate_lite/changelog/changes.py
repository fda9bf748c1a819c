"""Contains `Changes`: rows with diffs at one time, in the form that a caller sees.

This is the Z-set of DBSP: each row has a diff, the number of copies that are inserted (+) or retracted (-). A `Changes`
object is immutable. It stores its columns as int64 words, together with the dictionary that decodes them, and can be
converted to and from pandas and Arrow. Engines emit `Changes` and accept them as input. Internally, they use
:class:`~..storage.batch.Delta`.

Source: Budiu et al., DBSP: Automatic incremental view maintenance for rich query languages, VLDB 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..errors import RowError, TimeError, is_integer, shorten
from ..kernels.minmax import ascending
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from ..storage.batch import Delta, Layout
from ..storage.encoding import Dictionary, Words
from . import convert, read_tables

MAX_ROWS = 100_000_000
"""The maximum number of rows in a DataFrame that `sorted_frame` returns. At this size, a column takes 0.8 GB."""


class Changes:
    """Consolidated rows and their diffs, all at the same ``time``. ``schema`` lists the columns.

    ``unique`` lists the positions of the columns in a unique key. It is None if the rows have no such key. With a
    unique key, a retraction and an insertion of the same key form an update.

    Rows are sorted by the unique key, or by all columns if there is none, with NULL last. A retraction comes before an
    insertion of the same key.

    >>> changes = Changes.from_pandas(pd.DataFrame({"product": ["Potato", "Carrot"], "diff": [1, -1]}))
    >>> changes.kinds(), changes.negate().kinds()
    (['-D', '+I'], ['+I', '-D'])
    """

    def __init__(
        self, schema: Schema, delta: Delta, time: int, strings: Dictionary, unique: tuple[int, ...] | None = None
    ) -> None:
        self.schema, self.time, self.unique = schema, time, unique
        self._delta, self._strings = delta, strings

    # --- creating them --------------------------------------------------------

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, schema: Schema | None = None, time: int = 0) -> Changes:
        """Create Changes from a DataFrame with a ``diff`` column.

        The column types are taken from ``schema``, or from the dtypes if it is None. If the DataFrame has a column
        ``time``, all its values must be equal, and they replace the argument ``time``. Raises RowError for invalid rows
        or diffs, and TimeError for an invalid time.
        """
        return cls._from_table(frame, schema, time)

    @classmethod
    def from_arrow(cls, table: pa.Table, schema: Schema | None = None, time: int = 0) -> Changes:
        """Create Changes from an Arrow table with a ``diff`` column. The arguments are those of :meth:`from_pandas`."""
        return cls._from_table(table, schema, time)

    @classmethod
    def _from_table(cls, table: Any, schema: Schema | None, time: int) -> Changes:
        if not isinstance(table, pd.DataFrame | pa.Table):
            raise RowError(f"changes: expected a pandas DataFrame or an Arrow table, got {type(table).__name__}")
        if not is_integer(time) or not -(2**63) < int(time) < 2**63:
            raise TimeError(f"changes: {shorten(time)} is not a time; a time must be a 64-bit integer")
        schema = read_tables.infer(table) if schema is None else _columns(schema)
        strings = Dictionary()
        delta, given = read_tables.table(table, schema, "changes", strings)
        return cls.consolidated(schema, delta, int(time) if given is None else given, strings)

    @classmethod
    def consolidated(
        cls, schema: Schema, delta: Delta, time: int, strings: Dictionary, unique: tuple[int, ...] | None = None
    ) -> Changes:
        """Create Changes from a delta that is not consolidated, summing the diffs of equal rows."""
        layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
        body = layout.body(delta.rows, delta.diffs, strings)
        return cls(schema, Delta(body[1 : 1 + len(schema)], body[1 + len(schema)]), time, strings, unique)

    # --- reading them ---------------------------------------------------------

    @cached_property
    def _ordered(self) -> Delta:
        if len(self) < 2:
            return self._delta
        by = range(len(self.schema)) if self.unique is None else self.unique
        # Each unique key has at most one retraction and one insertion, so key and diff determine the order.
        columns, keys = [self.schema[i] for i in by], self._delta.rows[list(by)]
        return self._delta.take(value_order(columns, keys, self._strings, self._delta.diffs))

    def kinds(self) -> list[str]:
        """Return the row kind of each row, in the order of :meth:`to_pandas`.

        The row kinds are those of Flink's changelog: +I, -U, +U and -D. Updates (-U, +U) require a unique key. Without
        one, every row is +I or -D.
        """
        delta = self._ordered
        kinds = np.where(delta.diffs > 0, "+I", "-D").astype(object)
        if self.unique is not None and len(self) > 1:
            keys = delta.rows[list(self.unique)]
            pair = (keys[:, 1:] == keys[:, :-1]).all(axis=0) & (delta.diffs[:-1] < 0) & (delta.diffs[1:] > 0)
            at = np.flatnonzero(pair)
            kinds[at], kinds[at + 1] = "-U", "+U"
        return [str(k) for k in kinds]

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with the columns in SELECT order, followed by ``time`` and ``diff`` (both int64).

        The dtypes of the columns are listed in :data:`~.convert.DTYPES`.
        """
        delta = self._ordered
        out = frame(self.schema, delta.rows, self._strings)
        out.insert(len(out.columns), "time", np.full(len(out), self.time, dtype=np.int64), allow_duplicates=True)
        out.insert(len(out.columns), "diff", delta.diffs.copy(), allow_duplicates=True)
        return out

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with the columns in SELECT order, followed by ``time`` and ``diff`` (both int64).

        The types of the columns are listed in :data:`~.convert.ARROW`.
        """
        delta = self._ordered
        arrays = [convert.to_arrow(w, c.type, self._strings) for w, c in zip(delta.rows, self.schema, strict=True)]
        rest = [convert.whole_numbers(w, pa.int64()) for w in (np.full(len(self), self.time), delta.diffs)]
        return pa.Table.from_arrays([*arrays, *rest], names=[*(c.name for c in self.schema), "time", "diff"])

    def negate(self) -> Changes:
        """Return the changes that undo these: the same rows with the opposite diffs."""
        return Changes(self.schema, Delta(self._delta.rows, -self._delta.diffs), self.time, self._strings, self.unique)

    def words(self, strings: Dictionary) -> Delta:
        """Return the rows and diffs as a delta whose strings are encoded with the dictionary ``strings``."""
        delta = self._delta
        if strings is self._strings or not len(self):
            return delta
        rows = delta.rows.copy()
        for i, column in enumerate(self.schema):
            if column.type is Type.STRING:
                rows[i] = strings.column(self._strings.to_arrow(delta.rows[i]))
        return Delta(rows, delta.diffs)

    def __len__(self) -> int:
        return len(self._delta.diffs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Changes):
            return NotImplemented
        same = self.schema == other.schema and self.time == other.time
        return same and bool(self.to_arrow().equals(other.to_arrow()))

    __hash__ = None  # type: ignore[assignment]  # not hashable, because equality compares all rows

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


def _columns(schema: Any) -> Schema:
    columns = tuple(schema) if isinstance(schema, Iterable) else (schema,)
    if not all(isinstance(c, Column) for c in columns):
        raise RowError(f"changes: {shorten(schema)} is not a schema; pass view.schema or catalog.schema(relation)")
    return columns


def frame(schema: Schema, rows: Words, strings: Dictionary) -> pd.DataFrame:
    """Return the rows int64[k, n] as a DataFrame in the same order. :data:`~.convert.DTYPES` lists the dtypes."""
    data: dict[Any, Any] = {i: convert.to_series(rows[i], c.type, strings) for i, c in enumerate(schema)}
    out = pd.DataFrame(data, index=pd.RangeIndex(rows.shape[1]))
    out.columns = pd.Index([c.name for c in schema])
    return out


def sorted_frame(view: View, delta: Delta, strings: Dictionary) -> pd.DataFrame:
    """Return the rows of ``view`` as a DataFrame in which each row occurs as often as its multiplicity.

    The rows are sorted by all columns, with NULL last. Raises RowError if there are more than `MAX_ROWS` rows.
    """
    order = value_order(view.schema, delta.rows, strings)
    rows, counts = delta.rows.take(order, axis=1), np.maximum(delta.diffs.take(order), 0)
    total = counts.sum(dtype=np.float64)
    if total > MAX_ROWS:
        raise RowError(
            f"view {view.name} has {total:.0f} rows, but a DataFrame can have at most {MAX_ROWS}; "
            f"call state({view.name!r}) for the distinct rows with their diffs"
        )
    return frame(view.schema, np.repeat(rows, counts, axis=1), strings)


def value_order(schema: Sequence[Column], rows: Words, strings: Dictionary, *least: Words) -> npt.NDArray[np.intp]:
    """Return the indices, intp[n], that sort the rows int64[k, n] by all columns, with NULL last, then by ``least``."""
    ranks = [ascending(c.type, strings, w) for c, w in zip(schema, rows, strict=True)]
    return np.lexsort([*least, *ranks[::-1]]) if ranks or least else np.arange(rows.shape[1])


def as_delta(data: Changes, schema: Schema, relation: str, strings: Dictionary) -> tuple[Delta, int | None]:
    """Convert Changes to a delta of ``relation``. Return the delta and None, because the time of ``data`` is ignored.

    Columns are matched by name. Raises RowError if a column, a value or a diff is invalid.
    """
    if [(c.name.lower(), c.type) for c in data.schema] == [(c.name.lower(), c.type) for c in schema]:
        delta = data.words(strings)
        return Delta(delta.rows, read_tables.checked_diffs(delta.diffs, relation)), None
    return read_tables.table(data.to_arrow().drop_columns(["time"]), schema, relation, strings)


__all__ = ["Changes", "Column", "frame", "sorted_frame"]
