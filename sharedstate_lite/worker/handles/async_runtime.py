"""One asyncio loop that all tasks of a host hand their coroutines to."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from . import captures
from .driver import SparkLike, driver
from .handle import SharedHandle


class AsyncRuntime(SharedHandle):
    """At most ``in_flight`` calls at a time on each host, of all its tasks together.

    What was asked when a runtime was killed is not asked again: Lost says that it is not
    known which calls were made. Raises Error for a bound that cannot be.
    """

    kind = "AsyncRuntime"

    def __init__(self, spark: SparkLike = None, in_flight: int = 16) -> None:
        if not is_integer(in_flight) or in_flight < 1:
            raise Error(f"AsyncRuntime: in_flight={in_flight!r}: it is a number of calls from 1")
        found = driver(spark)
        super().__init__(found, found.add(self.kind, {"in_flight": int(in_flight)}))

    def map(
        self,
        coroutine: Callable[[dict[str, Any]], Coroutine[Any, Any, Any]],
        batch: pa.Table | pa.RecordBatch,
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        """What ``coroutine`` answers for each row of ``batch``, in the rows' order.

        It is an ``async def`` function of a row as a dict that answers with a dict. It runs in the
        runtime: what it captures is sent along, so it may capture what cannot be changed, and
        handles, such as a ConnectionPool to ``await pool.fetch(sql, parameters)``. Without ``schema``
        the columns and their types are those of the answers; with it, what no answer has is NULL. Raises
        Error for a function that captures anything else, with the first error that it raises, for answers
        with a column that the schema lacks, and Lost.
        """
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        if not isinstance(table, pa.Table):
            raise Error(
                f"{self._name}.map: a {type(batch).__qualname__} is no Arrow table; pa.table({{...}}) makes one"
            )
        if len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{self._name}.map: a row is a dict, and two of {table.column_names} have one name; rename one")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise Error(f"{self._name}.map: schema is a {type(schema).__qualname__}; give a pa.schema([...])")
        if not inspect.iscoroutinefunction(coroutine):
            raise Error(f"{self._name}.map: {coroutine!r} is no coroutine function; declare it with async def")
        captures.check(f"{self._name}.map", coroutine)
        from pyspark import cloudpickle

        code: bytes = cloudpickle.dumps(coroutine)  # type: ignore[no-untyped-call]
        digest = hashlib.sha256(code).hexdigest()
        written = schema.serialize().to_pybytes().hex() if schema is not None else ""
        while True:
            head = {"op": "map", "digest": digest, "schema": written}
            said, answer, _ = self._ask(head, table, retry=False)
            if not said.get("unknown"):
                assert answer is not None
                return answer
            self._ask({"op": "function", "digest": digest}, pa.table({"code": pa.array([code], pa.large_binary())}))
