"""Cells of text as values of the kit's types, and which type a column of text has.

What a text means is what CAST makes of it in a view (:mod:`sharedstate_lite.kernels.casts`);
Arrow does the plain cases, all at once. Beyond that, a TIMESTAMP may carry a zone and
is then taken to UTC, and NaN is a NULL of DOUBLE.

A column's type is the first of BOOLEAN, INT, BIGINT, DOUBLE, DATE and TIMESTAMP of
which every cell is a plain value, else STRING. So ``007`` is the number 7 where
nothing is declared, yes and no are text, and so is a number too large for BIGINT.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute

from sharedstate_lite.changelog.convert import ARROW, CALENDAR, YEARS
from sharedstate_lite.errors import RowError, shorten
from sharedstate_lite.kernels.casts import parse
from sharedstate_lite.plan.nodes import Type

pc: Any = pyarrow.compute  # its stubs know no comparison with a plain value

Arrow = Any
"""An Arrow array, chunked or not; the stubs keep apart what the functions do not."""

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
"""What a cell looks like whose column is taken for the type, in the order of trying."""

_PLAIN = {
    Type.INT: r"-?[0-9]{1,18}",
    Type.BIGINT: r"-?[0-9]{1,18}",
    Type.DOUBLE: r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    Type.DATE: r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    Type.TIMESTAMP: r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?",
}
"""What Arrow and CAST read alike, but for the years that there are."""

_ZONED = re.compile(r"(.*[ T]\d{1,2}:\d{2}.*?)\s*(?:[zZ]|([+-])([01]\d|2[0-3]):?([0-5]\d))", re.ASCII)
_MOMENT = "a timestamp such as 2024-01-31 12:30:00.5 or 2024-01-31T12:30:00+02:00, with six digits of a second at most"
_BLANK = " \t\n\r\f\v"


class CellError(Exception):
    """The cell in ``row``, from 0, is not a value of its column's type; the message says why."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def infer(cells: Arrow) -> Type:
    """The type of a column of text."""
    values = _distinct(cells)
    if len(values):
        for kind, pattern in _INFERRED.items():
            # A whole number too large for BIGINT is more likely a code than a measure: a DOUBLE would drop digits.
            if _all(values, pattern) and not (kind is Type.DOUBLE and _all(values, _INFERRED[Type.BIGINT])):
                try:
                    _values(values, kind)
                except CellError:
                    continue
                return kind
    return Type.STRING


def convert(cells: Arrow, kind: Type) -> Arrow:
    """The cells as values of ``kind``; blank ones are NULL unless it is STRING. Raises CellError."""
    if kind is Type.STRING:
        return cells
    trimmed = pc.utf8_trim(cells, characters=_BLANK)
    cells = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    values = _distinct(cells)
    codes = pc.index_in(cells, value_set=values, skip_nulls=True)
    try:
        converted = _values(values, kind)
    except CellError as error:
        row = pc.index(codes, pa.scalar(error.row, codes.type)).as_py()
        raise CellError(row, str(error)) from None
    chunked: Any = pa.chunked_array
    return chunked([pc.take(converted, chunk) for chunk in codes.chunks], type=ARROW[kind])


def _distinct(cells: Arrow) -> Arrow:
    """The distinct texts in order of appearance, without NULL; for a type other than STRING, trimmed."""
    return cells.unique().drop_null()


def _all(values: Arrow, pattern: str) -> bool:
    trimmed = pc.utf8_trim(values, characters=_BLANK)
    blank = pc.equal(trimmed, "")
    matches = pc.or_(blank, pc.match_substring_regex(trimmed, f"^(?:{pattern})$"))
    return bool(pc.all(matches).as_py()) and not bool(pc.all(blank).as_py())


def _values(texts: Arrow, kind: Type) -> Arrow:
    """Each text's value. Raises CellError with the position of the first text that has none."""
    if kind in _PLAIN and bool(pc.all(pc.match_substring_regex(texts, f"^(?:{_PLAIN[kind]})$")).as_py()):
        try:
            plain = texts.cast(ARROW[kind])
        except pa.ArrowInvalid:
            plain = None
        if plain is not None and not (kind in CALENDAR and bool(pc.any(beyond(plain, kind)).as_py())):
            if kind is not Type.DOUBLE or bool(pc.all(pc.is_finite(plain)).as_py()):
                return plain
    out: list[Any] = []
    for at, text in enumerate(texts.to_pylist()):
        try:
            out.append(_value(text, kind))
        except RowError as error:
            raise CellError(at, str(error)) from None
    if kind is Type.BOOLEAN:
        return pa.array([None if v is None else bool(v) for v in out], type=pa.bool_())
    if kind is Type.DATE:
        return pa.array(out, type=pa.int32()).cast(pa.date32())
    if kind is Type.TIMESTAMP:
        return pa.array(out, type=pa.int64()).cast(pa.timestamp("us"))
    return pa.array(out, type=ARROW[kind])


def _value(text: str, kind: Type) -> int | float | None:
    if text.strip(_BLANK) == "" or (kind is Type.DOUBLE and text.strip(_BLANK).lower() == "nan"):
        return None
    if kind is Type.TIMESTAMP:
        return _moment(text)
    return parse(text.strip(_BLANK) if kind is Type.BOOLEAN else text, kind)


def _moment(text: str) -> int:
    zoned = _ZONED.fullmatch(text.strip(_BLANK))
    try:
        moment = int(parse(zoned[1] if zoned else text, Type.TIMESTAMP))
    except RowError:
        # CAST's own words would forbid the zone, and show the text without it.
        raise RowError(f"{shorten(text)} is not a TIMESTAMP: expected {_MOMENT}") from None
    if zoned:
        ahead = timedelta(hours=int(zoned[3] or 0), minutes=int(zoned[4] or 0)) // timedelta(microseconds=1)
        moment -= -ahead if zoned[2] == "-" else ahead
        if not CALENDAR[Type.TIMESTAMP][0] <= moment <= CALENDAR[Type.TIMESTAMP][1]:
            raise RowError(f"{shorten(text)}, taken to UTC, {YEARS}")
    return moment


def beyond(moments: Arrow, kind: Type) -> Arrow:
    """True where a DATE or TIMESTAMP, in Arrow's type of it, lies outside the years that there are."""
    numbers = moments.cast(pa.int32()).cast(pa.int64()) if kind is Type.DATE else moments.cast(pa.int64())
    return pc.or_(pc.less(numbers, CALENDAR[kind][0]), pc.greater(numbers, CALENDAR[kind][1]))
