"""The process that owns what the tasks of one host share, and the protocol to it. It knows no handle and no Spark.

Everything is done a batch at a time. An index, for example, numbers distinct values; the state behind a ConcurrentSet
is an index and the task that added each value.

>>> import pyarrow as pa
>>> from sharedstate_lite.worker.runtime.index import Index
>>> index = Index("ids")
>>> for batch in (["b", "a"], ["a", "c"]):
...     numbers, new = index.add(pa.chunked_array([batch]))
...     print(batch, numbers.tolist(), new.tolist())
['b', 'a'] [0, 1] [True, True]
['a', 'c'] [1, 2] [False, True]

Modules, from the bottom:

    host             what differs between Linux and macOS
    address          what identifies an application
    resource         the interface of everything that a runtime owns
    protocol         framed and authenticated messages; channel: many requests at once over one connection
    index, lru       numbers for distinct values; rows by key with LRU eviction
    postgres_arrow   parameters and answers of PostgreSQL as Arrow tables
    current          the runtime as seen by a coroutine inside it
    concurrent_set, cache, connection_pool, async_runtime, immutable, mailbox
                     the state behind the handle of that name
    runtime          dispatches requests; launch: starts the process
"""
