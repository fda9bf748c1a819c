"""Evaluation of SQL expressions over columns of words.

Logic is three-valued. ``/`` returns a DOUBLE, and other arithmetic keeps the type of its operands. x/0 and x%0 are
NULL. The result of ``%`` has the sign of the left operand, as with fmod. Strings are compared by code point. Integer
overflow, an infinite DOUBLE, and text that cannot be parsed raise RowError.

CASE and COALESCE evaluate a branch only for the rows that need it. AND and OR evaluate their operands from left to
right, each only for the rows whose result is not decided yet. A condition can therefore protect the operands after it
from rows that would raise an error.

Expressions are evaluated one column at a time (MonetDB/X100, Boncz et al., CIDR 2005). A constant is a column of
length 1, which NumPy broadcasts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import RowError
from ..plan.nodes import Call, Col, Expr, Lit, Type
from ..storage.encoding import NULL, Dictionary, Words, doubles, from_doubles
from .casts import LIMITS, cast

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": np.fmod,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expr: Expr, rows: Words, strings: Dictionary) -> Words:
    """Return the value of ``expr`` for each row of int64[k, n], as words int64[n].

    Do not write to the result, because for a plain column it is a view of ``rows``. Raises RowError if a value
    overflows, is infinite or cannot be cast.
    """
    if isinstance(expr, Col):
        out: Words = rows[expr.index]
        return out
    n = rows.shape[1]
    if n == 0:
        return np.empty(0, dtype=np.int64)
    return _full(_Batch(rows, None, strings).value(expr), n)


def columns_of(expr: Expr) -> set[int]:
    """Return the input columns that ``expr`` reads."""
    if isinstance(expr, Col):
        return {expr.index}
    return set().union(*map(columns_of, expr.args)) if isinstance(expr, Call) else set()


def remap(expr: Expr, mapping: Sequence[int | Expr]) -> Expr:
    """Return ``expr`` with column i replaced by ``mapping[i]``, a column index or an expression."""
    if isinstance(expr, Col):
        to = mapping[expr.index]
        return Col(to, expr.type) if isinstance(to, int) else to
    if isinstance(expr, Call):
        return Call(expr.op, tuple(remap(a, mapping) for a in expr.args), expr.type)
    return expr


def _full(words: Words, n: int) -> Words:
    return words if len(words) == n else np.repeat(words, n)


class _Batch:
    """The rows for which an expression is evaluated: those at the positions ``chosen``, or all rows if it is None."""

    def __init__(self, rows: Rows, chosen: npt.NDArray[np.intp] | None, strings: Dictionary) -> None:
        self.rows, self.chosen, self.strings = rows, chosen, strings
        self.n = rows.shape[1] if chosen is None else len(chosen)

    def part(self, where: npt.NDArray[np.intp]) -> _Batch:
        """Return the rows at the positions ``where`` as a batch. A column is copied only when it is read."""
        if len(where) == self.n:
            return self
        return _Batch(self.rows, where if self.chosen is None else self.chosen[where], self.strings)

    def value(self, expr: Expr) -> Words:
        """Return the words of ``expr``: int64[n], or int64[1] for a constant."""
        if isinstance(expr, Col):
            column: Words = self.rows[expr.index]
            return column if self.chosen is None else column[self.chosen]
        if isinstance(expr, Lit):
            return np.array([_word(expr, self.strings)], dtype=np.int64)
        op = expr.op
        if op in ("and", "or"):
            return self._logic(expr.args, decided=op == "or")
        if op == "case":
            return self._case(expr.args)
        if op == "coalesce":
            return self._coalesce(expr.args)
        if op == "in":
            return self._in(expr.args)
        args = [self.value(a) for a in expr.args]
        types = [a.type for a in expr.args]
        if op in _COMPARE:
            return _compare(op, args[0], args[1], types, self.strings)
        if op == "cast":
            return cast(args[0], types[0], expr.type, self.strings)
        if op == "is_null":
            return np.asarray(args[0] == NULL, dtype=np.int64)
        if op == "not":
            return np.where(args[0] == NULL, NULL, args[0] ^ 1)
        if op == "neg":
            args, types, op = [np.zeros(1, dtype=np.int64), *args], [types[0], types[0]], "-"
        if expr.type is Type.DOUBLE:
            return _doubles(op, _as_doubles(args[0], types[0]), _as_doubles(args[1], types[1]))
        return _integers(op, args[0], args[1], expr.type)

    def _logic(self, args: tuple[Expr, ...], decided: bool) -> Words:
        out = _full(self.value(args[0]), self.n)
        for arg in args[1:]:
            still = np.flatnonzero(out != decided)
            if not len(still):
                break
            more = self.part(still).value(arg)
            so_far = out[still]
            # The deciding word takes precedence over NULL, and NULL over the other word. NULL is the smallest word.
            merged = np.where(more == decided, np.int64(decided), np.minimum(so_far, more))
            if len(still) == len(out):
                out = merged
            else:
                out = out.copy()
                out[still] = merged
        return out

    def _case(self, args: tuple[Expr, ...]) -> Words:
        out = np.full(self.n, NULL, dtype=np.int64)
        still = np.arange(self.n)
        for condition, value in zip(args[:-1:2], args[1::2], strict=True):
            holds = _full(self.part(still).value(condition), len(still)) == 1
            taken = still[holds]
            if len(taken):
                out[taken] = self.part(taken).value(value)
                still = still[~holds]
            if not len(still):
                return out
        out[still] = self.part(still).value(args[-1])
        return out

    def _coalesce(self, args: tuple[Expr, ...]) -> Words:
        out = _full(self.value(args[0]), self.n)
        for arg in args[1:]:
            still = np.flatnonzero(out == NULL)
            if not len(still):
                break
            out = out.copy()
            out[still] = self.part(still).value(arg)
        return out

    def _in(self, args: tuple[Expr, ...]) -> Words:
        needle = _full(self.value(args[0]), self.n)
        unknown = needle == NULL
        constants = np.array([_word(a, self.strings) for a in args[1:] if isinstance(a, Lit)], dtype=np.int64)
        found = np.isin(needle, constants[constants != NULL])
        maybe = np.full(self.n, bool((constants == NULL).any()))
        for arg in args[1:]:
            if not isinstance(arg, Lit):
                words = self.value(arg)
                found |= needle == words
                maybe |= words == NULL
        return np.where(unknown | (maybe & ~found), NULL, found.astype(np.int64))


def _word(lit: Lit, strings: Dictionary) -> int:
    if lit.value is None:
        return NULL
    if lit.type is Type.STRING:
        return strings.code(str(lit.value))
    if lit.type is Type.DOUBLE:
        return int(from_doubles(np.array([lit.value], dtype=np.float64))[0])
    return int(lit.value)


def _as_doubles(words: Words, type_: Type) -> npt.NDArray[np.float64]:
    return doubles(words if type_ is Type.DOUBLE else cast(words, type_, Type.DOUBLE, Dictionary()))


def _nulls(a: Words, b: Words) -> Mask | None:
    """Return a mask of the rows in which either operand is NULL, or None if neither contains NULL."""
    null = (a == NULL) | (b == NULL)
    return null if null.any() else None


def _compare(op: str, a: Words, b: Words, types: list[Type], strings: Dictionary) -> Words:
    null = _nulls(a, b)
    pair: tuple[Any, Any] = a, b
    if op not in ("=", "<>"):  # two values are equal if and only if their words are
        if types[0] is Type.DOUBLE:
            pair = doubles(a), doubles(b)
        elif types[0] is Type.STRING:
            ranks, _ = strings.ranks(np.concatenate([a, b]))
            pair = ranks[: len(a)], ranks[len(a) :]
    out = np.asarray(_COMPARE[op](*pair), dtype=np.int64)
    if null is not None:
        out[null] = NULL
    return out


def _doubles(op: str, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Words:
    if op == "/":
        b = np.where(b == 0, np.nan, b)
    with np.errstate(all="ignore"):
        out = np.asarray(_ARITHMETIC[op](a, b))
    bad = np.isinf(out)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise RowError(f"DOUBLE overflow: {_at(a, at)!r} {op} {_at(b, at)!r} is infinite; scale the values down first")
    return from_doubles(out)


def _integers(op: str, a: Words, b: Words, type_: Type) -> Words:
    null = _nulls(a, b)
    if op == "%":
        zero = b == 0
        null = zero if null is None else null | zero
        # The processor traps on a remainder by 0, and on the remainder of -2**63 (NULL) by -1.
        b = np.where(null, 1, b)
    out = np.asarray(_ARITHMETIC[op](a, b))
    if null is not None:
        null = np.broadcast_to(null, out.shape)
        out[null] = 0
    low, high = LIMITS[type_]
    if type_ is Type.BIGINT:
        bad = _wrapped(op, a, b, out)
        if null is not None:
            bad &= ~null
        if bad.any():
            _overflow(op, a, b, bad, type_)
    elif out.max() > high or out.min() < low:
        _overflow(op, a, b, (out < low) | (out > high), type_)
    if null is not None:
        out[null] = NULL
    return out


def _wrapped(op: str, a: Words, b: Words, out: Words) -> Mask:
    """Return a mask of the int64 results that overflowed or that are equal to the word for NULL."""
    bad: Mask = out == NULL
    if op == "+":
        bad |= ((a ^ out) & (b ^ out)) < 0
    elif op == "-":
        bad |= ((a ^ b) & (a ^ out)) < 0
    elif op == "*":
        near = np.flatnonzero(np.abs(a.astype(np.float64) * b.astype(np.float64)) >= 2.0**62)
        if len(near):
            x, y = np.broadcast_to(a, out.shape)[near], np.broadcast_to(b, out.shape)[near]
            # If the product is exact, dividing it by one factor returns the other. With y = -1, the only possible
            # overflow is to NULL, which was checked above.
            safe = np.where(y == -1, 1, y)
            bad[near] |= (y != -1) & (out[near] // safe != x)
    return bad


def _at(values: npt.NDArray[Any], at: int) -> Any:
    return values[at if len(values) > 1 else 0].item()


def _overflow(op: str, a: Words, b: Words, bad: Mask, type_: Type) -> NoReturn:
    at = int(np.flatnonzero(bad)[0])
    out = "CAST an operand to BIGINT" if type_ is Type.INT else "CAST an operand to DOUBLE"
    raise RowError(
        f"{type_.value} overflow: {_at(a, at)} {op} {_at(b, at)} is outside "
        f"{LIMITS[type_][0]}..{LIMITS[type_][1]}; {out}"
    )
