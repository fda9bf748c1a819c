"""The exceptions that the kit raises, and helpers for checking arguments and writing messages.

    Error (a ValueError)
    +-- SqlError         SQL that does not parse, does not bind, or is not supported
    +-- RelationError    an unknown relation, or an invalid declaration of a relation
    +-- RowError         a row, value or diff that the relation does not accept
    +-- ViewError        an invalid view, key or option
    +-- TimeError        a read or handle at an epoch t that is not in since <= t < upper
    +-- StateError       managed state that is declared or used in a way that its declaration rules out
    +-- CheckpointError  a checkpoint that cannot be written or read

Each message states what was wrong, which rule applies, and what to do. If an operation on an engine raises one of these
exceptions, the engine is unchanged.
"""

from numbers import Integral
from typing import TypeGuard


class Error(ValueError):
    """The base class of all errors that the kit raises."""


class SqlError(Error):
    """Raised for SQL that does not parse, does not bind, or is not supported."""


class RelationError(Error):
    """Raised for an unknown relation, or an invalid declaration of a relation."""


class RowError(Error):
    """Raised for a row, value or diff that the relation does not accept."""


class ViewError(Error):
    """Raised for an invalid view, key or option."""


class TimeError(Error):
    """Raised for a read or handle at an epoch ``t`` that is not in ``since <= t < upper``."""


class StateError(Error):
    """Raised for managed state that is declared wrongly, or used in a way that its declaration rules out."""


class CheckpointError(Error):
    """Raised for a checkpoint that cannot be written or read."""


def shorten(value: object) -> str:
    """Return ``repr(value)`` as one line, truncated to at most 60 characters."""
    text = " ".join(map(str.strip, repr(value).splitlines()))
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(value: object) -> TypeGuard[int]:
    """Return True if ``value`` is a Python or NumPy integer, but not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)
