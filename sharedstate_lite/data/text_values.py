"""Converts columns of strings to columns of the kit's types.

A string is converted in the same way as by CAST in a view (`sharedstate_lite.kernels.casts`), with two more rules. A
TIMESTAMP can have a time zone, and is then converted to UTC. In a DOUBLE column, ``nan`` becomes NULL.

Without a declaration, a column gets the first of the types BOOLEAN, INT, BIGINT, DOUBLE, DATE and TIMESTAMP that fits
all of its cells. If none fits, its type is STRING. For example, ``007`` is the number 7, but ``yes`` and a whole number
outside the range of BIGINT are text.

Other programs also write values in a form that does not say what it means: 3/4/2024 is a day in March or in April. Such
cells are text until the caller names the form, one of `FORMS`. `rewritten` then replaces each cell by the kit's form.
"""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute

from ..changelog.convert import ARROW, CALENDAR, YEARS
from ..errors import RowError, shorten
from ..kernels.casts import parse
from ..plan.nodes import Type

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

_DAY, _MONTH, _YEAR = "(0?[1-9]|[12][0-9]|3[01])", "(0?[1-9]|1[0-2])", "([0-9]{4})"
_CLOCK = r"( +[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_PADDED = (r"([- ])([0-9])\b", r"\10\2")
"""The last step of a date's form: 2024-3-4 9:05 becomes 2024-03-04 09:05."""
_DATE = r"^([0-9]+)[./]([0-9]+)[./]([0-9]+)"

FORMS: dict[str, tuple[Type, str, list[tuple[str, str]]]] = {
    "31.1.2024": (Type.DATE, rf"{_DAY}\.{_MONTH}\.{_YEAR}{_CLOCK}", [(_DATE, r"\3-\2-\1"), _PADDED]),
    "31/1/2024": (Type.DATE, f"{_DAY}/{_MONTH}/{_YEAR}{_CLOCK}", [(_DATE, r"\3-\2-\1"), _PADDED]),
    "1/31/2024": (Type.DATE, f"{_MONTH}/{_DAY}/{_YEAR}{_CLOCK}", [(_DATE, r"\3-\1-\2"), _PADDED]),
    "1.234,5": (Type.DOUBLE, r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?", [(r"\.", ""), (",", ".")]),
    "1,234.5": (Type.DOUBLE, r"[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?", [(",", "")]),
    "50%": (Type.DOUBLE, r"[+-]?[0-9]+(\.[0-9]+|,([0-9]{1,2}|[0-9]{4,}))? ?%", [(",", "."), (" ?%", "e-2")]),
}
"""Form, named by an example -> type, pattern of its cells, and the replacements that lead to the kit's form."""

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


def forms(cells: Arrow) -> dict[str, Type]:
    """Return the `FORMS` in which all cells are written, each with the type that the cells then have.

    There are two if a cell such as 3/4/2024 can be read in two ways, and none if the cells are in the kit's form.
    """
    texts = _trimmed(cells).unique().drop_null()
    fitting = [f for f, (_, pattern, _) in FORMS.items() if _match(texts[:1], pattern) and _match(texts, pattern)]
    if not fitting or infer(texts) is not Type.STRING:
        return {}
    kinds = {form: infer(rewritten(texts, form)) for form in fitting}
    return {form: kind for form, kind in kinds.items() if kind is not Type.STRING}


def exception(cells: Arrow) -> tuple[str, int, int] | None:
    """Return what more than half of the cells are, such as "number", how many, and the row of the first that is none.

    Numbers count even if they have separators of thousands. NULL and blank cells do not count. None if there is no
    such row.
    """
    cells = _trimmed(cells)
    for what, kind, form in (("number", Type.DOUBLE, "1,234.5"), ("date", Type.TIMESTAMP, None)):
        plain = pc.match_substring_regex(cells, f"^(?:{_INFERRED[kind]})$")
        like = pc.or_(plain, pc.match_substring_regex(cells, f"^(?:{FORMS[form][1]})$")) if form else plain
        count = pc.sum(like).as_py() or 0
        row = pc.index(plain, pa.scalar(False)).as_py()
        if 2 * count > len(cells) - cells.null_count and row >= 0:
            return what, count, row
    return None


def rewritten(cells: Arrow, form: str) -> Arrow:
    """Return the cells in the kit's form. Raises CellError for the first cell that is not written in ``form``."""
    cells = _trimmed(cells)
    _, pattern, replacements = FORMS[form]
    wrong = pc.invert(pc.match_substring_regex(cells, f"^(?:{pattern})$"))
    if (row := pc.index(wrong, pa.scalar(True)).as_py()) >= 0:
        raise CellError(row, f"{shorten(cells[row].as_py())} is not written in the form {form!r}")
    for old, new in replacements:
        cells = pc.replace_substring_regex(cells, old, new)
    return cells


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
