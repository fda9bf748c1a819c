"""The messages of a recorded history, which a user sends to an engine one at a time.

    Epoch      apply rows with diffs together, as one epoch
    Read       read one key of a view, or the entire view
    Evict      turn keys of a view into holes (partial state)
    Install    add a view from the catalog to the running engine
    Drop       remove a view
    Hold       open, advance or close a trace handle (shared state)
    Pause      make messages inside the engine wait until they are delivered (partial state)
    Deliver    deliver the oldest message that is waiting between two operators
    Resume     deliver all waiting messages, oldest first

Messages are plain data. They are hashable, are compared by value, and are not validated against an engine.
`parse` makes them from tuples and from typed text. The ``text`` of a message is its typed form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import errors

Values = tuple[Any, ...]
"""A row or a key as Python values (str, int, float, bool, date, datetime), with None for NULL."""


@dataclass(frozen=True)
class Epoch:
    """Applies the changes of one epoch, (relation, row, diff), together. The epoch can be empty."""

    changes: tuple[tuple[str, Values, int], ...] = ()

    @property
    def text(self) -> str:
        """The typed form, such as ``+1 visit Potato, Eve, 60``.

        Two or three changes are joined by semicolons. For more changes, this is only their number.
        """
        if len(self.changes) > 3:
            return f"{len(self.changes)} changes"
        parts = (f"{_diff(d)} {typed_name(relation)} {typed_values(row)}" for relation, row, d in self.changes)
        return "; ".join(parts) or "empty epoch"


@dataclass(frozen=True)
class Read:
    """Reads one key of a view. If ``key`` is None, reads the entire view (under partial state, all filled keys)."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """The typed form, such as ``read result Vegetable``."""
        return f"read {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Evict:
    """Evicts one key of a view, which becomes a hole. If ``key`` is None, evicts all keys."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """The typed form, such as ``evict result Vegetable``."""
        return f"evict {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Install:
    """Installs a view from the engine's catalog."""

    view: str

    @property
    def text(self) -> str:
        """The typed form, such as ``install visits``."""
        return f"install {typed_name(self.view)}"


@dataclass(frozen=True)
class Drop:
    """Drops a view and the state that only this view needs."""

    view: str

    @property
    def text(self) -> str:
        """The typed form, such as ``drop visits``."""
        return f"drop {typed_name(self.view)}"


@dataclass(frozen=True)
class Hold:
    """Opens a trace handle named ``reader`` on all arrangements at ``time``, or advances an open one to ``time``.

    If ``time`` is None, closes the handle.
    """

    reader: str
    time: int | None = None

    @property
    def text(self) -> str:
        """The typed form, such as ``hold slow 3``."""
        return f"hold {typed_name(self.reader)}" + ("" if self.time is None else f" {_typed(self.time)}")


@dataclass(frozen=True)
class Pause:
    """Makes messages inside a partial engine wait until they are delivered."""

    text = "pause"


@dataclass(frozen=True)
class Deliver:
    """Delivers the oldest message from ``sender`` to ``receiver``."""

    sender: str
    receiver: str

    @property
    def text(self) -> str:
        """The typed form, such as ``deliver result.group1 result``."""
        return f"deliver {typed_name(self.sender)} {typed_name(self.receiver)}"


@dataclass(frozen=True)
class Resume:
    """Delivers all waiting messages, oldest first, and stops making new messages wait."""

    text = "resume"


@dataclass(frozen=True)
class Unreadable:
    """Stands in for an input that could not be parsed as a message. ``why`` is the error."""

    text: str
    why: str


Message = Epoch | Read | Evict | Install | Drop | Hold | Pause | Deliver | Resume | Unreadable


def typed_name(name: str) -> str:
    """Return a name as a user types it, in double quotes if it contains spaces or special characters."""
    plain = re.fullmatch(r"\w[^\s;,'\"(\[]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _diff(diff: Any) -> str:
    return f"{diff:+d}" if isinstance(diff, int) and abs(diff) < 1 << 64 else errors.shorten(diff)


def typed_values(values: Values) -> str:
    """Return values as a user types them, such as ``Potato, Eve, 60``, with NULL for None and quotes where needed."""
    return ", ".join(map(_typed, values))


def _typed(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        return errors.shorten(value) if isinstance(value, int) else str(value)
    plain = value.strip() == value and value and not any(c in value for c in ",;'\"\n")
    plain = plain and value[0] not in "([" and value[-1] not in ")]" and value.upper() != "NULL"
    return value if plain else "'" + value.replace("'", "''") + "'"
