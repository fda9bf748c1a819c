"""Columns of text as columns of the kit's types.

A text has the value that CAST gives it in a view (`sharedstate_lite.kernels.casts`). Two rules are added: a TIMESTAMP
may have a zone and is converted to UTC, and ``nan`` is a NULL DOUBLE.

Without a declaration, a column has the first type of BOOLEAN, INT, BIGINT, DOUBLE, DATE and TIMESTAMP that fits all of
its cells, otherwise STRING. So ``007`` is the number 7, ``yes`` is text, and so is a whole number beyond BIGINT.
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

pc: Any = pyarrow.compute  # its stubs have no comparison with a scalar

Arrow = Any
"""An Arrow array, chunked or not; the stubs separate them where the functions do not."""

_INFERRED = {
    Type.BOOLEAN: r"(?i:true|false)",
    Type.INT: r"[+-]?[0-9]+",
    Type.BIGINT: r"[+-]?[0-9]+",
    Type.DOUBLE: r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    Type.DATE: r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    Type.TIMESTAMP: (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
        r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
    ),
}
"""What the cells of an undeclared column of each type look like, in the order of trying."""

_PLAIN = {
    Type.INT: r"-?[0-9]{1,18}",
    Type.BIGINT: r"-?[0-9]{1,18}",
    Type.DOUBLE: r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
}
"""Texts that Arrow converts as CAST does, and much faster."""

_ZONED = re.compile(r"(.*[ T]\d{1,2}:\d{2}.*?)\s*(?:[zZ]|([+-])([01]\d|2[0-3]):?([0-5]\d))", re.ASCII)
_MOMENT = "a timestamp such as 2024-01-31 12:30:00.5 or 2024-01-31T12:30:00+02:00, with at most six digits of a second"
_BLANK = " \t\n\r\f\v"


class CellError(Exception):
    """The cell in ``row``, from 0, does not fit the type of its column; the message says why."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def infer(cells: Arrow) -> Type:
    """The type of a column of text."""
    texts = _trimmed(cells).unique().drop_null()
    for kind, pattern in _INFERRED.items():
        # A whole number beyond BIGINT is an identifier rather than a measurement: a DOUBLE would drop its digits.
        if _match(texts, pattern) and not (kind is Type.DOUBLE and _match(texts, _INFERRED[Type.BIGINT])):
            with contextlib.suppress(CellError):
                _values(texts, kind)
                return kind
    return Type.STRING


def convert(cells: Arrow, kind: Type) -> Arrow:
    """The cells as values of ``kind``; blank cells are NULL unless it is STRING. Raises CellError."""
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
    """The cells without blanks around them; NULL if nothing is left."""
    trimmed = pc.utf8_trim(cells, characters=_BLANK)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _match(texts: Arrow, pattern: str) -> bool:
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _values(texts: Arrow, kind: Type) -> Arrow:
    """The value of each text. Raises CellError with the position of the first text without one."""
    if kind in _PLAIN and _match(texts, _PLAIN[kind]):
        with contextlib.suppress(pa.ArrowInvalid):  # beyond INT
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
    except RowError:  # CAST's message forbids a zone, and shows the text without it
        raise RowError(f"{shorten(text)} is not a TIMESTAMP: expected {_MOMENT}") from None
    if zoned:
        ahead = timedelta(hours=int(zoned[3] or 0), minutes=int(zoned[4] or 0)) // timedelta(microseconds=1)
        moment += ahead if zoned[2] == "-" else -ahead
        if not CALENDAR[kind][0] <= moment <= CALENDAR[kind][1]:
            raise RowError(f"{shorten(text)}, converted to UTC, {YEARS}")
    return moment
