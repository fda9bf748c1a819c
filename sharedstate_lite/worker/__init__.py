"""What the Spark tasks of one host share: immutable data in shared memory, and resources that one process owns.

Each task of a Spark job runs in a Python process of its own, so tasks cannot share an object. Here each host runs one
*runtime* process per Spark application, which owns what the tasks share. A *handle* is created in the driver and
pickles as an address; a task sends a batch to the runtime and gets a batch back. Immutable data is not sent: each task
maps the same sealed memory. A resource has one owner that answers one request after another, so tasks need no locks.

>>> import pyarrow as pa
>>> import sharedstate_lite as ss
>>> session = ss.spark.session()
>>> ids = session.range(0, 1000, 1, 4).selectExpr("id % 10 AS id")        # 4 tasks; each id occurs 100 times
>>> with ss.worker.ConcurrentSet(session) as seen:
...     def keep_new(batches):
...         for batch in batches:
...             yield batch.filter(pa.array(seen.add_new(batch.column("id"))))
...     ids.mapInArrow(keep_new, "id long").count()                       # each id once, without a shuffle
10

Handles: ``share`` (returns an `Immutable`), `ConcurrentSet`, `Cache`, `ConnectionPool`, `AsyncRuntime`, `Mailbox` and
`Exchange`; ``metrics()`` and ``processes()`` describe the runtimes. All handles have ``close()`` and are context
managers.

Modules, from the bottom: ``runtime/`` is the process that owns resources and the protocol to it; ``handles/`` is what a
driver creates and a task calls. See docs/worker.md.

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
    "metrics": "handles.metrics",
    "processes": "handles.metrics",
    "share": "handles.immutable",
}


def __getattr__(name: str) -> Any:
    # Lazy: a runtime imports this package too, and needs none of the handles.
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
    "metrics",
    "processes",
    "share",
]
