"""Observes an engine from outside and collects, in order, the entries that a recording is built from.

There are four kinds of entries: trace events, batches appended to arrangements, reads of arrangements, and probes
of the filled keys. Appends and reads are observed by wrapping methods of the arrangement objects. The engines
therefore do not contain any code for recording, and an engine that is not observed does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.engine import Engine
from ..engine.events import Event
from ..plan.nodes import Type
from ..storage.arrangement import Arrangement, FoundRows
from ..storage.batch import Batch
from ..storage.encoding import NULL, Words


@dataclass(frozen=True, eq=False)
class BatchInsert:
    """Records that a batch was appended to an arrangement."""

    arrangement: Arrangement
    batch: Batch


@dataclass(frozen=True, eq=False)
class ArrangementRead:
    """Records a read of an arrangement.

    If ``rows`` is False, ``words`` are the keys that were looked up, int64[len(key), q]. If it is True, they are the
    rows that were read, int64[columns, q].
    """

    arrangement: Arrangement
    words: Words
    rows: bool

    def known(self, codes: int) -> bool:
        """Return True if every string that was read has a code below ``codes``.

        Higher codes belonged to strings that do not occur in any row, and the engine has removed them.
        """
        layout = self.arrangement.layout
        types = layout.types if self.rows else layout.key_types
        return all(k is not Type.STRING or (line < codes).all() for line, k in zip(self.words, types, strict=True))


@dataclass(frozen=True, eq=False)
class Probe:
    """Records the filled keys of each partial table between two deliveries, by table name."""

    filled: dict[str, Words]


Entry = Event | BatchInsert | ArrangementRead | Probe


class Observer:
    """Collects entries until `take` returns them.

    ``probe`` returns the filled keys of each partial table. It is called at every delivery and by `take`.
    """

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
        """Return the entries since the last call.

        Reads that contain a string with code ``codes`` or higher are left out, because no row contains such a string.
        """
        self._ask()
        out, self._entries = self._entries, []
        return [e for e in out if not isinstance(e, ArrangementRead) or e.known(codes)]

    def follow(self, arrangements: Iterable[Arrangement]) -> None:
        """Observe these arrangements as well."""
        for arrangement in arrangements:
            if id(arrangement) not in self._followed:
                self._followed[id(arrangement)] = arrangement
                self._wrap(arrangement)

    def _wrap(self, arrangement: Arrangement) -> None:
        insert, match, read = arrangement.insert_body, arrangement.match, arrangement.read
        probe = arrangement.probe
        columns = slice(1, 1 + arrangement.layout.columns)

        def insert_body(body: Words) -> None:
            insert(body)
            if body.shape[1]:
                self._entries.append(BatchInsert(arrangement, arrangement.runs[-1]))

        def asked(keys: Words) -> None:
            if keys.shape[1]:
                # A join asks for the key of each of its rows.
                first = np.unique(keys, axis=1, return_index=True)[1] if len(keys) else np.zeros(1, dtype=np.intp)
                self._entries.append(ArrangementRead(arrangement, keys.take(np.sort(first), axis=1), False))

        def probing(keys: Words, *rest: Any) -> Any:
            asked(keys.compress((keys != NULL).all(axis=0), axis=1))  # NULL joins with nothing
            return probe(keys, *rest)

        def matching(keys: Words, *rest: Any, **more: Any) -> Any:
            asked(keys)
            self._matching = True
            try:
                return match(keys, *rest, **more)
            finally:
                self._matching = False

        def reading(rows: FoundRows, *rest: Any) -> None:
            kept = rows.kept
            read(rows, *rest)
            if not self._matching and rows.kept > kept:
                found = rows.lines[columns, kept : rows.kept].copy()
                self._entries.append(ArrangementRead(arrangement, found, True))

        for name, wrapper in (("insert_body", insert_body), ("match", matching), ("read", reading), ("probe", probing)):
            setattr(arrangement, name, wrapper)
