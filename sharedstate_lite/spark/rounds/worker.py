"""A Python worker: the bins that it keeps in memory, and what it does with the rows of one round.

Spark may give a bin to a different worker in each round. A bin in memory is used only if its token equals the one in
the store. In this case, this copy of the bin wrote the state last, and the state cannot have changed since. If the
head in the store names another worker, that worker is asked to run the bin (:mod:`.rpc`). If that worker does not have
the bin either, the bin is read from the store.

A bin is removed from the cache while it runs, so a failed attempt does not leave a half-changed bin in the cache.
"""

from __future__ import annotations

import gc
import json
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from ...errors import Error
from .bin import Bin, Recipe
from .errors import RowRefused
from .message import BinId, BinMessage, BinResult, Store, WorkerRpc, WriteBuffer
from .rpc import SocketRpc
from .strings import worker_strings

CACHED_BINS = 64
"""The maximum number of bins that a process keeps in memory. The least recently used bins are dropped first."""

lock = threading.Lock()
"""Held by a thread while it runs bins or adds strings, for Spark's task or for a call from another worker."""

_cached: OrderedDict[BinId, Bin] = OrderedDict()


class StageWork:
    """Runs the bins of one stage for Spark's operator (`.operator.Work`). Messages to other stages pass through."""

    def __init__(self, recipe: Recipe, stage: int) -> None:
        self.recipe, self.stage = recipe, stage

    def rows(self, states: Mapping[str, Any], rows: Iterable[Any]) -> Iterator[BinMessage]:
        """Process the messages to one bin in one round, and yield the messages that the bin sends."""
        messages = [BinMessage(row.stage, row.bin, row.channel, row.what, row.blob) for row in rows]
        mine = [message for message in messages if message.stage == self.stage]
        yield from (message for message in messages if message.stage != self.stage)
        if mine:
            try:
                yield from run_bin(self.recipe, self.stage, mine[0].bin, mine, _SparkStore(states), _worker_rpc())
            except Error as error:
                raise RowRefused(error) from error

    def close(self) -> None:
        """Drop what the recipe keeps for the task. The bins stay in the worker's cache."""
        self.recipe.close()


@lru_cache(maxsize=16)
def unpickled(work: bytes) -> Any:
    """Return the `Work` of an operator. The tasks of this process share it, which run one after the other.

    PySpark collects garbage after each task. The first call leaves all modules out of that, and no bin.
    """
    out = pickle.loads(work)
    if not gc.get_freeze_count():
        pa.array([])  # the first array imports pandas
        gc.freeze()
    return out


def run_bin(
    recipe: Recipe, stage: int, number: int, messages: list[BinMessage], store: Store, rpc: WorkerRpc | None = None
) -> list[BinMessage]:
    """Run one bin on its messages of a round, here or in the worker that has it in memory, and write its state.

    Returns the resulting messages. Raises the errors of the bin, such as RowError.
    """
    bin_id = (recipe.generation, stage, number)
    text = store.head()
    head = None if text is None else json.loads(text)
    token = None if head is None else head["token"]
    if not (recipe.checked and recipe.use_rpc):
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
            cached = recipe.build(stage, number)
        if head is not None and token != cached.token and (recipe.checked or found == "missing"):
            found = "missing" if found == "missing" else "stale"
            cached.load(head, store)
            cached.token = head["token"]
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
    bin_id: BinId, cached: Bin, found: str, messages: list[BinMessage], store: Store, port: int
) -> list[BinMessage]:
    cached.found, cached.port = found, port
    out = cached.step(messages)
    if cached.changed:
        cached.renew_token()
        cached.save(store)
    _cached[bin_id] = cached
    while len(_cached) > CACHED_BINS:
        _cached.popitem(last=False)
    return out


@cache
def _worker_rpc() -> SocketRpc | None:
    """Return the RPC of this process, or None if it cannot open a port. The first call starts the RPC."""
    try:
        return SocketRpc(run_for_peer)
    except OSError:
        return None


class _SparkStore:
    """The `Store` of one bin, in Spark's state variables."""

    def __init__(self, states: Mapping[str, Any]) -> None:
        self._head, self._runs = states["head"], states["runs"]

    def head(self) -> str | None:
        found = self._head.get()
        return None if found is None else str(found[0])

    def run(self, part: str, name: str) -> bytes:
        found = self._runs.getValue((part, name))
        assert found is not None, f"the run {name} of {part} is missing in the state store"
        return bytes(found[0])

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        for part, name, blob in added:
            self._runs.updateValue((part, name), (blob,))
        for part, name in removed:
            self._runs.removeKey((part, name))
        self._head.update((head,))
