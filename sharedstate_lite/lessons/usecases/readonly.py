"""Use case 1: a graph that all tasks read.

The rungs: GraphFrames (if its jar is available) · GraphX through the gateway · joins of DataFrames · a broadcast
dictionary · broadcast arrays · the same arrays in shared memory · shared memory with an Exchange, in one job · numpy
in this process. The three rungs before the Exchange run one job for each iteration, and differ only in how the graph
reaches the tasks.
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
"""Returns the shared value in a task."""
Give = Callable[[Any], contextlib.AbstractContextManager[Get]]
"""A context manager: a value -> how a task gets it."""


@contextlib.contextmanager
def broadcast(session: SparkSession, what: Any) -> Iterator[Get]:
    """One copy for each worker process."""
    sent = session.sparkContext.broadcast(what)
    yield lambda: sent.value
    sent.destroy()


@contextlib.contextmanager
def mapped(session: SparkSession, what: Any) -> Iterator[Get]:
    """One copy for the host, mapped read-only: a graph or numbers."""
    csr = isinstance(what, w.CSR)
    with w.share(what if csr else pa.table({"values": what}), session) as shared:
        yield (lambda: shared.csr()) if csr else (lambda: shared.table().column("values").chunk(0).to_numpy())


def pagerank(
    session: SparkSession, graph: Graph, iterations: int, give: Give, parts: int, lists: bool = False
) -> Ranks:
    """One job an iteration; ``lists``: the graph as a dictionary of lists, in plain Python."""
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
    """One job a round, until no label changes."""
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
    """The same graph as a dictionary of lists, as one would write it without arrays."""
    return {node: csr.neighbours(node).tolist() for node in range(csr.nodes) if csr.indptr[node] < csr.indptr[node + 1]}


def exchanged_pagerank(session: SparkSession, graph: Graph, iterations: int, parts: int) -> Ranks:
    """One job: after each iteration every task gets all ranks from the exchange."""
    ranges = graphs.cuts(graph.nodes, parts)
    # A task is sent the degrees of all: a little, beside the edges that it maps.
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
    """One job: the tasks tell each other their news until there are none."""
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
    """PSS of all tasks together while each has read the graph to its end, less that of an empty run, in bytes.

    ``tasks`` run at once (default: as many as Spark runs). Raises Error where the system does not tell PSS.
    """
    tasks = tasks or session.sparkContext.defaultParallelism
    nothing = _charged(session, tasks, lambda: None)
    with w.share(graph, session) as shared:
        mapped = _charged(session, tasks, lambda: shared.csr())
    with broadcast(session, graph) as sent:
        copied = _charged(session, tasks, sent)
    return {"broadcast": max(copied - nothing, 0), "shared": max(mapped - nothing, 0)}


def _charged(session: SparkSession, tasks: int, get: Get) -> int:
    """PSS of so many tasks, noted when all of them have read what they get."""
    seen = memory.watch(session)
    # Tasks wait for each other at an exchange: Spark's own barrier() looks for its answer once a second.
    with w.Exchange(session, tasks) as meeting:

        def run(parts: Iterable[int]) -> Iterable[int]:
            for part in parts:
                got = get()
                total = int(got.indices.sum()) + int(got.indptr[-1]) if got is not None else 0
                meeting.all(0, part, _columns(total=[total]))
                memory.note(seen)
                # No task leaves before all have measured: memory that one task releases would be charged to the others.
                meeting.all(1, part, _columns(total=[total]))
                yield total

        session.sparkContext.parallelize(range(tasks), tasks).barrier().mapPartitions(run).collect()
    found = memory.total(seen)
    if found is None:
        raise Error("memory: this system does not report PSS. Measure it on Linux.")
    return found


def pagerank_rungs(session: SparkSession, graph: Graph, edges: str, iterations: int = 10) -> dict[str, Rung]:
    """The ladder; an event is an edge looked at. ``edges``: the graph as a file of lines, which GraphX reads."""
    parts = session.sparkContext.defaultParallelism
    near = functools.partial(_near, graph.source.size * iterations)
    give = (functools.partial(broadcast, session), functools.partial(mapped, session))
    outside = dataflow.Outside(session, graph, edges, parts)
    return {
        "GraphFrames": near(lambda: outside.frames_pagerank(iterations), dataflow.absent()),
        "GraphX": near(lambda: outside.graphx_pagerank(iterations)),
        "DataFrame joins": near(lambda: outside.joined_pagerank(iterations)),
        "broadcast dictionary": near(lambda: pagerank(session, graph, iterations, give[0], parts, lists=True)),
        "broadcast arrays": near(lambda: pagerank(session, graph, iterations, give[0], parts)),
        "shared arrays": near(lambda: pagerank(session, graph, iterations, give[1], parts)),
        "shared, one job": near(lambda: exchanged_pagerank(session, graph, iterations, parts)),
        "numpy, no cluster": near(lambda: graphs.pagerank(graph, iterations)),
    }


def components_rungs(session: SparkSession, graph: Graph, edges: str) -> dict[str, Rung]:
    """The ladder; an event is an edge of the graph."""
    parts = session.sparkContext.defaultParallelism
    near = functools.partial(_near, graph.source.size)
    give = (functools.partial(broadcast, session), functools.partial(mapped, session))
    outside = dataflow.Outside(session, graph, edges, parts)
    return {
        "GraphFrames": near(outside.frames_components, dataflow.absent()),
        "GraphX": near(outside.graphx_components),
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
    """A job whose tasks all run at the same time."""
    numbered = session.sparkContext.parallelize(list(enumerate(ranges)), len(ranges))
    return numbered.barrier().mapPartitions(run).collect()
