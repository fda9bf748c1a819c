"""Converts the columns of a Parquet file, which have Arrow's types, to columns of the kit's types.

Text is not parsed and whole numbers are not rounded. A fraction therefore does not fit INT, and a whole number beyond
2**53 does not fit DOUBLE. A decimal is converted only if the column is declared. NaN becomes NULL, and a timestamp with
a time zone is converted to UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyarrow import types

from ..changelog.convert import ARROW, CALENDAR, TEXT
from ..errors import RowError
from ..plan.nodes import Type
from .text_values import Arrow, CellError

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal)
_TIME = (types.is_date, types.is_timestamp)
_FITS = {
    Type.STRING: (TEXT, "UTF-8 text"),
    Type.INT: (_NUMBERS, "a whole number from -2147483648 to 2147483647"),
    Type.BIGINT: (_NUMBERS, "a whole number from -9223372036854775807 to 9223372036854775807"),
    Type.DOUBLE: (_NUMBERS, "a finite number; a whole number up to 2**53"),
    Type.BOOLEAN: ((types.is_boolean,), "true or false"),
    Type.DATE: (_TIME, "a date in the years 1 to 9999, without a time of day"),
    Type.TIMESTAMP: (_TIME, "a time in the years 1 to 9999, with microsecond precision"),
}
"""For each type of the kit, tests for the Arrow types that can be converted to it, and the rule for the values."""


def convert(column: Arrow, kind: Type) -> Arrow:
    """Convert a column to ``kind``.

    Raises RowError if the column's type cannot be converted, and CellError if a value does not fit.
    """
    given = column.type
    if types.is_dictionary(given):
        return convert(column.cast(given.value_type), kind)
    accepted, rule = _FITS[kind]
    if not types.is_null(given) and not any(test(given) for test in accepted):
        raise RowError(f"its type is {given}, which cannot be converted to {kind.value}")
    try:
        return _cast(column, kind)
    except pa.ArrowInvalid:
        first, end = 0, len(column)
        while end - first > 1:  # binary search: the first value that does not fit is in column[first:end]
            middle = (first + end) // 2
            try:
                _cast(column[first:middle], kind)
                first = middle
            except pa.ArrowInvalid:
                end = middle
    value = column[first]
    try:
        shown = repr(value.cast(pa.binary()).as_py() if kind is Type.STRING else value.as_py())
    except (OverflowError, ValueError):  # a year outside the range of Python's datetime
        shown = f"{value.value} {given}"
    raise CellError(first, f"{shown} does not fit {kind.value}: expected {rule}")


def _cast(column: Arrow, kind: Type) -> Arrow:
    """Cast a column to ``kind``. Raises ArrowInvalid if a value does not fit."""
    column.validate(full=True)  # reading Parquet does not check that text is UTF-8
    given = column.type
    if types.is_floating(given):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    if types.is_timestamp(given) and given.tz is not None:
        column = column.cast(pa.timestamp(given.unit, "UTC")).cast(pa.timestamp(given.unit))
    if kind in CALENDAR:
        moments = column.cast(pa.timestamp("us"))
        low, high = (pa.scalar(limit, pa.timestamp("us")) for limit in CALENDAR[Type.TIMESTAMP])
        fits = pc.and_(pc.greater_equal(moments, low), pc.less_equal(moments, high))
        if kind is Type.DATE:
            fits = pc.and_(fits, pc.equal(moments.cast(pa.date32()).cast(moments.type), moments))
    elif kind is Type.BIGINT:
        fits = pc.not_equal(column.cast(pa.int64()), -(2**63))
    elif kind is Type.DOUBLE:
        fits = pc.is_finite(column.cast(pa.float64()))
    else:
        fits = pa.scalar(True)
    if not pc.all(fits, min_count=0).as_py():  # no values, or NULLs only, fit
        raise pa.ArrowInvalid("outside the range of the type")
    return column.cast(ARROW[kind])
