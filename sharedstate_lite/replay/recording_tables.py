"""What is held after a step of a recording: tables of rows, groups or batches, with marks. Plain data.

A mark compares with the beginning of the message that the step belongs to; ``now`` says
that the difference came in this very step. See :mod:`.recording`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Values


@dataclass(frozen=True)
class Row:
    """A row of a table as it is after a step. ``count`` is how often it is there, ``before`` how often it was
    at the beginning of this message; ``old`` are the values that it replaced, where the table has a unique key.

    ``now``: it became so in this step, not earlier in the message. ``looked``: it was looked up in this step.
    ``time`` is the row's time in an arrangement's batch; ``folded`` says that times up to it are not told apart.
    """

    values: Values
    count: int
    before: int
    old: Values | None = None
    now: bool = False
    looked: bool = False
    time: int | None = None
    folded: bool = False

    @property
    def mark(self) -> str:
        """inserted, deleted, changed, or '' for a row that is as it was."""
        if self.old is not None:
            return "changed"
        if self.count == self.before:
            return ""
        return "inserted" if not self.before else "deleted" if not self.count else "changed"


@dataclass(frozen=True)
class Key:
    """A key of a partial table that has no rows. ``filled``: an answer without rows; else a hole that was met.

    ``now``: it became so in this step; ``new``: in this message.
    """

    key: Values
    filled: bool
    now: bool = False
    new: bool = False


@dataclass(frozen=True)
class Bag:
    """The values that a group keeps under MAX or MIN, in order: ``items`` have one value each."""

    column: str
    items: tuple[Row, ...]
    total: int


@dataclass(frozen=True)
class Group:
    """A group of a reduce: its ``key``, a bag for each column under MAX or MIN (full state), and its ``result``,
    the aggregates last said (None where there is none)."""

    key: Values
    bags: tuple[Bag, ...]
    result: Row | None


@dataclass(frozen=True)
class Span:
    """A batch of an arrangement: epochs [lower, upper). ``fresh``: it was appended or merged in this step."""

    lower: int
    upper: int
    rows: tuple[Row, ...]
    total: int
    fresh: bool = False


@dataclass(frozen=True)
class Pin:
    """A reader's place on an arrangement's ruler: operators that read it, and readers that hold it open.

    ``before`` is where it stood at the beginning of the step; None: it was not there.
    """

    reader: str
    time: int
    before: int | None
    held: bool = False
    """A handle of somebody outside (see :class:`~.messages.Hold`), which keeps since from passing it."""


@dataclass(frozen=True)
class Ruler:
    """An arrangement in time: its batches, oldest first, since and upper, and who reads it where."""

    spans: tuple[Span, ...]
    since: int
    upper: int
    since_before: int
    upper_before: int
    pins: tuple[Pin, ...]


@dataclass(frozen=True)
class Table:
    """One piece of state of an operator, after a step.

    ``form`` says which fields tell the contents: rows (``rows``), groups (``groups``, with
    ``measures`` and ``results`` as names of their bags and results), arrangement (``ruler``;
    ``rows`` are its consolidated contents as well). ``caption`` tells it apart from the
    operator's other tables (``info side``), else ''. ``key`` are the columns it is looked up
    by. ``rows`` (or groups) are in order of value, at most :data:`MOST` and then all that are
    marked and the first of the others; ``total`` counts them all. Rows deleted in this
    message stay until it ends, and are not in ``total``.

    ``partial``: keys may be holes; ``keys`` are those without rows that the trace has met,
    and all others are holes. ``parts`` are the names of ``engine.state()`` that it shows;
    ``stored`` and ``bytes`` are what those hold, rows that a merge will cancel included.
    """

    name: str
    form: str
    caption: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    total: int = 0
    groups: tuple[Group, ...] = ()
    measures: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    ruler: Ruler | None = None
    partial: bool = False
    keys: tuple[Key, ...] = ()
    filled: int = 0
    """Keys that are filled, with rows or without."""
    parts: tuple[str, ...] = ()
    stored: int = 0
    bytes: int = 0


MOST = 500
"""Rows or groups that a table gives, unless more are marked."""


@dataclass(frozen=True)
class State:
    """What an operator holds after a step. ``rows`` and ``bytes`` as ``engine.state()`` counts them.

    ``asked``: keys that it was asked for and has not answered (partial). ``reads``: keys
    that reads of this view wait for.
    """

    operator: str
    tables: tuple[Table, ...] = ()
    rows: int = 0
    bytes: int = 0
    base: bool = False
    asked: tuple[Values, ...] = ()
    reads: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Totals:
    """Rows and bytes held after a step: base tables, and own state beside them; and own rows when the message began."""

    rows: int
    bytes: int
    base_rows: int
    base_bytes: int
    rows_before: int
