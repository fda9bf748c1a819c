"""The rows that an operator receives, and the rows that it emits.

A column is stored as words or as Python values, and converted when it is first read in the other form. ``row()`` reads
values, ``rows()`` reads columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..changelog.convert import from_arrow, from_series, from_values, to_arrow, to_series
from ..changelog.read_tables import index_remedy
from ..errors import RowError, StateError, shorten
from ..plan.nodes import Column
from ..storage.encoding import Dictionary, Words
from .types import Kind, Scalar, Struct, arrow_type, checked, decode

Schema = tuple[tuple[str, Kind], ...]
"""The names and types of columns."""


def words_of(values: Any, column: Column, relation: str, strings: Dictionary) -> Words:
    """Return a pandas, Arrow or NumPy column, or a sequence of n values, as words, int64[n]. Raises RowError."""
    if isinstance(values, pd.Index | pd.api.extensions.ExtensionArray):
        values = pd.Series(values)
    if isinstance(values, pd.Series):
        return from_series(values, column, relation, strings)
    if isinstance(values, np.ndarray) and values.dtype != object:
        values = pa.array(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return from_arrow(values, column, relation, strings)
    return from_values(list(values), column, relation, strings)


class Events:
    """n rows: a column for each field of ``schema``, and the event time of each row in microseconds, int64[n]."""

    def __init__(self, schema: Schema, columns: Sequence[Words | list[Any]], times: Words, strings: Dictionary) -> None:
        self.schema, self.times, self.strings = schema, times, strings
        self._words = [each if isinstance(each, np.ndarray) else None for each in columns]
        self._values = [None if isinstance(each, np.ndarray) else each for each in columns]

    def __len__(self) -> int:
        return len(self.times)

    def position(self, name: str) -> int:
        """Return the position of a column. Raises StateError if there is none of this name."""
        names = [each for each, _ in self.schema]
        if name not in names:
            raise StateError(f"there is no column {name}; the columns are {', '.join(names)}")
        return names.index(name)

    def words(self, at: int) -> Words:
        """Return a column of a scalar type as words, int64[n]."""
        found = self._words[at]
        if found is None:
            name, kind = self.schema[at]
            assert isinstance(kind, Scalar)
            found = self._words[at] = from_values(self._values[at] or [], Column(name, kind.type), "out", self.strings)
        return found

    def values(self, at: int) -> list[Any]:
        """Return a column as n Python values."""
        found = self._values[at]
        if found is None:
            words, kind = self._words[at], self.schema[at][1]
            assert words is not None and isinstance(kind, Scalar)
            found = self._values[at] = decode(words, kind.type, self.strings)
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts."""
        names = [name for name, _ in self.schema]
        for row in zip(*(self.values(at) for at in range(len(names))), strict=True):
            yield dict(zip(names, row, strict=True))

    def take(self, index: npt.NDArray[np.intp]) -> Events:
        """Return the rows at these positions."""
        columns: list[Any] = []
        for words, values in zip(self._words, self._values, strict=True):
            columns.append([values[at] for at in index.tolist()] if words is None else words.take(index))  # type: ignore[index]
        return Events(self.schema, columns, self.times.take(index), self.strings)

    @staticmethod
    def concat(parts: Sequence[Events]) -> Events:
        """Return the rows of at least one part, all with the same schema and dictionary."""
        first = parts[0]
        columns: list[Any] = []
        for at, (_, kind) in enumerate(first.schema):
            if isinstance(kind, Scalar):
                columns.append(np.concatenate([part.words(at) for part in parts]))
            else:
                columns.append([value for part in parts for value in part.values(at)])
        return Events(first.schema, columns, np.concatenate([part.times for part in parts]), first.strings)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        columns = {}
        for at, (name, kind) in enumerate(self.schema):
            if isinstance(kind, Scalar):
                columns[name] = to_arrow(self.words(at), kind.type, self.strings)
            else:
                columns[name] = pa.array(self.values(at), arrow_type(kind))
        return pa.table(columns)

    def keys(self, names: Sequence[str]) -> Words:
        """Return the columns of a key as words, int64[k, n]."""
        return np.array([self.words(self.position(name)) for name in names]).reshape(len(names), len(self))

    def frame(self) -> pd.DataFrame:
        """Return the rows as a data frame. A column of a nested type contains Python values."""
        columns: list[pd.Series[Any]] = []
        for at, (_, kind) in enumerate(self.schema):
            if isinstance(kind, Scalar):
                columns.append(to_series(self.words(at), kind.type, self.strings))
            else:
                columns.append(pd.Series(self.values(at), dtype=object))
        return pd.DataFrame(dict(enumerate(columns))).set_axis([name for name, _ in self.schema], axis=1)


