"""An event loop on each host, which runs the coroutines of all tasks on that host."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from . import captures
from .driver import SparkLike, driver
from .handle import SharedHandle, as_table


class AsyncRuntime(SharedHandle):
    """Runs the coroutines of all tasks on a host, with at most ``in_flight`` calls at the same time.

    If the runtime is killed, pending calls are not repeated: `map` raises Lost. Raises Error if ``in_flight`` is not a
    positive integer.
    """

    kind = "AsyncRuntime"

    def __init__(self, spark: SparkLike = None, in_flight: int = 16) -> None:
        if not is_integer(in_flight) or in_flight < 1:
            raise Error(f"AsyncRuntime: in_flight={in_flight!r} is not valid. Pass an integer of at least 1.")
        found = driver(spark)
        super().__init__(found, found.register(self.kind, {"in_flight": int(in_flight)}))

    def map(
        self,
        coroutine: Callable[[dict[str, Any]], Coroutine[Any, Any, Any]],
        batch: pa.Table | pa.RecordBatch,
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        """Call ``coroutine(row)`` for each row of ``batch``. Return the results as a table, in the order of the rows.

        ``coroutine`` is an ``async def`` function that takes a row as a dict and returns a dict. It runs in the
        runtime, and the values that it captures are sent with it. These can be immutable values and handles such as a
        ConnectionPool, which it can query with ``await pool.fetch(sql, parameters)``. The table has the columns of
        ``schema`` or, if ``schema`` is None, the columns of the results. Missing values are NULL. Raises Error if the
        function captures mutable values, if a call raises an exception, or if a result has a column that is not in the
        schema. Raises Lost if the runtime exits before it answers.
        """
        call = f"{self._name}.map"
        table = as_table(call, batch)
        if len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{call}: two of the columns {table.column_names} have the same name. Rename one.")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise Error(f"{call}: schema is a {type(schema).__qualname__}. Pass a pa.schema([...]).")
        if not inspect.iscoroutinefunction(coroutine):
            raise Error(f"{call}: {coroutine!r} is not a coroutine function. Define it with async def.")
        captures.check(call, coroutine)
        from pyspark import cloudpickle

        code: bytes = cloudpickle.dumps(coroutine)  # type: ignore[no-untyped-call]
        digest = hashlib.sha256(code).hexdigest()
        written = schema.serialize().to_pybytes().hex() if schema is not None else ""
        while True:
            head = {"op": "map", "digest": digest, "schema": written}
            said, answer, _ = self._request(head, table, retry=False)
            if not said.get("unknown"):
                assert answer is not None
                return answer
            self._request({"op": "function", "digest": digest}, pa.table({"code": pa.array([code], pa.large_binary())}))
