"""The use cases of sharing inside a worker, each as a ladder: the same answer by one way after the other.

    from sharedstate_lite.lessons.usecases import connections, ladder
    with connections.rungs(session, server.dsn, events) as rungs:
        steps = ladder.climb(rungs)
    ladder.table(steps)                 # time an event, how many times as fast, what was counted
    assert ladder.same(steps)

    ladder.py         rungs, climbed: timed, counted, compared
    moved.py          what Spark shuffled                   memory.py  what tasks are charged with
    paper.py          what the paper measured
    enrich.py         two questions for each event: what 3, 4 and 6 have in common
    readonly.py       1  one graph for all (graphs.py: its kernels; dataflow.py: GraphX, GraphFrames, joins)
    dedup.py          2  each id once                       connections.py   3  who connects
    asynchronous.py   4  how many questions at once         caching.py       6  who remembers

The rungs below sharing are ones that a Spark engineer would write without it. Source of the use
cases: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024.
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
