"""What sharing inside a worker buys: the ladders of the use cases, each rung timed beside the others.

Rows:
    pool                  3  connections to PostgreSQL
    async                 4  questions under way, with 5 ms of latency and without
    cache                 6  who remembers, by capacity
    dedup                 2  records shuffled, and time
    pagerank, components  1  who has a copy of the graph
    memory                1  PSS of a graph of 20 million edges, with two tasks and with four

Each ladder runs in one session with warm workers: a warm-up, then five runs (one with
--quick), medians, less an empty run of the same job. A rung that takes longer than its share of the time has
fewer runs, and what was counted says how many. bench/README.md says what the targets are held against.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402
from bench.usecases import asynchronous, caching, connections, dedup, enrich  # noqa: E402
from sharedstate_lite import worker as w  # noqa: E402
from sharedstate_lite.data import graphs as made  # noqa: E402
from sharedstate_lite.data import ids, products  # noqa: E402
from sharedstate_lite.lessons.usecases import dataflow, graphs, ladder, readonly  # noqa: E402
from sharedstate_lite.lessons.usecases.ladder import Rung, RungResult  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = ["pyspark", "numpy", "pyarrow", "psycopg", "graphframes-py"]


class Size(NamedTuple):
    """How much of everything; ``runs`` after a warm-up."""

    runs: int
    products: int
    pool: tuple[int, int]
    """Events that connect for each query, and of the other rungs."""
    calls: tuple[int, int]
    """Events of the slow rungs, and of the others."""
    latencies: tuple[float, ...]
    """Seconds before each query; 5 ms is held against the target."""
    cache: tuple[int, int]
    """Events without a cache or with a small one, and with a large one."""
    ttl: float
    """Seconds; rather a part of a run than much less, or all is asked again."""
    capacities: tuple[int, ...]
    ids: int
    rank: tuple[int, int, int]
    """Nodes, edges, iterations."""
    parts: tuple[int, int, int]
    """Nodes, edges, islands."""
    big: int
    """Edges of the graph whose copies are weighed."""


FULL = Size(
    5,
    1_000_000,
    (1_000, 20_000),
    (300, 3_000),
    (0.005, 0.002, 0.0),
    (20_000, 1_000_000),
    15.0,
    (256, 4_096, 65_536, 1_000_000),
    10_000_000,
    (81_306, 1_770_000, 10),
    (200_000, 1_000_000, 50),
    20_000_000,
)
QUICK = Size(
    1,
    200_000,
    (200, 5_000),
    (200, 2_000),
    (0.005, 0.0),
    (1_500, 100_000),
    1.0,
    (4_096, 1_000_000),
    1_000_000,
    (20_000, 300_000, 5),
    (20_000, 100_000, 20),
    20_000_000,
)
MOST, LONG = 45.0, 10.0
"""Seconds after which a rung is not run again; of the ladder of caches, which has many, the second."""
Climb = Callable[..., list[RungResult]]
"""``ladder.climb`` with the runs and the progress of this command."""


@contextlib.contextmanager
def shop(session: SparkSession, size: Size) -> Iterator[str]:
    """The DSN of a server with products."""
    with ss.postgres.Server() as server:
        products.load(session, server, size.products)
        yield server.dsn


def events(session: SparkSession, count: int, size: Size) -> DataFrame:
    """So many events that are there already."""
    frame = ids.ids(session, count, below=size.products).cache()
    frame.count()
    return frame


def row(
    what: str,
    steps: Sequence[RungResult],
    ours: str,
    against: str,
    target: float | None = None,
    *,
    whole: bool = False,
    counted: bool = True,
) -> measure.Row:
    """A rung beside the others, in milliseconds an event, or seconds where rungs have as many events (``whole``).

    With ``counted`` the ladder has a line a rung, in the ladder's order: its time, its runs, and what was counted.
    """

    def told(step: RungResult) -> float:
        return step.took if whole else step.ms

    peers: dict[str, float | None] = {}
    for step in steps:
        if step.absent:
            peers[f"{step.name} (absent: {step.absent.partition(';')[0]})"] = None
        elif step.name != ours:
            peers[step.name] = told(step)
    unit = "s" if whole else "ms an event"
    value = next(told(step) for step in steps if step.name == ours)
    equal = ladder.same(steps)
    found = measure.compared(what, value, unit, peers, against=against, target=target, less=True, equal=equal)
    lines = [{unit: told(step), "runs": len(step.seconds), **step.counts} for step in steps if not step.absent]
    return measure.Row(**{**vars(found), "ladder": lines if counted else None})


def pool(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Connections."""
    with shop(session, size) as dsn:
        few, many = (events(session, count, size) for count in size.pool)
        with connections.rungs(session, dsn, many, few) as rungs:
            steps = climb(rungs, empty=lambda: ladder.digest(enrich.nothing(few)))
    return [
        row("one pool, to connecting for each query", steps, "one pool", "connect per query", 40),
        row("a connection a process, to one a query", steps, "per process", "connect per query", counted=False),
        row("one pool, to a connection a process", steps, "one pool", "per process", counted=False),
    ]


