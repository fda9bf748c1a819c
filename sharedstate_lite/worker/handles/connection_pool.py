"""A pool of PostgreSQL connections for all tasks of a host."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.postgres_arrow import named
from . import unsafe
from .driver import SparkLike, driver
from .handle import SharedHandle, as_table


class ConnectionPool(SharedHandle):
    """At most ``size`` connections to ``dsn`` on each host, opened on demand.

    Connections are read-only, so queries are retried if the runtime is killed. With ``writes=True`` they may
    write: each batch is then one transaction, and a killed runtime raises Lost. ``dsn`` is a DSN or a postgres.Server.
    Raises Error for anything else, and if ``size`` is not a positive integer.
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
            raise Error(f"ConnectionPool: size={size!r}. Pass a number of connections, 1 or more.")
        found = driver(spark)
        self._writes = writes
        super().__init__(found, found.register(self.kind, {"dsn": dsn, "size": int(size), "writes": writes}))

    def query(self, sql: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Run ``sql`` once for each row of parameters; return all answers as one table, in the order of the rows.

        ``sql`` has ``%s`` for each column of ``rows`` in order, or ``%(name)s``. The first column of the answer,
        ``row``, is the position (from 0) of the parameter row that each line answers. A statement without rows, such
        as an INSERT, has a column ``changed``: the number of rows it changed. Raises Error with PostgreSQL's message,
        for a type that has no Arrow counterpart, and Lost.
        """
        call = f"{self._name}.query"
        if not isinstance(sql, str):
            raise Error(f"{call}: sql is a {unsafe.type_name(sql)}. Pass one SQL statement as text.")
        table = as_table(call, rows)
        if named(sql) and len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{call}: two of the columns {table.column_names} have one name. Rename one.")
        _, answer, _ = self._request({"op": "query", "sql": sql}, table, retry=not self._writes)
        assert answer is not None
        return answer

    async def fetch(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """The rows of one query as dicts. Only for coroutines of an AsyncRuntime; raises Error anywhere else."""
        from ..runtime import current

        if current.find is None:
            raise Error(f"{self._name}.fetch: only a coroutine that an AsyncRuntime runs can call this. Use query().")
        found: list[dict[str, Any]] = await current.call(self._name, lambda pool: pool.fetch(sql, parameters))
        return found

    def stats(self) -> dict[str, int]:
        """Counters of this host: connections open, most at once, opened in all; queries, rows and bytes."""
        said, _, _ = self._request({"op": "stats"})
        return {name: said[name] for name in ("connections", "most", "opened", "queries", "rows", "bytes")}

    def _attributes(self) -> dict[str, Any]:
        return {"_writes": self._writes}
