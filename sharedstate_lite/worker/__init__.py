"""State that the Spark tasks on one host share: immutable data in shared memory, and resources that one process owns.

Spark runs each task in its own Python process, so tasks cannot share Python objects. This package therefore runs one
*runtime* process per host and Spark application, which owns the shared state. The driver creates a *handle*, which is
pickled as an address. A task uses the handle to send a batch to the runtime and gets a batch back. Immutable data is
not sent; instead, each task maps the same sealed memory. Only the runtime changes a resource, and it uses a single
event loop, so neither tasks nor resources need locks.

>>> import sharedstate_lite as ss
>>> session = ss.spark.session()
>>> ids = session.range(0, 1000, 1, 4).selectExpr("id % 10 AS id")        # 4 tasks; each id occurs 100 times
>>> with ss.worker.ConcurrentSet(session) as seen:
...     def keep_new(batches):
...         for batch in batches:
...             yield batch.filter(seen.add_new(batch.column("id")))
...     ids.mapInArrow(keep_new, "id long").count()                       # keeps each id once, without a shuffle
10

The handles are `Immutable` (which ``share`` returns), `ConcurrentSet`, `Cache`, `ConnectionPool`, `Pool`,
`AsyncRuntime`, `Mailbox` and `Exchange`. Every handle has ``close()`` and is a context manager. ``metrics()`` and
``processes()`` report what the runtimes have done and how much memory they use.

``runtime/`` contains the process that owns the resources, and the protocol for talking to it. ``handles/`` contains the
objects that a driver creates and a task calls. See docs/worker.md.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024 (Renoir).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..system.lazy import lazy_name

if TYPE_CHECKING:
    from .handles.async_runtime import AsyncRuntime
    from .handles.cache import Cache
    from .handles.client import Lost
    from .handles.concurrent_set import ConcurrentSet
    from .handles.connection_pool import ConnectionPool
    from .handles.csr import CSR
    from .handles.exchange import Exchange
    from .handles.immutable import Immutable, share
    from .handles.mailbox import Mailbox
    from .handles.metrics import metrics, processes
    from .handles.pool import Pool

_HOME = {
    "AsyncRuntime": "handles.async_runtime",
    "CSR": "handles.csr",
    "Cache": "handles.cache",
    "ConcurrentSet": "handles.concurrent_set",
    "ConnectionPool": "handles.connection_pool",
    "Exchange": "handles.exchange",
    "Immutable": "handles.immutable",
    "Lost": "handles.client",
    "Mailbox": "handles.mailbox",
    "Pool": "handles.pool",
    "metrics": "handles.metrics",
    "processes": "handles.metrics",
    "share": "handles.immutable",
}


def __getattr__(name: str) -> Any:
    # Import lazily, because a runtime also imports this package but does not use the handles.
    return lazy_name(__name__, _HOME, name)


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
    "Pool",
    "metrics",
    "processes",
    "share",
]
