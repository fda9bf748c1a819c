"""Plays a history of messages on an engine and records it.

    replay = ss.replay("full", [result])
    recording = replay([("info", ("Potato", "Vegetable")), ("visit", ("Potato", "Eve", 60))])

Each call runs a new engine from the beginning, so an edited history is simply played again, and
equal histories give equal recordings. Under partial state, a race can be written as a history:
``("pause",)``, then ``("deliver", sender, receiver)`` in any order (each edge delivers its oldest message
first), then ``("resume",)``. If the engine refuses a message, the recording keeps the message with its error,
and the later messages are applied as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from ..engine.engine import Engine
from ..engine.state_tables import Handles
from ..errors import Error, ViewError, shorten
from ..partial.messages import PendingResult
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
    """Plays histories on new engines of one kind with the same views.

    ``engine`` is the function that creates an engine; ``ss.replay`` passes ``ss.engine``. The options
    are those of ``ss.engine``. Raises ViewError for an invalid kind, view or option.
    """

    def __init__(self, engine: Callable[..., Engine], kind: str, views: View | Sequence[View], **options: Any) -> None:
        self._engine, self.kind, self._options = engine, kind, options
        self.views = [views] if isinstance(views, View) else list(views)
        fixes = options.get("without")
        if isinstance(fixes, Iterable) and not isinstance(fixes, str):
            options["without"] = frozenset(fixes)  # an iterator, too, is for every run
        self._make().close()
        self._catalog = self.views[0].catalog

    def _make(self) -> Engine:
        return self._engine(self.kind, self.views, **self._options)

    def message(self, given: Any) -> Message:
        """Parse a message from a tuple, a dictionary or typed text; see `parse`. Raises Error if it is not valid."""
        return MessageParser(self._catalog.relations, self._catalog.views).message(given)

    def __call__(self, messages: Iterable[Any] = ()) -> Recording:
        """Play the messages and return the recording.

        An invalid message does not raise an exception. The recording contains the error in the place of the message,
        and the stepper shows it there. `Recording.check` raises it.
        """
        return _Run(self._make(), self._catalog, self.message).play(messages)

    def __repr__(self) -> str:
        return f"Replay({self.kind}, {', '.join(v.name for v in self.views)})"


class _Run:
    """Plays one history on one observed engine."""

    def __init__(self, engine: Engine, catalog: Any, read: Any) -> None:
        self.engine, self.catalog, self.read = engine, catalog, read
        partial = isinstance(engine, Partial)
        self.observer = Observer(
            engine, (lambda: {n: k for n, (k, _) in filled_keys(engine).items()}) if partial else None
        )
        self.handles: dict[str, Handles] = {}
        self.handle_names: dict[int, str] = {}
        self.pending: list[tuple[int, PendingResult]] = []
        self._read_structure()

    def _read_structure(self) -> None:
        """Update the cached structure and state of the engine, and observe its new arrangements."""
        self.s: Structure = structure(self.engine)
        self._seen = [id(a) for a in self.engine.all_arrangements()]
        self.observer.follow(self.s.arrangements)
        self.held: dict[str, Snapshot] = snapshots(self.engine, self.s, self.handle_names)

    def play(self, messages: Iterable[Any]) -> Recording:
        """Play all messages in order and return the recording."""
        first = self.s, self.held
        self.observer.take(0)
        messages = [self._played(number, given) for number, given in enumerate(messages, 1)]
        return record(self.engine, messages, first)

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
            entries = []  # the engine has rolled back the message
        if [id(a) for a in self.engine.all_arrangements()] != self._seen or (
            isinstance(message, Install | Drop) and not refused
        ):
            self._read_structure()
        else:
            self.held = snapshots(self.engine, self.s, self.handle_names)
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
        """Apply one message to the engine. Returns the rows if the message is a read that completed, otherwise None."""
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
            if isinstance(given, PendingResult):
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
            self._schedule(message)
        return None

    def _declared(self, name: str) -> View:
        found: View | None = next((v for n, v in self.catalog.views.items() if n.lower() == name.lower()), None)
        if found is None:
            raise ViewError(f"view {name} does not exist; declare it first with catalog.view(...)")
        return found

    def _hold(self, message: Hold) -> None:
        if self.engine.kind != "shared":
            raise ViewError(f"hold: {self.engine.kind} state does not have trace handles; use shared state")
        known = self.handles.get(message.reader)
        if message.time is None:
            if known is None:
                raise ViewError(
                    f"hold {message.reader}: there is no open handle with this name; add an epoch number to open one"
                )
            self.handles.pop(message.reader).close()
        elif known is not None:
            known.advance(message.time)
        else:
            self.handles[message.reader] = self.engine.handle(message.time)
            for arrangement in self.engine.epoch_arrangements():
                self.handle_names[id(arrangement.handles[-1])] = message.reader

    def _schedule(self, message: Pause | Deliver | Resume) -> None:
        if not isinstance(self.engine, Partial):
            raise ViewError(
                f"{message.text.split()[0]}: a {self.engine.kind} engine cannot hold messages back; use partial state"
            )
        if isinstance(message, Pause):
            self.engine.pause()
        elif isinstance(message, Resume):
            self.engine.resume()
        else:
            self._deliver(message.sender, message.receiver)

    def _deliver(self, sender: str, receiver: str) -> None:
        """Deliver the oldest message from ``sender`` to ``receiver``, through any projections between them."""
        assert isinstance(self.engine, Partial)
        engine, plain = self.engine, self.s.projections
        for name in (sender, receiver):
            if name not in self.s.operators:
                known = ", ".join(each for each in self.s.operators if each not in plain)
                raise Error(f"operator {name} does not exist; the operators are {known}")
        while True:
            waiting = engine.messages()
            at = next((i for i, m in enumerate(waiting) if m.edge[0] == sender and self._leads(m.edge, receiver)), None)
            if at is None:
                ways = ", ".join(dict.fromkeys(f"{a} -> {b}" for a, b in (m.edge for m in waiting)))
                raise Error(
                    f"no message is waiting from {sender} to {receiver}; edges with waiting messages: {ways or 'none'}"
                )
            to = waiting[at].edge[1]
            engine.deliver(at)
            if to not in plain:
                return
            sender = to

    def _leads(self, edge: tuple[str, str], receiver: str) -> bool:
        """Return True if an edge leads to ``receiver``, directly or through projections."""
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
    """Return the rows of a frame as tuples of Python values, with None for NULL."""
    lines = [column.array.to_numpy(dtype=object, na_value=None).tolist() for _, column in frame.items()]
    plain = [[v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in line] for line in lines]
    return tuple(zip(*plain, strict=True)) if plain else ((),) * len(frame)
