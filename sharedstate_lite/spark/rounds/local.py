"""The same rounds in this process, without Spark: the state store of a bin is a dict.

A round takes milliseconds instead of a good part of a second, so tests draw sequences of them, and a bin of your own
is tried here first (docs/rounds.md).
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable
from pathlib import Path
from random import Random
from typing import Any

from . import worker
from .bin import Bin, Recipe, Rounds
from .inbox import RoundKind
from .message import BinId, BinMessage, Heads


class LocalStore:
    """The `Store` of one bin. A round works on a copy, so that an error undoes it."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.runs: dict[tuple[str, str], bytes] = {}

    def copy(self) -> LocalStore:
        """Return a copy for one round."""
        out = LocalStore()
        out.text, out.runs = self.text, dict(self.runs)
        return out

    def head(self) -> str | None:
        """See `Store.head`."""
        return self.text

    def run(self, part: str, name: str) -> bytes:
        """See `Store.run`."""
        return self.runs[part, name]

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        """See `Store.write`."""
        self.text = head
        self.runs.update({(part, name): blob for part, name, blob in added})
        for each in removed:
            del self.runs[each]


class LocalRounds(Rounds):
    """Runs the bins of ``recipe`` in ``stages`` stages, in this process.

    Two workers share the bins. With ``lose``, the other one takes over after this number of bins; its memory is empty
    or out of date, so it loads each bin from the store. With ``seed``, messages arrive at a bin in random order.
    """

    def __init__(self, recipe: Recipe, stages: int, lose: int = 0, seed: int | None = None) -> None:
        self.recipe, self.stages, self.lose = recipe, stages, lose
        self.stores: dict[tuple[int, int], LocalStore] = {}
        self.workers: tuple[OrderedDict[BinId, Bin], ...] = (OrderedDict(), OrderedDict())
        self._random = None if seed is None else Random(seed)
        self._runs = 0

    def run(
        self,
        messages: Iterable[BinMessage] | Path,
        kind: RoundKind = RoundKind.EPOCH,
        epoch: int = 0,
        about: dict[str, Any] | None = None,
    ) -> list[BinMessage]:
        """See `Query.run`. The other arguments than ``messages`` have no effect."""
        assert not isinstance(messages, Path)
        stores = {place: store.copy() for place, store in self.stores.items()}
        waiting, out = list(messages), list[BinMessage]()
        for stage in range(1, self.stages + 1):
            mine = [m for m in waiting if m.stage == stage]
            waiting = [m for m in waiting if m.stage != stage]
            for number in sorted({m.bin for m in mine}):
                here = [m for m in mine if m.bin == number]
                if self._random is not None:
                    self._random.shuffle(here)
                store = stores.setdefault((stage, number), LocalStore())
                for message in self.run_bin(stage, number, here, store):
                    (waiting if message.stage > stage else out).append(message)
        self.stores = stores
        return out + waiting

    def run_bin(self, stage: int, number: int, messages: list[BinMessage], store: LocalStore) -> list[BinMessage]:
        """Run one bin in the worker whose turn it is, as `worker.run_bin` does."""
        self._runs += 1
        turn = self._runs // self.lose % 2 if self.lose else 0
        if self.lose and self._runs % (self.lose * 3) == 0:
            self.workers[turn].clear()
        before, worker._cached = worker._cached, self.workers[turn]
        try:
            return worker.run_bin(self.recipe, stage, number, messages, store)
        except Exception:
            self.recipe.salt = secrets.token_hex(16)  # as a query that is started again
            raise
        finally:
            worker._cached = before

    def heads(self) -> Heads:
        """See `StateReader.heads`."""
        return {place: json.loads(store.text) for place, store in self.stores.items() if store.text is not None}

    def blobs(self, stage: int, parts: Collection[str]) -> dict[str, list[bytes]]:
        """See `StateReader.blobs`."""
        every = [store.runs for (at, _), store in self.stores.items() if at == stage]
        return {part: [b for runs in every for (name, _), b in runs.items() if name == part] for part in parts}