class Groups(NamedTuple):
    """Rows grouped by key: ``order`` sorts them, and ``starts`` are the positions in it where groups begin."""

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]

    @property
    def last(self) -> npt.NDArray[np.intp]:
        """The last row of each group, in order of arrival."""
        ends = np.append(self.starts[1:], len(self.order)) if len(self.starts) else self.starts
        return self.order.take(ends - 1)

    @property
    def member(self) -> npt.NDArray[np.intp]:
        """The group of each row."""
        out = np.empty(len(self.order), dtype=np.intp)
        sizes = np.diff(np.append(self.starts, len(self.order)))
        out[self.order] = np.arange(len(self.starts)).repeat(sizes)
        return out


def grouped(rows: Words) -> Groups:
    """Group the equal rows of int64[k, n]. Rows of a group keep their order."""
    order = rows[0].argsort(kind="stable") if len(rows) == 1 else np.lexsort(rows)
    ranked = rows.take(order, axis=1)
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    return Groups(order, first.nonzero()[0])


class BatchKeys:
    """The key of each row of a batch. Pass it to a state's methods in ``rows()``. Select rows with a mask or positions.

    ``words`` are int64[k, n], and ``times``, int64[n], the event times of the rows in microseconds.
    """

    def __init__(self, words: Words, times: Words, owner: object) -> None:
        self.words, self.times, self.owner = words, times, owner

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, index: Any) -> BatchKeys:
        """Return the keys at these positions, in a slice, or where a Boolean mask is true."""
        where: npt.NDArray[Any] = np.asarray(range(len(self))[index] if isinstance(index, slice) else index)
        if where.dtype == object or pd.api.types.is_bool_dtype(where.dtype):
            where = np.flatnonzero(pd.array(where, dtype="boolean").fillna(False).to_numpy(dtype=bool))
        return BatchKeys(self.words.take(where, axis=1), self.times.take(where), self.owner)

    @cached_property
    def groups(self) -> Groups:
        """The rows grouped by key."""
        return grouped(self.words)

    @cached_property
    def unique(self) -> Words:
        """The distinct keys, int64[k, m], in the order of `groups`."""
        return self.words.take(self.groups.order.take(self.groups.starts), axis=1)

    @cached_property
    def last(self) -> Words:
        """The time of each distinct key's last row, int64[m]."""
        return self.times.take(self.groups.last)


class RowBatch:
    """The rows of an epoch as ``rows()`` receives them: ``batch["length"]`` is a column, ``batch.keys`` the keys."""

    def __init__(self, events: Events, keys: BatchKeys) -> None:
        self._events, self.keys = events, keys

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, name: str) -> pd.Series[Any]:
        """Return a column as a pandas Series, with the dtypes of an engine's output."""
        at = self._events.position(name)
        kind = self._events.schema[at][1]
        if isinstance(kind, Scalar):
            return to_series(self._events.words(at), kind.type, self._events.strings)
        return pd.Series(self._events.values(at), dtype=object)


Rank = tuple[Any, ...]
"""What orders the emitted rows: the position of a row, or time, key and name of a timer."""


