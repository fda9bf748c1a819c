"""A cache that all tasks of a host fill and read: what one has loaded, the others find."""

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
    """One cache a host: at most ``capacity`` rows, the least recently used forgotten first.

    ``ttl``: a row is handed out at most so many seconds after its load began; None:
    however old. Loss of the cache, as with a killed runtime, is no loss of answers: they are
    loaded again. Raises Error for a capacity or ttl that cannot be.
    """

    kind = "Cache"

    def __init__(self, spark: SparkLike = None, capacity: int = 65_536, ttl: float | None = None) -> None:
        if not is_integer(capacity) or capacity < 1:
            raise Error(f"Cache: capacity={capacity!r}: it is a number of rows from 1")
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0):
            raise Error(f"Cache: ttl={ttl!r}: it is a number of seconds above 0, or None for no bound")
        found = driver(spark)
        super().__init__(found, found.add(self.kind, {"capacity": int(capacity), "ttl": ttl}))

    def get_or_load(self, keys: Any, load: Load) -> pa.Table:
        """A row for each key, in the keys' order.

        ``load`` gets an Arrow array of different keys that nobody has, and answers with a table of
        one row for each, in that order; a key without a value gets a row of NULLs. It runs in this
        task, and a missing key is loaded by one task of the host, while others wait for
        it. What it raises is raised here, and another task that waits tries for itself.
        Raises Error where the table has another number of rows, or other columns than before.
        """
        call = f"{self._name}.get_or_load"
        if not callable(load):
            raise Error(f"{call}: load is a {type(load).__qualname__}; it is a function of keys to an Arrow table")
        codes, distinct = values.distinct(keys, call, "keys")
        if not len(codes):
            return _checked(call, load(distinct), 0)
        with client.ClientSession(self._application) as conversation:
            found = self._found(conversation, call, distinct, len(codes), load)
        places, parts = zip(*found, strict=True)
        order = np.empty(len(distinct), np.int64)
        order[np.concatenate(places)] = np.arange(len(distinct))
        try:
            whole = pa.concat_tables(parts)
        except pa.ArrowInvalid as error:
            raise Error(f"{call}: load answered with other columns than before ({error}); keep them the same") from None
        return whole.take(order[codes]).combine_chunks()

    def _found(
        self, conversation: client.ClientSession, call: str, keys: pa.Array[Any], rows: int, load: Load
    ) -> list[tuple[Numbers, pa.Table]]:
        """Rows for all values, and whose they are: what is there, what is loaded here, what others have loaded."""
        out: list[tuple[Numbers, pa.Table]] = []
        ahead, wait = np.arange(len(keys)), False
        while len(ahead):
            asked = keys.take(ahead)
            head = {"op": "get", "wait": wait, "rows": rows, "thing": self._name}
            said, found, _ = conversation.ask(head, pa.table({KEY: asked}))
            mine, theirs = unpack_positions(said["load"]), unpack_positions(said["wait"])
            here = np.setdiff1d(np.arange(len(ahead)), np.concatenate([mine, theirs]))
            if found is not None and len(here):
                out.append((ahead[here], found))
            if len(mine):
                out.append((ahead[mine], self._load(conversation, call, load, asked.take(mine))))
            ahead, wait = ahead[theirs], True
        return out

    def _load(self, conversation: client.ClientSession, call: str, load: Load, keys: pa.Array[Any]) -> pa.Table:
        """What nobody has: loaded here, and put where the others find it."""
        try:
            rows = _checked(call, load(keys), len(keys))
        except BaseException:
            # The others shall not wait for it; where the runtime is gone too, nobody does.
            with contextlib.suppress(Error):
                conversation.ask({"op": "drop", "thing": self._name}, pa.table({KEY: keys}))
            raise
        conversation.ask({"op": "put", "thing": self._name}, rows.append_column(KEY, keys))
        return rows


def _checked(call: str, rows: Any, count: int) -> pa.Table:
    """What load answered. Raises Error where it is no table of so many rows."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise Error(f"{call}: load answered with a {type(rows).__qualname__}; it answers with an Arrow table")
    if rows.num_rows != count:
        raise Error(
            f"{call}: load was given {count} keys and answered with {rows.num_rows} rows; it answers with one row for "
            "each key, in their order, of NULLs where there is none"
        )
    return rows
