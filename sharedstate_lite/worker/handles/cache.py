"""A cache that all tasks on a host share. A row that one task has loaded is a hit for the other tasks."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.cache import unpack_positions
from ..runtime.lru import KEY
from ..runtime.resource import Caller, Head, Reply
from . import client, values
from .batches import as_table, key_column, like
from .driver import DriverServer, SparkLike, driver
from .handle import SharedHandle

Numbers = npt.NDArray[np.int64]
Load = Callable[[Any], Any]
Ask = Callable[[Head, "pa.Table"], Awaitable[Reply]]

_coroutines = itertools.count(1)


class Cache(SharedHandle):
    """A cache on each host with at most ``capacity`` rows, which evicts the least recently used rows.

    A row is returned for at most ``ttl`` seconds after its load began, or without a time limit if ``ttl`` is None. If a
    runtime is killed, its cache is lost and its rows are loaded again. Raises Error if ``capacity`` is not a positive
    integer, or if ``ttl`` is not a positive number.
    """

    kind = "Cache"

    def __init__(self, spark: SparkLike = None, capacity: int = 65_536, ttl: float | None = None) -> None:
        if not is_integer(capacity) or capacity < 1:
            raise Error(f"Cache: capacity={capacity!r} is not valid. Pass an integer of at least 1.")
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0):
            raise Error(f"Cache: ttl={ttl!r} is not valid. Pass a positive number of seconds, or None for no limit.")
        found = driver(spark)
        options = {"capacity": int(capacity), "ttl": ttl}
        super().__init__(found, found.register(self.kind, options, serve=_Everywhere(found)))

    def get_or_load(self, keys: Any, load: Load) -> Any:
        """Return one row for each key, in the order of the keys.

        If rows are missing from the cache, ``load`` is called in this task with the distinct keys that are missing. It
        must return one row for each of them, in the same order, with NULLs in the row of a key that has no value. Each
        missing key is loaded by one task on the host, while the other tasks wait for it. If ``load`` raises an
        exception, this method raises it, and a waiting task loads the keys instead.

        If ``keys`` is a pandas Series, ``load`` gets a Series, and the result is a DataFrame with the index of
        ``keys``. Otherwise ``load`` gets an Arrow array, and the result is an Arrow table. ``load`` can return a
        DataFrame or a table in both cases. Raises Error if it returns the wrong number of rows, or different columns
        than before.
        """
        call = f"{self._name}.get_or_load"
        with client.Connection(self._application) as connection:

            async def ask(head: Head, table: pa.Table) -> Reply:
                said, found, _ = connection.request({**head, "resource": self._name}, table)
                return said, found

            try:
                # Neither ask nor load suspends, so this runs the coroutine to its end.
                self._rows(call, ask, keys, load).send(None)
            except StopIteration as done:
                return done.value
            except RuntimeError as error:
                # A coroutine cannot raise StopIteration, but a user's function can.
                raise error.__cause__ if isinstance(error.__cause__, StopIteration) else error from None
            raise AssertionError("the coroutine returns or raises")

    async def fetch(self, keys: Any, load: Load) -> Any:
        """Do the same as `get_or_load` in a coroutine that an AsyncRuntime runs. ``load`` can be a coroutine function.

        The coroutine shares the cache with the tasks on its host, and with the other coroutines: if several of them
        miss a key, one calls its ``load``, and the others wait. Raises Error outside an AsyncRuntime.
        """
        from ..runtime import current

        call = f"{self._name}.fetch"
        if current.find is None:
            raise Error(f"{call}: only a coroutine that an AsyncRuntime runs can call this. Use get_or_load().")
        # Connections have positive numbers.
        caller = Caller(-next(_coroutines), os.getpid())

        async def ask(head: Head, table: pa.Table) -> Reply:
            said: Reply = await current.call(self._name, lambda cache: cache.answer(head, table, caller))
            return said

        return await self._rows(call, ask, keys, load, may_wait=True)

    def invalidate(self, keys: Any) -> None:
        """Remove the rows of these keys on all hosts, so that they are loaded again when they are next requested.

        Call this after you have changed the source. A row that is being loaded in the meantime is not stored, because
        it may have been read before the change. Keys that are not in the cache are ignored. Raises Error if ``keys`` is
        not a column of the type of the keys.
        """
        _, distinct = values.distinct(keys, f"{self._name}.invalidate", "keys")
        if len(distinct):
            self._request({"op": "invalidate"}, pa.table({KEY: distinct}))

    async def _rows(self, call: str, ask: Ask, keys: Any, load: Load, may_wait: bool = False) -> Any:
        """Return the rows of the keys. ``ask`` sends a request to the cache. ``load`` can be async if it may wait."""
        if not callable(load):
            raise Error(
                f"{call}: load is a {type(load).__qualname__}. Pass a function that takes keys and returns rows."
            )

        async def loaded(missing: pa.Array[Any]) -> pa.Table:
            rows = load(key_column(missing, keys))
            if inspect.iscoroutine(rows) and not may_wait:
                rows.close()
                raise Error(f"{call}: load is a coroutine function. In a coroutine, use: await cache.fetch(keys, load)")
            return _checked(call, await rows if inspect.isawaitable(rows) else rows, len(missing))

        codes, distinct = values.distinct(keys, call, "keys")
        if not len(codes):
            return like(await loaded(distinct), keys, one_each=True)
        places, parts = zip(*await _found(ask, distinct, len(codes), loaded), strict=True)
        order = np.empty(len(distinct), np.int64)
        order[np.concatenate(places)] = np.arange(len(distinct))
        try:
            table = pa.concat_tables(parts)
        except pa.ArrowInvalid as error:
            raise Error(
                f"{call}: load returned different columns than before ({error}). "
                "Return the same columns and types each time."
            ) from None
        return like(table.take(order[codes]).combine_chunks(), keys, one_each=True)


class _Everywhere:
    """Answers a task's request to invalidate keys, in the driver: sends it to the runtimes of all hosts."""

    def __init__(self, driver: DriverServer) -> None:
        self._driver = driver

    async def __call__(self, head: Head, table: pa.Table | None) -> Reply:
        await self._driver.send_all({"op": "remove", "resource": head["resource"]}, table)
        return {}, None


