"""Standing beside an engine: what happened, in order, for a recording.

Three kinds of entries: the events of the trace, batches that arrangements were given, and
look-ups in them. The last two are seen by standing in front of an arrangement's methods,
so no engine knows that it is watched, and an engine that is not watched pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..engine.engine import Engine
from ..engine.trace import Event
from ..plan.nodes import Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Batch
from ..storage.encoding import Words


@dataclass(frozen=True, eq=False)
class BatchInsert:
    """A batch was appended to an arrangement."""

    arrangement: Arrangement
    batch: Batch


@dataclass(frozen=True, eq=False)
class ArrangementRead:
    """An arrangement was searched for keys, int64[len(key), q], or (``rows``) some of its rows were read."""

    arrangement: Arrangement
    words: Words
    rows: bool

    def known(self, codes: int) -> bool:
        """Whether every string of it has a code below ``codes``; those of a key that is nowhere are forgotten."""
        layout = self.arrangement.layout
        types = layout.types if self.rows else layout.key_types
        return all(k is not Type.STRING or (line < codes).all() for line, k in zip(self.words, types, strict=True))


@dataclass(frozen=True, eq=False)
class Probe:
    """The filled keys of each table with holes, at a moment between two messages."""

    filled: dict[str, Words]


Entry = Event | BatchInsert | ArrangementRead | Probe


class Observer:
    """Collects entries until they are taken. ``probe`` is asked whenever a message arrives."""

    def __init__(self, engine: Engine, probe: Callable[[], dict[str, Words]] | None = None) -> None:
        self._entries: list[Entry] = []
        self._followed: dict[int, Arrangement] = {}
        self._probe, self._matching = probe, False
        engine.trace.keep_rows = True
        engine.trace.watch = self._event

    def _event(self, event: Event) -> None:
        if event.name == "delivered":
            self._ask()
        self._entries.append(event)

    def _ask(self) -> None:
        if self._probe is not None:
            self._entries.append(Probe(self._probe()))

    def take(self, codes: int) -> list[Entry]:
        """What happened since the last time. Look-ups of strings from ``codes`` on are left out: nobody has them."""
        self._ask()
        out, self._entries = self._entries, []
        return [e for e in out if not isinstance(e, ArrangementRead) or e.known(codes)]

    def follow(self, arrangements: Iterable[Arrangement]) -> None:
        """Observer these too; those that are watched stay so."""
        for arrangement in arrangements:
            if id(arrangement) not in self._followed:
                self._followed[id(arrangement)] = arrangement
                self._stand_before(arrangement)

    def _stand_before(self, arrangement: Arrangement) -> None:
        insert, match, verify = arrangement.insert_body, arrangement.match, arrangement.verify
        columns = slice(1, 1 + arrangement.layout.columns)

        def insert_body(body: Words) -> None:
            insert(body)
            if body.shape[1]:
                self._entries.append(BatchInsert(arrangement, arrangement.runs[-1]))

        def matching(keys: Words, *rest: Any, **more: Any) -> Any:
            if keys.shape[1]:
                self._entries.append(ArrangementRead(arrangement, keys, False))
            self._matching = True
            try:
                return match(keys, *rest, **more)
            finally:
                self._matching = False

        def verifying(*rest: Any, **more: Any) -> Any:
            found = verify(*rest, **more)
            if not self._matching and found[0].shape[1]:
                self._entries.append(ArrangementRead(arrangement, found[0][columns], True))
            return found

        for name, seen in (("insert_body", insert_body), ("match", matching), ("verify", verifying)):
            setattr(arrangement, name, seen)
