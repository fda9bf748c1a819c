"""A history of messages played to an engine, and record: messages in, a :class:`~.recording.Recording` out.

    replay = ss.replay("full", [result])
    recording = replay([("info", ("Potato", "Vegetable")), ("visit", ("Potato", "Eve", 60))])

Every call runs a new engine from the beginning, so an edited history is simply played
again, and equal histories give equal recordings. Under partial state a race is a history
too: ``("pause",)``, then ``("deliver", sender, receiver)`` in any order that keeps each edge
first in, first out, then ``("resume",)``. A message that cannot be taken is kept in
its place with the reason in plain words, and the rest goes on as if it were not there.
The engine itself runs as ever; :mod:`.observer` stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from ..engine.engine import Engine
from ..engine.state_tables import Handles
from ..errors import Error, ViewError, shorten
from ..partial.messages import Pending
from ..partial.partial import Partial
from ..plan.view import View
from .messages import Deliver, Drop, Epoch, Evict, Hold, Install, Message, Pause, Read, Resume, Unreadable, Values
from .observer import Observer
from .parse import MessageParser
from .recorder import record
from .recording import Recording
from .steps import PlayedMessage
from .structure import Snapshot, Structure, filled_keys, snapshots, structure


class Replay:
    """Plays histories to engines of one kind over the same views; see the module. Options are those of ``ss.engine``.

    Raises ViewError, when it is made, for a kind, view or option that cannot be.
    """

    def __init__(
        self,
        engine: Callable[..., Engine],
        kind: str,
        views: View | Sequence[View],
        *,
        join: str = "auto",
        max_rows: int | None = None,
        max_bytes: int | None = None,
        seed: int = 0,
        without: Iterable[str] = (),
    ) -> None:
        self._engine, self.kind = engine, kind
        self.views = [views] if isinstance(views, View) else list(views)
        self._options: dict[str, Any] = {"join": join}
        partial = {"max_rows": max_rows, "max_bytes": max_bytes, "seed": seed, "without": frozenset(without)}
        if kind == "partial":
            self._options |= partial
        elif any(partial.values()):
            raise ViewError(f"max_rows, max_bytes, seed and without are options of partial state, not of {kind}")
        self._make().close()
        self._catalog = self.views[0].catalog

    def _make(self) -> Engine:
        return self._engine(self.kind, self.views, **self._options)

    def message(self, given: Any) -> Message:
        """A message from a short form or a typed text; see :mod:`.parse`. Raises Error, in one plain sentence."""
        return MessageParser(self._catalog.relations, self._catalog.views).message(given)

    def __call__(self, messages: Iterable[Any] = ()) -> Recording:
        """Play a history. Never raises for a message: what is wrong with one is told at its place."""
        return _Run(self._make(), self._catalog, self.message).play(messages)

    def __repr__(self) -> str:
        return f"Replay({self.kind}, {', '.join(v.name for v in self.views)})"


class _Run:
    """One engine, watched while it plays one history."""

    def __init__(self, engine: Engine, catalog: Any, read: Any) -> None:
        self.engine, self.catalog, self.read = engine, catalog, read
        partial = isinstance(engine, Partial)
        self.observer = Observer(
            engine, (lambda: {n: k for n, (k, _) in filled_keys(engine).items()}) if partial else None
        )
        self.handles: dict[str, Handles] = {}
        self.whose: dict[int, str] = {}
        self.pending: list[tuple[int, Pending]] = []
        self._look()

    def _look(self) -> None:
        """What the engine consists of now."""
        self.s: Structure = structure(self.engine)
        self._seen = [id(a) for a in self.engine.all_arrangements()]
        self.observer.follow(self.s.arrangements)
        self.held: dict[str, Snapshot] = snapshots(self.engine, self.s, self.whose)

    def play(self, messages: Iterable[Any]) -> Recording:
        """All messages, in order."""
        first = self.s, self.held
        self.observer.take(0)
        messages = [self._played(number, given) for number, given in enumerate(messages, 1)]
        return record(self.engine, self.catalog, messages, first)

    def _played(self, number: int, given: Any) -> PlayedMessage:
        s, held = self.s, self.held
        try:
            message = self.read(given)
        except Error as error:
            message = Unreadable((given if isinstance(given, str) else shorten(given))[:80], str(error))
        refused, answer = "", None
        try:
            answer = self._apply(number, message)
        except Error as error:
            refused = str(error)
        entries = self.observer.take(len(self.engine.dictionary.strings))
        if refused:
            entries = []  # it was undone
        if [id(a) for a in self.engine.all_arrangements()] != self._seen or (
            isinstance(message, Install | Drop) and not refused
        ):
            self._look()
        else:
            self.held = snapshots(self.engine, self.s, self.whose)
        played = PlayedMessage(
            number, message, message.text, self.engine.epoch, entries, refused, s, self.s, held, self.held, answer
        )
        if isinstance(self.engine, Partial):
            played.waiting = tuple(m.number for m in self.engine.in_flight)
        for of, pending in list(self.pending):
            if pending.done:
                self.pending.remove((of, pending))
                played.answered.append((of, _rows(pending.result())))
        return played

    def _apply(self, number: int, message: Message) -> tuple[Values, ...] | None:
        """Send one message; returns what a read gave."""
        engine = self.engine
        if isinstance(message, Unreadable):
            raise Error(message.why)
        if isinstance(message, Epoch):
            inputs: dict[str, list[tuple[Values, int]]] = {}
            for relation, row, diff in message.changes:
                inputs.setdefault(relation, []).append((row, diff))
            engine.step(inputs)
        elif isinstance(message, Read):
            given = engine.read(message.view, message.key)
            if isinstance(given, Pending):
                self.pending.append((number, given))
                return None
            return _rows(given)
        elif isinstance(message, Evict):
            engine.evict(message.view, message.key)
        elif isinstance(message, Install):
            engine.install(self._declared(message.view))
        elif isinstance(message, Drop):
            engine.drop(message.view)
        elif isinstance(message, Hold):
            self._hold(message)
        else:
            self._by_hand(message)
        return None

    def _declared(self, name: str) -> View:
        found: View | None = next((v for n, v in self.catalog.views.items() if n.lower() == name.lower()), None)
        if found is None:
            raise ViewError(f"no view is called {name}; declare it in the catalog first: catalog.view(...)")
        return found

    def _hold(self, message: Hold) -> None:
        if self.engine.kind != "shared":
            raise ViewError(f"hold: {self.engine.kind} state keeps no past to hold; use shared state")
        known = self.handles.get(message.reader)
        if message.time is None:
            if known is None:
                raise ViewError(f"hold {message.reader}: nobody of that name holds a handle; give a time to take one")
            self.handles.pop(message.reader).close()
        elif known is not None:
            known.advance(message.time)
        else:
            self.handles[message.reader] = self.engine.handle(message.time)
            for arrangement in self.engine.epoch_arrangements():
                self.whose[id(arrangement.handles[-1])] = message.reader

    def _by_hand(self, message: Pause | Deliver | Resume) -> None:
        if not isinstance(self.engine, Partial):
            raise ViewError(
                f"{message.text.split()[0]}: inside a {self.engine.kind} engine nothing waits; use partial state"
            )
        if isinstance(message, Pause):
            self.engine.pause()
        elif isinstance(message, Resume):
            self.engine.resume()
        else:
            self._deliver(message.sender, message.receiver)

    def _deliver(self, sender: str, receiver: str) -> None:
        """Deliver the oldest message between two operators, through projections that only pass it on."""
        assert isinstance(self.engine, Partial)
        engine, plain = self.engine, self.s.projections
        while True:
            waiting = engine.messages()
            at = next((i for i, m in enumerate(waiting) if m.edge[0] == sender and self._leads(m.edge, receiver)), None)
            if at is None:
                ways = ", ".join(dict.fromkeys(f"{a} -> {b}" for a, b in (m.edge for m in waiting)))
                raise Error(f"nothing waits between {sender} and {receiver}; messages wait on: {ways or 'no edge'}")
            to = waiting[at].edge[1]
            engine.deliver(at)
            if to not in plain:
                return
            sender = to

    def _leads(self, edge: tuple[str, str], receiver: str) -> bool:
        """Whether a message on an edge gets to a receiver, perhaps through projections."""
        here, before = edge[1], edge[0]
        while here in self.s.projections and here != receiver:
            nexts = [b for a, b, _ in self.s.edges if a == here and b != before]
            if receiver in nexts:
                return True
            if not nexts:
                return False
            before, here = here, nexts[0]
        return here == receiver


def _rows(frame: pd.DataFrame) -> tuple[Values, ...]:
    """A frame's rows as tuples of Python values, None for NULL."""
    lines = [column.array.to_numpy(dtype=object, na_value=None).tolist() for _, column in frame.items()]
    plain = [[v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in line] for line in lines]
    return tuple(zip(*plain, strict=True)) if plain else ((),) * len(frame)
