"""The errors of the kit, as a tree.

    Error (a ValueError)
    +-- SqlError         SQL that does not parse, does not bind, or is refused by name
    +-- RelationError    a relation, or a declaration of one, that the catalog does not know
    +-- RowError         a row, a value or a diff that breaks the contract of its relation
    +-- ViewError        a view, a key or an option of a view
    +-- TimeError        a read or a handle outside since <= t < upper
    +-- CheckpointError  a checkpoint that cannot be written, or is not what it says

Every message names the culprit, the rule and the way out, in that order. An
operation that raises one of these leaves the engine as it was before the call.
"""

from numbers import Integral
from typing import TypeGuard


class Error(ValueError):
    """Anything that the kit refuses."""


def shorten(value: object) -> str:
    """A value as a message shows it, shortened and in one line."""
    try:
        text = " ".join(map(str.strip, repr(value).splitlines()))
    except ValueError:
        return "a number of thousands of digits"  # which Python does not write out
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, Python's or numpy's: no bool, and no span of time, which numpy calls one."""
    # Asked of the value: where numpy is not there, this module is (the doctor reads it).
    kind = getattr(getattr(value, "dtype", None), "kind", "i")
    return isinstance(value, Integral) and not isinstance(value, bool) and kind in "iu"


class SqlError(Error):
    """SQL that does not parse, does not bind, or is refused by name."""


class RelationError(Error):
    """A relation, or a declaration of one, that the catalog does not know."""


class RowError(Error):
    """A row, a value or a diff that breaks the contract of its relation."""


class ViewError(Error):
    """A view, a key, or an option of a view."""


class TimeError(Error):
    """A read or a handle outside ``since <= t < upper``."""


class CheckpointError(Error):
    """A checkpoint that cannot be written, or is not what it says it is."""
