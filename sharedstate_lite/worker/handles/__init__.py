"""What a driver creates and a task calls.

From the bottom: ``task`` identifies the Spark task. ``client`` connects a process to its runtime, starts one if there
is none, and retries what may be repeated. ``driver`` is the application's side: what it shares, and the lease.
``handle`` is the base class of all handles. ``unsafe`` writes the error for a value that must not be shared,
``values`` checks columns, ``captures`` checks functions, ``csr`` is a graph. Then one module for each handle, and
``metrics``.
"""
