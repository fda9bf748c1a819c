"""The bins that a Python worker keeps in memory, and running one of them for a micro-batch.

Spark may give a bin to a different worker in each micro-batch. A bin in memory is used only if its token equals the one
in the store. In this case, this copy of the bin wrote the state last, and the state cannot have changed since. If the
head in the store names another worker, that worker is asked to run the bin (:mod:`.worker_rpc`). If that worker does
not have the bin either, the bin is read from the store. Runs that are in memory under the same name are not read again,
because a run's name contains its writer's token.

A bin is removed from the cache while it runs, so a failed attempt does not leave a half-changed bin in the cache.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict

from .bin import BinFactory
from .messages import BinId, BinMessage, BinResult, Store, WorkerRpc, WriteBuffer
from .stored_bin import StoredBin
from .strings import worker_strings

CACHED_BINS = 64
"""The maximum number of bins that a process keeps in memory. The least recently used bins are dropped first."""

lock = threading.Lock()
"""Held by a thread while it runs bins or adds strings, for Spark's task or for a call from another worker."""

_cached: OrderedDict[BinId, StoredBin] = OrderedDict()


def run_bin(
    plan: BinFactory, stage: int, number: int, messages: list[BinMessage], store: Store, rpc: WorkerRpc | None = None
) -> list[BinMessage]:
    """Run one bin on its messages of a micro-batch, here or in the worker that has it in memory, and write its state.

    Returns the resulting messages. Raises the errors of the kernels, such as RowError.
    """
    bin_id = (plan.generation, stage, number)
    text = store.head()
    head = None if text is None else json.loads(text)
    token = None if head is None else head["token"]
    if not (plan.checked and plan.use_rpc):
        rpc = None
    if rpc is not None and head is not None and head["port"] not in (0, rpc.port) and not _has(bin_id, token):
        result = rpc.call(head["port"], bin_id, head["token"], messages)
        if result is not None:
            for write in result[1]:
                store.write(*write)
            return result[0]
    with lock:
        collect_strings()
        cached = _cached.pop(bin_id, None)
        found = "new" if head is None else "missing" if cached is None else "used"
        if cached is None or head is None:
            cached = plan.bin(stage, number)
        if head is not None and token != cached.token and (plan.checked or found == "missing"):
            found = "missing" if found == "missing" else "stale"
            cached.load(head, store)
        return _run(bin_id, cached, found, messages, store, 0 if rpc is None else rpc.port)


def run_for_peer(bin_id: BinId, token: str, messages: list[BinMessage], port: int) -> BinResult | None:
    """Run a bin for another worker. Returns the resulting messages, and the writes that the other worker performs.

    Returns None if the bin is not in memory with this token.
    """
    with lock:
        collect_strings()
        if not _has(bin_id, token):
            return None
        buffer = WriteBuffer()
        return _run(bin_id, _cached.pop(bin_id), "used", messages, buffer, port), buffer.writes


def collect_strings() -> None:
    """If most strings of this process are unused, drop them and all cached bins. The caller must hold the lock."""
    if worker_strings.collect(_cached.values()):
        _cached.clear()


def _has(bin_id: BinId, token: str | None) -> bool:
    cached = _cached.get(bin_id)
    return cached is not None and cached.token == token


def _run(
    bin_id: BinId, cached: StoredBin, found: str, messages: list[BinMessage], store: Store, port: int
) -> list[BinMessage]:
    cached.found, cached.port = found, port
    out = cached.run(messages)
    if cached.changed:
        cached.save(store)
    _cached[bin_id] = cached
    while len(_cached) > CACHED_BINS:
        _cached.popitem(last=False)
    return out
