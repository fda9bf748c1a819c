"""From what happened inside an engine to steps: which operator acts, what it takes, changes and sends.

A :class:`Draft` is a step under construction, a :class:`Flight` a message on an edge. Here
is what every strategy has in common: names as they are shown (operators that are left out
are passed without a step), and the bookkeeping of which batch came in which step. Who acts
when is told by :mod:`.flow` (full, shared) and :mod:`.asked` (partial).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..changelog.changes import Changes
from ..plan.nodes import Schema
from ..storage.batch import Batch, Delta
from ..storage.encoding import Strings, Words
from .messages import Message, Values
from .parts import Snap, Structure
from .watch import Entry, Look


@dataclass(eq=False)
class Flight:
    """A message on an edge; see :class:`~.recording.Move`. ``tag`` ties an answer to its question."""

    source: str
    target: str
    kind: str
    traced: tuple[str, str]
    weight: int
    changes: Changes | None = None
    unique: tuple[int, ...] | None = None
    keyed: bool = False
    """Whether its rows have kinds: the source emits rows with a unique key, or they reach a view."""
    keys: tuple[Values, ...] | None = None
    key_columns: tuple[str, ...] = ()
    tag: int = 0
    sent: int = 0
    taken: int | None = None


@dataclass(eq=False)
class Draft:
    """A step under construction; fields as in :class:`~.recording.Step`."""

    kind: str
    operator: str
    message: int
    epoch: int = 0
    number: int = 0
    taken: list[Flight] = field(default_factory=list)
    sent: list[Flight] = field(default_factory=list)
    dropped: list[Changes] = field(default_factory=list)
    inserts: list[tuple[str, Batch]] = field(default_factory=list)
    """Batches that pieces of state were given, by piece."""
    looks: list[tuple[str, tuple[int, ...] | None, Words]] = field(default_factory=list)
    """Pieces that were searched: by which columns for which keys, or (None) which rows were read."""
    filled: dict[str, Words] = field(default_factory=dict)
    """Filled keys of pieces that changed theirs, as they are after the step."""
    emitted: Changes | None = None
    answer: tuple[Values, ...] | None = None
    key: Values | None = None
    """The key that a read asks for."""
    word: str = ""
    """Why something was refused."""


@dataclass(eq=False)
class Chapter:
    """One message as it was recorded, before it is cut into steps."""

    number: int
    message: Message
    text: str
    epoch: int
    entries: list[Entry]
    refused: str
    before: Structure
    after: Structure
    start: dict[str, Snap]
    end: dict[str, Snap]
    answer: tuple[Values, ...] | None = None
    answered: list[tuple[int, tuple[Values, ...]]] = field(default_factory=list)
    """Reads of earlier messages that were answered in this one: (number of the message, rows)."""
    waiting: tuple[int, ...] = ()
    """Messages inside a partial engine that are under way at the end, by the engine's numbers."""


class Names:
    """What is left out of the picture, and what stands for it; and the strings that all rows are written in."""

    def __init__(self, structures: Sequence[Structure], strings: Strings) -> None:
        self._strings = strings
        seen: dict[str, list[bool]] = {}
        for s in structures:
            for name in s.operators:
                seen.setdefault(name, []).append(name in s.plain or name in s.behind)
        self.folded = frozenset(name for name, marks in seen.items() if all(marks))

    def shown(self, s: Structure, name: str) -> str:
        """The operator that stands for ``name``: its input for a projection, its arrangement for a source."""
        while name in self.folded:
            name = s.behind[name] if name in s.behind else self._input(s, name)
        return name

    def changes(self, schema: Schema, delta: Delta, unique: tuple[int, ...] | None) -> Changes:
        """Rows of the engine as Changes."""
        return Changes.consolidated(schema, delta, 0, self._strings, unique)

    @staticmethod
    def _input(s: Structure, name: str) -> str:
        return next(a for a, b, kind in s.edges if b == name and kind != "upquery")


class Cutter:
    """What both ways of cutting a chapter into steps share."""

    def __init__(self, chapter: Chapter, names: Names) -> None:
        self.chapter, self.names, self.s = chapter, names, chapter.before
        self.steps: list[Draft] = []
        self._pieces = {id(p.arrangement): p for p in self.s.pieces.values() if not p.hidden}
        self._pieces |= {id(p.arrangement): p for p in self.s.pieces.values() if p.hidden}
        self._told = {id(p.arrangement): p for p in self.s.pieces.values() if not p.hidden}

    def step(self, kind: str, operator: str) -> Draft:
        """A new step."""
        self.steps.append(Draft(kind, operator, self.chapter.number))
        return self.steps[-1]

    def last(self, operator: str) -> Draft | None:
        """The last step so far in which an operator acts."""
        return next((d for d in reversed(self.steps) if d.operator == operator), None)

    def look(self, draft: Draft | None, entry: Look) -> None:
        """Note a look-up, unless an operator only looks at what it said last."""
        if draft is None:
            return
        piece = self._told.get(id(entry.arrangement)) or self._pieces.get(id(entry.arrangement))
        if piece is not None:
            name, key = piece.name, entry.arrangement.layout.key
        elif id(entry.arrangement) in self.s.indexes:
            name, key = self.s.indexes[id(entry.arrangement)]
        else:
            return
        shape = self.s.shapes.get(draft.operator)
        own = self._pieces.get(id(entry.arrangement))
        if shape is not None and own is not None and own.owner == draft.operator and not entry.rows:
            return
        draft.looks.append((name, None if entry.rows else key, entry.words))

    def flight(self, source: str, target: str, kind: str, weight: int, changes: Changes | None) -> Flight:
        """A message from one operator of the trace to another, under the names that are shown."""
        views = self.s.operators.get(target, {}).get("kind") == "view"
        unique = self.s.unique.get(target) if views else self.s.unique.get(source)
        shown = self.names.shown(self.s, source), self.names.shown(self.s, target)
        keyed = kind == "change" and (views or (unique is not None and source in self.s.shapes))
        return Flight(*shown, kind, (source, target), weight, changes, unique, keyed)