async def _found(
    ask: Ask, keys: pa.Array[Any], rows: int, load: Callable[[pa.Array[Any]], Awaitable[pa.Table]]
) -> list[tuple[Numbers, pa.Table]]:
    """Return the rows of all keys in parts, each with the positions of its keys.

    A part contains rows from the cache, rows that this caller has loaded, or rows that others have loaded. ``rows`` is
    the number of keys that the user passed, including duplicates.
    """
    out: list[tuple[Numbers, pa.Table]] = []
    missing, wait = np.arange(len(keys)), False
    while len(missing):
        asked = keys.take(missing)
        said, found = await ask({"op": "get", "wait": wait, "rows": rows}, pa.table({KEY: asked}))
        mine, theirs = unpack_positions(said["load"]), unpack_positions(said["wait"])
        here = np.setdiff1d(np.arange(len(missing)), np.concatenate([mine, theirs]))
        if found is not None and len(here):
            out.append((missing[here], found))
        if len(mine):
            assigned = asked.take(mine)
            try:
                loaded = await load(assigned)
            except BaseException:
                # Release the keys, so that a waiting caller can load them.
                with contextlib.suppress(Error):
                    await ask({"op": "drop"}, pa.table({KEY: assigned}))
                raise
            await ask({"op": "put"}, loaded.append_column(KEY, assigned))
            out.append((missing[mine], loaded))
        missing, wait = missing[theirs], True
    return out


def _checked(call: str, rows: Any, count: int) -> pa.Table:
    """Return the result of ``load`` as a table. Raises Error if it is not a table with ``count`` rows."""
    table = as_table(f"{call}: the result of load", rows)
    if table.num_rows != count:
        raise Error(
            f"{call}: load got {count} keys and returned {table.num_rows} rows. Return one row for each key, in "
            "the order of the keys, with NULLs in the row of a key that has no value."
        )
    # pandas metadata differs with the rows, and is not part of the columns.
    return table.replace_schema_metadata(None)