class Output:
    """Collects the rows that callbacks emit: ``out(value, ...)`` for one row, ``out.add(columns)`` for many."""

    def __init__(self, operator: str, schema: Schema, strings: Dictionary) -> None:
        self._operator, self.schema, self._strings = operator, schema, strings
        self.rank: Rank | None = None
        """The rank of what is emitted now, or None outside a callback."""
        self.time = 0
        self.batch: RowBatch | None = None
        self.rows: list[tuple[Rank, tuple[Any, ...], int]] = []
        """Each row that was emitted alone, with its rank and its event time."""
        self.blocks: list[tuple[Words, Events]] = []

    def __call__(self, *values: Any) -> None:
        """Emit one row, with a value for each column of the operator's ``out``."""
        if self.rank is None:
            raise StateError(f"{self._operator}: out() was called outside row() and its timers; in rows(), use out.add")
        if len(values) != len(self.schema):
            names = ", ".join(name for name, _ in self.schema) or "none"
            raise StateError(
                f"{self._operator}: out{shorten(values)} has {len(values)} values; its columns are {names}"
            )
        self.rows.append((self.rank, values, self.time))

    def add(self, columns: Mapping[str, Any] | pd.DataFrame, at: Any = None) -> None:
        """Emit many rows in ``rows()``: a column for each name of ``out``, each with n values.

        ``at`` are the positions of the batch's rows from which they follow, int[n]. The rows emitted are in their
        order, and have their event times. By default, row i follows from row i of the batch.
        """
        if self.batch is None:
            raise StateError(f"{self._operator}: out.add() was called outside rows(); use out(value, ...)")
        names = [name for name, _ in self.schema]
        if set(columns) != set(names):
            raise StateError(
                f"{self._operator}: out.add got the columns {', '.join(map(str, columns))}, not {', '.join(names)}"
            )
        words = []
        for name, kind in self.schema:
            if not isinstance(kind, Scalar):
                raise StateError(f"{self._operator}: out.add cannot emit {name} {kind}; emit nested types with row()")
            words.append(words_of(columns[name], Column(name, kind.type), f"{self._operator}.out", self._strings))
        count = len(words[0]) if words else 0
        where = np.arange(len(self.batch)) if at is None else np.asarray(at, dtype=np.int64)
        if any(len(each) != len(where) for each in words):
            raise StateError(
                f"{self._operator}: out.add got {count} rows for {len(where)} positions of the batch; pass at="
            )
        self.blocks.append((where, Events(self.schema, words, self.batch.keys.times.take(where), self._strings)))


class Emitted(NamedTuple):
    """The rows that were emitted in an epoch, in their order. ``ranks`` has an int p for (0, p)."""

    events: Events
    ranks: list[Any]


def merge(outputs: Sequence[tuple[Output, Words]], schema: Schema, operator: str, strings: Dictionary) -> Emitted:
    """Return the rows that all workers have emitted in an epoch: those of rows first, then those of timers.

    With each output come the positions in the epoch of the rows that its worker has processed, int64[n].
    """
    ranked = sorted((row for out, _ in outputs for row in out.rows), key=lambda row: row[0])
    columns: list[Any] = [[values[at] for _, values, _ in ranked] for at in range(len(schema))]
    for at, (name, kind) in enumerate(schema):
        try:
            columns[at] = [checked(kind, value) for value in columns[at]]
        except (TypeError, ValueError) as error:
            raise StateError(f"{operator}: out column {name} {kind}: {error}") from error
    emitted = Events(schema, columns, np.array([time for *_, time in ranked], dtype=np.int64), strings)
    ranks: list[Any] = [rank for rank, *_ in ranked]
    blocks = [(where.take(at), block) for out, where in outputs for at, block in out.blocks]
    if not blocks:
        return Emitted(emitted, ranks)
    # The rows of rows() come before those of timers, which are all that remains in a batch of columns.
    where = np.concatenate([each for each, _ in blocks])
    order = where.argsort(kind="stable")
    events = Events.concat([block for _, block in blocks]).take(order)
    return Emitted(Events.concat([events, emitted]), where.take(order).tolist() + ranks)


