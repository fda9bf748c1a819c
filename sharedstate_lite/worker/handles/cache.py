"""A cache that all tasks of a host share: a row that one task has loaded is a hit for the others."""

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
    """One cache for each host: at most ``capacity`` rows, with LRU eviction.

    ``ttl``: a row is returned for at most this many seconds after its load began; None: for ever. A killed runtime
    loses its cache, and rows are loaded again. Raises Error if ``capacity`` is not a positive integer, or ``ttl``
    not a positive number.
    """

    kind = "Cache"

    def __init__(self, spark: SparkLike = None, capacity: int = 65_536, ttl: float | None = None) -> None:
        if not is_integer(capacity) or capacity < 1:
            raise Error(f"Cache: capacity={capacity!r}. Pass a number of rows, 1 or more.")
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0):
            raise Error(f"Cache: ttl={ttl!r}. Pass a number of seconds above 0, or None for no limit.")
        found = driver(spark)
        super().__init__(found, found.register(self.kind, {"capacity": int(capacity), "ttl": ttl}))

    def get_or_load(self, keys: Any, load: Load) -> pa.Table:
        """One row for each key, in the order of the keys.

        ``load`` takes an Arrow array of distinct keys that the cache lacks. It returns a table with one row for each,
        in that order; a key without a value gets a row of NULLs. It runs in this task. Each missing key is loaded by
        one task of the host, while the others wait for it. An exception of ``load`` is raised here, and a waiting
        task loads the keys instead. Raises Error if the table has another number of rows, or other columns than
        before.
        """
        call = f"{self._name}.get_or_load"
        if not callable(load):
            raise Error(f"{call}: load is a {type(load).__qualname__}. Pass a function of keys to an Arrow table.")
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
            raise Error(f"{call}: load returned other columns than before ({error}). Keep them the same.") from None
        return table.take(order[codes]).combine_chunks()

    def _found(
        self, connection: client.Connection, call: str, keys: pa.Array[Any], rows: int, load: Load
    ) -> list[tuple[Numbers, pa.Table]]:
        """The rows of all keys in parts, each with the positions of its keys: hits, loaded here, loaded by others."""
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
        """Load the keys that the runtime has assigned to this task, and put their rows into the cache."""
        try:
            rows = _checked(call, load(keys), len(keys))
        except BaseException:
            # Give the keys back to the tasks that wait for them.
            with contextlib.suppress(Error):
                connection.request({"op": "drop", "resource": self._name}, pa.table({KEY: keys}))
            raise
        connection.request({"op": "put", "resource": self._name}, rows.append_column(KEY, keys))
        return rows


def _checked(call: str, rows: Any, count: int) -> pa.Table:
    """What load returned. Raises Error if it is not a table of ``count`` rows."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise Error(f"{call}: load returned a {type(rows).__qualname__}. Return an Arrow table.")
    if rows.num_rows != count:
        raise Error(
            f"{call}: load got {count} keys and returned {rows.num_rows} rows. Return one row for each key, in order, "
            "and a row of NULLs for a key without a value."
        )
    return rows
