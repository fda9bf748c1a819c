"""Use case 1 of sharing inside a worker, a graph that all tasks read, and the modules that measure all use cases.

A use case is a *ladder*, which runs the same computation in several ways. A *rung* is one of these ways. The lower
rungs are what a Spark engineer would write without shared state, and the top rung shares state. All rungs must return
the same answer. Each rung is timed and counts something, such as the number of records shuffled.

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
    readonly         use case 1: one graph that all tasks read
    graphs           use case 1: the graph and the kernels of its algorithms
    dataflow         use case 1: the same algorithms on GraphX, GraphFrames and joins

Notebooks 06 to 09 contain the rungs of use cases 2, 3, 4 and 6; their ladders are benchmarks (``bench/usecases``). Use
case 5, request and response, is :mod:`..grand_challenge`. See docs/usecases.md.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024 (Renoir).
"""

from . import dataflow, graphs, ladder, memory, paper, readonly

__all__ = ["dataflow", "graphs", "ladder", "memory", "paper", "readonly"]
