"""The common type of several expressions, and literals of that type.

INT widens to BIGINT and DOUBLE, and DATE to TIMESTAMP. NULL takes any type. A string literal takes the type of a DATE
or TIMESTAMP that it is combined with. Nothing else mixes, because databases disagree on its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ..errors import RowError, SqlError
from ..kernels import casts
from ..plan.nodes import Call, Expr, Lit, Type

NULL_LITERAL = Lit(None, Type.BOOLEAN)
"""A NULL without a type; compare it by identity."""

WIDENING = (Type.INT, Type.BIGINT, Type.DOUBLE)
"""The numeric types, each of which widens to the later ones."""


def common(args: Sequence[Expr]) -> Type | None:
    """Return the common type of ``args`` after widening, or None. NULLs alone are INT."""
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
    """Return ``arg`` as ``target``, a type that `common` returned."""
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
    """Return a number literal: INT if it fits, else BIGINT; DOUBLE with a decimal point or an exponent."""
    if not any(c in text for c in ".eE"):
        # int() refuses more than 4,300 digits; 40 are enough to exceed every type.
        value = int(text[:40])
        for kind in (Type.INT, Type.BIGINT):
            if casts.LIMITS[kind][0] <= value <= casts.LIMITS[kind][1]:
                return Lit(value, kind)
        _unfit(text, "a BIGINT")
    if abs(number := float(text)) == float("inf"):
        _unfit(text, "a DOUBLE")
    return Lit(number, Type.DOUBLE)


def _unfit(text: str, kind: str) -> NoReturn:
    raise SqlError(f"{text[:40]} does not fit {kind}, the widest type for it")


def typed_literal(arg: Lit, target: Type) -> Lit:
    """Return a string literal as a literal of another type. Raises SqlError if it does not parse."""
    try:
        value = casts.parse(str(arg.value), target)
    except RowError as error:
        raise SqlError(str(error)) from error
    return Lit(bool(value) if target is Type.BOOLEAN else value, target)
