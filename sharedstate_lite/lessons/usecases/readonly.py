"""Use case 1: a graph that all tasks read.

The rungs are:

- GraphX, called through the py4j gateway;
- GraphFrames, if its jars are available;
- joins of DataFrames;
- the graph as a broadcast dictionary;
- the graph as broadcast arrays;
- the same arrays in shared memory;
- the arrays in shared memory and an Exchange between tasks, in one job;
- numpy in this process.

The three rungs before the Exchange run one job per iteration. They differ only in how the graph is passed to the
tasks.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ... import worker as w
from ...errors import Error
from . import dataflow, graphs, memory
from .graphs import Graph, Labels, NearlyEqual, Ranks
from .ladder import Rung, RunResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...worker import CSR

Get = Callable[[], Any]
"""A function that a task calls to get the shared value."""
Give = Callable[[Any], contextlib.AbstractContextManager[Get]]
"""A context manager that shares a value, and yields the function that returns it in a task."""


@contextlib.contextmanager
def broadcast(session: SparkSession, what: Any) -> Iterator[Get]:
    """Share a value as a broadcast variable, with one copy per worker process."""
    sent = session.sparkContext.broadcast(what)
    yield lambda: sent.value
    sent.destroy()


@contextlib.contextmanager
def mapped(session: SparkSession, what: Any) -> Iterator[Get]:
    """Share a graph or an array of numbers with one copy per host, which the tasks map read-only."""
    csr = isinstance(what, w.CSR)
    with w.share(what if csr else pa.table({"values": what}), session) as shared:
        yield (lambda: shared.csr()) if csr else (lambda: shared.table().column("values").chunk(0).to_numpy())


def pagerank(
    session: SparkSession, graph: Graph, iterations: int, give: Give, parts: int, lists: bool = False
) -> Ranks:
    """Run PageRank with one job per iteration.

    ``give`` shares the graph and the ranks with the tasks. If ``lists`` is True, the graph is a dictionary of lists
    and the kernel is plain Python.
    """
    ranges = session.sparkContext.parallelize(graphs.cuts(graph.nodes, parts), parts)
    ranks = np.ones(graph.nodes)
    with give(neighbours(graph.incoming) if lists else graph.incoming) as incoming:
        for _ in range(iterations):
            passed = ranks / graph.degrees
            with give(passed.tolist() if lists else passed) as given:
                step = functools.partial(_pulled_by_list if lists else _pulled, incoming, given)
                ranks = np.concatenate(ranges.map(step).collect())
    return graph.scaled(ranks)


def components(session: SparkSession, graph: Graph, give: Give, parts: int, lists: bool = False) -> Labels:
    """Find connected components with one job per round, until labels no longer change.

    ``give`` and ``lists`` have the same meaning as for :func:`pagerank`.
    """
    context = session.sparkContext
    labels = changed = np.arange(graph.nodes)
    ends = [last for _, last in graphs.cuts(graph.nodes, parts)]
    with give(neighbours(graph.both) if lists else graph.both) as both:
        while len(changed):
            with give(labels) as given:
                mine = np.split(changed, np.searchsorted(changed, ends[:-1]))
                step = functools.partial(_pushed_by_list if lists else _pushed, both, given)
                news = context.parallelize(mine, parts).map(step).collect()
            labels, changed = graphs.told(labels, news)
    return labels


def neighbours(csr: CSR) -> dict[int, list[int]]:
    """Convert a graph to a dictionary of lists, which is how a Python programmer would write it without arrays."""
    return {node: csr.neighbours(node).tolist() for node in range(csr.nodes) if csr.indptr[node] < csr.indptr[node + 1]}


def exchanged_pagerank(session: SparkSession, graph: Graph, iterations: int, parts: int) -> Ranks:
    """Run PageRank in one job. After each iteration, every task gets all ranks from the exchange."""
    ranges = graphs.cuts(graph.nodes, parts)
    # Each task is sent the degrees of all nodes, which are small compared with the edges that it maps.
    degrees = graph.degrees
    with w.share(graph.incoming, session) as incoming, w.Exchange(session, parts) as exchange:

        def run(mine: Iterator[tuple[int, tuple[int, int]]]) -> Iterator[Ranks]:
            for part, (first, last) in mine:
                csr, ranks = incoming.csr(), np.ones(last - first)
                for round in range(iterations):
                    whole = exchange.all(round, part, _columns(passed=ranks / degrees[first:last]))
                    ranks = graphs.pull(csr, whole.column("passed").to_numpy(), first, last)
                yield ranks

        return graph.scaled(np.concatenate(_at_once(session, ranges, run)))


def exchanged_components(session: SparkSession, graph: Graph, parts: int) -> Labels:
    """Find connected components in one job. The tasks exchange changed labels until there are no more changes."""
    with w.share(graph.both, session) as both, w.Exchange(session, parts) as exchange:

        def run(tasks: Iterator[tuple[int, tuple[int, int]]]) -> Iterator[Labels]:
            for part, (first, last) in tasks:
                csr = both.csr()
                labels = changed = np.arange(csr.nodes)
                round = 0
                while len(changed):
                    mine = changed[slice(*np.searchsorted(changed, [first, last]))]
                    nodes, heard = graphs.push(csr, labels, mine)
                    news = exchange.all(round, part, _columns(nodes=nodes, heard=heard))
                    pair = (news.column("nodes").to_numpy(), news.column("heard").to_numpy())
                    labels, changed = graphs.told(labels, [pair])
                    round += 1
                yield labels[first:last]

        return np.concatenate(_at_once(session, graphs.cuts(graph.nodes, parts), run))


def held(session: SparkSession, graph: CSR, tasks: int | None = None) -> dict[str, int]:
    """Measure the memory of all tasks that read the graph at the same time, minus that of an empty run.

    Returns the PSS in bytes, for the graph as a "broadcast" variable and in "shared" memory. ``tasks`` tasks run at the
    same time (by default as many as Spark runs). Raises Error if the system does not report PSS.
    """
    tasks = tasks or session.sparkContext.defaultParallelism
    nothing = charged(session, tasks, lambda: None)
    with w.share(graph, session) as shared:
        mapped = charged(session, tasks, lambda: shared.csr())
    with broadcast(session, graph) as sent:
        copied = charged(session, tasks, sent)
    return {"broadcast": max(copied - nothing, 0), "shared": max(mapped - nothing, 0)}


def charged(session: SparkSession, tasks: int, get: Get) -> int:
    """Return the PSS of ``tasks`` tasks, measured when all of them have read the value that ``get`` returns."""
    seen = memory.watch(session)
    # Tasks wait for each other at an exchange, because Spark's own barrier() polls only once per second.
    with w.Exchange(session, tasks) as meeting:

        def run(parts: Iterable[int]) -> Iterable[int]:
            for part in parts:
                got = get()
                total = int(got.indices.sum()) + int(got.indptr[-1]) if got is not None else 0
                meeting.all(0, part, _columns(total=[total]))
                memory.note(seen)
                # Tasks stay until all have measured. When a task ends, its pages are charged to the remaining ones.
                meeting.all(1, part, _columns(total=[total]))
                yield total

        session.sparkContext.parallelize(range(tasks), tasks).barrier().mapPartitions(run).collect()
    found = memory.total(seen)
    if found is None:
        raise Error("memory: this system does not report PSS. Run the measurement on Linux.")
    return found


def pagerank_rungs(session: SparkSession, graph: Graph, edges: str, iterations: int = 10) -> dict[str, Rung]:
    """Return the rungs of the ladder for PageRank. Each edge counts as one event in each iteration.

    ``edges`` is the path of the graph's text file (see :func:`.dataflow.write`), which GraphX and GraphFrames read.
    """
    parts = session.sparkContext.defaultParallelism
    near = functools.partial(_near, graph.source.size * iterations)
    give = (functools.partial(broadcast, session), functools.partial(mapped, session))
    outside = dataflow.Outside(session, graph, edges, parts)
    return {
        "GraphX": near(lambda: outside.graphx_pagerank(iterations)),
        "GraphFrames": near(lambda: outside.frames_pagerank(iterations), dataflow.absent()),
        "DataFrame joins": near(lambda: outside.joined_pagerank(iterations)),
        "broadcast dictionary": near(lambda: pagerank(session, graph, iterations, give[0], parts, lists=True)),
        "broadcast arrays": near(lambda: pagerank(session, graph, iterations, give[0], parts)),
        "shared arrays": near(lambda: pagerank(session, graph, iterations, give[1], parts)),
        "shared, one job": near(lambda: exchanged_pagerank(session, graph, iterations, parts)),
        "numpy, no cluster": near(lambda: graphs.pagerank(graph, iterations)),
    }


def components_rungs(session: SparkSession, graph: Graph, edges: str) -> dict[str, Rung]:
    """Return the rungs of the ladder for connected components. Each edge of the graph counts as one event.

    ``edges`` is the path of the graph's text file, as for :func:`pagerank_rungs`.
    """
    parts = session.sparkContext.defaultParallelism
    near = functools.partial(_near, graph.source.size)
    give = (functools.partial(broadcast, session), functools.partial(mapped, session))
    outside = dataflow.Outside(session, graph, edges, parts)
    return {
        "GraphX": near(outside.graphx_components),
        "GraphFrames": near(outside.frames_components, dataflow.absent()),
        "DataFrame joins": near(outside.joined_components),
        "broadcast dictionary": near(lambda: components(session, graph, give[0], parts, lists=True)),
        "broadcast arrays": near(lambda: components(session, graph, give[0], parts)),
        "shared arrays": near(lambda: components(session, graph, give[1], parts)),
        "shared, one job": near(lambda: exchanged_components(session, graph, parts)),
        "numpy, no cluster": near(lambda: graphs.components(graph)),
    }


def _near(events: int, compute: Callable[[], Any], absent: str = "") -> Rung:
    return Rung(events, lambda: RunResult(NearlyEqual(compute())), absent)


def _pulled(incoming: Get, passed: Get, range_: tuple[int, int]) -> Ranks:
    return graphs.pull(incoming(), passed(), *range_)


def _pulled_by_list(incoming: Get, passed: Get, range_: tuple[int, int]) -> Ranks:
    graph, given, none = incoming(), passed(), ()
    rest = 1 - graphs.RESET
    return np.array([graphs.RESET + rest * sum([given[u] for u in graph.get(v, none)]) for v in range(*range_)])


def _pushed(both: Get, labels: Get, changed: Labels) -> tuple[Labels, Labels]:
    return graphs.push(both(), labels(), changed)


def _pushed_by_list(both: Get, labels: Get, changed: Labels) -> tuple[Labels, Labels]:
    graph, known = both(), labels().tolist()
    heard: dict[int, int] = {}
    for node in changed.tolist():
        label = known[node]
        for other in graph.get(node, ()):
            if label < heard.get(other, known[other]):
                heard[other] = label
    return np.array(list(heard), np.int64), np.array(list(heard.values()), np.int64)


def _columns(**arrays: Any) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in arrays.items()})


def _at_once(session: SparkSession, ranges: list[tuple[int, int]], run: Any) -> list[Any]:
    """Run a job whose tasks, one per range, all run at the same time, and collect its results."""
    numbered = session.sparkContext.parallelize(list(enumerate(ranges)), len(ranges))
    return numbered.barrier().mapPartitions(run).collect()
