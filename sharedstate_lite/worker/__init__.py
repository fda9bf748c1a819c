"""Sharing between the tasks of one host: what nobody can change, and what one process owns. See docs/worker.md.

    from sharedstate_lite import worker as w
    graph = w.share(table_or_csr)              # Immutable: .table(), .csr() in a task
    seen = w.ConcurrentSet(session)            # .add_new(ids) -> which of them are new
    pool = w.ConnectionPool(session, dsn)      # .query(sql, rows) -> Arrow table, in order; .stats()
    calls = w.AsyncRuntime(session)            # .map(coroutine, batch) -> Arrow table, in order
    cache = w.Cache(session, capacity=65_536)  # .get_or_load(keys, load) -> Arrow table; one load a missing key
    box = w.Mailbox(session)                   # driver: .serve(handler); task: .ask(batch) -> answer
    whole = w.Exchange(session, parts=2)       # each task puts a slice, all get the whole: .all(round, part, slice)
    w.metrics(), w.processes()                 # what the runtimes tell of themselves

Handles are made in the driver and used in tasks (RDD, mapInPandas, mapInArrow,
foreachBatch); they travel as addresses. All have close() and are context managers.

    host.py        what only one system has
    protocol.py        messages, and proof of who sends them       line.py    many at once, on one connection
    ending.py      whose end a cancellation is
    address.py     what a handle pickles as
    things/        what a runtime owns, one class a kind
    begin.py       how a runtime starts                        runtime.py what it does
    task.py        which task asks
    connection.py  a process's connections to its runtime      client.py  a question: asked again, or lost
    driver.py      the application's side, and the lease
    csr.py, immutable.py, concurrent_set.py, cache.py (batches.py), connection_pool.py, async_runtime.py (captured.py),
    mailbox.py, exchange.py, metrics.py                        what a user calls
    refusal.py     what is refused, and how it is told
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handles.async_runtime import AsyncRuntime
    from .handles.cache import Cache
    from .handles.concurrent_set import ConcurrentSet
    from .handles.connection import Lost
    from .handles.connection_pool import ConnectionPool
    from .handles.csr import CSR
    from .handles.exchange import Exchange
    from .handles.immutable import Immutable, share
    from .handles.mailbox import Mailbox
    from .handles.metrics import metrics, processes

_HOME = {
    "AsyncRuntime": "handles.async_runtime",
    "CSR": "handles.csr",
    "Cache": "handles.cache",
    "ConcurrentSet": "handles.concurrent_set",
    "ConnectionPool": "handles.connection_pool",
    "Exchange": "handles.exchange",
    "Immutable": "handles.immutable",
    "Lost": "handles.connection",
    "Mailbox": "handles.mailbox",
    "metrics": "handles.metrics",
    "processes": "handles.metrics",
    "share": "handles.immutable",
}


def __getattr__(name: str) -> Any:
    # A runtime lives in this package too, and has no use for the handles.
    if name in _HOME:
        # A module may have the name of its function, and would hide it from then on.
        found = globals()[name] = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CSR",
    "AsyncRuntime",
    "Cache",
    "ConcurrentSet",
    "ConnectionPool",
    "Exchange",
    "Immutable",
    "Lost",
    "Mailbox",
    "metrics",
    "processes",
    "share",
]
