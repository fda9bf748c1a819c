"""Converts columns of strings to columns of the kit's types.

A string is converted in the same way as by CAST in a view (`sharedstate_lite.kernels.casts`), with two more rules. A
TIMESTAMP can have a time zone, and is then converted to UTC. In a DOUBLE column, ``nan`` becomes NULL.

Without a declaration, a column gets the first of the types BOOLEAN, INT, BIGINT, DOUBLE, DATE and TIMESTAMP that fits
all of its cells. If none fits, its type is STRING. For example, ``007`` is the number 7, but ``yes`` and a whole number
outside the range of BIGINT are text.
"""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute

from sharedstate_lite.changelog.convert import ARROW, CALENDAR, YEARS
from sharedstate_lite.errors import RowError, shorten
from sharedstate_lite.kernels.casts import parse
from sharedstate_lite.plan.nodes import Type

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

Arrow = Any
"""An Arrow array or chunked array. Arrow's functions accept both, but its type stubs do not."""

_INFERRED = {
    Type.BOOLEAN: r"(?i:true|false)",
    Type.INT: r"[+-]?[0-9]+",
    Type.BIGINT: r"[+-]?[0-9]+",
    Type.DOUBLE: r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    Type.DATE: r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    Type.TIMESTAMP: (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
        r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
    ),
}
"""Type -> pattern that all cells of an undeclared column must match, in the order in which the types are tried."""

_PLAIN = {
    Type.INT: r"-?[0-9]{1,18}",
    Type.BIGINT: r"-?[0-9]{1,18}",
    Type.DOUBLE: r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
}
"""Type -> pattern of strings for which Arrow's cast gives the same value as CAST. It is much faster."""

_ZONED = re.compile(r"(.*[ T]\d{1,2}:\d{2}.*?)\s*(?:[zZ]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)", re.ASCII)
_MOMENT = "a timestamp such as 2024-01-31 12:30:00.5 or 2024-01-31T12:30:00+02:00, with at most six decimal places"
_BLANK = " \t\n\r\f\v"


class CellError(Exception):
    """Raised if a cell does not fit the type of its column. ``row`` is its row, counted from 0."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def infer(cells: Arrow) -> Type:
    """Return the type of an undeclared column from its cells, an array of strings."""
    texts = _trimmed(cells).unique().drop_null()
    for kind, pattern in _INFERRED.items():
        # A whole number outside the range of BIGINT is probably an identifier, and a DOUBLE would lose its last digits.
        if _match(texts, pattern) and not (kind is Type.DOUBLE and _match(texts, _INFERRED[Type.BIGINT])):
            with contextlib.suppress(CellError):
                _values(texts, kind)
                return kind
    return Type.STRING


def convert(cells: Arrow, kind: Type) -> Arrow:
    """Convert cells to values of ``kind``. Blank cells become NULL, unless ``kind`` is STRING.

    Raises CellError for the first cell that cannot be converted.
    """
    if kind is Type.STRING:
        return cells
    cells = _trimmed(cells)
    texts = cells.unique().drop_null()
    positions = pc.index_in(cells, value_set=texts, skip_nulls=True)
    try:
        values = _values(texts, kind)
    except CellError as error:
        raise CellError(pc.index(positions, pa.scalar(error.row, positions.type)).as_py(), str(error)) from None
    return pc.take(values, positions)


def _trimmed(cells: Arrow) -> Arrow:
    """Remove the blanks around each cell. A cell without other characters becomes NULL."""
    trimmed = pc.utf8_trim(cells, characters=_BLANK)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _match(texts: Arrow, pattern: str) -> bool:
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _values(texts: Arrow, kind: Type) -> Arrow:
    """Return the value of each string as ``kind``. Raises CellError for the first string that cannot be converted."""
    if kind in _PLAIN and _match(texts, _PLAIN[kind]):
        with contextlib.suppress(pa.ArrowInvalid):  # a value is outside the range of INT
            values = texts.cast(ARROW[kind])
            if pc.all(pc.is_finite(values)).as_py():
                return values
    found: list[Any] = []
    for at, text in enumerate(texts.to_pylist()):
        try:
            found.append(_value(text, kind))
        except RowError as error:
            raise CellError(at, str(error)) from None
    storage = {Type.BOOLEAN: pa.int8(), Type.DATE: pa.int32(), Type.TIMESTAMP: pa.int64()}.get(kind, ARROW[kind])
    return pa.array(found, type=storage).cast(ARROW[kind])


def _value(text: str, kind: Type) -> int | float | None:
    if kind is Type.DOUBLE and text.lower() == "nan":
        return None
    if kind is not Type.TIMESTAMP:
        return parse(text, kind)
    zoned = _ZONED.fullmatch(text)
    try:
        moment = int(parse(zoned[1] if zoned else text, kind))
    except RowError:  # CAST's message would not mention time zones
        raise RowError(f"{shorten(text)} is not a valid TIMESTAMP: expected {_MOMENT}") from None
    if zoned:
        ahead = timedelta(hours=int(zoned[3] or 0), minutes=int(zoned[4] or 0)) // timedelta(microseconds=1)
        moment += ahead if zoned[2] == "-" else -ahead
        if not CALENDAR[kind][0] <= moment <= CALENDAR[kind][1]:
            raise RowError(f"{shorten(text)}, converted to UTC, {YEARS}")
    return moment
