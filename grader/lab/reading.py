"""Read a history that a student has written, in the notation of the traces that `check` prints.

A lab whose checks.py has a function ``reader`` can be broken (`breaking`). It turns a line into what makes its case:

    def reader(line, solution):
        rows = Rows()
        history = [rows.epoch(step, a_row) for step in line.parts("|")]
        return lambda student: next(maxima(student, [history]))

``line`` is a `Piece`, and ``solution`` the right one, for labs whose inputs depend on its messages. A line that is no
history raises NoHistoryError, which `Piece.wrong` makes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from ..worker import Student
from .checks import Case
from .small import Change

WORD = r"[A-Za-z]\w*"
"""A regular expression of a name."""
NUMBER = r"-?\d{1,6}"
"""A regular expression of a whole number with at most 6 digits."""


class NoHistoryError(Exception):
    """A line is no history. The message says why, and ``at`` is the place in the line, from 0."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


class Piece(str):
    """A part of a line, which knows its place in the line: ``at``, from 0.

    >>> [(part, part.at) for part in Piece("a(1, 2), b | c").parts("|")]
    [('a(1, 2), b', 0), ('c', 13)]
    """

    at: int

    def __new__(cls, text: str, at: int = 0) -> Self:
        """Make a part of a text and its place."""
        made = super().__new__(cls, text)
        made.at = at
        return made

    def piece(self, first: int, last: int | None = None) -> Piece:
        """Return a slice without the blanks around it."""
        text = str(self)[first:last]
        return Piece(text.strip(), self.at + first + len(text) - len(text.lstrip()))

    def parts(self, mark: str) -> list[Piece]:
        """Return the parts between two marks, such as "|". A mark in brackets does not count."""
        found, depth, start = [], 0, 0
        for at, letter in enumerate(self):
            depth += (letter in "([") - (letter in ")]")
            if letter == mark and depth < 1:
                found.append(self.piece(start, at))
                start = at + 1
        return [*found, self.piece(start)]

    def groups(self, pattern: str) -> list[Piece]:
        """Return the groups of a regular expression that fits the whole part; [] if it does not fit.

        >>> [Piece("+Nut 5").groups("[+-](.*) (.*)"), Piece("Nut").groups("[+-](.*)")]
        [['Nut', '5'], []]
        """
        found = re.fullmatch(pattern, self, re.ASCII)
        return [] if found is None else [self.piece(*found.span(number)) for number in range(1, found.re.groups + 1)]

    def wrong(self, why: str) -> NoHistoryError:
        """Return the error that the line is no history, because of this part."""
        return NoHistoryError(self.at, why)


Makes = Callable[[Student], Case]
Reader = Callable[[Piece, Student], Makes]
"""Reads a line. The second argument is the right solution. Raises NoHistoryError."""


def changes_of(line: str) -> list[Piece]:
    """Return the changes of a line: what stands between two of the marks "|" and ",", outside of brackets.

    >>> changes_of('a = handle(0) | +Nut 5, -Nut 5 | at("Nut", 1)')
    ['a = handle(0)', '+Nut 5', '-Nut 5', 'at("Nut", 1)']
    """
    return [change for step in Piece(line).parts("|") for change in step.parts(",")]


class Rows:
    """The rows that are there while a history is read, each with its count."""

    def __init__(self) -> None:
        self._there: Counter[Any] = Counter()

    def epoch(self, text: Piece, row: Callable[[Piece], Any], free: bool = False) -> list[Change]:
        """Return the changes of an epoch such as "+Fruit 1, -Fruit 2" or "nothing". ``row`` reads a row.

        Their order means nothing, so a row may be deleted before it is inserted. Raises NoHistoryError if a row is
        deleted that is not there at the end of the epoch, unless ``free``.

        >>> Rows().epoch(Piece("-a, +a"), str)
        [('a', -1), ('a', 1)]
        """
        changes, deleted = [], {}
        for one in text.parts(",") if text != "nothing" else ():
            if one[:1] not in ("+", "-"):
                rule = "a change begins with + or -" if one else "a change is missing here"
                raise one.wrong(f'{rule}; write "nothing" for an epoch without changes')
            what, diff = row(one.piece(1)), 1 if one[0] == "+" else -1
            changes.append((what, diff))
            self._there[what] += diff
            if diff < 0:
                deleted[what] = one
        for what, one in deleted.items():
            if self._there[what] < 0 and not free:
                raise one.wrong("a deletion of what is not there")
        return changes