def calls(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Calls in flight."""
    out = []
    with shop(session, size) as dsn:
        few, many = (events(session, count, size) for count in size.calls)
        for latency in size.latencies:
            with asynchronous.rungs(session, dsn, many, latency, few) as rungs:
                steps = climb(rungs, empty=lambda: ladder.digest(enrich.nothing(few)))
            what = f"16 in flight, {latency * 1e3:g} ms of latency"
            out.append(
                row(f"{what}, to synchronous", steps, "asyncio, 16", "synchronous", 5.0 if latency == 0.005 else None)
            )
            out.append(row(f"{what}, to own connections", steps, "asyncio, 16", "own connection", counted=False))
    return out


def cache(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Caches."""
    with shop(session, size) as dsn:
        few, many = (events(session, count, size) for count in size.cache)
        with caching.rungs(session, dsn, many, size.capacities, 0.002, few, size.ttl) as rungs:
            steps = climb(rungs, most=LONG, empty=lambda: ladder.digest(enrich.nothing(few)))
    out = []
    for capacity in size.capacities:
        name = f"shared, {capacity:,}"
        target = 8 if capacity == max(size.capacities) else None
        out.append(row(f"{name} rows, to no cache", steps, name, "no cache", target, counted=target is not None))
        out.append(row(f"{name} rows, to private ones", steps, name, f"private, {capacity:,}", counted=False))
    return out


def unique(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Deduplication: what is shuffled against what may be, and time."""
    tasks = session.sparkContext.defaultParallelism
    frame = ids.ids(session, size.ids).cache()
    steps = climb(dedup.rungs(session, frame), empty=lambda: ladder.digest(dedup.nothing(frame)))
    by = {step.name: step for step in steps}
    answer = by["one shared set"].answer
    allowed = 1.1 * (answer[0] if isinstance(answer, tuple) else 0) + tasks
    out = []
    for what, unit in (("records shuffled", "records"), ("bytes shuffled", "bytes"), ("PSS", "bytes")):
        peers: dict[str, float | None] = {
            name: step.counts[what] for name, step in by.items() if name != "one shared set" and step.counts[what]
        }
        bounded = what == "records shuffled"
        if bounded:
            peers["1.1 a different id, and one a task"] = allowed
        out.append(
            measure.compared(
                f"one shared set: {what}",
                by["one shared set"].counts[what],
                unit,
                peers,
                against="1.1 a different id, and one a task" if bounded else "shuffle, then a set",
                target=1.0 if bounded else None,
                less=True,
                equal=ladder.same(steps),
            )
        )
    for against in ("shuffle, then a set", "dropDuplicates"):
        first = against == "shuffle, then a set"
        out.append(row(f"one shared set, to {against}", steps, "one shared set", against, whole=True, counted=first))
    return out


def pagerank(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """PageRank."""
    nodes, edges, iterations = size.rank
    with tempfile.TemporaryDirectory() as folder:
        graph = graphs.Graph.of(made.edges(session, nodes, edges).toArrow(), nodes)
        file = dataflow.write(graph, Path(folder) / "edges.txt")
        steps = climb(readonly.pagerank_rungs(session, graph, file, iterations))
    return _graph_rows("PageRank", steps, {"shared arrays": (1.7, 1.2), "shared, one job": (5.0, None)})


def components(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Connected components."""
    nodes, edges, islands = size.parts
    with tempfile.TemporaryDirectory() as folder:
        graph = graphs.Graph.of(made.edges(session, nodes, edges, islands).toArrow(), nodes)
        file = dataflow.write(graph, Path(folder) / "edges.txt")
        steps = climb(readonly.components_rungs(session, graph, file))
    return _graph_rows("components", steps, {"shared arrays": (None, None), "shared, one job": (None, None)})


def _graph_rows(
    what: str, steps: list[RungResult], targets: dict[str, tuple[float | None, float | None]]
) -> list[measure.Row]:
    wanted = [
        (ours, against, target)
        for ours, pair in targets.items()
        for against, target in zip(("GraphX", "broadcast dictionary"), pair, strict=True)
    ]
    return [
        row(f"{what}, {ours}, to {against}", steps, ours, against, target, whole=True, counted=not number)
        for number, (ours, against, target) in enumerate(wanted)
    ]


def weighed(session: SparkSession, size: Size, climb: Climb) -> list[measure.Row]:
    """Copies of a graph, with two tasks and with four; the session is exchanged for one that runs four."""
    graph = w.CSR(np.array([0, size.big]), np.zeros(size.big, np.int32))
    out: list[measure.Row] = []
    for tasks in (2, 4):
        ss.spark.stop()
        held = readonly.held(ss.spark.session(f"local[{tasks}]"), graph, tasks)
        out.append(
            measure.compared(
                f"PSS of {tasks} tasks, graph shared",
                float(held["shared"]),
                "bytes",
                {"broadcast": float(held["broadcast"])},
                against="broadcast",
                target=1 / 0.6 if tasks == 2 else out[0].ratio,
                less=True,
            )
        )
    return out


ROWS: dict[str, tuple[Callable[[SparkSession, Size, Climb], list[measure.Row]], float]] = {
    "pool": (pool, 3),
    "async": (calls, 6),
    "cache": (cache, 4),
    "dedup": (unique, 3),
    "pagerank": (pagerank, 6),
    "components": (components, 6),
    "memory": (weighed, 3),
}
"""What runs, and how long it takes by experience, relative to the others; memory last, since it ends the session."""


def main() -> int:
    """The command."""
    about = (__doc__ or "").replace("\n    ", "\n  ")
    chosen = measure.options(about, list(ROWS))
    size = QUICK if chosen.quick else FULL
    wanted = {name: found for name, found in ROWS.items() if not chosen.only or name in chosen.only}
    progress = measure.Progress([(name, weight) for name, (_, weight) in wanted.items()])
    rows: list[measure.Row] = []
    try:
        for number, (run, _) in enumerate(wanted.values()):
            progress.at(number, 0.0)

            def climb(
                rungs: dict[str, Rung], number: int = number, most: float = MOST, **more: Any
            ) -> list[RungResult]:
                names = list(rungs)

                def told(name: str, share: float) -> None:
                    progress.at(number, (names.index(name) + share) / len(names))

                return ladder.climb(rungs, runs=size.runs, most=most, progress=told, **more)

            rows += run(ss.spark.session(), size, climb)
    finally:
        progress.clear()
        ss.spark.stop()
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
