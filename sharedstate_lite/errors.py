"""The exceptions of the kit, and how a message shows a value.

    Error (a ValueError)
    +-- SqlError         SQL that does not parse, does not bind, or is not supported
    +-- RelationError    an unknown relation, or an invalid declaration of one
    +-- RowError         a row, a value or a diff that its relation does not accept
    +-- ViewError        an invalid view, key or option
    +-- TimeError        a read or a handle outside since <= t < upper
    +-- CheckpointError  a checkpoint that cannot be written or read

A message says what was wrong, the rule, and what to do. An operation that raises one of these leaves the engine
unchanged.
"""

from numbers import Integral
from typing import TypeGuard


class Error(ValueError):
    """Base class of all errors of the kit."""


class SqlError(Error):
    """SQL that does not parse, does not bind, or is not supported."""


class RelationError(Error):
    """An unknown relation, or an invalid declaration of one."""


class RowError(Error):
    """A row, a value or a diff that its relation does not accept."""


class ViewError(Error):
    """An invalid view, key or option."""


class TimeError(Error):
    """A read or a handle outside ``since <= t < upper``."""


class CheckpointError(Error):
    """A checkpoint that cannot be written or read."""


def shorten(value: object) -> str:
    """Return ``repr(value)`` on one line, at most 60 characters long."""
    text = " ".join(map(str.strip, repr(value).splitlines()))
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer of Python or NumPy. A bool is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)
