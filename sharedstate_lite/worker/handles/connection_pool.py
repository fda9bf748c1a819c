"""A pool of PostgreSQL connections that all tasks on a host share."""

from __future__ import annotations

from . import unsafe
from .driver import SparkLike, driver
from .pool import SqlPool, check_size


class ConnectionPool(SqlPool):
    """A pool of at most ``size`` connections to PostgreSQL on each host, which are opened on demand.

    By default, the connections are read-only, so queries are retried if the runtime is killed. With ``writes=True``,
    queries can write, each batch is one transaction, and `query` raises Lost if the runtime is killed. ``dsn`` is a DSN
    or a postgres.Server. Placeholders are ``%s`` and ``%(name)s``. Raises Error if ``dsn`` has another type, or if
    ``size`` is not a positive integer.
    """

    kind = "ConnectionPool"

    def __init__(self, spark: SparkLike, dsn: str, size: int = 8, *, writes: bool = False) -> None:
        if not isinstance(dsn, str):
            dsn = getattr(dsn, "dsn", dsn) if type(dsn).__module__.startswith("sharedstate_lite.") else dsn
        if not isinstance(dsn, str):
            why = ": two tasks that use it would read each other's answers"
            raise unsafe.error("ConnectionPool", dsn, unsafe.argument_text("ConnectionPool", "dsn", 1), why)
        check_size("ConnectionPool", size)
        found = driver(spark)
        self._retry = not writes
        super().__init__(found, found.register(self.kind, {"dsn": dsn, "size": int(size), "writes": writes}))

    def _attributes(self) -> dict[str, bool]:
        return {"_retry": self._retry}
