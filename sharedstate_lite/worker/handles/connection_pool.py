"""A pool of PostgreSQL connections that all tasks of a host use."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.postgres_arrow import named
from . import unsafe
from .driver import SparkLike, driver
from .handle import SharedHandle


class ConnectionPool(SharedHandle):
    """At most ``size`` connections a host to ``dsn``, opened when they are needed.

    They only read, so that a question can be asked again when a runtime was killed. With
    ``writes=True`` they write too: then a batch is one transaction, and what was asked when a
    runtime was killed is not asked again but reported as Lost. Raises Error for
    anything but a DSN, and for a size that cannot be.
    """

    kind = "ConnectionPool"
    _writes: bool

    def __init__(self, spark: SparkLike, dsn: str, size: int = 8, *, writes: bool = False) -> None:
        if not isinstance(dsn, str):
            dsn = getattr(dsn, "dsn", dsn) if type(dsn).__module__.startswith("sharedstate_lite.") else dsn
        if not isinstance(dsn, str):
            why = ": two tasks that use it would read each other's answers"
            raise unsafe.error("ConnectionPool", dsn, unsafe.argument_text("ConnectionPool", "dsn", 1), why)
        if not is_integer(size) or size < 1:
            raise Error(f"ConnectionPool: size={size!r}: it is a number of connections from 1")
        found = driver(spark)
        self._writes = writes
        super().__init__(found, found.add(self.kind, {"dsn": dsn, "size": int(size), "writes": writes}))

    def query(self, sql: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """What PostgreSQL answers to ``sql`` for each row of parameters, in the rows' order.

        ``sql`` has ``%s`` for the columns of ``rows`` in their order, or ``%(name)s``. The answer's first
        column, ``row``, is the number of the row (from 0) that each line answers; what
        answers without rows, such as an INSERT, has the number of rows ``changed``. Raises Error
        with what PostgreSQL refuses, for a type that Arrow has not, and Lost.
        """
        if not isinstance(sql, str):
            raise Error(f"{self._name}.query: sql is a {unsafe.type_name(sql)}; give the text of one statement")
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not isinstance(table, pa.Table):
            kind = type(rows).__qualname__
            raise Error(f"{self._name}.query: rows is a {kind}; give an Arrow table, such as pa.table({{'id': ids}})")
        if named(sql) and len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{self._name}.query: two of the columns {table.column_names} have one name; rename one")
        _, answer, _ = self._ask({"op": "query", "sql": sql}, table, retry=not self._writes)
        assert answer is not None
        return answer

    async def fetch(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """The rows of one query, in a coroutine of an AsyncRuntime of this application; nowhere else."""
        from ..runtime import current

        if current.find is None:
            raise Error(f"{self._name}.fetch: this is for coroutines that an AsyncRuntime runs; elsewhere use query()")
        found: list[dict[str, Any]] = await current.call(self._name, lambda pool: pool.fetch(sql, parameters))
        return found

    def stats(self) -> dict[str, int]:
        """Of this host: connections open, at most at once, opened in all; queries, rows and bytes."""
        said, _, _ = self._ask({"op": "stats"})
        return {name: said[name] for name in ("connections", "most", "opened", "queries", "rows", "bytes")}

    def _pickled_attributes(self) -> dict[str, Any]:
        return {"_writes": self._writes}
