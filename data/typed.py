"""Columns that have a type already, Parquet's, as columns of the kit's types.

Nothing is parsed and no digit of a whole number dropped: text is no number, a fraction no
INT, and what does not fit is refused with its row. A decimal is a DOUBLE, the nearest one,
where it is declared so. NaN is NULL, as everywhere in the kit; a
timestamp with a zone is taken to UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyarrow import types

from sharedstate_lite.changelog.convert import ARROW, YEARS
from sharedstate_lite.errors import RowError, shorten
from sharedstate_lite.kernels.casts import LIMITS
from sharedstate_lite.plan.nodes import Type

from .cells import Arrow, CellError, beyond

pc: Any = pyarrow.compute  # its stubs know no comparison with a plain value

_SMALL = (types.is_int8, types.is_int16, types.is_int32, types.is_uint8, types.is_uint16)


def infer(given: pa.DataType) -> Type | None:
    """The kit's type that holds every value of an Arrow type; None where there is none."""
    plain = given.value_type if types.is_dictionary(given) else given
    if any(test(plain) for test in _SMALL):
        return Type.INT
    for test, kind in (
        (types.is_integer, Type.BIGINT),
        (types.is_floating, Type.DOUBLE),
        (types.is_boolean, Type.BOOLEAN),
        (types.is_date, Type.DATE),
        (types.is_timestamp, Type.TIMESTAMP),
        (_is_text, Type.STRING),
        (types.is_null, Type.STRING),
    ):
        if test(plain):
            return kind
    return None


def convert(column: Arrow, kind: Type) -> Arrow:
    """The column's values as ``kind``. Raises CellError for a value, RowError for a type, that does not fit."""
    given = column.type
    if types.is_dictionary(given):
        column = column.cast(given.value_type)
        given = column.type
    if types.is_null(given) or (_is_text(given) and kind is Type.STRING):
        _refuse_bytes(column)
        return column.cast(ARROW[kind])
    if types.is_boolean(given) and kind is Type.BOOLEAN:
        return column
    if kind in LIMITS and (types.is_integer(given) or types.is_floating(given) or types.is_decimal(given)):
        return _whole(column, kind)
    if kind is Type.DOUBLE and (types.is_integer(given) or types.is_floating(given) or types.is_decimal(given)):
        return _double(column)
    if kind in (Type.DATE, Type.TIMESTAMP) and (types.is_date(given) or types.is_timestamp(given)):
        return _moment(column, kind)
    raise RowError(f"it holds {given}, which is no {kind.value}")


def _is_text(given: pa.DataType) -> bool:
    return types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)


def _refuse_bytes(column: Arrow) -> None:
    """Raise CellError for the first text that is none: Arrow reads a file's bytes without a look at them."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise CellError(row, f"{shorten(value)} is not UTF-8") from None
        raise RowError(f"it cannot be read ({error})") from error


def _refuse(column: Arrow, bad: Arrow, rule: str) -> None:
    """Raise CellError for the first row where ``bad`` is true."""
    row = pc.index(bad, pa.scalar(True)).as_py()
    if row >= 0:
        try:
            shown = repr(column[row].as_py())
        except (OverflowError, ValueError):
            shown = f"{column[row].value} {column.type}"  # beyond what Python can show
        raise CellError(row, f"{shown} {rule}")


def _whole(column: Arrow, kind: Type) -> Arrow:
    low, high = LIMITS[kind]
    # Arrow computes nothing with halves.
    values = column = column.cast(pa.float32()) if types.is_float16(column.type) else column
    if types.is_floating(column.type):
        values = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if not types.is_integer(column.type):
        _refuse(
            values,
            pc.not_equal(values, pc.floor(values)),
            f"has a fraction; declare the column DOUBLE, {kind.value} has none",
        )
    # Compared as decimals, in which every number of every whole type, and these limits, can be written.
    exact = values.cast(pa.float64()) if types.is_floating(values.type) else values.cast(pa.decimal256(76, 0))
    if types.is_floating(values.type):
        # One beyond each limit: BIGINT's own, which are no doubles, would be rounded to what it does not hold.
        outside = pc.or_(pc.less_equal(exact, float(low - 1)), pc.greater_equal(exact, float(high + 1)))
    else:
        outside = pc.or_(pc.less(exact, pa.scalar(low, exact.type)), pc.greater(exact, pa.scalar(high, exact.type)))
    _refuse(values, outside, f"does not fit {kind.value}")
    return exact.cast(ARROW[kind])


def _double(column: Arrow) -> Arrow:
    values = pc.cast(column, pa.float64(), safe=False)
    if types.is_integer(column.type):
        # Back again; what was rounded up to the first number past the type is not cast, as that has no one answer.
        past = pc.greater_equal(values, 2.0**64 if types.is_uint64(column.type) else 2.0**63)
        back = pc.cast(pc.if_else(past, 0.0, values), column.type, safe=False)
        lost = pc.or_(past, pc.not_equal(back, column))
        _refuse(column, lost, "has more digits than a DOUBLE holds")
    _refuse(column, pc.is_inf(values), "is infinite; a DOUBLE is finite, NULL stands for unknown")
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)


def _moment(column: Arrow, kind: Type) -> Arrow:
    given = column.type
    if types.is_date(given):
        days = column.cast(pa.date32())
        _refuse(days, beyond(days, Type.DATE), YEARS)
        return days if kind is Type.DATE else days.cast(pa.timestamp("us"))
    if given.tz is not None:
        column = column.cast(pa.timestamp(given.unit, "UTC")).cast(pa.timestamp(given.unit))
    micros = pc.cast(column, pa.timestamp("us"), safe=False)
    rule = "has nanoseconds; a TIMESTAMP counts microseconds" if given.unit == "ns" else "is out of range"
    _refuse(column, pc.not_equal(pc.cast(micros, column.type, safe=False), column), rule)
    _refuse(micros, beyond(micros, Type.TIMESTAMP), YEARS)
    if kind is Type.TIMESTAMP:
        return micros
    days = pc.cast(micros, pa.date32(), safe=False)
    _refuse(column, pc.not_equal(days.cast(pa.timestamp("us")), micros), "has a time of day; a DATE has none")
    return days
