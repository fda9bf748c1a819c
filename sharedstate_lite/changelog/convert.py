"""Columns in and out: Python values, pandas and Arrow to words, and back.

The way in refuses what does not fit the declared type (a fraction for an INT, a bool
for a number, an infinity, a value out of range) and names relation, column, row and
rule. The way out gives the dtypes of the contract, the same for every engine and when
empty. Both go column by column; a Python loop over values happens only where the
input is Python objects.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..errors import RowError, shorten
from ..plan.nodes import Column, Type
from ..storage.encoding import NULL, Strings, Words, doubles, from_doubles

ARROW: dict[Type, pa.DataType] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
"""The Arrow type of each column type."""

DTYPES: dict[Type, Any] = {
    Type.STRING: "string",
    Type.INT: "Int32",
    Type.BIGINT: "Int64",
    Type.DOUBLE: "Float64",
    Type.BOOLEAN: "boolean",
    Type.DATE: pd.ArrowDtype(pa.date32()),
    Type.TIMESTAMP: pd.ArrowDtype(pa.timestamp("us")),
}
"""The pandas dtype of each column type."""

_RANGE = {Type.INT: (-(2**31), 2**31 - 1), Type.BIGINT: (NULL + 1, 2**63 - 1)}
_COUNTED = {"diff": "a diff is a whole number, +1 or -1 for one row", "time": "a time is the whole number of an epoch"}
"""Columns that no relation declares, and what they hold."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MIDNIGHT = datetime.datetime(1970, 1, 1)
_TICK = datetime.timedelta(microseconds=1)
CALENDAR = {
    Type.DATE: (1 - _EPOCH, datetime.date.max.toordinal() - _EPOCH),
    Type.TIMESTAMP: ((datetime.datetime.min - _MIDNIGHT) // _TICK, (datetime.datetime.max - _MIDNIGHT) // _TICK),
}
"""The first and the last day, and microsecond, of the years 1 to 9999, from 1970 on."""
YEARS = "is out of range; the years are 1 to 9999"
_TICKS = {"s": 1_000_000, "ms": 1000, "us": 1}
"""Microseconds in a unit of time."""


def refuse(relation: str, column: Column, row: int, value: object, rule: str) -> RowError:
    """The error for one value: relation, row (from 0), column, value, rule."""
    return RowError(f"{relation}: row {row}, column {column.name} {column.type.value}: {shorten(value)} {rule}")


def from_values(values: Sequence[Any], column: Column, relation: str, strings: Strings) -> Words:
    """Words of Python values (numpy and pandas scalars too); int64[n]."""
    kinds = set(map(type, values))
    if column.type is Type.STRING and kinds <= {str, type(None)}:
        try:
            return strings.codes(values)
        except UnicodeEncodeError:
            kinds = {object}
    if column.type in _RANGE and kinds == {int}:
        try:
            return _in_range(np.array(values, dtype=np.int64), column, relation, values)
        except OverflowError:
            kinds = {object}
    if column.type is Type.STRING:
        return strings.codes([_text(v, column, relation, i) for i, v in enumerate(values)])
    return np.array([_word(v, column, relation, i) for i, v in enumerate(values)], dtype=np.int64)


def _null(value: Any) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float | np.floating) and math.isnan(value))
    )


def _text(value: Any, column: Column, relation: str, row: int) -> str | None:
    if _null(value):
        return None
    if not isinstance(value, str):
        raise refuse(relation, column, row, value, "is not a string")
    text: str = str.__str__(value)  # what it is: a member of a string Enum writes itself as its name
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refuse(relation, column, row, value, "has a lone surrogate, which is not text; mend it first") from None
    return text


def _word(value: Any, column: Column, relation: str, row: int) -> int:
    if _null(value) or (isinstance(value, np.datetime64) and np.isnat(value)):
        return NULL
    kind = column.type
    if kind is Type.BOOLEAN:
        if not isinstance(value, bool | np.bool_):
            raise refuse(relation, column, row, value, "is not a boolean")
        return int(value)
    if kind in (Type.DATE, Type.TIMESTAMP):
        return _moment(value, column, relation, row)
    if isinstance(value, bool | np.bool_):
        raise refuse(relation, column, row, value, "is a boolean, not a number; write 0 or 1 if you mean one")
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, np.timedelta64):
        # A span of time is an integer to numpy.
        raise refuse(relation, column, row, value, "is not a number")
    if kind is Type.DOUBLE:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise refuse(
                relation, column, row, value, "is infinite or out of range; a DOUBLE is finite, NULL stands for unknown"
            )
        return int(from_doubles(np.array([number]))[0])
    if isinstance(value, float | np.floating) and not float(value).is_integer():
        raise refuse(relation, column, row, value, _no_integer(float(value), column))
    number_int = int(value)
    low, high = _RANGE[kind]
    if not low <= number_int <= high:
        raise refuse(relation, column, row, value, f"is out of range [{low}, {high}]")
    return number_int


