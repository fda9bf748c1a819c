"""What a bin of partial state keeps in the store beside its runs: filled keys, open questions, lookups that wait.

    NAME keys    which keys of a piece of state are filled, and the operation that last used each
    open         questions that are open (:mod:`.upquery_codec`), lookups that wait, the number of the next question

It is written with the runs, in one step, so that a bin is found whole or as it was before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...partial import build
from ...partial.budget import filled_keys_of
from ...partial.filled_keys import FilledKeys
from ...partial.nodes import PartialNode
from ...storage import wire
from ...storage.encoding import Words
from ..bins.bin import Bin
from ..bins.messages import Store
from .nodes import BinGraph, schema_of
from .upquery_codec import UpqueryCodec


@dataclass
class WaitingLookup:
    """A lookup that met holes: whose it is, and whether a question for it is under way."""

    request: int
    view: str
    keys: Words
    open: bool = False


@dataclass
class StoredBin(Bin):
    """The half of a bin that stores; see the module, and :class:`~.bin.PartialBin`."""

    waits: list[WaitingLookup] = field(default_factory=list)
    draws: int = 0
    """How many draws for eviction it has been told of."""
    graph: BinGraph = field(init=False)
    nodes: list[PartialNode] = field(init=False)
    memo: UpqueryCodec = field(init=False)
    extras: dict[tuple[str, str], bytes] = field(init=False, default_factory=dict)
    seen: dict[str, tuple[Words, Words]] = field(init=False, default_factory=dict)
    """FilledKeys keys and their uses as they were encoded last: keys are replaced, never changed."""

    def _sets(self) -> dict[str, FilledKeys]:
        """The sets of filled keys, by the names of the state that they belong to."""
        return {
            name: part[3]
            for node in self.nodes
            for name, part in zip(build.part_names(node), node.parts(), strict=True)
            if part[3] is not None
        }

    def _holders(self) -> list[tuple[PartialNode, int, FilledKeys]]:
        """Who holds keys: the node, which side of it, and the keys."""
        return [(node, side, filled) for node in self.nodes for side, filled in filled_keys_of(node)]

    def save(self, store: Store) -> None:
        """Write what is new; see :meth:`..bins.bin.Bin.save`."""
        now: dict[tuple[str, str], bytes] = {}
        for name, filled in self._sets().items():
            part, seen = (f"{name} keys", "0"), self.seen.get(name)
            if seen is not None and seen[0] is filled.keys and np.array_equal(seen[1], filled.used):
                now[part] = self.extras[part]
                continue
            now[part] = wire.encode([*filled.keys, filled.used], filled.types, self.strings)
            self.seen[name] = (filled.keys, filled.used.copy())
        opened = {}
        for n, node in enumerate(self.nodes):
            told = self.memo.write(node)
            if told is not None:
                opened[str(n)] = told
        waits = [[w.request, w.view, self._wait_words(w), w.open] for w in self.waits]
        told = {"open": opened, "waits": waits, "tags": self.graph._tags}
        now["open", "0"] = json.dumps(told).encode()
        fresh = [(part, name, blob) for (part, name), blob in now.items() if self.extras.get((part, name)) != blob]
        self.time = max([self.time, *(h.arrangement.upper for h in self.parts.values())])
        super().save(_With(store, fresh, self.parts, {"clock": self.graph.clock, "draws": self.draws}))
        self.extras = now

    def _wait_words(self, wait: WaitingLookup) -> list[Any]:
        reader = self.graph.nodes["reader", wait.view]
        return self.memo.words(wait.keys, schema_of(reader.plan, reader.ask))

    def load(self, head: dict[str, Any], store: Store) -> None:
        """Become what the store says."""
        super().load(head, store)
        self.seen.clear()
        self.graph.clock, self.draws = head["clock"], head.get("draws", 0)
        for name, filled in self._sets().items():
            blob = store.run(f"{name} keys", "0")
            lines = wire.decode(blob, self.strings)
            filled.put(lines[:-1], lines[-1], self.strings)
            self.extras[f"{name} keys", "0"] = blob
        self.extras["open", "0"] = store.run("open", "0")
        told = json.loads(self.extras["open", "0"])
        for n, node in enumerate(self.nodes):
            self.memo.read(node, told["open"].get(str(n)))
        self.waits = [WaitingLookup(r, v, self.memo.words_of(k), o) for r, v, k, o in told["waits"]]
        self.graph._tags = told["tags"]


@dataclass
class _With:
    """A store that is given more than runs, in the same write."""

    store: Store
    more: list[tuple[str, str, bytes]]
    parts: Iterable[str]
    head_too: dict[str, Any]

    def head(self) -> str | None:
        return self.store.head()

    def run(self, part: str, name: str) -> bytes:
        return self.store.run(part, name)

    def write(self, head: str, fresh: Iterable[tuple[str, str, bytes]], gone: Iterable[tuple[str, str]]) -> None:
        told = {**json.loads(head), **self.head_too}
        self.store.write(json.dumps(told), [*fresh, *self.more], gone)


__all__ = ["StoredBin", "WaitingLookup"]
