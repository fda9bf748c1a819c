"""The process that owns what the tasks of one host share, and the protocol to it. It knows no handle and no Spark.

From the bottom: ``host`` has one function for each thing that differs between Linux and macOS. ``address`` is what
identifies an application. ``resource`` is the interface of everything that a runtime owns. ``protocol`` frames and
authenticates messages, and ``channel`` sends many of them over one connection. ``index`` and ``lru`` find values and
rows a batch at a time, ``postgres_arrow`` converts between PostgreSQL and Arrow, ``current`` is the runtime as seen
by a coroutine inside it. ``concurrent_set``, ``cache``, ``connection_pool``, ``async_runtime``, ``immutable`` and
``mailbox`` each hold the state behind the handle of that name. ``runtime`` dispatches requests to them; ``launch``
starts it.
"""
