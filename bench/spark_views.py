"""The shopping view on Spark, beside passing rows through, the manual's idiom, and Spark's own operators.

Rows:
    rate       rows a second in micro-batches of 200,000 changes, after the first ones
    latency    the least that a micro-batch takes, and what it goes on
    sharing    two views over the same rows in one query, beside a query each: rows and bytes of state
    late       a view that is installed late, beside one installed in process
    idle       what an engine costs that nobody steps, and a step, with the kit's pause between two looks and Spark's

Every side reads the same Parquet files, one a micro-batch, with the kit's session. "Rows
passed through" is one Python stage (mapInPandas) that gives back what it gets: into a
foreachBatch sink, as ours, which has Spark drop the rows, and into Spark's own sink for
nothing, which is less than any job does. It and ours run in turn, several times. The first turn,
in which the JVM still compiles what it runs, has a row of its own and does not count. A
tenth of the rows are retractions. "Spark's join" and "Spark's MAX" are given insertions
only: Spark's stream-stream join takes no retractions, a MAX keeps no second-best value,
and a MAX above such a join is refused in any output mode without event time; so
neither says what the view says, and their answers are not compared.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import pandas as pd  # noqa: E402
import psutil  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402
from bench.spark_shop import BATCH, COUNTS, RESULT, WARM, Shop, dropped, seconds_of, views  # noqa: E402
from sharedstate_lite.data import folder  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = ["rate", "latency", "sharing", "late", "idle"]
PACKAGES = ["pyspark", "numpy", "pandas", "pyarrow"]
EPOCHS, QUICK_EPOCHS = 12, 5
IDIOM_BATCH, QUICK_IDIOM, IDIOM_EPOCHS = 50_000, 20_000, 3
"""The idiom is so slow that it gets fewer and smaller micro-batches; its rate hardly changes with their size.

