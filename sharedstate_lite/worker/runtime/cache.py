"""The state behind a Cache: one row per key. If a row is missing, one task loads it while the other tasks wait for it.

Rows are loaded by a user's function, so loading runs in a task and never in the runtime. The runtime assigns each
missing key to the first task that requests it. If that task fails or exits before it has stored the row, the key is
assigned to one of the waiting tasks.
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
    """The rows of a Cache, and the keys that tasks are currently loading."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._rows = LRUTable(context.resource, int(options["capacity"]), options["ttl"])
        self._loading: dict[Any, tuple[Caller, asyncio.Event, float]] = {}
        self._driver = context.driver
        self._batches = self._keys = self._loads = self._hits = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Answer one request.

        ``get`` returns rows and assigns missing keys to the caller, ``put`` stores the rows that the caller has loaded,
        and ``drop`` releases the keys that were assigned to it. ``invalidate`` asks the driver to send ``remove`` to
        the runtimes of all hosts.
        """
        assert table is not None
        keys = table.column(KEY)
        if head["op"] == "get":
            return await self._get(head, keys, caller)
        if head["op"] == "put":
            self._put(keys, table.drop_columns([KEY]), caller)
            return {}, None
        if head["op"] == "invalidate":
            return await self._driver({"op": "invalidate"}, table)
        if head["op"] == "remove":
            self._remove(keys)
            return {}, None
        if head["op"] == "drop":
            self._release(as_integers(keys).to_pylist(), caller)
            return {}, None
        raise Error(f"Cache: {head['op']!r} is not an operation")

    def disconnected(self, caller: Caller) -> None:
        """Release the keys that were assigned to the caller, so that another task can load them."""
        self._release([key for key, (loader, _, _) in self._loading.items() if loader == caller], caller)

    def counts(self) -> dict[str, int]:
        """Return the counters of the cache.

        ``loads`` is the number of keys that were assigned to a task for loading. ``hits`` is ``rows`` minus ``loads``.
        """
        return {
            "requests": self._batches,
            "rows": self._keys,
            "hits": self._hits,
            "loads": self._loads,
            "held": self._rows.count,
            "bytes": self._rows.nbytes,
        }

    async def close(self) -> None:
        """Wake all waiting tasks. Their next request raises an error, because the cache is closed."""
        for _, loaded, _ in self._loading.values():
            loaded.set()

    async def _get(self, head: Head, keys: pa.ChunkedArray[Any], caller: Caller) -> Reply:
        """Look up distinct keys. Return the rows of the keys that are cached, in the order of the keys.

        The head of the reply contains the positions of the keys that the caller must load (``load``), and of those that
        other tasks are loading (``wait``). If ``wait`` in the head of the request is true, first wait until the keys
        that are being loaded now have been loaded.
        """
        if head["wait"]:
            loads = {self._loading[key][1] for key in as_integers(keys).to_pylist() if key in self._loading}
            await asyncio.gather(*(loaded.wait() for loaded in loads))
        here, rows = self._rows.get(keys, time.monotonic())
        missing = np.flatnonzero(~here).tolist()
        mine, theirs = [], []
        names = as_integers(keys.take(pa.array(missing, pa.int64()))).to_pylist()
        # All keys of a request share one event, because their rows arrive together.
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

    def _remove(self, keys: pa.ChunkedArray[Any]) -> None:
        """Remove rows, and forget which tasks are loading them: what those have read may be out of date.

        A task that waits for one of these keys becomes its loader, so all tasks that wait for the same rows are woken.
        """
        self._rows.remove(keys)
        removed = [self._loading.pop(key, None) for key in as_integers(keys).to_pylist()]
        events = {event: asyncio.Event() for _, event, _ in filter(None, removed)}
        for key, (loader, event, since) in self._loading.items():
            if event in events:
                self._loading[key] = loader, events[event], since
        for event in events:
            event.set()

    def _release(self, keys: list[Any], caller: Caller) -> None:
        for key in keys:
            if key in self._loading and self._loading[key][0] == caller:
                self._loading.pop(key)[1].set()


def pack_positions(positions: list[int], count: int) -> str:
    """Encode positions, each less than ``count``, as a hexadecimal bit mask.

    With one bit per position, millions of positions fit in the head of a message.
    """
    flags = np.zeros(count, np.bool_)
    flags[positions] = True
    return np.packbits(flags).tobytes().hex()


def unpack_positions(text: str) -> Numbers:
    """Return the positions that :func:`pack_positions` encoded, in ascending order."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8)))
