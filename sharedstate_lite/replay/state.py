"""The state after each step of a run.

The batches of each piece of state are kept for every step that changed them. Batches are
immutable and shared, so keeping them costs only references. `tables` turns a piece into a table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..changelog.changes import Changes
from ..changelog.convert import to_arrow
from ..engine.state_tables import BILL
from ..plan.nodes import Type
from ..storage.batch import Batch
from ..storage.encoding import Dictionary, Words
from .messages import Values
from .recording import Amount, Totals
from .steps import PlayedMessage, StepDraft
from .structure import Snapshot, Structure

MANY = 1000
"""If a change with more rows than this is dropped, its keys are not recorded as holes."""


@dataclass(eq=False)
class PieceHistory:
    """One piece of state over time.

    ``snaps[i]`` is its snapshot from step ``steps[i]`` until the next entry, or None while the piece does not exist.
    """

    steps: list[int] = field(default_factory=list)
    snaps: list[Snapshot | None] = field(default_factory=list)
    inserts: dict[int, list[Batch]] = field(default_factory=dict)
    """The batches added in each step, by step number."""

    def at(self, step: int) -> Snapshot | None:
        """Return the snapshot after a step, or None if the piece does not exist then."""
        place = bisect_right(self.steps, step) - 1
        return self.snaps[place] if place >= 0 else None

    def since(self, start: int, step: int) -> dict[int, int]:
        """Return the steps that added the batches after step ``start`` up to ``step``, by the id of the batch."""
        return {id(b): s for s, batches in self.inserts.items() if start < s <= step for b in batches}

    def put(self, step: int, snap: Snapshot | None) -> None:
        """Set the snapshot that is valid from a step onward."""
        if self.steps and self.steps[-1] == step:
            self.snaps[-1] = snap
        else:
            self.steps.append(step)
            self.snaps.append(snap)


@dataclass(eq=False)
class StateHistory:
    """All pieces of state over all steps, and the upqueries and reads that were open at each step."""

    messages: Sequence[PlayedMessage]
    drafts: Sequence[StepDraft]
    strings: Dictionary
    first: tuple[Structure, dict[str, Snapshot]]
    """The structure and state before the first message."""
    shared: bool = False
    pieces: dict[str, PieceHistory] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first and last step of each message, by message number."""
    met: dict[str, list[tuple[int, Values]]] = field(default_factory=dict)
    """The keys that messages encountered as holes, by piece, each as (first such step, key)."""
    asked: list[tuple[str, int, int | None, tuple[Values, ...]]] = field(default_factory=list)
    """Upqueries that stayed open for at least one step: (operator, first step, answering step or None, keys)."""
    reads: list[tuple[str, int, int | None, tuple[Values, ...]]] = field(default_factory=list)
    """Reads that stayed open for at least one step: (view, first step, answering step or None, keys)."""

    _decoded: dict[int, tuple[Words, dict[Values, None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, snap in self.first[1].items():
            self._piece(name).put(0, snap)
        by_message: dict[int, list[StepDraft]] = {}
        for draft in self.drafts:
            by_message.setdefault(draft.message, []).append(draft)
        for played in self.messages:
            steps = by_message[played.number]
            self.spans[played.number] = steps[0].number, steps[-1].number
            self._played(played, steps)
        self._questions()

    def _piece(self, name: str) -> PieceHistory:
        return self.pieces.setdefault(name, PieceHistory())

    def _played(self, played: PlayedMessage, steps: Sequence[StepDraft]) -> None:
        for draft in steps:
            touched: dict[str, Snapshot] = {}
            for name, batch in draft.inserts:
                past = self._piece(name)
                snap = touched.get(name) or past.at(draft.number)
                if snap is not None:
                    touched[name] = snap.then(batch)
                    past.inserts.setdefault(draft.number, []).append(batch)
            for name, keys in draft.filled.items():
                snap = touched.get(name) or self._piece(name).at(draft.number)
                if snap is not None:
                    self._met(name, draft.number, snap, keys)
                    touched[name] = replace(snap, filled=keys)
            self._holes(played.before, draft)
            for name, snap in touched.items():
                self._piece(name).put(draft.number, snap)
        last = steps[-1].number
        for name in {**played.start, **played.end}:
            past, new = self._piece(name), played.end.get(name)
            old = played.start.get(name)
            if new is not old or past.at(last) is not new:
                past.put(last, new)
            if new is not None and (old is None or old.piece.arrangement is not new.piece.arrangement):
                past.inserts[last] = list(new.runs)

    def _met(self, name: str, step: int, before: Snapshot, after: Words) -> None:
        """Record the keys that were filled before a step and are holes after it."""
        if before.filled is not None and before.filled.shape[1]:
            left = self.keys(before, after)
            self._meet(name, step, [k for k in self.keys(before, before.filled) if k not in left])

    def _holes(self, s: Structure, draft: StepDraft) -> None:
        """Record the keys that an upquery, a read or a dropped change encountered as holes."""
        for name, piece in s.pieces.items():
            snap = self._piece(name).at(draft.number) if piece.owner == draft.operator else None
            if snap is None or snap.filled is None:
                continue
            wanted: list[Values] = []
            if name in s.join_sides:
                # A join sends upqueries for holes in a side that it stores.
                key = tuple(piece.columns[i] for i in snap.layout.key)
                wanted += [k for f in draft.sent if f.kind == "upquery" and f.key_columns == key for k in f.keys or ()]
            else:
                wanted += [k for f in draft.taken if f.kind == "upquery" for k in f.keys or ()]
                wanted += [draft.key] if draft.kind == "read" and draft.key is not None else []
                wanted += [k for changes in draft.dropped for k in _keys(changes, draft.taken[0].key_columns)]
            if wanted:
                there = self.keys(snap, snap.filled)
                self._meet(name, draft.number, [k for k in wanted if k not in there])

    def _meet(self, name: str, step: int, keys: Sequence[Values]) -> None:
        known = self.met.setdefault(name, [])
        seen = {k for _, k in known}
        known += [(step, k) for k in dict.fromkeys(keys) if k not in seen]

    def keys(self, snap: Snapshot, words: Words | None) -> dict[Values, None]:
        """Decode filled keys, in order. The result is cached because filled keys rarely change."""
        if words is None:
            return {}
        found = self._decoded.get(id(words))
        if found is None or found[0] is not words:
            if len(self._decoded) > 100:
                self._decoded.clear()
            found = words, dict.fromkeys(decode(words, snap.filled_types, self.strings))
            self._decoded[id(words)] = found
        return found[1]

    def _questions(self) -> None:
        open_: dict[tuple[str, int], tuple[int, tuple[Values, ...]]] = {}
        for draft in self.drafts:
            for flight in draft.taken:
                if flight.kind == "upquery":
                    open_[draft.operator, flight.tag] = draft.number, flight.keys or ()
            for flight in draft.sent:
                if flight.kind == "response" and (draft.operator, flight.tag) in open_:
                    start, keys = open_.pop((draft.operator, flight.tag))
                    if start != draft.number:
                        self.asked.append((draft.operator, start, draft.number, keys))
        self.asked += [(operator, start, None, keys) for (operator, _), (start, keys) in open_.items()]

    # --- asking -----------------------------------------------------------------

    def played(self, step: int) -> PlayedMessage | None:
        """Return the message that a step belongs to, or None for step 0."""
        return self.messages[self.drafts[step - 1].message - 1] if step else None

    def structure(self, step: int) -> Structure:
        """Return the structure after the message that a step belongs to."""
        played = self.played(step)
        return self.first[0] if played is None else played.after

    def start(self, step: int) -> int:
        """Return the last step before the message that a step belongs to."""
        played = self.played(step)
        return 0 if played is None else self.spans[played.number][0] - 1

    def totals(self, step: int) -> Totals:
        """Return what is stored after a step, in the columns of the bill."""
        sums = {column: [0, 0, 0] for column in BILL}
        for past in self.pieces.values():
            for snap, before in ((past.at(step), False), (past.at(self.start(step)), True)):
                if snap is not None and not snap.piece.hidden:
                    for column in snap.piece.bill:
                        sums[column][2 if before else 0] += snap.rows
                        sums[column][1] += 0 if before else snap.bytes
        return Totals(**{column: Amount(*sums[column]) for column in BILL})


def decode(words: Words, types: Sequence[Type], strings: Dictionary) -> list[Values]:
    """Decode rows int64[k, n] into a list of n tuples of Python values."""
    if not len(types):
        return [()] * words.shape[1]
    lines = [to_arrow(w, t, strings).to_pylist() for w, t in zip(words, types, strict=True)]
    return list(zip(*lines, strict=True))


def tuples(changes: Changes) -> list[Values]:
    """Return the rows of some changes as tuples of Python values."""
    table = changes.to_arrow()
    lines = [column.to_pylist() for column in table.columns[:-2]]
    return list(zip(*lines, strict=True)) if lines else [()] * table.num_rows


def _keys(dropped: Changes, columns: Sequence[str]) -> list[Values]:
    """Return the keys of dropped rows.

    Returns an empty list if there are more than `MANY` rows, or if a key column is missing.
    """
    names = [c.name for c in dropped.schema]
    if len(dropped) > MANY or any(c not in names for c in columns):
        return []
    places = [names.index(c) for c in columns]
    return [tuple(row[i] for i in places) for row in tuples(dropped)]
