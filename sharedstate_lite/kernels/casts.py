"""CAST between column types, and parsing text as a value of a type.

Text is parsed strictly. Only ISO dates and decimal numbers are accepted, because databases disagree about looser
formats. A DOUBLE is rounded half to even, as in DuckDB. Conversions from and to text run once per distinct value. All
other conversions are array operations.

>>> cast(from_doubles(np.array([2.5, 3.5, np.nan])), Type.DOUBLE, Type.INT, Dictionary()).tolist() == [2, 4, NULL]
True
>>> parse("1970-01-03", Type.DATE)
2
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from ..errors import RowError
from ..plan.explain import value_text
from ..plan.nodes import Type
from ..storage.encoding import NULL, Dictionary, Words, doubles, from_doubles

LIMITS = {Type.INT: (-(2**31), 2**31 - 1), Type.BIGINT: (-(2**63) + 1, 2**63 - 1)}
"""The smallest and the largest value of each integer type. -2**63 is excluded, because it is the word for NULL."""

ALLOWED: dict[Type, frozenset[Type]] = {
    Type.STRING: frozenset(Type),
    Type.INT: frozenset({Type.STRING, Type.INT, Type.BIGINT, Type.DOUBLE, Type.BOOLEAN}),
    Type.BIGINT: frozenset({Type.STRING, Type.INT, Type.BIGINT, Type.DOUBLE, Type.BOOLEAN}),
    Type.DOUBLE: frozenset({Type.INT, Type.BIGINT, Type.DOUBLE, Type.BOOLEAN}),
    Type.BOOLEAN: frozenset({Type.STRING, Type.INT, Type.BIGINT, Type.DOUBLE, Type.BOOLEAN}),
    Type.DATE: frozenset({Type.STRING, Type.DATE, Type.TIMESTAMP}),
    Type.TIMESTAMP: frozenset({Type.STRING, Type.DATE, Type.TIMESTAMP}),
}
"""For each source type, the types that it can be cast to."""

GUARD = "remove the CAST, or guard it: CASE WHEN ... THEN CAST(...) END"
"""The advice at the end of the error messages about casts."""

_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"([+-]?)0*(\d+)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?", re.ASCII)
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_FORM = {
    Type.INT: "a whole number such as -12",
    Type.BIGINT: "a whole number such as -12",
    Type.DOUBLE: "a finite number such as 1.5 or 2e3",
    Type.BOOLEAN: "true or false",
    Type.DATE: "a date such as 2024-01-31",
    Type.TIMESTAMP: "a timestamp such as 2024-01-31 12:30:00.5, with at most six decimal places and no time zone",
}


def parse(text: str, target: Type) -> int | float:
    """Parse text as a value of type ``target``. Raises RowError if the text is not valid or the value is out of range.

    A DATE is returned in days and a TIMESTAMP in microseconds since 1970-01-01, and a BOOLEAN as 0 or 1.
    """
    value = _read(text.strip(" \t\n\r\f\v") if target is not Type.BOOLEAN else text.lower(), target)
    if value is None:
        raise RowError(f"{text!r} is not a valid {target.value}: expected {_FORM[target]}")
    if target in LIMITS and not LIMITS[target][0] <= value <= LIMITS[target][1]:
        low, high = LIMITS[target]
        raise RowError(f"{text!r} is out of range for {target.value}: expected a number from {low} to {high}")
    return value


def _read(text: str, target: Type) -> int | float | None:
    if target in LIMITS:
        whole = _WHOLE.fullmatch(text)
        # int() rejects more than 4,300 digits, and 40 are enough to exceed every limit.
        return int(whole[1] + whole[2][:40]) if whole else None
    if target is Type.DOUBLE:
        value = float(text) if _NUMBER.fullmatch(text) else np.inf
        return value if np.isfinite(value) else None
    if target is Type.BOOLEAN:
        return 1 if text in _TRUE else 0 if text in _FALSE else None
    found = (_DATE if target is Type.DATE else _TIMESTAMP).fullmatch(text)
    if found is None:
        return None
    parts = [int(p or 0) for p in found.groups()[:6]]
    try:
        moment = datetime(*parts, tzinfo=UTC) - _EPOCH  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    if target is Type.DATE:
        return moment.days
    return moment // timedelta(microseconds=1) + int((found[7] or "").ljust(6, "0"))


def cast(words: Words, source: Type, target: Type, strings: Dictionary) -> Words:
    """Convert words int64[n] from type ``source`` to type ``target``. NULL stays NULL.

    Raises RowError for the first value that is out of range or cannot be parsed.
    """
    if source is target or (source, target) == (Type.INT, Type.BIGINT):
        return words
    if source is Type.STRING:
        return _distinct(words, lambda codes: _parsed(strings.texts(codes).tolist(), target))
    if target is Type.STRING:
        return _distinct(words, lambda values: strings.codes(value_text(v, source) for v in values.tolist()))
    null = words == NULL
    if target is Type.DOUBLE:
        return from_doubles(np.where(null, np.nan, words.astype(np.float64)))
    if source is Type.DOUBLE:
        values = doubles(words)
        if target is Type.BOOLEAN:
            return np.where(null, NULL, (values != 0).astype(np.int64))
        return _rounded(np.where(null, 0.0, values), null, target)
    if target is Type.BOOLEAN:
        return np.where(null, NULL, (words != 0).astype(np.int64))
    if source is Type.TIMESTAMP:
        return np.where(null, NULL, words // _DAY)
    if source is Type.DATE:
        return _fitting(np.where(null, 0, words), null, 2**63 // _DAY, "DATE at day", target) * np.where(null, 1, _DAY)
    if target is Type.INT and source is Type.BIGINT:
        return _fitting(np.where(null, 0, words), null, 2**31 - 1, "BIGINT", target, low=-(2**31))
    return words  # BOOLEAN to INT or BIGINT


def _fitting(
    values: Words, null: npt.NDArray[np.bool_], high: int, what: str, to: Type, low: int | None = None
) -> Words:
    bad = (values > high) | (values < (-high if low is None else low))
    if bad.any():
        raise RowError(f"{what} {values[bad][0]} is out of range for {to.value}; {GUARD}")
    return np.where(null, NULL, values)


def _rounded(values: npt.NDArray[np.float64], null: npt.NDArray[np.bool_], target: Type) -> Words:
    whole = np.rint(values)
    low, high = LIMITS[target]
    # float(2**63 - 1) is 2**63, so the bounds themselves are out of range for BIGINT.
    bad = (whole < low) | (whole > high) if target is Type.INT else (whole <= -(2.0**63)) | (whole >= 2.0**63)
    if bad.any():
        raise RowError(f"DOUBLE {values[bad][0]} is out of range for {target.value}; {GUARD}")
    return np.where(null, NULL, whole.astype(np.int64))


def _distinct(words: Words, convert: Callable[[Words], Words]) -> Words:
    """Apply ``convert`` once to each distinct word that is not NULL."""
    out = np.full(len(words), NULL, dtype=np.int64)
    present = words != NULL
    if present.any():
        values, where = np.unique(words[present], return_inverse=True)
        out[present] = convert(values)[where]
    return out


def _parsed(texts: list[str], target: Type) -> Words:
    values = [parse(text, target) for text in texts]
    if target is Type.DOUBLE:
        return from_doubles(np.array(values, dtype=np.float64))
    return np.array(values, dtype=np.int64)