def _no_integer(value: float, column: Column) -> str:
    """The rule that a fraction, or an infinity, breaks in a column of whole numbers."""
    what = "is infinite" if math.isinf(value) else "has a fraction"
    if column.name in _COUNTED:
        return f"{what}; {_COUNTED[column.name]}"
    if math.isinf(value):
        return "is infinite; no column holds that, NULL stands for unknown"
    return f"has a fraction; declare the column DOUBLE to keep it, {column.type.value} does not"


def _moment(value: Any, column: Column, relation: str, row: int) -> int:
    if isinstance(value, np.datetime64 | pd.Timestamp):
        try:
            moment = pd.Timestamp(value)
            python = moment.to_pydatetime(warn=False)
        except (ValueError, OverflowError):
            raise refuse(relation, column, row, value, YEARS) from None
        if moment.nanosecond:
            raise refuse(relation, column, row, value, "has nanoseconds; a TIMESTAMP counts microseconds")
        value = python
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            raise refuse(relation, column, row, value, "has a time zone; convert to UTC and drop the zone first")
        if column.type is Type.DATE:
            if value.time() != datetime.time():
                raise refuse(relation, column, row, value, "has a time of day; a DATE has none")
            return value.toordinal() - _EPOCH
        return (value - _MIDNIGHT) // _TICK
    if isinstance(value, datetime.date):
        days = value.toordinal() - _EPOCH
        return days if column.type is Type.DATE else days * 86_400_000_000
    raise refuse(
        relation, column, row, value, "is not a date" if column.type is Type.DATE else "is not a point in time"
    )


def _in_range(words: Words, column: Column, relation: str, values: Any) -> Words:
    low, high = _RANGE[column.type]
    if len(words) and (int(words.min()) < low or int(words.max()) > high):
        row = int(np.flatnonzero((words < low) | (words > high))[0])
        raise refuse(relation, column, row, int(words[row]), f"is out of range [{low}, {high}]")
    return words


