"""What a person sends to an engine, one after the other: the messages of a recorded history.

    Epoch      rows with diffs, applied at once; the usual message
    Read       a key of a view is read, or the whole view
    Evict      keys of a view become holes (partial state)
    Install    a view that the catalog knows is added to the running engine
    Drop       a view is taken away
    Hold       a reader's trace handle, opened at a time, moved on, or closed (time None): shared state
    Pause      from here on messages inside the engine wait (partial state)
    Deliver    the oldest message waiting on an edge arrives
    Resume     all that waits arrives, oldest first

Plain data, compared by value, hashable: what a history is edited as. Holds no engine and
checks nothing against one; :mod:`.` reads them from short forms and from text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import errors

Values = tuple[Any, ...]
"""A row or a key: Python values (str, int, float, bool, date, datetime), None for NULL."""


@dataclass(frozen=True)
class Epoch:
    """Changes of one epoch: (relation, row, diff), applied at once; none at all is an empty epoch."""

    changes: tuple[tuple[str, Values, int], ...] = ()

    @property
    def text(self) -> str:
        """``+1 visit Potato, Eve, 60``; several by semicolons, many by their number."""
        if len(self.changes) > 3:
            return f"{len(self.changes)} changes"
        parts = (f"{_diff(d)} {typed_name(relation)} {typed_values(row)}" for relation, row, d in self.changes)
        return "; ".join(parts) or "empty epoch"


@dataclass(frozen=True)
class Read:
    """A read of one key of a view; ``key`` None reads the whole view (partial: what is filled)."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """``read result Vegetable``."""
        return f"read {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Evict:
    """One key of a view, or all (``key`` None), become holes."""

    view: str
    key: Values | None = None

    @property
    def text(self) -> str:
        """``evict result Vegetable``."""
        return f"evict {typed_name(self.view)}" + ("" if self.key is None else f" {typed_values(self.key) or '()'}")


@dataclass(frozen=True)
class Install:
    """A view of the engine's catalog, by name."""

    view: str

    @property
    def text(self) -> str:
        """``install visits``."""
        return f"install {typed_name(self.view)}"


@dataclass(frozen=True)
class Drop:
    """A view is taken away, with what only it needed."""

    view: str

    @property
    def text(self) -> str:
        """``drop visits``."""
        return f"drop {typed_name(self.view)}"


@dataclass(frozen=True)
class Hold:
    """A reader called ``reader`` holds all arrangements at ``time``; a known one moves there; None lets go."""

    reader: str
    time: int | None = None

    @property
    def text(self) -> str:
        """``hold slow 3``."""
        return f"hold {typed_name(self.reader)}" + ("" if self.time is None else f" {_typed(self.time)}")


@dataclass(frozen=True)
class Pause:
    """Messages inside a partial engine wait from now on."""

    text = "pause"


@dataclass(frozen=True)
class Deliver:
    """The oldest message on its way from ``sender`` to ``receiver`` arrives."""

    sender: str
    receiver: str

    @property
    def text(self) -> str:
        """``deliver result.group1 result``."""
        return f"deliver {typed_name(self.sender)} {typed_name(self.receiver)}"


@dataclass(frozen=True)
class Resume:
    """All that waits arrives, oldest first."""

    text = "resume"


@dataclass(frozen=True)
class Unreadable:
    """Something that is no message; ``why`` says so in plain words. Kept in its place, so that nothing is lost."""

    text: str
    why: str


Message = Epoch | Read | Evict | Install | Drop | Hold | Pause | Deliver | Resume | Unreadable


def typed_name(name: str) -> str:
    """A name as it is typed: between double quotes where blanks, or quotes, would end it too early."""
    plain = re.fullmatch(r"\w[^\s;,'\"(\[]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _diff(diff: Any) -> str:
    return f"{diff:+d}" if isinstance(diff, int) and abs(diff) < 1 << 64 else errors.shorten(diff)


def typed_values(values: Values) -> str:
    """Values as they are typed: ``Potato, Eve, 60``; NULL for None, text in quotes where it would be misread."""
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
