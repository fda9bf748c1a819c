"""The use cases of sharing inside a worker, each as a *ladder*: the same computation in several ways.

A *rung* is one way. The lower rungs are what a Spark engineer would write without sharing; the top rung shares. All
rungs must give the same answer; each is timed, and counts something, such as connections opened.

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

    ladder           rungs run in order: timed, counted, compared
    shuffle_metrics  records and bytes that Spark shuffled; memory: PSS of the tasks' processes
    paper            the paper's own results
    enrich           the two queries for each event that use cases 3, 4 and 6 share
    readonly         1: one graph for all tasks (graphs: its kernels; dataflow: GraphX, GraphFrames, joins)
    dedup            2: each id once
    connections      3: connections to PostgreSQL
    asynchronous     4: queries in flight at once
    caching          6: caches of query results

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
