"""Converts columns of Python values, pandas and Arrow to int64 words, and back.

Input is converted with Arrow. A DATE or TIMESTAMP can also be ISO text, in the form that a CAST accepts. If the
declared type cannot represent a value exactly, a RowError names the relation and the column. Examples are a fraction in
an INT, a time of day in a DATE, an infinity, and a number that is out of range. Output has the same dtypes for every
engine, even if it is empty.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from .. import loops
from ..errors import RowError, is_integer, shorten
from ..kernels.casts import LIMITS, parse
from ..plan.nodes import Column, Type
from ..storage.encoding import NULL, Dictionary, Words, doubles, from_doubles

ARROW: dict[Type, pa.DataType] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
"""Maps each column type to the Arrow type of its output."""

DTYPES: dict[Type, Any] = {
    Type.STRING: "string",
    Type.INT: "Int32",
    Type.BIGINT: "Int64",
    Type.DOUBLE: "Float64",
    Type.BOOLEAN: "boolean",
    Type.DATE: pd.ArrowDtype(pa.date32()),
    Type.TIMESTAMP: pd.ArrowDtype(pa.timestamp("us")),
}
"""Maps each column type to the pandas dtype of its output."""

_NUMBER = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_MOMENT = (pa.types.is_date, pa.types.is_timestamp)
TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_ACCEPTED: dict[Type, tuple[Callable[[pa.DataType], bool], ...]] = {
    Type.STRING: TEXT,
    Type.INT: _NUMBER,
    Type.BIGINT: _NUMBER,
    Type.DOUBLE: _NUMBER,
    Type.BOOLEAN: (pa.types.is_boolean,),
    Type.DATE: _MOMENT,
    Type.TIMESTAMP: _MOMENT,
}
"""Maps each column type to tests for the Arrow types that it accepts. Each value must also fit."""

_TEXT_ID, _INT_ID, _BIGINT_ID = pa.string().id, pa.int32().id, pa.int64().id
"""Arrow's numbers of the types whose columns need no conversion by Arrow. Comparing types themselves is slower."""

