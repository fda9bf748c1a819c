"""The state behind a Cache: rows by key; one task loads a missing key, and the others wait for it.

Loading is a user's function, so it runs in the task, never here. The runtime assigns each missing key to the first
task that asks for it. If that task ends or fails before it has put the row, a task that waits takes the key over.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Numbers, as_integers
from .lru import KEY, LRUTable
from .resource import Caller, Context, Head, Reply


class CacheState:
    """The rows, and the keys that a task is loading."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._rows = LRUTable(context.resource, int(options["capacity"]), options["ttl"])
        self._loading: dict[Any, tuple[Caller, asyncio.Event, float]] = {}
        self._batches = self._keys = self._loads = self._hits = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """get: return rows, and assign missing keys; put: store loaded rows; drop: give assigned keys back."""
        assert table is not None
        keys = table.column(KEY)
        if head["op"] == "get":
            return await self._get(head, keys, caller)
        if head["op"] == "put":
            self._put(keys, table.drop_columns([KEY]), caller)
            return {}, None
        if head["op"] == "drop":
            self._release(as_integers(keys).to_pylist(), caller)
            return {}, None
        raise Error(f"a cache has no operation {head['op']!r}")

    def disconnected(self, caller: Caller) -> None:
        """Give back the keys that the caller was to load."""
        self._release([key for key, (loader, _, _) in self._loading.items() if loader == caller], caller)

    def counts(self) -> dict[str, int]:
        """queries: batches; rows: keys asked for; loads: keys assigned to be loaded; hits: the difference."""
        return {
            "queries": self._batches,
            "rows": self._keys,
            "hits": self._hits,
            "loads": self._loads,
            "held": self._rows.count,
            "evicted": self._rows.evicted,
            "bytes": self._rows.nbytes,
        }

    async def close(self) -> None:
        """Wake every waiting task; each finds the cache closed when it asks again."""
        for _, loaded, _ in self._loading.values():
            loaded.set()

    async def _get(self, head: Head, keys: pa.ChunkedArray[Any], caller: Caller) -> Reply:
        """The rows that are here, and the positions of keys to load and to wait for. ``wait``: wait for loads first."""
        if head["wait"]:
            loads = {self._loading[key][1] for key in as_integers(keys).to_pylist() if key in self._loading}
            await asyncio.gather(*(loaded.wait() for loaded in loads))
        here, rows = self._rows.get(keys, time.monotonic())
        missing = np.flatnonzero(~here).tolist()
        mine, theirs = [], []
        names = as_integers(keys.take(pa.array(missing, pa.int64()))).to_pylist()
        # One event for all keys of a request: their rows arrive together.
        assigned = caller, asyncio.Event(), time.monotonic()
        for position, key in zip(missing, names, strict=True):
            if key in self._loading:
                theirs.append(position)
            else:
                self._loading[key] = assigned
                mine.append(position)
        if not head["wait"]:
            self._batches += 1
            self._keys += int(head["rows"])
            self._hits += int(head["rows"])
        self._loads += len(mine)
        self._hits -= len(mine)
        said = {"load": pack_positions(mine, len(keys)), "wait": pack_positions(theirs, len(keys))}
        return said, rows if rows is not None else pa.table({})

    def _put(self, keys: pa.ChunkedArray[Any], rows: pa.Table, caller: Caller) -> None:
        names = as_integers(keys).to_pylist()
        mine = np.array([name in self._loading and self._loading[name][0] == caller for name in names], np.bool_)
        if mine.any():
            since = min(self._loading[name][2] for name, ours in zip(names, mine, strict=True) if ours)
            try:
                self._rows.put(keys.filter(pa.array(mine)), rows.filter(pa.array(mine)), since)
            finally:
                self._release(names, caller)

    def _release(self, keys: list[Any], caller: Caller) -> None:
        for key in keys:
            if key in self._loading and self._loading[key][0] == caller:
                self._loading.pop(key)[1].set()


def pack_positions(positions: list[int], count: int) -> str:
    """Some of ``count`` positions as a hexadecimal bit mask: one bit each, so millions fit in a head."""
    flags = np.zeros(count, np.bool_)
    flags[positions] = True
    return np.packbits(flags).tobytes().hex()


def unpack_positions(text: str) -> Numbers:
    """The positions that :func:`pack_positions` packed."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8)))
