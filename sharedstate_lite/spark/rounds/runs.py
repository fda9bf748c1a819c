"""A bin whose state is arrangements: each run is stored as a blob, once.

    head    JSON: the epoch; the runs of each arrangement, as [name, bytes, rows, first epoch]; a token; the process
            that wrote the head, and the port on which other workers can reach this process
    runs    (arrangement, run) -> blob

Two attempts of a task must write the same (see :mod:`.bin`). Therefore, the name of a run is the token and a number,
and merges are finished before the bin is written: a process that reads the bin could not continue them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from socket import gethostname
from typing import Any

import numpy as np

from ...engine.state_tables import StatePart
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Batch
from ...storage.encoding import Dictionary
from .bin import Bin
from .message import Store


@dataclass
class RunsBin(Bin):
    """A bin whose state is ``parts``, arrangements by name. A subclass says what `step` does with messages."""

    time: int = 0
    """The last epoch that changed the bin."""
    parts: Mapping[str, StatePart] = field(init=False)
    stored: dict[str, list[tuple[Batch, str, int]]] = field(init=False)
    """Arrangement -> its runs in the store, each with its name and the size of its blob in bytes."""

    @property
    def strings(self) -> Dictionary:
        """The dictionary of this process."""
        raise NotImplementedError

    def arrangements(self) -> Iterator[Arrangement]:
        """See `Bin.arrangements`."""
        return (held.arrangement for held in self.parts.values())

    def save(self, store: Store) -> None:
        """Write new runs to the store, remove runs that were merged, and write the head."""
        head: dict[str, list[list[Any]]] = {}
        added: list[tuple[str, str, bytes]] = []
        removed: list[tuple[str, str]] = []
        for part, held in self.parts.items():
            arrangement = held.arrangement
            arrangement.finish_merges()
            known = {id(batch): (name, size) for batch, name, size in self.stored[part]}
            stored = []
            for batch in arrangement.runs:
                if id(batch) not in known:
                    blob = wire.encode(list(batch.body[1:]), arrangement.layout.types, self.strings)
                    known[id(batch)] = (f"{self.token}-{len(added)}", len(blob))
                    added.append((part, known[id(batch)][0], blob))
                stored.append((batch, *known[id(batch)]))
            names = {name for _, name, _ in stored}
            removed += [(part, name) for _, name, _ in self.stored[part] if name not in names]
            self.stored[part] = stored
            head[part] = [[name, size, len(batch), batch.lower] for batch, name, size in stored]
        by = [f"{os.getpid()}@{gethostname()}", self.found]
        more, extra = self.extra_state()
        store.write(self.head(time=self.time, by=by, runs=head, **more), added + extra, removed)

    def extra_state(self) -> tuple[dict[str, Any], list[tuple[str, str, bytes]]]:
        """Return additional data for `save` to write: entries for the head, and blobs as (part, name, blob)."""
        return {}, []

    def load(self, head: dict[str, Any], store: Store) -> None:
        """Load the state from the store.

        Runs that are already in memory under the same name are kept.
        """
        self.time = head["time"]
        for part, runs in head["runs"].items():
            arrangement, here = self.parts[part].arrangement, {name: batch for batch, name, _ in self.stored[part]}
            self.stored[part] = [
                (here[name] if name in here else self._decode(part, store.run(part, name), lower), name, size)
                for name, size, _, lower in runs
            ]
            arrangement.runs[:] = [batch for batch, _, _ in self.stored[part]]
            arrangement.upper = self.time + 1
            arrangement.merges.clear()

    def _decode(self, part: str, blob: bytes, lower: int) -> Batch:
        layout = self.parts[part].arrangement.layout
        lines = wire.decode(blob, self.strings)
        words = layout.sort_words(lines[: layout.columns], self.strings)
        return Batch(np.concatenate([words[None, :], lines]), lower)
