"""A message to a partial engine, cut into steps: one message inside the engine arrives, and its receiver acts.

What is under way at the end of one message of the history goes on in the next: a paused
engine's questions and changes wait on their edges.
"""

from __future__ import annotations

from dataclasses import replace

from ..engine.trace import Event
from ..storage.batch import Delta
from .messages import Epoch, Read
from .steps import Chapter, Cutter, Draft, Flight, Names
from .watch import Insert, Look, Probe

SENDS = {"message": "change", "upquery": "upquery", "response": "response"}

Under = dict[int, Flight]
"""Messages under way, by the number that the engine gave them; kept from one chapter to the next."""


def cut(chapter: Chapter, names: Names, under: Under) -> list[Draft]:
    """The steps of a message to a partial engine, those of operators that are left out included; see :func:`passed`."""
    asked = _Asked(chapter, names, under)
    asked.run()
    if not asked.steps:
        asked.step("seal" if isinstance(chapter.message, Epoch) else type(chapter.message).__name__.lower(), "")
    return asked.steps


def take_back(draft: Draft, chapter: Chapter, under: Under, seen: Under) -> None:
    """A row that refuses takes steps back: what they sent is gone, and what had arrived since is under way again."""
    draft.taken += [under.pop(number) for number in list(under) if number not in chapter.waiting]
    for number in chapter.waiting:
        if number not in under and number in seen:
            under[number] = replace(seen[number])
            draft.sent.append(under[number])


def passed(steps: list[Draft], names: Names) -> list[Draft]:
    """The steps without those of operators that are left out: what they passed on stands for what they took."""
    holders = {id(flight): draft.sent for draft in steps for flight in draft.sent}
    for draft in steps:
        if draft.operator in names.folded:
            for taken in draft.taken:
                holder = holders.get(id(taken), [])
                at = next(n for n, f in enumerate(holder) if f is taken)
                # Of several that were taken together the last one stands for all.
                holder[at : at + 1] = draft.sent if taken is draft.taken[-1] else []
                if taken is not draft.taken[-1]:
                    continue
                for flight in draft.sent:
                    flight.source = taken.source
                    holders[id(flight)] = holder
    return [draft for draft in steps if draft.operator not in names.folded]


class _Asked(Cutter):
    def __init__(self, chapter: Chapter, names: Names, under: Under) -> None:
        super().__init__(chapter, names)
        self.under = under
        self.current: Draft | None = None
        self._since: list[Draft] = []
        """The steps since the filled keys were last looked at."""
        self._together: list[Flight] = []
        """What has arrived and is taken with the message that arrives next."""
        self._filled = {n: snap.filled for n, snap in chapter.start.items() if snap.filled is not None}

    def run(self) -> None:
        """Cut."""
        message = self.chapter.message
        if isinstance(message, Read):
            view = next((n for n in self.s.operators if n.lower() == message.view.lower()), message.view)
            self._open("read", view).key = message.key
        for entry in self.chapter.entries:
            if isinstance(entry, Probe):
                self._probe(entry)
            elif isinstance(entry, Insert):
                self._insert(entry)
            elif isinstance(entry, Look):
                self.look(self.current, entry)
            elif entry.name in SENDS:
                self._send(entry)
            elif entry.name == "delivered":
                self._together.append(self.under.pop(entry.payload))
                if not entry.note.endswith("with the next"):
                    self._open(self._together[-1].kind, entry.target).taken += self._together
                    self._together = []
            elif entry.name == "refused":
                # The epoch follows as a whole, or this chapter is not cut: nothing of before has happened.
                self.under.clear()
                self.steps.clear()
                self._since, self.current = [], None
            elif entry.name == "dropped" and self.current is not None:
                self.current.dropped.append(entry.payload)
            elif entry.name == "evicted" and (self.current is None or self.current.operator != entry.source):
                self._open("evict", entry.source)
        for draft in self.steps:
            self._view(draft)

    def _open(self, kind: str, operator: str) -> Draft:
        self.current = self.step(kind, operator)
        self._since.append(self.current)
        return self.current

    def _probe(self, entry: Probe) -> None:
        """Keys that were filled or became holes since the last look belong to the step of their operator."""
        for name, keys in entry.filled.items():
            if self._filled.get(name) is not keys and self._since:
                owner = self.s.pieces[name].owner if name in self.s.pieces else ""
                mine = [d for d in self._since if d.operator == owner]
                (mine[-1] if mine else self._since[-1]).filled[name] = keys
            self._filled[name] = keys
        self._since = self._since[-1:]

    def _insert(self, entry: Insert) -> None:
        piece = self._pieces.get(id(entry.arrangement))
        if piece is None:
            return
        if self.current is None or self.current.operator != piece.owner:
            self._open("arrive" if piece.base else "evict", piece.owner)
        assert self.current is not None
        self.current.inserts.append((piece.name, entry.batch))

    def _send(self, event: Event) -> None:
        kind = "evict" if event.note == "evict" else SENDS[event.name]
        told = event.payload
        flight = self.flight(event.source, event.target, kind, event.rows, told["rows"])
        flight.source, flight.target = self._end(event.source, kind, False), self._end(event.target, kind, True)
        flight.tag = told["tag"]
        flight.key_columns = told["by"]
        if told["key"] is not None:
            flight.keys = tuple(dict.fromkeys(told["key"]))
        self.under[told["number"]] = flight
        draft = self.current if self.current is not None and self.current.operator == event.source else None
        draft = draft or self.last(event.source) or self._open("change", event.source)
        draft.sent.append(flight)

    def _end(self, name: str, kind: str, target: bool) -> str:
        """The operator at an end of a message, beyond those that are left out."""
        while name in self.names.folded:
            up = (kind == "upquery") == target
            ends = [(a, b) for a, b, k in self.s.edges if k == "change"]
            name = next(a for a, b in ends if b == name) if up else next(b for a, b in ends if a == name)
        return name

    def _view(self, draft: Draft) -> None:
        """What a view tells its readers: the changes that met a filled key."""
        if self.s.operators.get(draft.operator, {}).get("kind") == "view" and draft.kind == "change":
            for name, batch in draft.inserts:
                columns = self.s.pieces[name].arrangement.layout.columns
                draft.emitted = self.names.changes(
                    self.s.schemas[draft.operator],
                    Delta(batch.body[1 : 1 + columns], batch.body[1 + columns]),
                    self.s.unique.get(draft.operator),
                )
