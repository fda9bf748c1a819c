"""Finds the common type of several expressions, and converts expressions and literals to it.

INT widens to BIGINT and DOUBLE, BIGINT widens to DOUBLE, and DATE widens to TIMESTAMP. NULL can have any type. A string
literal is converted to a DATE or TIMESTAMP if it is combined with one. All other combinations of types are errors,
because databases disagree on their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ..errors import RowError, SqlError
from ..kernels import casts
from ..plan.nodes import Call, Expr, Lit, Type

NULL_LITERAL = Lit(None, Type.BOOLEAN)
"""The literal NULL before its type is known. Test for it with ``is``, because a typed NULL can be equal to it."""

WIDENING = (Type.INT, Type.BIGINT, Type.DOUBLE)
"""The numeric types, each of which widens to the later ones."""


def common(args: Sequence[Expr]) -> Type | None:
    """Return the common type of ``args`` after widening, or None if there is none.

    If all ``args`` are NULL without a type, the result is INT.
    """
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
    """Return ``arg`` converted to ``target``, the common type of ``arg`` and other expressions."""
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
    """Return the literal for a number.

    A number with a decimal point or an exponent is a DOUBLE. An integer is an INT if it fits, and a BIGINT otherwise.
    Raises SqlError if the number does not fit in these types.
    """
    if not any(c in text for c in ".eE"):
        digits = text.replace("_", "").lstrip("-0")
        # int() raises an error for more than 4,300 digits. The first 40 are enough to exceed every type.
        value = int(digits[:40] or "0") * (-1 if text[0] == "-" else 1)
        for kind in (Type.INT, Type.BIGINT):
            if casts.LIMITS[kind][0] <= value <= casts.LIMITS[kind][1]:
                return Lit(value, kind)
        _unfit(text, "a BIGINT, the widest integer type")
    if abs(number := float(text)) == float("inf"):
        _unfit(text, "a DOUBLE, the widest numeric type")
    return Lit(number, Type.DOUBLE)


def _unfit(text: str, kind: str) -> NoReturn:
    raise SqlError(f"{text[:40]} does not fit in {kind}")


def typed_literal(arg: Lit, target: Type) -> Lit:
    """Convert a string literal to a literal of type ``target``. Raises SqlError if the string does not parse."""
    try:
        value = casts.parse(str(arg.value), target)
    except RowError as error:
        raise SqlError(str(error)) from error
    return Lit(bool(value) if target is Type.BOOLEAN else value, target)
