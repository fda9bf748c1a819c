"""A cache of rows by key: what is missing is loaded by one of those who ask, and the others wait for it.

Loading is a user's function, so it runs in the task that is told to load, never here. A
task that ends, or fails, before it has put what it was to load gives the duty back, and
one of those who wait takes it over.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Numbers, counted
from .lru import KEY, LRUTable
from .resource import Caller, Context, Head, Reply


class CacheState:
    """The rows that are there, and the keys that somebody is loading."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._rows = LRUTable(str(options["name"]), int(options["capacity"]), options["ttl"])
        self._loading: dict[Any, tuple[Caller, asyncio.Event, float]] = {}
        self._asked = self._keys = self._loads = self._hits = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """get (wait for what others load), put what was loaded, or drop the duty to."""
        assert table is not None
        keys = table.column(KEY)
        if head["op"] == "get":
            return await self._get(head, keys, caller)
        if head["op"] == "put":
            self._put(keys, table.drop_columns([KEY]), caller)
            return {}, None
        if head["op"] == "drop":
            self._free(counted(keys).to_pylist(), caller)
            return {}, None
        raise Error(f"a cache does not know {head['op']!r}")

    def left(self, caller: Caller) -> None:
        """What it was to load, somebody else has to."""
        self._free([key for key, (who, _, _) in self._loading.items() if who == caller], caller)

    def counts(self) -> dict[str, int]:
        """queries: batches; rows: keys asked for; loads: keys that somebody had to load; hits: the rest."""
        return {
            "queries": self._asked,
            "rows": self._keys,
            "hits": self._hits,
            "loads": self._loads,
            "held": self._rows.count,
            "evicted": self._rows.forgotten,
            "bytes": self._rows.nbytes,
        }

    async def close(self) -> None:
        """Whoever waits is told to load for himself."""
        for _, waiting, _ in self._loading.values():
            waiting.set()

    async def _get(self, head: Head, keys: pa.ChunkedArray[Any], caller: Caller) -> Reply:
        """The rows that are there, and which keys the caller is to load; with ``wait``, once others have loaded."""
        if head["wait"]:
            others = {self._loading[key][1] for key in counted(keys).to_pylist() if key in self._loading}
            await asyncio.gather(*(waiting.wait() for waiting in others))
        here, rows = self._rows.get(keys, time.monotonic())
        missing = np.flatnonzero(~here).tolist()
        mine, theirs = [], []
        names = counted(keys.take(pa.array(missing, pa.int64()))).to_pylist()
        # What one question is told to load comes back in one piece, so it has one bell.
        duty = caller, asyncio.Event(), time.monotonic()
        for position, key in zip(missing, names, strict=True):
            if key in self._loading:
                theirs.append(position)
            else:
                self._loading[key] = duty
                mine.append(position)
        if not head["wait"]:
            self._asked += 1
            self._keys += int(head["rows"])
            self._hits += int(head["rows"])
        self._loads += len(mine)
        self._hits -= len(mine)
        said = {"load": told(mine, len(keys)), "wait": told(theirs, len(keys))}
        return said, rows if rows is not None else pa.table({})

    def _put(self, keys: pa.ChunkedArray[Any], rows: pa.Table, caller: Caller) -> None:
        names = counted(keys).to_pylist()
        mine = np.array([name in self._loading and self._loading[name][0] == caller for name in names], np.bool_)
        if mine.any():
            since = min(self._loading[name][2] for name, ours in zip(names, mine, strict=True) if ours)
            try:
                self._rows.put(keys.filter(pa.array(mine)), rows.filter(pa.array(mine)), since)
            finally:
                self._free(names, caller)

    def _free(self, keys: list[Any], caller: Caller) -> None:
        for key in keys:
            if key in self._loading and self._loading[key][0] == caller:
                self._loading.pop(key)[1].set()


def told(positions: list[int], count: int) -> str:
    """Some of ``count`` positions as text: a bit each, since the numbers of millions would be too much for a head."""
    flags = np.zeros(count, np.bool_)
    flags[positions] = True
    return np.packbits(flags).tobytes().hex()


def unpack_positions(text: str) -> Numbers:
    """The positions that :func:`told` wrote."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8)))
