"""The result of one check: a level, what was found, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How serious a finding is. The highest level in a report determines the exit status."""

    OK = 0
    NOTE = 1
    """Something optional is missing; everything else works."""
    WARN = 2
    """The kit works, but it is slow, has little memory or disk space, or has other package versions than locked."""
    FAIL = 3
    """A part of the kit does not work."""

    @property
    def status(self) -> int:
        """The exit status of a report with this highest level: 0 for OK and NOTE, 1 for WARN, 2 for FAIL."""
        return max(0, self - 1)


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``fix`` says what to do; it can be empty only if the level is OK."""

    level: Level
    text: str
    fix: str = ""

    def __post_init__(self) -> None:
        if self.level is not Level.OK and not self.fix:
            raise ValueError(f"finding {self.text!r}: a finding at level {self.level.name} needs a fix; pass fix=...")


def ok(text: str) -> Finding:
    """Return a finding at level OK."""
    return Finding(Level.OK, text)


def note(text: str, fix: str) -> Finding:
    """Return a finding at level NOTE."""
    return Finding(Level.NOTE, text, fix)


def warn(text: str, fix: str) -> Finding:
    """Return a finding at level WARN."""
    return Finding(Level.WARN, text, fix)


def fail(text: str, fix: str) -> Finding:
    """Return a finding at level FAIL."""
    return Finding(Level.FAIL, text, fix)
