"""What a driver creates and a task calls.

A handle belongs to the server of an application in its driver. Tests use such a server without Spark:

>>> from sharedstate_lite.worker.handles.concurrent_set import ConcurrentSet
>>> from sharedstate_lite.worker.handles.driver import DriverServer
>>> server = DriverServer("127.0.0.1", "127.0.0.1", running=lambda: True)
>>> with ConcurrentSet(server) as seen:                  # the first request starts the runtime
...     print(seen.add_new([3, 1, 3]).tolist(), seen.add_new([1, 2]).tolist())
[True, True, False] [False, True]
>>> server.close()                                       # ends the runtime

Modules, from the bottom:

    task      the Spark task that asks
    client    connections to the runtime of this host: started, retried, or Lost
    driver    the application's side: the registry of what it shares, and the lease
    handle    the base class of all handles
    unsafe    the error for a value that must not be shared
    values    checked columns; captures: checked functions; csr: a graph
    immutable, concurrent_set, cache, connection_pool, async_runtime, mailbox, exchange
              one handle each
    metrics   counters and memory of the runtimes
"""
