"""The use cases of sharing inside a worker. Each is a *ladder*, which runs the same computation in several ways.

A *rung* is one of these ways. The lower rungs are what a Spark engineer would write without shared state, and the top
rung shares state. All rungs must return the same answer. Each rung is timed and counts something, such as the number
of connections opened.

>>> from sharedstate_lite.lessons.usecases import ladder
>>> from sharedstate_lite.lessons.usecases.ladder import Rung, RunResult
>>> rungs = {
...     "loop": Rung(1000, lambda: RunResult(sum(n for n in range(1000)))),
...     "formula": Rung(1000, lambda: RunResult(999 * 1000 // 2)),
... }
>>> results = ladder.climb(rungs, runs=3)
>>> ladder.same(results)
True
>>> [result.name for result in results]
['loop', 'formula']

Modules:

    ladder           runs rungs in order, times them, and compares their answers and counts
    shuffle_metrics  counts the records and bytes that Spark shuffled
    memory           measures the memory (PSS) of the tasks' processes
    paper            the results that the paper reports
    enrich           the two queries per event that use cases 3, 4 and 6 have in common
    readonly         use case 1: one graph that all tasks read
    graphs           use case 1: the graph and the kernels of its algorithms
    dataflow         use case 1: the same algorithms on GraphX, GraphFrames and joins
    dedup            use case 2: deduplicating ids
    connections      use case 3: connections to PostgreSQL
    asynchronous     use case 4: several queries in flight at the same time
    caching          use case 6: caches of query results

Use case 5, request and response, is :mod:`..grand_challenge`. See docs/usecases.md.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024 (Renoir).
"""

from . import asynchronous, caching, connections, dataflow, dedup, enrich, graphs, ladder, memory, paper, readonly

__all__ = [
    "asynchronous",
    "caching",
    "connections",
    "dataflow",
    "dedup",
    "enrich",
    "graphs",
    "ladder",
    "memory",
    "paper",
    "readonly",
]
