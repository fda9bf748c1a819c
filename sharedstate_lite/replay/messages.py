"""The messages of a recorded history: what a user sends to an engine, one after the other.

    Epoch      rows with diffs, applied together
    Read       read one key of a view, or the whole view
    Evict      make keys of a view holes (partial state)
    Install    add a view of the catalog to the running engine
    Drop       remove a view
    Hold       open, advance or close a trace handle (shared state)
    Pause      from here on, messages inside the engine wait (partial state)
    Deliver    deliver the oldest message that waits on an edge
    Resume     deliver all waiting messages, oldest first

Plain data: compared by value, hashable, not checked against an engine. `parse` makes them from
short forms and from typed text, and ``text`` is the typed form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import errors

Values = tuple[Any, ...]
"""A row or a key as Python values (str, int, float, bool, date, datetime), None for NULL."""


@dataclass(frozen=True)
class Epoch:
    """The changes of one epoch as (relation, row, diff), applied together. Without changes it is an empty epoch."""

    changes: tuple[tuple[str, Values, int], ...] = ()

    @property
    def text(self) -> str:
        """``+1 visit Potato, Eve, 60``. Several changes are joined by semicolons; more than three are counted."""
        if len(self.changes) > 3:
            return f"{len(self.changes)} changes"
        parts = (f"{_diff(d)} {typed_name(relation)} {typed_values(row)}" for relation, row, d in self.changes)
        return "; ".join(parts) or "empty epoch"


@dataclass(frozen=True)
class Read:
    """Reads one key of a view. ``key`` None reads the whole view; under partial state, its filled keys."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """``read result Vegetable``."""
        return f"read {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Evict:
    """Makes one key of a view a hole, or all keys (``key`` None)."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """``evict result Vegetable``."""
        return f"evict {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Install:
    """Installs a view of the engine's catalog."""

    view: str

    @property
    def text(self) -> str:
        """``install visits``."""
        return f"install {typed_name(self.view)}"


@dataclass(frozen=True)
class Drop:
    """Drops a view, and the state that only this view needs."""

    view: str

    @property
    def text(self) -> str:
        """``drop visits``."""
        return f"drop {typed_name(self.view)}"


@dataclass(frozen=True)
class Hold:
    """The trace handle of ``reader`` on all arrangements: opened at ``time`` or advanced to it, closed for None."""

    reader: str
    time: int | None = None

    @property
    def text(self) -> str:
        """``hold slow 3``."""
        return f"hold {typed_name(self.reader)}" + ("" if self.time is None else f" {_typed(self.time)}")


@dataclass(frozen=True)
class Pause:
    """Makes the messages inside a partial engine wait."""

    text = "pause"


@dataclass(frozen=True)
class Deliver:
    """Delivers the oldest message from ``sender`` to ``receiver``."""

    sender: str
    receiver: str

    @property
    def text(self) -> str:
        """``deliver result.group1 result``."""
        return f"deliver {typed_name(self.sender)} {typed_name(self.receiver)}"


@dataclass(frozen=True)
class Resume:
    """Delivers all waiting messages, oldest first."""

    text = "resume"


@dataclass(frozen=True)
class Unreadable:
    """An input that is no message, kept in its place; ``why`` is the error."""

    text: str
    why: str


Message = Epoch | Read | Evict | Install | Drop | Hold | Pause | Deliver | Resume | Unreadable


def typed_name(name: str) -> str:
    """A name as a user types it: in double quotes if it contains blanks or quotes."""
    plain = re.fullmatch(r"\w[^\s;,'\"(\[]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _diff(diff: Any) -> str:
    return f"{diff:+d}" if isinstance(diff, int) and abs(diff) < 1 << 64 else errors.shorten(diff)


def typed_values(values: Values) -> str:
    """Values as a user types them: ``Potato, Eve, 60``, NULL for None, and quotes around ambiguous text."""
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
