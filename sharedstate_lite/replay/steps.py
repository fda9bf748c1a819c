"""Splits the entries that were observed for a message into steps. In each step, one operator acts.

Under full and shared state, an epoch has one step for each base table that receives rows, then
one step for each operator that received or wrote rows, in the engine's order, with views last.
Under shared state, a final step seals the epoch: since advances and batches merge. Under partial
state, each delivery is one step. A message between operators can stay in flight across messages of the
history, and is then delivered while a later one is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..changelog.changes import Changes
from ..engine.events import Event
from ..plan.nodes import Schema
from ..storage.batch import Batch, Delta
from ..storage.encoding import Dictionary, Words
from .messages import Epoch, Message, Read, Values
from .observer import ArrangementRead, BatchInsert, Entry, Probe
from .structure import Snapshot, Structure


@dataclass(eq=False)
class MoveDraft:
    """A message on an edge, under construction; see `recording.Move`. ``tag`` links a response to its upquery."""

    source: str
    target: str
    kind: str
    trace_edge: tuple[str, str]
    trace_rows: int
    changes: Changes | None = None
    unique: tuple[int, ...] | None = None
    keyed: bool = False
    """Whether its rows have kinds, because the source is an aggregation or the target is a view."""
    keys: tuple[Values, ...] | None = None
    key_columns: tuple[str, ...] = ()
    tag: int = 0
    sent: int = 0
    taken: int | None = None


@dataclass(eq=False)
class StepDraft:
    """A step under construction; see `recording.RecordedStep`."""

    kind: str
    operator: str
    message: int
    epoch: int = 0
    number: int = 0
    taken: list[MoveDraft] = field(default_factory=list)
    sent: list[MoveDraft] = field(default_factory=list)
    dropped: list[Changes] = field(default_factory=list)
    inserts: list[tuple[str, Batch]] = field(default_factory=list)
    """The batches added in this step, as (piece, batch)."""
    reads: list[tuple[str, tuple[int, ...] | None, Words]] = field(default_factory=list)
    """The reads of pieces of state, as (piece, key columns, keys) or (piece, None, rows)."""
    filled: dict[str, Words] = field(default_factory=dict)
    """The filled keys after the step, by piece, for each piece whose filled keys have changed."""
    emitted: Changes | None = None
    answer: tuple[Values, ...] | None = None
    key: Values | None = None
    """The key, if the step is a read of one key."""
    refused: str = ""
    """The error message if the engine refused the message, and '' otherwise."""


@dataclass(eq=False)
class PlayedMessage:
    """One message and everything that was observed while the engine applied it.

    ``before`` and ``after`` are the engine's structure before and after the message, and ``start`` and ``end`` are the
    snapshots of its state. ``answer`` contains the rows of a read that completed immediately.
    """

    number: int
    message: Message
    text: str
    epoch: int
    entries: list[Entry]
    refused: str
    before: Structure
    after: Structure
    start: dict[str, Snapshot]
    end: dict[str, Snapshot]
    answer: tuple[Values, ...] | None = None
    answered: list[tuple[int, tuple[Values, ...]]] = field(default_factory=list)
    """The earlier reads that this message completed, as (number of the reading message, rows)."""
    waiting: tuple[int, ...] = ()
    """The messages that are still in flight after this message (partial state), by the number the engine gave them."""


class ShownGraph:
    """Decides which operators are hidden for the entire run, and which operator is shown instead of a hidden one."""

    def __init__(self, structures: Sequence[Structure], strings: Dictionary) -> None:
        self._strings = strings
        seen: dict[str, list[bool]] = {}
        for s in structures:
            for name in s.operators:
                seen.setdefault(name, []).append(name in s.projections or name in s.arranged_as)
        self.hidden = frozenset(name for name, marks in seen.items() if all(marks))

    def stand_in(self, s: Structure, name: str) -> str:
        """Return the operator shown for ``name``: the input of a hidden projection, or the arrangement of a source."""
        while name in self.hidden:
            name = s.arranged_as[name] if name in s.arranged_as else self._input(s, name)
        return name

    def changes(self, schema: Schema, delta: Delta, unique: tuple[int, ...] | None) -> Changes:
        """Convert rows of the engine to consolidated Changes."""
        return Changes.consolidated(schema, delta, 0, self._strings, unique)

    @staticmethod
    def _input(s: Structure, name: str) -> str:
        return next(a for a, b, kind in s.edges if b == name and kind != "upquery")


class StepBuilder:
    """Base class for splitting one message into steps."""

    def __init__(self, played: PlayedMessage, graph: ShownGraph) -> None:
        self.played, self.graph, self.s = played, graph, played.before
        self.steps: list[StepDraft] = []
        self._pieces = {id(p.arrangement): p for p in self.s.pieces.values() if not p.hidden}
        self._pieces |= {id(p.arrangement): p for p in self.s.pieces.values() if p.hidden}
        self._visible_pieces = {id(p.arrangement): p for p in self.s.pieces.values() if not p.hidden}

    def step(self, kind: str, operator: str) -> StepDraft:
        """Append and return a new step."""
        self.steps.append(StepDraft(kind, operator, self.played.number))
        return self.steps[-1]

    def last(self, operator: str) -> StepDraft | None:
        """Return the latest step of an operator, or None if it has not acted yet."""
        return next((d for d in reversed(self.steps) if d.operator == operator), None)

    def add_read(self, draft: StepDraft | None, entry: ArrangementRead) -> None:
        """Record a read in a step, unless an aggregation is looking up keys in its own state."""
        if draft is None:
            return
        piece = self._visible_pieces.get(id(entry.arrangement)) or self._pieces.get(id(entry.arrangement))
        if piece is None:
            return
        name, key = piece.name, entry.arrangement.layout.key
        reduce = self.s.reduces.get(draft.operator)
        own = self._pieces.get(id(entry.arrangement))
        if reduce is not None and own is not None and own.owner == draft.operator and not entry.rows:
            return
        draft.reads.append((name, None if entry.rows else key, entry.words))

    def move(self, source: str, target: str, kind: str, trace_rows: int, changes: Changes | None) -> MoveDraft:
        """Return a message between two operators of the trace, with hidden operators replaced by the shown ones."""
        views = self.s.operators.get(target, {}).get("kind") == "view"
        unique = self.s.unique.get(target) if views else self.s.unique.get(source)
        shown = self.graph.stand_in(self.s, source), self.graph.stand_in(self.s, target)
        keyed = kind == "change" and (views or (unique is not None and source in self.s.reduces))
        return MoveDraft(*shown, kind, (source, target), trace_rows, changes, unique, keyed)


def dataflow_steps(played: PlayedMessage, graph: ShownGraph, kind: str) -> list[StepDraft]:
    """Return the steps of a message to a full or shared engine."""
    builder = _DataflowSteps(played, graph)
    message = played.message
    if isinstance(message, Read):
        draft = builder.step("read", _spelled(message.view, played))
        draft.key, draft.answer = message.key, played.answer
        for entry in played.entries:
            if isinstance(entry, ArrangementRead):
                builder.add_read(draft, entry)
    elif isinstance(message, Epoch):
        builder.epoch()
        if kind == "shared" or not builder.steps:
            builder.step("seal", "")
    else:
        builder.step(type(message).__name__.lower(), "")
    return builder.steps


def _spelled(view: str, played: PlayedMessage) -> str:
    return next((n for n in played.before.operators if n.lower() == view.lower()), view)


class _DataflowSteps(StepBuilder):
    def act(self, operator: str, kind: str = "change") -> StepDraft:
        """Return the step of an operator in this epoch. Creates the step if it does not exist yet."""
        return self.last(operator) or self.step(kind, operator)

    def epoch(self) -> None:
        current: StepDraft | None = None
        for entry in self.played.entries:
            if isinstance(entry, BatchInsert):
                piece = self._pieces.get(id(entry.arrangement))
                if piece is not None:
                    current = self.act(self._owner(piece.owner), "arrive" if piece.base else "change")
                    current.inserts.append((piece.name, entry.batch))
            elif isinstance(entry, ArrangementRead):
                self.add_read(current, entry)
            elif isinstance(entry, Event) and entry.name == "message":
                if entry.target not in self.graph.hidden and self._taken(entry):
                    # The sender's step comes before the receiver's, even if the sender did not write any state.
                    self.act(self.graph.stand_in(self.s, entry.source))
                    current = self.act(entry.target)
                    self._message(entry, current)
        for draft in self.steps:
            self._view(draft)

    def _owner(self, operator: str) -> str:
        return self.graph.stand_in(self.s, operator)

    def _taken(self, event: Event) -> bool:
        """Return True if the target takes this change as a message.

        An operator that reads the arrangement in which the change was stored does not take the change itself.
        """
        if self.graph.stand_in(self.s, event.source) == event.target:
            return False
        streams = self.s.change_inputs.get(event.target)
        return streams is None or event.source in streams

    def _message(self, event: Event, draft: StepDraft) -> None:
        move = self.move(event.source, event.target, "change", event.rows, event.payload)
        draft.taken.append(move)
        self.act(move.source).sent.append(move)

    def _view(self, draft: StepDraft) -> None:
        """Record the changes that a view emits.

        If the view is read from the output of its last aggregation, also copy the batches of the aggregation's step.
        """
        if self.s.operators.get(draft.operator, {}).get("kind") == "view":
            for move in draft.taken:
                draft.emitted = move.changes

            own = next((p for p in self.s.pieces.values() if p.owner == draft.operator), None)
            if own is not None and not draft.inserts:
                twin = next((p for p in self.s.pieces.values() if p.hidden and p.arrangement is own.arrangement), None)
                source = None if twin is None else self.last(twin.owner)
                if twin is not None and source is not None:
                    draft.inserts += [(own.name, b) for n, b in source.inserts if n == twin.name]


SENDS = {"message": "change", "upquery": "upquery", "response": "response"}

InFlight = dict[int, MoveDraft]
"""The messages in flight, by the number that the engine gave them. They are kept between messages of the history."""


def partial_steps(played: PlayedMessage, graph: ShownGraph, in_flight: InFlight) -> list[StepDraft]:
    """Return the steps of a message to a partial engine, including those of hidden operators; see `without_hidden`."""
    builder = _PartialSteps(played, graph, in_flight)
    builder.run()
    if not builder.steps:
        builder.step("seal" if isinstance(played.message, Epoch) else type(played.message).__name__.lower(), "")
    return builder.steps


def take_back(draft: StepDraft, played: PlayedMessage, in_flight: InFlight, seen: InFlight) -> None:
    """Undo the steps of a refused message.

    Messages that were sent during the refused message are removed from their edges, and messages that were
    delivered are put in flight again. ``draft`` is the step that records this.
    """
    draft.taken += [in_flight.pop(number) for number in list(in_flight) if number not in played.waiting]
    for number in played.waiting:
        if number not in in_flight and number in seen:
            in_flight[number] = replace(seen[number])
            draft.sent.append(in_flight[number])


def without_hidden(steps: list[StepDraft], graph: ShownGraph) -> list[StepDraft]:
    """Return only the steps of operators that are not hidden.

    A message to a hidden operator is replaced by the messages that the hidden operator sent in turn.
    """
    holders = {id(move): draft.sent for draft in steps for move in draft.sent}
    for draft in steps:
        if draft.operator in graph.hidden:
            for taken in draft.taken:
                holder = holders.get(id(taken), [])
                at = next(n for n, f in enumerate(holder) if f is taken)
                # If several messages were taken together, only the last one is replaced; the others are removed.
                holder[at : at + 1] = draft.sent if taken is draft.taken[-1] else []
                if taken is not draft.taken[-1]:
                    continue
                for move in draft.sent:
                    move.source = taken.source
                    holders[id(move)] = holder
    return [draft for draft in steps if draft.operator not in graph.hidden]


class _PartialSteps(StepBuilder):
    def __init__(self, played: PlayedMessage, graph: ShownGraph, in_flight: InFlight) -> None:
        super().__init__(played, graph)
        self.in_flight = in_flight
        self.current: StepDraft | None = None
        self._unprobed: list[StepDraft] = []
        """The steps since the last probe of the filled keys."""
        self._taken_together: list[MoveDraft] = []
        """Messages that were delivered, but are taken together with the next one."""
        self._filled = {n: snap.filled for n, snap in played.start.items() if snap.filled is not None}

    def run(self) -> None:
        """Build the steps of the message from its entries."""
        message = self.played.message
        if isinstance(message, Read):
            view = next((n for n in self.s.operators if n.lower() == message.view.lower()), message.view)
            self._open("read", view).key = message.key
        for entry in self.played.entries:
            if isinstance(entry, Probe):
                self._probe(entry)
            elif isinstance(entry, BatchInsert):
                self._insert(entry)
            elif isinstance(entry, ArrangementRead):
                self.add_read(self.current, entry)
            elif entry.name in SENDS:
                self._send(entry)
            elif entry.name == "delivered":
                self._taken_together.append(self.in_flight.pop(entry.payload))
                if not entry.note.endswith("with the next"):
                    self._open(self._taken_together[-1].kind, entry.target).taken += self._taken_together
                    self._taken_together = []
            elif entry.name == "refused":
                # The engine has rolled back the epoch. It then applies the entire epoch again or refuses it.
                self.in_flight.clear()
                self.steps.clear()
                self._unprobed, self.current = [], None
            elif entry.name == "dropped" and self.current is not None:
                self.current.dropped.append(entry.payload)
            elif entry.name == "evicted" and (self.current is None or self.current.operator != entry.source):
                self._open("evict", entry.source)
        for draft in self.steps:
            self._view(draft)

    def _open(self, kind: str, operator: str) -> StepDraft:
        self.current = self.step(kind, operator)
        self._unprobed.append(self.current)
        return self.current

    def _probe(self, entry: Probe) -> None:
        """Assign the keys that were filled or evicted since the last probe to the step of their operator."""
        for name, keys in entry.filled.items():
            if self._filled.get(name) is not keys and self._unprobed:
                owner = self.s.pieces[name].owner if name in self.s.pieces else ""
                mine = [d for d in self._unprobed if d.operator == owner]
                (mine[-1] if mine else self._unprobed[-1]).filled[name] = keys
            self._filled[name] = keys
        self._unprobed = self._unprobed[-1:]

    def _insert(self, entry: BatchInsert) -> None:
        piece = self._pieces.get(id(entry.arrangement))
        if piece is None:
            return
        arrived = self.last(piece.owner) if id(entry.arrangement) in self.s.indexes else None
        if arrived is not None:
            arrived.inserts.append((piece.name, entry.batch))
            return
        if self.current is None or self.current.operator != piece.owner:
            self._open("arrive" if piece.base else "evict", piece.owner)
        assert self.current is not None
        self.current.inserts.append((piece.name, entry.batch))

    def _send(self, event: Event) -> None:
        kind = "evict" if event.note == "evict" else SENDS[event.name]
        payload = event.payload
        move = self.move(event.source, event.target, kind, event.rows, payload["rows"])
        move.source, move.target = self._end(event.source, kind, False), self._end(event.target, kind, True)
        move.tag = payload["tag"]
        move.key_columns = payload["by"]
        if payload["key"] is not None:
            move.keys = tuple(dict.fromkeys(payload["key"]))
        self.in_flight[payload["number"]] = move
        draft = self.current if self.current is not None and self.current.operator == event.source else None
        draft = draft or self.last(event.source) or self._open("change", event.source)
        draft.sent.append(move)

    def _end(self, name: str, kind: str, target: bool) -> str:
        """Return the operator that is shown at one end of a message."""
        while name in self.graph.hidden:
            up = (kind == "upquery") == target
            ends = [(a, b) for a, b, k in self.s.edges if k == "change"]
            name = next(a for a, b in ends if b == name) if up else next(b for a, b in ends if a == name)
        return name

    def _view(self, draft: StepDraft) -> None:
        """Record the changes that a view emits, which are those whose keys are filled."""
        if self.s.operators.get(draft.operator, {}).get("kind") == "view" and draft.kind == "change":
            for name, batch in draft.inserts:
                columns = self.s.pieces[name].arrangement.layout.columns
                draft.emitted = self.graph.changes(
                    self.s.schemas[draft.operator],
                    Delta(batch.body[1 : 1 + columns], batch.body[1 + columns]),
                    self.s.unique.get(draft.operator),
                )
