"""One type for several expressions, and literals that take it.

INT widens to BIGINT and DOUBLE, DATE to TIMESTAMP; a bare NULL takes any type, a string
literal that of the DATE or TIMESTAMP beside it. Nothing else mixes: engines disagree on
what it would mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ..errors import RowError, SqlError
from ..kernels import casts
from ..plan.nodes import Call, Expr, Lit, Type

NULL_LITERAL = Lit(None, Type.BOOLEAN)
"""A NULL that has no type yet; compared by identity."""

WIDENING = (Type.INT, Type.BIGINT, Type.DOUBLE)
"""The number types, each of which the later ones take in."""


def common(args: Sequence[Expr]) -> Type | None:
    """The type that ``args`` share after widening, None where there is none; INT where all are bare NULLs."""
    known = [a for a in args if a is not NULL_LITERAL]
    types = {a.type for a in known}
    if len(types) <= 1:
        return next(iter(types), Type.INT)
    moments = types & {Type.DATE, Type.TIMESTAMP}
    if moments:
        fixed = {a.type for a in known if not (isinstance(a, Lit) and a.type is Type.STRING)}
        return (Type.TIMESTAMP if Type.TIMESTAMP in moments else Type.DATE) if fixed == moments else None
    return max(types, key=WIDENING.index) if all(t.numeric for t in types) else None


def coerce(arg: Expr, target: Type) -> Expr:
    """``arg`` as ``target``, which :func:`common` said it can be."""
    if arg is NULL_LITERAL:
        return Lit(None, target)
    if arg.type is target:
        return arg
    if isinstance(arg, Lit) and arg.value is not None:
        if arg.type is Type.STRING:
            return typed_literal(arg, target)
        if arg.type.numeric:
            return Lit(float(arg.value) if target is Type.DOUBLE else int(arg.value), target)
    return Call("cast", (arg,), target)


def number_literal(text: str) -> Lit:
    """A number literal: INT where it fits, then BIGINT; with a point or an exponent a DOUBLE."""
    if not any(c in text for c in ".eE"):
        # Python reads no more than 4,300 digits; forty are past every type.
        value = int(text[:40])
        for kind in (Type.INT, Type.BIGINT):
            if casts.LIMITS[kind][0] <= value <= casts.LIMITS[kind][1]:
                return Lit(value, kind)
        _unfit(text, "a BIGINT")
    if abs(number := float(text)) == float("inf"):
        _unfit(text, "a DOUBLE")
    return Lit(number, Type.DOUBLE)


def _unfit(text: str, kind: str) -> NoReturn:
    raise SqlError(f"{text[:40]} does not fit {kind}, the widest type of its kind")


def typed_literal(arg: Lit, target: Type) -> Lit:
    """A string literal as a literal of another type."""
    try:
        value = casts.parse(str(arg.value), target)
    except RowError as error:
        raise SqlError(str(error)) from error
    return Lit(bool(value) if target is Type.BOOLEAN else value, target)
