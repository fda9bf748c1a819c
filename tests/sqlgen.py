"""Hypothesis strategies for SQL: rows with NULLs and extreme values, and well-typed expressions as text."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.encoding import Dictionary, Words, from_doubles

DECLARED = (
    "i INT, j INT, b BIGINT, c BIGINT, d DOUBLE, e DOUBLE, s STRING, t STRING, p BOOLEAN, q BOOLEAN, "
    "x DATE, y DATE, m TIMESTAMP, n TIMESTAMP"
)
"""A relation with two columns of each type."""

COLUMNS = {
    "INT": "ij",
    "BIGINT": "bc",
    "DOUBLE": "de",
    "STRING": "st",
    "BOOLEAN": "pq",
    "DATE": "xy",
    "TIMESTAMP": "mn",
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.one_of(st.integers(-3, 3), st.sampled_from([-(2**31), 2**31 - 1])),
    "BIGINT": st.one_of(st.integers(-3, 3), st.sampled_from([1 - 2**63, 2**63 - 1, 2**53 + 1, -(2**31)])),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, 0.5, -7.5, 0.1, 1e308, -1e308, 5e-324, 2.0**53]),
    "STRING": st.sampled_from(["", "a", "b", "ab", "B", "é", "\uffff", "\U00010000", "12", "-3", "'"]),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.sampled_from([date(1970, 1, 1), date(2024, 2, 29)]),
    "TIMESTAMP": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
    | st.sampled_from([datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)]),
}

ROW = st.tuples(*(st.none() | VALUES[kind] for kind, names in COLUMNS.items() for _ in names))


def frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Return drawn rows as a frame of objects."""
    names = [n for names in COLUMNS.values() for n in names]
    return pd.DataFrame({n: pd.Series([r[i] for r in rows], dtype=object) for i, n in enumerate(names)})


def words(rows: list[tuple[Any, ...]], strings: Dictionary) -> Words:
    """Return drawn rows as words, without the library's conversion."""
    kinds = [Type(kind) for kind, names in COLUMNS.items() for _ in names]
    columns = [[word(r[i], kind, strings) for r in rows] for i, kind in enumerate(kinds)]
    return np.array(columns, dtype=np.int64).reshape(len(kinds), len(rows))


def word(value: Any, kind: Type, strings: Dictionary) -> int:
    if value is None:
        return -(2**63)
    if kind is Type.STRING:
        return strings.code(value)
    if kind is Type.DOUBLE:
        return int(from_doubles(np.array([value]))[0])
    if kind is Type.DATE:
        return (value - date(1970, 1, 1)).days
    if kind is Type.TIMESTAMP:
        gap = value - datetime(1970, 1, 1)
        return (gap.days * 86400 + gap.seconds) * 10**6 + gap.microseconds
    return int(value)


def value(word: int, kind: Type, strings: Dictionary) -> Any:
    """Return a word as a Python value."""
    if word == -(2**63):
        return None
    if kind is Type.STRING:
        return strings.texts(np.array([word]))[0]
    if kind is Type.DOUBLE:
        return float(np.array([word]).view(np.float64)[0])
    if kind is Type.DATE:
        return date.fromordinal(date(1970, 1, 1).toordinal() + int(word))
    if kind is Type.TIMESTAMP:
        return pd.Timestamp(int(word), unit="us").to_pydatetime()
    return bool(word) if kind is Type.BOOLEAN else int(word)