def _in_years(words: Words, column: Column, relation: str, unit: int) -> Words:
    """Days, or microseconds of so many units; compared before they are multiplied, which might pass 64 bits."""
    low, high = CALENDAR[column.type]
    beyond = (words < -(-low // unit)) | (words > high // unit)
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise refuse(relation, column, row, int(words[row]), YEARS)
    return words if unit == 1 else words * unit


def _coded(array: Any, column: Column, relation: str, strings: Strings) -> Words:
    """Words of a dictionary-encoded array: each string is looked up once."""
    kinds = array.dictionary
    if not (pa.types.is_string(kinds.type) or pa.types.is_large_string(kinds.type)):
        return from_values(array.to_pylist(), column, relation, strings)  # which names the row that is none
    codes = strings.column(kinds)
    if not len(codes):
        return np.full(len(array), NULL, dtype=np.int64)
    words = codes.take(array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.intp))
    null = array.indices.is_null().to_numpy(zero_copy_only=False) if array.indices.null_count else None
    return words if null is None else np.where(null, NULL, words)


def from_arrow(array: Any, column: Column, relation: str, strings: Strings) -> Words:
    """Words of an Arrow array; int64[n]. Any width of integer, dictionaries and large strings are taken as they are."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    kind, given = column.type, array.type
    if pa.types.is_null(given):
        return np.full(len(array), NULL, dtype=np.int64)
    if isinstance(given, pa.ExtensionType):
        # What it stores are not its values: of a pandas Period, a number of months.
        rule = f"it holds {given}, which is no {kind.value}; convert it to one first"
        raise RowError(f"{relation}: column {column.name} {kind.value}: {rule}")
    coded = pa.types.is_dictionary(given)
    if kind is Type.STRING and (coded or pa.types.is_string(given) or pa.types.is_large_string(given)):
        try:
            return _coded(array, column, relation, strings) if coded else strings.column(array)
        except UnicodeDecodeError as error:
            rule = "holds bytes that are not UTF-8; decode it as what it is first"
            raise RowError(f"{relation}: column {column.name} STRING {rule}") from error
    exact = (
        (kind in _RANGE and pa.types.is_integer(given) and not pa.types.is_uint64(given))
        or (kind is Type.DOUBLE and pa.types.is_floating(given))
        or (kind is Type.BOOLEAN and pa.types.is_boolean(given))
        or (kind is Type.DATE and pa.types.is_date32(given))
        or (kind is Type.TIMESTAMP and given in [pa.timestamp(unit) for unit in _TICKS])
    )
    if not exact:
        try:
            values = array.to_pylist()
        except (ValueError, OverflowError) as error:
            rule = f"holds what is no {kind.value}: {error}"
            raise RowError(f"{relation}: column {column.name} {kind.value} {rule}") from error
        return from_values(values, column, relation, strings)
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if kind is Type.DOUBLE:
        values = array.cast(pa.float64()).fill_null(math.nan).to_numpy(zero_copy_only=False)
        return _finite(values, column, relation)
    if kind is Type.DATE:
        array = array.cast(pa.int32())
    whole = array if pa.types.is_integer(array.type) else array.cast(pa.int64())
    whole = whole if null is None else whole.fill_null(0)
    words: Words = whole.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if kind in _RANGE and (kind is Type.BIGINT or given != ARROW[kind]):
        words = _in_range(words, column, relation, words)
    elif kind in CALENDAR:
        words = _in_years(words, column, relation, _TICKS[given.unit] if kind is Type.TIMESTAMP else 1)
    return words if null is None else np.where(null, NULL, words)


def _finite(values: npt.NDArray[np.float64], column: Column, relation: str) -> Words:
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.flatnonzero(infinite)[0])
        raise refuse(relation, column, row, values[row], "is infinite; a DOUBLE is finite, NULL stands for unknown")
    return from_doubles(np.ascontiguousarray(values))


def from_series(series: pd.Series[Any], column: Column, relation: str, strings: Strings) -> Words:
    """Words of a pandas Series; int64[n]."""
    if series.dtype == object:
        return from_values(series.tolist(), column, relation, strings)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f" and column.type is Type.DOUBLE:
        return _finite(series.to_numpy(dtype=np.float64), column, relation)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        return from_values(series.tolist(), column, relation, strings)
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowException, UnicodeEncodeError):
        # What Arrow does not know, or does not take for text, is judged value by value, and named.
        return from_values(series.tolist(), column, relation, strings)
    return from_arrow(array, column, relation, strings)


def to_arrow(words: Words, kind: Type, strings: Strings) -> Any:
    """A column of words as an Arrow array of the contract's type."""
    if kind is Type.STRING:
        return pa.array(strings.to_list(words), type=pa.string())
    null = words == NULL
    mask = null if null.any() else None
    if kind is Type.DOUBLE:
        return pa.array(doubles(words), type=pa.float64(), mask=mask)
    if kind is Type.BOOLEAN:
        return pa.array(words == 1, type=pa.bool_(), mask=mask)
    safe = words if mask is None else np.where(null, 0, words)
    if kind is Type.DATE:
        return pa.array(safe.astype(np.int32), type=pa.int32(), mask=mask).cast(pa.date32())
    if kind is Type.TIMESTAMP:
        return pa.array(safe, type=pa.int64(), mask=mask).cast(pa.timestamp("us"))
    return pa.array(safe.astype(np.int32) if kind is Type.INT else safe, type=ARROW[kind], mask=mask)


def shown(row: Words, schema: Sequence[Column], strings: Strings) -> str:
    """One row, int64[k], as a message shows it."""
    values = [to_arrow(row[i : i + 1], c.type, strings)[0].as_py() for i, c in enumerate(schema)]
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in values) + ")"


def to_series(words: Words, kind: Type, strings: Strings) -> pd.Series[Any]:
    """A column of words as a pandas Series of the contract's dtype."""
    null = words == NULL
    if kind in (Type.DATE, Type.TIMESTAMP):
        return pd.Series(pd.arrays.ArrowExtensionArray(to_arrow(words, kind, strings)))
    if kind is Type.STRING:
        values = strings.texts(words)
        values[null] = pd.NA
        return pd.Series(values, dtype="string")
    if kind is Type.DOUBLE:
        data: npt.NDArray[Any] = np.where(null, 0.0, doubles(words))
        return pd.Series(pd.arrays.FloatingArray(data, null.copy()))
    safe = np.where(null, 0, words)
    if kind is Type.BOOLEAN:
        return pd.Series(pd.arrays.BooleanArray(safe.astype(np.bool_), null.copy()))
    return pd.Series(pd.arrays.IntegerArray(safe.astype(np.int32) if kind is Type.INT else safe, null.copy()))
