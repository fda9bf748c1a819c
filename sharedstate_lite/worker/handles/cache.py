"""A cache that all tasks on a host share. A row that one task has loaded is a hit for the other tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.cache import unpack_positions
from ..runtime.lru import KEY
from . import client, values
from .driver import SparkLike, driver
from .handle import SharedHandle

Numbers = npt.NDArray[np.int64]
Load = Callable[["pa.Array[Any]"], "pa.Table"]


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
        super().__init__(found, found.register(self.kind, {"capacity": int(capacity), "ttl": ttl}))

    def get_or_load(self, keys: Any, load: Load) -> pa.Table:
        """Return a table with one row for each key, in the order of the keys.

        If rows are missing from the cache, ``load`` is called in this task with an Arrow array of distinct keys. It
        must return a table with one row for each of them, in the same order, with NULLs in the row of a key that has no
        value. Each missing key is loaded by one task on the host, while the other tasks wait for it. If ``load`` raises
        an exception, this method raises it, and a waiting task loads the keys instead. Raises Error if the table that
        ``load`` returns has the wrong number of rows, or different columns than before.
        """
        call = f"{self._name}.get_or_load"
        if not callable(load):
            raise Error(
                f"{call}: load is a {type(load).__qualname__}. "
                "Pass a function that takes keys and returns an Arrow table."
            )
        codes, distinct = values.distinct(keys, call, "keys")
        if not len(codes):
            return _checked(call, load(distinct), 0)
        with client.Connection(self._application) as connection:
            found = self._found(connection, call, distinct, len(codes), load)
        places, parts = zip(*found, strict=True)
        order = np.empty(len(distinct), np.int64)
        order[np.concatenate(places)] = np.arange(len(distinct))
        try:
            table = pa.concat_tables(parts)
        except pa.ArrowInvalid as error:
            raise Error(
                f"{call}: load returned different columns than before ({error}). "
                "Return the same columns and types each time."
            ) from None
        return table.take(order[codes]).combine_chunks()

    def _found(
        self, connection: client.Connection, call: str, keys: pa.Array[Any], rows: int, load: Load
    ) -> list[tuple[Numbers, pa.Table]]:
        """Return the rows of all keys in parts, each with the positions of its keys.

        A part contains rows from the cache, rows that this task has loaded, or rows that other tasks have loaded.
        ``rows`` is the number of keys that the user passed, including duplicates.
        """
        out: list[tuple[Numbers, pa.Table]] = []
        missing, wait = np.arange(len(keys)), False
        while len(missing):
            asked = keys.take(missing)
            head = {"op": "get", "wait": wait, "rows": rows, "resource": self._name}
            said, found, _ = connection.request(head, pa.table({KEY: asked}))
            mine, theirs = unpack_positions(said["load"]), unpack_positions(said["wait"])
            here = np.setdiff1d(np.arange(len(missing)), np.concatenate([mine, theirs]))
            if found is not None and len(here):
                out.append((missing[here], found))
            if len(mine):
                out.append((missing[mine], self._load(connection, call, load, asked.take(mine))))
            missing, wait = missing[theirs], True
        return out

    def _load(self, connection: client.Connection, call: str, load: Load, keys: pa.Array[Any]) -> pa.Table:
        """Load the keys that the runtime has assigned to this task. Store their rows in the cache and return them."""
        try:
            rows = _checked(call, load(keys), len(keys))
        except BaseException:
            # Release the keys, so that a waiting task can load them.
            with contextlib.suppress(Error):
                connection.request({"op": "drop", "resource": self._name}, pa.table({KEY: keys}))
            raise
        connection.request({"op": "put", "resource": self._name}, rows.append_column(KEY, keys))
        return rows


def _checked(call: str, rows: Any, count: int) -> pa.Table:
    """Return the result of ``load`` as a table. Raises Error if it is not a table with ``count`` rows."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise Error(f"{call}: load returned a {type(rows).__qualname__}. Return an Arrow table.")
    if rows.num_rows != count:
        raise Error(
            f"{call}: load got {count} keys and returned {rows.num_rows} rows. Return one row for each key, in "
            "the order of the keys, with NULLs in the row of a key that has no value."
        )
    return rows
