"""The objects that a driver creates and a task calls.

Every handle belongs to a DriverServer, which serves one application in its driver. A server also works without Spark,
as in this example:

>>> from sharedstate_lite.worker.handles.concurrent_set import ConcurrentSet
>>> from sharedstate_lite.worker.handles.driver import DriverServer
>>> server = DriverServer("127.0.0.1", "127.0.0.1", running=lambda: True)
>>> with ConcurrentSet(server) as seen:                  # the first request starts the runtime
...     print(seen.add_new([3, 1, 3]).tolist(), seen.add_new([1, 2]).tolist())
[True, True, False] [False, True]
>>> server.close()                                       # stops the runtime

Modules, from the bottom up:

    task      identifies the Spark task that sends a request
    client    starts the runtime on this host, sends requests to it, and retries them or raises `Lost`
    driver    the driver's side: the registry of shared resources, and the leases
    handle    the base class of all handles
    unsafe    the error for a value that is not safe to share
    values    converts a user's values to an Arrow array, and checks them
    captures  checks the variables that a user's coroutine captures
    csr       a graph
    immutable, concurrent_set, cache, connection_pool, async_runtime, mailbox, exchange
              one handle per module
    metrics   the counters and the memory use of the runtimes
"""
