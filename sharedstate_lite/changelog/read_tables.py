"""Converts input rows to a delta of one relation. Input can be pairs of row and diff, a DataFrame or an Arrow table.

This module checks columns, diffs and times. :mod:`.convert` checks the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from .. import loops
from ..errors import RowError, TimeError, is_integer, shorten
from ..plan.nodes import Column, Schema, Type
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary
from ..storage.multiplicity import MAX_DIFF
from . import convert

DIFF, TIME = Column("diff", Type.BIGINT), Column("time", Type.BIGINT)
_DIFF = "a diff must be a nonzero integer with an absolute value below 2**31; +1 inserts a row and -1 retracts one"


def table(data: Any, schema: Schema, relation: str, strings: Dictionary) -> tuple[Delta, int | None]:
    """Convert a pandas DataFrame or an Arrow table to a delta of ``relation``.

    Return the delta and the value of the ``time`` column, or None if ``data`` has no such column or no rows. Columns
    are matched by name, and case is ignored. Raises RowError if a column, a value or a diff is invalid, and TimeError
    if the ``time`` column does not contain the same integer in all rows.
    """
    framed = isinstance(data, pd.DataFrame)
    names = tuple(map(str, data.columns)) if framed else tuple(data.column_names)
    found = positions(names, schema)
    if isinstance(found, str):
        missing = [c.name for c in schema if c.name.lower() not in {name.lower() for name in names}]
        raise RowError(f"{relation}: the table {found}{index_remedy(data, missing)}")

    def words(column: Column, at: int) -> npt.NDArray[np.int64]:
        if framed:
            return convert.from_series(data.iloc[:, at], column, relation, strings)
        return convert.from_arrow(data.column(at), column, relation, strings)

    *places, diff, timed = found
    columns, kinds = (*places, diff), (*(c.type for c in schema), DIFF.type)
    lines = None if framed else convert.from_plain(list(map(data.column, columns)), kinds, strings)
    if lines is None:
        lines = np.empty((len(columns), len(data)), dtype=np.int64)
        for line, column, at in zip(lines, (*schema, DIFF), columns, strict=True):
            line[:] = words(column, at)
    diffs = checked_diffs(lines[-1], relation)
    time = None
    if timed >= 0 and len(diffs):
        times = np.unique(words(TIME, timed))
        if len(times) > 1 or times[0] == NULL:
            shown = ", ".join("NULL" if t == NULL else str(t) for t in times[:3])
            raise TimeError(f"{relation}: the column time contains {shown}; all rows must have the same integer time")
        time = int(times[0])
    return Delta(lines[:-1], diffs), time


@lru_cache
def positions(names: tuple[str, ...], schema: Schema) -> tuple[int, ...] | str:
    """Return the position of each column of ``schema`` among the columns ``names`` of a table, then of diff and time.

    The position of time is -1 if there is no such column, or if it is a column of the relation. Returns an error
    message instead if a column is missing or unknown, or occurs twice. The case of names is ignored.
    """
    position: dict[str, int] = {}
    for at, name in enumerate(names):
        if name.lower() in position:
            return f"has two columns named {name}; column names are case-insensitive"
        position[name.lower()] = at
    declared = {c.name.lower() for c in schema}
    extra = [n for n in names if n.lower() not in declared | {"diff", "time"}]
    missing = [c.name for c in schema if c.name.lower() not in position]
    if "diff" not in position:
        missing.append("diff (+1 inserts a row, -1 retracts one)")
    if missing or extra:
        faults = [f"lacks {', '.join(missing)}"] if missing else []
        faults += [f"has the unknown column{'s' * (len(extra) > 1)} {', '.join(extra)}"] if extra else []
        columns = ", ".join(c.name for c in schema)
        return f"{' and '.join(faults)}; its columns must be {columns}, diff and, optionally, time"
    time = -1 if "time" in declared else position.get("time", -1)
    return (*(position[c.name.lower()] for c in schema), position["diff"], time)


def index_remedy(data: Any, missing: Iterable[str]) -> str:
    """Return the end of the message about missing columns: what to do if one of them is the index of a DataFrame."""
    index = {str(name).lower() for name in data.index.names} if isinstance(data, pd.DataFrame) else set()
    found = [name for name in missing if name.lower() in index]
    return f"; the frame's index has {', '.join(found)}, so call reset_index() first" if found else ""


def pairs(data: Iterable[Any], schema: Schema, relation: str, strings: Dictionary) -> Delta:
    """Convert rows with diffs, ``[((value, ...), diff), ...]``, to a delta of ``relation``.

    Raises RowError if a row, a value or a diff is invalid.
    """
    rows, diffs = [], []
    for at, pair in enumerate(data):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], tuple | list):
            raise RowError(
                f"{relation}: row {at} is {shorten(pair)}; write a pair of row and diff, such as ((value, ...), +1)"
            )
        row, diff = pair
        if len(row) != len(schema):
            raise RowError(f"{relation}: row {at} has {len(row)} values, but the relation has {len(schema)} columns: "
                           + ", ".join(c.name for c in schema))  # fmt: skip
        if not (type(diff) is int or is_integer(diff)) or not 0 < abs(diff) < MAX_DIFF:
            raise RowError(f"{relation}: row {at} has the diff {shorten(diff)}; {_DIFF}")
        rows.append(row)
        diffs.append(int(diff))
    cells: Any = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    columns = [convert.from_values(v, c, relation, strings) for v, c in zip(cells, schema, strict=True)]
    body = np.stack(columns) if columns else np.empty((0, len(diffs)), dtype=np.int64)
    return Delta(body, np.array(diffs, dtype=np.int64))


def checked_diffs(diffs: npt.NDArray[np.int64], relation: str) -> npt.NDArray[np.int64]:
    """Return the diffs int64[n] unchanged.

    Raises RowError if one is 0 or NULL, or if its absolute value is 2**31 or more.
    """
    row = loops.outside(diffs, 1 - MAX_DIFF, MAX_DIFF - 1, 0)
    if row >= 0:
        value = int(diffs[row])
        raise RowError(f"{relation}: row {row} has the diff {'NULL' if value == NULL else value}; {_DIFF}")
    return diffs


def infer(data: Any) -> Schema:
    """Return the schema of a DataFrame or an Arrow table, without the columns ``diff`` and ``time``.

    Raises RowError if a column has no single type, or an Arrow type that does not correspond to a column type.
    """
    try:
        arrow = pa.Table.from_pandas(data, preserve_index=False) if isinstance(data, pd.DataFrame) else data
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise RowError(f"changes: a column mixes types ({reason}); pass a schema, or fix the column") from error
    fields = [field for field in arrow.schema if field.name.lower() not in ("diff", "time")]
    for field in fields:
        if kind_of(field.type) is None:
            known = ", ".join(t.value for t in Type)
            raise RowError(f"column {field.name} has the unsupported type {field.type}; use {known}")
    return tuple(Column(field.name, kind_of(field.type) or Type.STRING) for field in fields)


def kind_of(given: pa.DataType) -> Type | None:
    """Return the column type that can hold every value of the Arrow type ``given``, or None if there is none."""
    plain = given.value_type if pa.types.is_dictionary(given) else given
    if pa.types.is_integer(plain):
        return Type.BIGINT if plain.bit_width == 64 or plain == pa.uint32() else Type.INT
    tests: tuple[tuple[Callable[[pa.DataType], bool], Type], ...] = (
        (pa.types.is_floating, Type.DOUBLE),
        (pa.types.is_boolean, Type.BOOLEAN),
        (pa.types.is_date, Type.DATE),
        (pa.types.is_timestamp, Type.TIMESTAMP),
        *((test, Type.STRING) for test in (pa.types.is_null, *convert.TEXT)),
    )
    return next((kind for test, kind in tests if test(plain)), None)