_INT, _BIGINT, _LARGEST = Type.INT, Type.BIGINT, 2**63 - 1
_buffer: Any = pa.py_buffer  # its types do not know arrays
_DAY = 86_400_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_ENDS = (datetime.datetime.min - _EPOCH, datetime.datetime.max - _EPOCH)
CALENDAR = {Type.DATE: [end.days for end in _ENDS], Type.TIMESTAMP: [end // _MICROSECOND for end in _ENDS]}
"""The first and last day of the years 1 to 9999, and their first and last microsecond, counted from 1970-01-01."""
YEARS = "is out of range; the year must be between 1 and 9999"


def from_values(values: Sequence[Any], column: Column, relation: str, strings: Dictionary) -> Words:
    """Convert n Python values, including NumPy and pandas scalars, to words, int64[n].

    ``relation`` is used only in error messages. Raises RowError if a value does not fit the type of ``column``.

    >>> from_values([3, None], Column("length", Type.INT), "visit", Dictionary()).tolist() == [3, NULL]
    True
    """
    kinds = set(map(type, values))
    try:
        if column.type is Type.STRING and kinds <= {str, type(None)}:
            return strings.codes(values)
        if column.type in LIMITS and kinds == {int}:
            return _in_range(np.array(values, dtype=np.int64), column.type)
        if column.type in CALENDAR:
            moments = np.array([_microseconds(v, column.type) for v in values], dtype=np.int64)
            array = pa.array(moments, mask=moments == NULL).cast(pa.timestamp("us"))
        else:
            if column.type.numeric and not kinds <= {int if column.type in LIMITS else float, type(None)}:
                values = [_number(v, column.type) for v in values]
            array = pa.array(values, from_pandas=True)
        return _words(array, column.type, strings)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _refused(relation, column, error) from error


def from_plain(columns: Sequence[Any], kinds: Sequence[Type], strings: Dictionary) -> Words | None:
    """Convert columns of an Arrow table to words, int64[k, n], if they are texts or whole numbers without NULL.

    Returns None if there are others, or if a value does not fit. Then, `from_arrow` converts each column, or raises.
    """
    out = np.empty((len(columns), len(columns[0])), dtype=np.int64)
    texts, lines = [], []
    for line, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if column.num_chunks != 1:
            return None
        array = column.chunk(0)
        given = array.type.id
        if kind is Type.STRING and given == _TEXT_ID:
            texts.append(array)
            lines.append(line)
        elif (kind is _INT or kind is _BIGINT) and (given == _INT_ID or given == _BIGINT_ID) and not array.null_count:
            out[line] = array.to_numpy()
            if given == _BIGINT_ID and loops.outside(out[line], *LIMITS[kind], NULL) >= 0:
                return None
        else:
            return None
    loops.moved(out.size)
    try:
        if texts:  # the codes of all columns are looked up at once
            out[lines] = strings.column(pa.concat_arrays(texts)).reshape(len(lines), -1)
    except (pa.ArrowException, UnicodeError):
        return None
    return out


def from_arrow(array: Any, column: Column, relation: str, strings: Dictionary) -> Words:
    """Convert an Arrow array of length n to words, int64[n]. It can be chunked or dictionary-encoded.

    Raises RowError if a value does not fit the type of ``column``.
    """
    try:
        if isinstance(array, pa.ChunkedArray):
            if array.num_chunks != 1:
                chunks = array.unify_dictionaries().chunks or [pa.array([], type=array.type)]
                array = pa.chunked_array([pa.concat_arrays(chunks)])
            array = array.chunk(0)
        return _words(array, column.type, strings)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _refused(relation, column, error) from error


def from_series(series: pd.Series[Any], column: Column, relation: str, strings: Dictionary) -> Words:
    """Convert a pandas Series of length n to words, int64[n]. Raises RowError if a value does not fit."""
    if series.dtype == object:
        return from_values(series.tolist(), column, relation, strings)
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _refused(relation, column, error) from error
    return from_arrow(array, column, relation, strings)


def _refused(relation: str, column: Column, error: Exception) -> RowError:
    reason = str(error).partition("\n")[0][:200].replace("was truncated converting to int64", "is not a whole number")
    reason = reason.replace("Expected bytes, got a", "all values must be texts, but there is a")
    return RowError(f"{relation}: column {column.name} {column.type.value}: {reason}")


def _number(value: Any, kind: Type) -> Any:
    """Return a number as an int, or as a float if ``kind`` is DOUBLE, because Arrow does not convert a mixed column."""
    if is_integer(value):
        return float(value) if kind is Type.DOUBLE else int(value)
    if issubclass(type(value), Decimal | float | np.floating):
        return float(value) if kind is Type.DOUBLE else pa.scalar(value, from_pandas=True).cast(pa.int64()).as_py()
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    raise TypeError(f"expected {ARROW[kind]} values, got {type(value).__name__}; convert them first")


def _words(array: Any, kind: Type, strings: Dictionary) -> Words:
    """Convert an unchunked Arrow array of length n to words, int64[n].

    Raises ArrowException, TypeError or ValueError if a value does not fit.
    """
    given = array.type
    if pa.types.is_dictionary(given):
        if kind is Type.STRING or pa.types.is_string_view(given.value_type):  # Arrow cannot decode a string view
            # Look up each distinct string only once.
            return _taken(_words(array.dictionary, kind, strings), array.indices)
        array = array.dictionary_decode()
        given = array.type
    if pa.types.is_null(given):
        return np.full(len(array), NULL, dtype=np.int64)
    if kind in CALENDAR and any(accepts(given) for accepts in TEXT):
        text = array.dictionary_encode()
        return _taken(np.array([parse(t, kind) for t in text.dictionary.to_pylist()], dtype=np.int64), text.indices)
    if not any(accepts(given) for accepts in _ACCEPTED[kind]):
        raise TypeError(f"expected {ARROW[kind]} values, got {given}; convert them first")
    if kind is Type.STRING:
        return strings.column(array.cast(pa.large_string()))
    if kind is Type.DOUBLE:
        # Integers above 2**53 are rounded, as in a CAST.
        exact = not pa.types.is_integer(given)
        values = array.cast(pa.float64(), safe=exact).fill_null(np.nan).to_numpy(zero_copy_only=False)
        if np.isinf(values).any():
            raise ValueError("a value is infinite, but a DOUBLE must be finite; use NULL for an unknown value")
        return from_doubles(np.ascontiguousarray(values))
    if kind in CALENDAR:
        return _moments(array, kind)
    if pa.types.is_floating(given):
        # NaN means NULL, as in pandas.
        array = pa.array(array.to_numpy(zero_copy_only=False), from_pandas=True)
    whole = array.cast(pa.int64())
    words = whole.fill_null(0).to_numpy(zero_copy_only=False)
    return _masked(words if kind is Type.BOOLEAN else _in_range(words, kind), whole)


def _moments(array: Any, kind: Type) -> Words:
    """Convert an Arrow array of dates or timestamps to days (DATE) or microseconds (TIMESTAMP) since 1970-01-01.

    Raises ValueError if a value has a time zone, is out of range, or has a time of day although ``kind`` is DATE.
    """
    if getattr(array.type, "tz", None) is not None:
        raise ValueError("the values have a time zone; convert them to UTC and remove the time zone first")
    days = kind is Type.DATE and pa.types.is_date(array.type)
    counted = array.cast(pa.date32()).cast(pa.int32()) if days else array.cast(pa.timestamp("us")).cast(pa.int64())
    words = counted.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if kind is Type.DATE and not days:
        if (words % _DAY).any():
            raise ValueError("a value has a time of day, but a DATE must not have one; truncate it first")
        words = words // _DAY
    first, last = CALENDAR[kind]
    if ((words < first) | (words > last)).any():
        raise ValueError(f"a value {YEARS}")
    return _masked(words, counted)


def _microseconds(value: Any, kind: Type) -> int:
    """Return the microseconds since 1970-01-01 of a date, a datetime or ISO text, or NULL if it is missing.

    ``kind`` is DATE or TIMESTAMP. Raises TypeError or ValueError for any other value, and for a time zone or
    nanoseconds, which Arrow would drop.
    """
    if isinstance(value, str):
        return int(parse(value, kind)) * (_DAY if kind is Type.DATE else 1)
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if pd.isna(value):
        return NULL
    if isinstance(value, pd.Timestamp):
        if value.nanosecond:
            raise ValueError(f"{value} has nanoseconds, but a TIMESTAMP has microsecond precision; round it first")
        value = value.to_pydatetime()
    if not isinstance(value, datetime.date):
        raise TypeError(f"{shorten(value)} is not a date or time; pass a datetime, or ISO text such as '2024-01-31'")
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone; convert it to UTC and remove the time zone first")
    return int((value - _EPOCH) // _MICROSECOND)


def _taken(words: Words, indices: Any) -> Words:
    """Return ``words[i]`` for each index in the Arrow array ``indices``, or NULL where the index is null."""
    index: Words = indices.cast(pa.int64()).fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.append(words, NULL).take(index)


def _masked(words: Words, array: Any) -> Words:
    """Return ``words`` with NULL in the places where the Arrow array is null."""
    return np.where(array.is_null().to_numpy(zero_copy_only=False), NULL, words) if array.null_count else words


def _in_range(words: Words, kind: Type) -> Words:
    low, high = LIMITS[kind]
    loops.moved(len(words))
    if loops.outside(words, low, high, NULL) >= 0:
        raise ValueError(f"a value is out of range; it must be between {low} and {high}")
    return words


def to_arrow(words: Words, kind: Type, strings: Dictionary) -> Any:
    """Convert a column of words to an Arrow array of type ``ARROW[kind]``."""
    if kind is Type.STRING:
        return strings.to_arrow(words)
    if loops.outside(words, NULL, _LARGEST, NULL) < 0:
        if kind is Type.INT or kind is Type.DATE:
            return whole_numbers(words.astype(np.int32), ARROW[kind])
        if kind is Type.BIGINT or kind is Type.TIMESTAMP:
            return whole_numbers(words, ARROW[kind])
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


def whole_numbers(words: npt.NDArray[Any], kind: pa.DataType) -> Any:
    """Return n integers without NULL as an Arrow array of a type that stores them as they are."""
    return pa.Array.from_buffers(kind, len(words), [None, _buffer(np.ascontiguousarray(words))])


def format_row(row: Words, schema: Sequence[Column], strings: Dictionary) -> str:
    """Return one row, int64[k], as text for an error message, such as ``('Potato', 50)``."""
    values = [to_arrow(row[i : i + 1], c.type, strings)[0].as_py() for i, c in enumerate(schema)]
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in values) + ")"


def to_series(words: Words, kind: Type, strings: Dictionary) -> pd.Series[Any]:
    """Convert a column of words to a pandas Series of dtype ``DTYPES[kind]``."""
    null = words == NULL
    if kind in (Type.DATE, Type.TIMESTAMP):
        return pd.Series(pd.arrays.ArrowExtensionArray(to_arrow(words, kind, strings)))
    if kind is Type.STRING:
        values = strings.texts(words)
        values[null] = pd.NA
        return pd.Series(values, dtype="string")
    if kind is Type.DOUBLE:
        data: Any = np.where(null, 0.0, doubles(words))
        return pd.Series(pd.arrays.FloatingArray(data, null.copy()))
    safe = np.where(null, 0, words)
    if kind is Type.BOOLEAN:
        return pd.Series(pd.arrays.BooleanArray(safe.astype(np.bool_), null.copy()))
    return pd.Series(pd.arrays.IntegerArray(safe.astype(np.int32) if kind is Type.INT else safe, null.copy()))
