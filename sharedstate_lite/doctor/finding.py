"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is; the worst of all decides the exit status."""

    OK = 0
    NOTE = 1
    """Something optional is absent; nothing else suffers."""
    WARN = 2
    """It works, but slowly, with little room, or unlike the lock."""
    FAIL = 3
    """A part of the kit will not work."""

    @property
    def status(self) -> int:
        """The exit status that this level asks for: 0, 0, 1, 2."""
        return (0, 0, 1, 2)[self]


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was found and, unless all is well, what mends it."""

    level: Level
    text: str
    mend: str = ""

    def __post_init__(self) -> None:
        if self.level is not Level.OK and not self.mend:
            raise ValueError(f"finding '{self.text}': whatever is not ok must say what mends it")


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, text)


def note(text: str, mend: str) -> Finding:
    """An optional thing is absent."""
    return Finding(Level.NOTE, text, mend)


def warn(text: str, mend: str) -> Finding:
    """It works, with less than it should have."""
    return Finding(Level.WARN, text, mend)


def fail(text: str, mend: str) -> Finding:
    """A part will not work."""
    return Finding(Level.FAIL, text, mend)