LITERALS = {
    "INT": ["0", "1", "-1", "2", "-2147483648", "2147483647"],
    "BIGINT": ["3000000000", "-9223372036854775807", "CAST(2 AS BIGINT)"],
    "DOUBLE": ["0.0", "1.5", "-2.5", "1e308", "3.", ".1"],
    "STRING": ["'a'", "''", "'b'", "'it''s'"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "DATE": ["DATE '2024-02-29'", "CAST('1970-01-01' AS DATE)"],
    "TIMESTAMP": ["TIMESTAMP '2024-02-29 00:00:00'", "TIMESTAMP '1969-12-31 23:59:59.999999'"],
}
WIDER = {
    "INT": ["INT"],
    "BIGINT": ["INT", "BIGINT"],
    "DOUBLE": ["INT", "BIGINT", "DOUBLE"],
    "TIMESTAMP": ["DATE", "TIMESTAMP"],
}
CASTS = [
    ("INT", "BIGINT"), ("INT", "DOUBLE"), ("BIGINT", "INT"), ("BIGINT", "DOUBLE"), ("DOUBLE", "INT"),
    ("DOUBLE", "BIGINT"),
    ("BOOLEAN", "INT"), ("INT", "BOOLEAN"), ("DOUBLE", "BOOLEAN"), ("BOOLEAN", "DOUBLE"), ("BOOLEAN", "BIGINT"),
    ("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("INT", "STRING"), ("BIGINT", "STRING"), ("BOOLEAN", "STRING"),
    ("DATE", "STRING"), ("TIMESTAMP", "STRING"),
]  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, kind: str, depth: int = 3) -> str:
    """Return the text of an expression of type ``kind`` over `DECLARED`."""

    def sub(of: str) -> str:
        return draw(expressions(of, depth - 1))

    leaf = draw(st.sampled_from([*COLUMNS[kind], *LITERALS[kind]]))
    if depth == 0:
        return leaf
    forms = ["leaf", "case", "coalesce", "cast"]
    if kind in ("INT", "BIGINT", "DOUBLE"):
        forms += ["arithmetic", "arithmetic", "neg"] + (["/"] if kind == "DOUBLE" else [])
    if kind == "BOOLEAN":
        forms += ["compare", "compare", "in", "between", "logic", "logic", "not", "null", "simple"]
    form = draw(st.sampled_from(forms))
    if form == "arithmetic":
        left = draw(st.sampled_from(WIDER[kind]))
        sides = draw(st.permutations([sub(kind), sub(left)]))
        return f"({sides[0]} {draw(st.sampled_from('+-*%'))} {sides[1]})"
    if form == "/":
        sides = [sub(draw(st.sampled_from(WIDER["DOUBLE"]))) for _ in range(2)]
        return f"({sides[0]} / {sides[1]})"
    if form == "neg":
        return f"(- {sub(kind)})"
    if form == "case":
        part = draw(st.sampled_from(WIDER.get(kind, [kind])))
        return f"CASE WHEN {sub('BOOLEAN')} THEN {sub(kind)} ELSE {draw(st.sampled_from(['NULL', sub(part)]))} END"
    if form == "coalesce":
        return f"COALESCE({sub(kind)}, {sub(draw(st.sampled_from(WIDER.get(kind, [kind]))))})"
    if form == "cast":
        sources = [a for a, b in CASTS if b == kind]
        return f"CAST({sub(draw(st.sampled_from(sources)))} AS {kind})" if sources else leaf
    if form == "logic":
        return f"({sub('BOOLEAN')} {draw(st.sampled_from(['AND', 'OR']))} {sub('BOOLEAN')})"
    if form == "not":
        return f"(NOT {sub('BOOLEAN')})"
    if form in ("compare", "in", "between", "null", "simple"):
        of = draw(st.sampled_from(sorted(COLUMNS)))
        other = draw(st.sampled_from(WIDER.get(of, [of])))
        if form == "compare":
            return f"({sub(of)} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {sub(other)})"
        if form == "in":
            extra = draw(st.sampled_from(["", ", NULL"]))
            return f"({sub(of)} {draw(st.sampled_from(['', 'NOT ']))}IN ({sub(of)}, {sub(other)}{extra}))"
        if form == "between":
            return f"({sub(of)} BETWEEN {sub(other)} AND {sub(of)})"
        if form == "null":
            return f"({sub(of)} IS {draw(st.sampled_from(['', 'NOT ']))}NULL)"
        return f"CASE {sub(of)} WHEN {sub(of)} THEN {sub('BOOLEAN')} WHEN {sub(of)} THEN {sub('BOOLEAN')} END"
    return leaf
