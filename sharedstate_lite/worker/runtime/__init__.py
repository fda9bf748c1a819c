"""The process that owns the state shared by the tasks on one host, and the protocol for talking to it.

This package does not depend on the handles or on Spark. All its operations work on batches. An index, for example,
assigns a number to each distinct value in a batch. The state behind a ConcurrentSet consists of an index and, for each
value, the task that added it.

>>> import pyarrow as pa
>>> from sharedstate_lite.worker.runtime.index import Index
>>> index = Index("ids")
>>> for batch in (["b", "a"], ["a", "c"]):
...     numbers, new = index.add(pa.chunked_array([batch]))
...     print(batch, numbers.tolist(), new.tolist())
['b', 'a'] [0, 1] [True, True]
['a', 'c'] [1, 2] [False, True]

Modules, from the bottom up:

    host             everything that differs between Linux and macOS
    address          the address of an application, which a handle uses to find its runtime and its driver
    resource         the interface of the resources that a runtime owns
    protocol         framed and authenticated messages
    channel          concurrent requests over one connection
    index            assigns numbers to distinct values
    lru              stores rows by key, with LRU eviction
    postgres_arrow   converts parameters and answers between Arrow and PostgreSQL
    current          gives a coroutine in the runtime access to that runtime
    concurrent_set, cache, connection_pool, async_runtime, immutable, mailbox
                     the state behind the handle with the same name
    runtime          dispatches requests to resources
    launch           starts the process
"""