Sharing and late views are measured on these rows too."""
PASS, NOTHING = "rows passed through, same sink", "rows passed through, into nothing"
IDIOM, JOIN, MAX = "MapState a row", "Spark's join, insertions", "Spark's MAX, insertions"
LEAST, RATE = "what is asked for", 120_000.0
KINDS = ("full", "shared")
TURNS, QUICK_TURNS = 5, 2
"""How often passing rows through and ours are run, in turn. A JVM of two cores compiles for tens of seconds."""


def rates(shop: Shop, slow: Shop, say: Callable[[str], None], turns: int) -> list[measure.Row]:
    """The rows of ``rate``: passing rows through and ours in turn, the others once, when the JVM is warm."""
    took: dict[str, list[list[float]]] = {name: [] for name in (NOTHING, PASS, *KINDS)}
    equal = dict.fromkeys(KINDS, True)
    for turn in range(turns):
        for name, sink in ((NOTHING, None), (PASS, dropped)):
            say(f"{name}, turn {turn + 1} of {turns}")
            took[name].append(shop.passing(sink))
        for kind in KINDS:
            say(f"{kind} state, turn {turn + 1} of {turns}")
            seconds, right = shop.ours(kind)
            took[kind].append(seconds)
            equal[kind] &= right
    rate = {name: shop.rate(*runs[1:]) for name, runs in took.items()}
    first = {name: shop.rate(runs[0]) for name, runs in took.items()}
    peers: dict[str, float | None] = {name: rate[name] for name in (PASS, NOTHING)}
    for name, side in ((MAX, shop.greatest), (JOIN, shop.joined), (IDIOM, slow.idiom)):
        say(name)
        peers[name] = side()
    out = []
    for kind in KINDS:
        for against, target in ((PASS, 0.6), (NOTHING, None), (IDIOM, 20.0)):
            what = f"{kind}: rows a second, to {against}"
            row = measure.compared(what, rate[kind], "rows/s", peers, against=against, target=target)
            out.append(measure.Row(**{**vars(row), "equal": equal[kind]}))
        what = f"{kind}: rows a second"
        out.append(measure.compared(what, rate[kind], "rows/s", {LEAST: RATE}, against=LEAST, target=1))
        cold = {PASS: first[PASS]}
        out.append(measure.compared(f"{what}, in the first turn", first[kind], "rows/s", cold, against=PASS))
    return out


PARTS = (*("triggerExecution", "addBatch", "queryPlanning", "walCommit", "commitOffsets", "latestOffset", "getBatch"),)
"""What Spark tells of a micro-batch, milliseconds: the first is the whole, the second the stages, state and sink."""
STATE: dict[str, Callable[[Any], int]] = {
    "of all tasks: loading state": lambda o: o["customMetrics"].get("rocksdbLoadLatencyMs", 0),
    "of all tasks: Python and its updates": lambda o: o["allUpdatesTimeMs"],
    "of all tasks: committing state": lambda o: o["commitTimeMs"],
}
"""Of the stages: sums over two stages of two tasks each, two of which run at a time."""


def floor(session: SparkSession, work: Path, runs: int) -> float:
    """Seconds of a micro-batch that passes one row through Python, and keeps nothing."""
    folder = work / "one row"
    folder.mkdir()
    for n in range(runs + WARM):
        pd.DataFrame({"product": ["p"], "n": [n]}).to_parquet(folder / f"{n:03d}.parquet", index=False)
        os.utime(folder / f"{n:03d}.parquet", (1_700_000_000 + 2 * n,) * 2)

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    rows = session.readStream.schema("product STRING, n BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = rows.mapInPandas(same, rows.schema).writeStream.option("checkpointLocation", str(work / "one row kept"))
    query = writer.foreachBatch(dropped).start()
    try:
        query.processAllAvailable()
        return statistics.median(seconds_of(query))
    finally:
        query.stop()


def latency(session: SparkSession, work: Path, quick: bool) -> list[measure.Row]:
    """The rows of ``latency``: epochs of one visit."""
    out = []
    bare = 1e3 * floor(session, work, 8 if quick else 30)
    for kind in KINDS:
        with ss.spark.engine(kind, views(RESULT), session, checkpoint=work / f"floor {kind}", bins=2) as engine:
            engine.step({"info": [(("p", "c"), 1)]})
            runs = 8 if quick else 30
            number = iter(range(runs + 3))
            step = measure.times(
                lambda: engine.step({"visit": [(("p", "u", next(number)), 1)]}),  # noqa: B023
                runs=runs,
                warm=3,
            )
            told = list(engine.progress())[-runs:]
            read = measure.times(lambda: engine.read("result", key="c"), runs=runs, warm=1)  # noqa: B023
            state = measure.times(engine.state, runs=3, warm=1)
        parts = {n: float(statistics.median(p["durationMs"].get(n, 0) for p in told)) for n in PARTS}
        for name, metric in STATE.items():
            spent = [sum(metric(o) for o in p["stateOperators"]) for p in told]
            parts[name] = float(statistics.median(spent))
        parts["a micro-batch of one row without state"] = bare
        out.append(measure.Row(f"{kind}: step of one row", 1e3 * statistics.median(step), "ms", parts))
        peers = {"the state reader, state()": 1e3 * statistics.median(state)}
        out.append(measure.Row(f"{kind}: read of one key", 1e3 * statistics.median(read), "ms", peers))
    return out


def size(table: pd.DataFrame) -> tuple[int, int, int]:
    """Rows and bytes of a state table, base tables included, and the rows that are working state."""
    working = table["bill"].str.contains("working")
    return int(table["rows"].sum()), int(table["bytes"].sum()), int(table.loc[working, "rows"].sum())


SIDES = (
    ("one query, shared", "shared", [(RESULT, COUNTS)]),
    ("a query a view, shared", "shared", [(RESULT,), (COUNTS,)]),
    ("one query, full", "full", [(RESULT, COUNTS)]),
    ("a query a view, full", "full", [(RESULT,), (COUNTS,)]),
)
"""Name, strategy, and the views of each query."""


def sharing(shop: Shop) -> list[measure.Row]:
    """The rows of ``sharing``: two views in one query, beside two queries."""
    sizes: dict[str, tuple[int, ...]] = {}
    told: list[dict[tuple[Any, ...], int]] = []
    for name, kind, each in SIDES:
        held: tuple[int, ...] = (0, 0, 0)
        changes: dict[tuple[Any, ...], int] = {}

        def sink(batch: dict[str, ss.Changes], number: int, to: dict[tuple[Any, ...], int] = changes) -> None:
            for view, some in batch.items():
                for row in some.to_pandas().itertuples(index=False, name=None):
                    to[view, *row[:-2]] = to.get((view, *row[:-2]), 0) + row[-1]

        for n, sql in enumerate(each):
            place = shop.work / f"{name} {n}"
            with ss.spark.stream(
                kind, views(*sql), shop.folders, sink, session=shop.session, checkpoint=place, bins=2
            ) as job:
                job.finish()
            more = size(ss.spark.state(place, session=shop.session))
            held = tuple(map(sum, zip(held, more, strict=True)))
        sizes[name] = held
        told.append({row: n for row, n in changes.items() if n})
    out = []
    for at, (unit, state) in enumerate([("rows", "state"), ("bytes", "state"), ("rows", "working state")]):
        peers: dict[str, float | None] = {name: found[at] for name, found in sizes.items()}
        value = peers.pop("one query, shared")
        what = f"shared: {unit} of {state} of two views"
        for against in peers:
            row = measure.compared(f"{what}, to {against}", value, unit, peers, against=against, less=True)
            out.append(measure.Row(**{**vars(row), "equal": all(each == told[0] for each in told)}))
    return out


def late(shop: Shop) -> list[measure.Row]:
    """The rows of ``late``: a second view on rows that are there."""
    out = []
    for kind in KINDS:
        result, counts = views(RESULT, COUNTS)
        with (
            ss.spark.engine(kind, [result], shop.session, checkpoint=shop.work / f"late {kind}", bins=2) as there,
            ss.engine(kind, [result]) as here,
        ):
            steps = [dict(tables) for _, tables in folder.epochs(shop.folders["visit"].parent)][:4]
            there_step = [measure.times(lambda s=s: there.step(s), runs=1, warm=0)[0] for s in steps]  # type: ignore[misc]
            for step in steps:
                here.step(step)
            took: dict[str, Any] = {}
            seconds = measure.times(lambda: took.update(there=there.install(counts)), runs=1, warm=0)[0]  # noqa: B023
            own = measure.times(lambda: took.update(here=here.install(counts)), runs=1, warm=0)[0]  # noqa: B023
        rows = sum(pq.read_metadata(f).num_rows for f in sorted(shop.folders["visit"].rglob("*.parquet"))[:4])
        peers = {"in one process": own, "its visits, changes": rows, "the last step, of its rows": there_step[-1]}
        out.append(measure.Row(f"{kind}: install of a view", seconds, "s", peers, equal=took["there"] == took["here"]))
    return out


PAUSE, SPARKS_PAUSE = "spark.sql.streaming.pollingDelay", "10ms"


def idle(session: SparkSession, quick: bool) -> list[measure.Row]:
    """The rows of ``idle``: cores that Java takes while an engine waits, and seconds of steps, in turn."""
    ours = str(session.conf.get(PAUSE))
    java = next(child for child in psutil.Process().children() if child.name() == "java")
    taken: dict[str, list[float]] = {ours: [], SPARKS_PAUSE: []}
    steps: dict[str, list[float]] = {name: [] for name in taken}
    number = iter(range(1_000_000))
    try:
        for _ in range(2 if quick else 4):
            for pause in taken:
                session.conf.set(PAUSE, pause)  # a query reads it as it starts
                with ss.spark.engine("full", views(RESULT), session, bins=2) as engine:
                    engine.step({"info": [(("p", "c"), 1)]})
                    steps[pause] += measure.times(
                        lambda: engine.step({"visit": [(("p", "u", next(number)), 1)]}),  # noqa: B023
                        runs=5 if quick else 30,
                        warm=3,
                    )
                    before, began = sum(java.cpu_times()[:2]), time.perf_counter()
                    time.sleep(2 if quick else 10)  # the query is idle: its cost without input is measured
                    taken[pause].append((sum(java.cpu_times()[:2]) - before) / (time.perf_counter() - began))
    finally:
        session.conf.set(PAUSE, ours)
    out = []
    for what, unit, told in (("idle: cores taken", "cores", taken), ("idle: then a step", "s", steps)):
        one, other = (statistics.median(told[name]) for name in (ours, SPARKS_PAUSE))
        out.append(measure.compared(what, one, unit, {SPARKS_PAUSE: other}, against=SPARKS_PAUSE, less=True))
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    wanted = set(chosen.only or ROWS)

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    rows: list[measure.Row] = []
    with tempfile.TemporaryDirectory(prefix="spark-views-") as place, ss.spark.session() as session:
        work = Path(place)
        if wanted & {"rate", "sharing", "late"}:
            say("making the rows")
            slow = Shop(session, work, QUICK_IDIOM if chosen.quick else IDIOM_BATCH, IDIOM_EPOCHS)
        if "rate" in wanted:
            shop = Shop(session, work, BATCH, QUICK_EPOCHS if chosen.quick else EPOCHS)
            rows += rates(shop, slow, say, QUICK_TURNS if chosen.quick else TURNS)
        if "latency" in wanted:
            say("latency")
            rows += latency(session, work, chosen.quick)
        if "sharing" in wanted:
            say("sharing")
            rows += sharing(slow)
        if "late" in wanted:
            say("late views")
            rows += late(slow)
        if "idle" in wanted:
            say("an engine that nobody steps")
            rows += idle(session, chosen.quick)
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
