"""A pool of connections to any database or service, and the base class of all pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.postgres_arrow import ROW, named
from . import unsafe
from .batches import as_table, like
from .driver import SparkLike, driver
from .functions import FunctionHandle, pickled
from .handle import SharedHandle


class SqlPool(SharedHandle):
    """A pool of connections to a database. The subclasses open them."""

    _retry = False
    """True if a query can be sent again after the runtime was killed."""

    def query(self, sql: str, rows: Any) -> Any:
        """Run ``sql`` once for each row of parameters. Return all answers as one table, in the order of ``rows``.

        ``rows`` is a pandas DataFrame or an Arrow table, and the result is of the same kind. ``sql`` contains one
        placeholder for each column of ``rows``, in order, or placeholders with column names, such as ``%(id)s``. The
        first column of the result, ``row``, is the position (from 0) of the parameter row that each result row belongs
        to. If the statement does not return rows, such as an INSERT, the column ``changed`` is the number of rows that
        it changed. Raises Error with the database's message if a query fails, and Error if a column has an unsupported
        type. Raises Lost if the runtime exits during a query that cannot be retried.
        """
        call = f"{self._name}.query"
        return like(self._answers(call, sql, as_table(call, rows)), rows)

    def enrich(self, batch: Any, sql: str, on: str | Sequence[str], how: str = "inner") -> Any:
        """Join each row of ``batch`` with the rows that ``sql`` returns for it. Return a batch of the same kind.

        ``batch`` is a pandas DataFrame, an Arrow record batch or a table. ``sql`` runs once for each row, with the
        columns ``on`` as its parameters. The result has all columns of the batch, and then those of the answers. A row
        with several answers is repeated. A row without an answer is dropped with ``how="inner"``, and has NULLs with
        ``how="left"``. Raises Error if the batch has no column ``on``, if the batch and the answers have a column of
        the same name, and for the reasons of `query`.
        """
        call = f"{self._name}.enrich"
        if how not in ("inner", "left"):
            raise Error(f"{call}: how={how!r} is not valid. Pass 'inner' or 'left'.")
        table, names = as_table(call, batch), [on] if isinstance(on, str) else list(on)
        for name in names:
            if name not in table.column_names:
                has = ", ".join(table.column_names)
                raise Error(f"{call}: on={on!r}, but the batch has no column {name!r}. Its columns are {has}.")
        answers = self._answers(call, sql, table.select(names))
        places = answers.column(ROW).to_numpy()
        answers = answers.drop_columns([ROW])
        for name in answers.column_names:
            if name in table.column_names:
                raise Error(
                    f"{call}: the batch and the answers both have a column {name}. "
                    "Rename it with AS, or leave it out of the SELECT."
                )
        found = np.arange(len(places))
        if how == "left":
            unmatched = np.setdiff1d(np.arange(table.num_rows), places)
            places = np.concatenate([places, unmatched])
            order = np.argsort(places, kind="stable")
            places, found = places[order], np.concatenate([found, np.full(len(unmatched), -1)])[order]
        out = table.take(pa.array(places, pa.int64()))
        matched = answers.take(pa.array(found, pa.int64(), mask=found < 0))
        for field, column in zip(matched.schema, matched.columns, strict=True):
            out = out.append_column(field, column)
        return like(out, batch, one_batch=True)

    async def fetch(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Run one query and return its rows as dicts. Raises Error unless an AsyncRuntime's coroutine calls it."""
        from ..runtime import current

        if current.find is None:
            raise Error(f"{self._name}.fetch: only a coroutine that an AsyncRuntime runs can call this. Use query().")
        found: list[dict[str, Any]] = await current.call(self._name, lambda pool: pool.fetch(sql, parameters))
        return found

    def stats(self) -> dict[str, int]:
        """Return the pool's counters on this host, which `metrics` explains, without those of other kinds."""
        said, _, _ = self._request({"op": "stats"})
        return {name: said[name] for name in ("connections", "most", "opened", "queries", "rows", "sent")}

    def _answers(self, call: str, sql: str, table: pa.Table) -> pa.Table:
        if not isinstance(sql, str):
            raise Error(f"{call}: sql is a {unsafe.type_name(sql)}. Pass one SQL statement as a string.")
        if named(sql) and len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{call}: two of the columns {table.column_names} have the same name. Rename one.")
        _, answer, _ = self._request({"op": "query", "sql": sql}, table, retry=self._retry)
        assert answer is not None
        return answer


class Pool(SqlPool, FunctionHandle):
    """A pool of at most ``size`` connections on each host, which ``connect`` opens on demand.

    ``connect`` is a function without parameters that returns a connection, such as ``lambda: sqlite3.connect(path)``.
    The runtime calls it, in the thread that then uses the connection. `query` and `enrich` need a connection of the
    Python database API (DB-API), and the placeholders of its driver, such as ``?``. `map` works with any connection.

    The rows of a batch are divided among the connections, so a batch is not one transaction. After each use, the
    transaction of a DB-API connection is committed. A connection on which a call has failed is closed. The pool does
    not know whether a call only reads, so it retries none: if the runtime is killed, they raise Lost. Raises Error if
    ``connect`` is not a function (for example, an open connection) or captures mutable values, or if ``size`` is not a
    positive integer.
    """

    kind = "Pool"

    def __init__(self, spark: SparkLike, connect: Callable[[], Any], size: int = 8) -> None:
        code = pickled("Pool", connect, "connect", 1)
        check_size("Pool", size)
        found = driver(spark)
        super().__init__(found, found.register(self.kind, {"connect": code.hex(), "size": int(size)}))

    def map(self, function: Callable[[Any, dict[str, Any]], Any], batch: Any, schema: pa.Schema | None = None) -> Any:
        """Call ``function(connection, row)`` for each row of ``batch``. Return one row for each, in order.

        ``function`` takes a connection of the pool and a row as a dict, and returns a dict. It runs in a thread of the
        runtime, and up to ``size`` calls run at the same time. The result is as with `AsyncRuntime.map`. Raises Error
        if ``function`` captures mutable values, or if a call raises an exception. Raises Lost if the runtime exits
        before it answers.
        """
        return self._map(function, batch, schema)


def check_size(call: str, size: int) -> None:
    """Raise Error if ``size`` is not the size of a pool."""
    if not is_integer(size) or size < 1:
        raise Error(f"{call}: size={size!r} is not valid. Pass an integer of at least 1.")