def row_class(schema: Schema) -> type[tuple[Any, ...]]:
    """Return the class of the rows that ``row()`` receives: ``row["length"]``, ``row.length``, or by position."""
    index = {name: at for at, (name, _) in enumerate(schema)}

    def item(self: tuple[Any, ...], at: Any) -> Any:
        return tuple.__getitem__(self, index[at] if isinstance(at, str) else at)

    def missing(self: tuple[Any, ...], name: str) -> Any:
        raise AttributeError(f"the row has no column {name}; its columns are {', '.join(index)}")

    # A column goes before a method of tuple, such as count.
    columns = {name: property(itemgetter(at)) for name, at in index.items()}
    return type("Row", (tuple,), {"__slots__": (), "__getitem__": item, "__getattr__": missing, **columns})


def read_rows(data: Any, schema: Struct, name: str, strings: Dictionary) -> list[Words | list[Any]]:
    """Return the columns of input rows: a DataFrame, an Arrow table, or a sequence of tuples or dicts.

    Raises RowError if a column is missing or unknown, if a value does not fit, or if a row is a retraction.
    """
    names = [each for each, _ in schema.fields]
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame | pa.Table):
        columns: list[Any] = list(data.columns if isinstance(data, pd.DataFrame) else data.column_names)
        given = {str(c).lower(): c for c in columns}
        if len(given) < len(columns):
            raise RowError(f"{name}: two of the columns {', '.join(map(str, columns))} have one name; case is ignored")
        if "diff" in given and "diff" not in map(str.lower, names):
            diffs = np.asarray(data[given.pop("diff")])
            if (diffs != 1).any():
                at = int(np.flatnonzero(diffs != 1)[0])
                raise RowError(
                    f"{name}: row {at} has the diff {diffs[at]}; an operator with managed state receives events, which "
                    f"cannot be retracted; send the change as a column"
                )
        wrong = set(given) ^ {each.lower() for each in names}
        if wrong:
            raise RowError(f"{name}: the column {min(wrong)} is missing or unknown; the columns are {', '.join(names)}"
                           f"{index_remedy(data, sorted(wrong))}")  # fmt: skip
        columns = [data[given[each.lower()]] for each in names]
    else:
        rows = [_ordered(row, names, name, at) for at, row in enumerate(_listed(data, name))]
        columns = [*zip(*rows, strict=True)] if rows else [()] * len(names)
    return [
        _column(values, each, kind, name, strings) for values, (each, kind) in zip(columns, schema.fields, strict=True)
    ]


def _listed(data: Any, name: str) -> Iterable[Any]:
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise RowError(
            f"{name}: cannot read rows from {type(data).__name__}; pass a table, or a list of tuples or dicts"
        )
    return data


def _ordered(row: Any, names: list[str], relation: str, at: int) -> tuple[Any, ...]:
    if isinstance(row, Mapping) and set(row) == set(names):
        return tuple(row[name] for name in names)
    if isinstance(row, tuple | list) and len(row) == len(names):
        return tuple(row)
    raise RowError(f"{relation}: row {at} is {shorten(row)}; it must have the columns {', '.join(names)}")


def _column(values: Any, name: str, kind: Kind, relation: str, strings: Dictionary) -> Words | list[Any]:
    if isinstance(kind, Scalar):
        return words_of(values, Column(name, kind.type), relation, strings)
    listed = values.to_pylist() if isinstance(values, pa.ChunkedArray) else list(values)
    try:
        return [checked(kind, value) for value in listed]
    except (TypeError, ValueError) as error:
        raise RowError(f"{relation}: column {name} {kind}: {error}") from error
