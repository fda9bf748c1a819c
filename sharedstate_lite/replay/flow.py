"""An epoch of full or shared state, cut into steps: each operator acts once, in the order in which they ran.

First come the rows into the base tables, a step for each relation. Then every operator
that was sent something, or wrote something, in the engine's order; the views last. Under
shared state the epoch is then sealed, in a step of its own: since moves, batches merge.
"""

from __future__ import annotations

from ..engine.trace import Event
from .messages import Epoch, Read
from .steps import Chapter, Cutter, Draft, Names
from .watch import Insert, Look


def cut(chapter: Chapter, names: Names, kind: str) -> list[Draft]:
    """The steps of a message to a full or a shared engine."""
    flow = _Flow(chapter, names)
    message = chapter.message
    if isinstance(message, Read):
        draft = flow.step("read", _spelled(message.view, chapter))
        draft.key, draft.answer = message.key, chapter.answer
        for entry in chapter.entries:
            if isinstance(entry, Look):
                flow.look(draft, entry)
    elif isinstance(message, Epoch):
        flow.epoch()
        if kind == "shared" or not flow.steps:
            flow.step("seal", "")
    else:
        flow.step(type(message).__name__.lower(), "")
    return flow.steps


def _spelled(view: str, chapter: Chapter) -> str:
    return next((n for n in chapter.before.operators if n.lower() == view.lower()), view)


class _Flow(Cutter):
    def act(self, operator: str, kind: str = "change") -> Draft:
        """The step of an operator, made when it is first heard of."""
        return self.last(operator) or self.step(kind, operator)

    def epoch(self) -> None:
        current: Draft | None = None
        for entry in self.chapter.entries:
            if isinstance(entry, Insert):
                piece = self._pieces.get(id(entry.arrangement))
                if piece is not None:
                    current = self.act(self._owner(piece.owner), "arrive" if piece.base else "change")
                    current.inserts.append((piece.name, entry.batch))
            elif isinstance(entry, Look):
                self.look(current, entry)
            elif isinstance(entry, Event) and entry.name == "message":
                if entry.target not in self.names.folded and self._taken(entry):
                    # Who has said nothing yet in this epoch may have had something to say from the start.
                    self.act(self.names.shown(self.s, entry.source))
                    current = self.act(entry.target)
                    self._message(entry, current)
        for draft in self.steps:
            self._view(draft)

    def _owner(self, operator: str) -> str:
        return self.names.shown(self.s, operator)

    def _taken(self, event: Event) -> bool:
        """Whether the target takes this change: not where it only reads the arrangement that was written."""
        if self.names.shown(self.s, event.source) == event.target:
            return False
        streams = self.s.streams.get(event.target)
        return streams is None or event.source in streams

    def _message(self, event: Event, draft: Draft) -> None:
        flight = self.flight(event.source, event.target, "change", event.rows, event.payload)
        draft.taken.append(flight)
        self.act(flight.source).sent.append(flight)

    def _view(self, draft: Draft) -> None:
        """A view takes in what its root sent, and tells it to its readers."""
        if self.s.operators.get(draft.operator, {}).get("kind") == "view":
            for flight in draft.taken:
                draft.emitted = flight.changes
            # Where the view is read from the output of its last reduce, the same batches are shown here.
            told = next((p for p in self.s.pieces.values() if p.owner == draft.operator), None)
            if told is not None and not draft.inserts:
                twin = next((p for p in self.s.pieces.values() if p.hidden and p.arrangement is told.arrangement), None)
                source = None if twin is None else self.last(twin.owner)
                if twin is not None and source is not None:
                    draft.inserts += [(told.name, b) for n, b in source.inserts if n == twin.name]
