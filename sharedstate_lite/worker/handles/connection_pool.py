"""A pool of PostgreSQL connections that all tasks on a host share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.postgres_arrow import named
from . import unsafe
from .driver import SparkLike, driver
from .handle import SharedHandle, as_table


class ConnectionPool(SharedHandle):
    """A pool of at most ``size`` connections on each host, which are opened on demand.

    By default, the connections are read-only, so queries are retried if the runtime is killed. With ``writes=True``,
    queries can write, each batch is one transaction, and `query` raises Lost if the runtime is killed. ``dsn`` is a DSN
    or a postgres.Server. Raises Error if ``dsn`` has another type, or if ``size`` is not a positive integer.
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
            raise Error(f"ConnectionPool: size={size!r} is not valid. Pass an integer of at least 1.")
        found = driver(spark)
        self._writes = writes
        super().__init__(found, found.register(self.kind, {"dsn": dsn, "size": int(size), "writes": writes}))

    def query(self, sql: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Run ``sql`` once for each row of parameters. Return all answers as one table, in the order of ``rows``.

        ``sql`` contains one ``%s`` for each column of ``rows``, in order, or placeholders with column names, such as
        ``%(id)s``. The first column of the returned table, ``row``, is the position (from 0) of the parameter row that
        each result row belongs to. If the statement does not return rows, such as an INSERT, the column ``changed`` is
        the number of rows that it changed. Raises Error with PostgreSQL's message if a query fails, and Error if a
        column has an unsupported type. Raises Lost if the runtime exits during a query that cannot be retried.
        """
        call = f"{self._name}.query"
        if not isinstance(sql, str):
            raise Error(f"{call}: sql is a {unsafe.type_name(sql)}. Pass one SQL statement as a string.")
        table = as_table(call, rows)
        if named(sql) and len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{call}: two of the columns {table.column_names} have the same name. Rename one.")
        _, answer, _ = self._request({"op": "query", "sql": sql}, table, retry=not self._writes)
        assert answer is not None
        return answer

    async def fetch(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Run one query and return its rows as dicts. Raises Error unless an AsyncRuntime's coroutine calls it."""
        from ..runtime import current

        if current.find is None:
            raise Error(f"{self._name}.fetch: only a coroutine that an AsyncRuntime runs can call this. Use query().")
        found: list[dict[str, Any]] = await current.call(self._name, lambda pool: pool.fetch(sql, parameters))
        return found

    def stats(self) -> dict[str, int]:
        """Return the pool's counters on this host.

        ``connections`` is the number of connections that are open now, ``most`` the maximum number that were open at
        the same time, and ``opened`` the total number opened. ``queries`` is the number of queries, and ``rows`` and
        ``bytes`` are the size of their answers.
        """
        said, _, _ = self._request({"op": "stats"})
        return {name: said[name] for name in ("connections", "most", "opened", "queries", "rows", "bytes")}

    def _attributes(self) -> dict[str, Any]:
        return {"_writes": self._writes}
