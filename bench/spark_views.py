"""The shopping view on Spark, beside passing rows through, the manual's idiom, and Spark's own operators.

Rows:
    rate       rows a second in micro-batches of 200,000 changes, after the first ones
    latency    the least that a micro-batch takes, and what it goes on
    sharing    two views over the same rows in one query, beside a query each: rows and bytes of state
    late       a view that is installed late, beside one installed in process

Every side reads the same Parquet files, one a micro-batch, with the kit's session. A
tenth of the rows are retractions. "Spark's join" and "Spark's MAX" are given insertions
only: Spark's stream-stream join takes no retractions, a MAX keeps no second-best value,
and a MAX above such a join is refused in any output mode without event time; so
neither says what the view says, and their answers are not compared.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import pandas as pd  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import data  # noqa: E402
import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402
from data import folder  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = ["rate", "latency", "sharing", "late"]
PACKAGES = ["pyspark", "numpy", "pandas", "pyarrow"]
BATCH = 200_000
EPOCHS, QUICK_EPOCHS = 12, 5
WARM = 2
QUICK_IDIOM, IDIOM_EPOCHS = 20_000, 3
"""The idiom is so slow that it gets fewer micro-batches, and smaller ones with --quick; its rate hardly changes.

Sharing and late views are measured on these rows too."""
PASS, IDIOM, JOIN, MAX = "rows passed through", "MapState a row", "Spark's join, insertions", "Spark's MAX, insertions"
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS longest "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
COUNTS = "CREATE VIEW counts AS SELECT category, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY category"
VISIT = "product STRING, user STRING, length INT, diff BIGINT"
INFO = "product STRING, category STRING, diff BIGINT"


def views(*sql: str) -> list[ss.View]:
    """Views in a catalog of their own."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    return [catalog.view(text) for text in sql]


def seconds_of(query: Any) -> list[float]:
    """The seconds of each micro-batch that had rows, warm-up left out."""
    told = [p for p in query.recentProgress if p["numInputRows"]]
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in told][WARM:]


class Shop:
    """The files of one run, and the sides that read them."""

    def __init__(self, session: SparkSession, work: Path, batch: int, epochs: int) -> None:
        self.session, self.work, self.epochs = session, work, epochs
        made = data.make(
            work / f"shop of {batch}",
            session=session,
            visits=int(batch / 1.1) * epochs,
            epochs=epochs,
            deletes=0.1,
            updates=0.0,
            moves=0.0,
        )
        self.rows = [entry["visit"]["rows"] for entry in made["epochs"]]
        self.folders = {relation: work / f"shop of {batch}" / relation for relation in ("info", "visit")}

    def read(self, relation: str) -> DataFrame:
        """A relation as a stream, a file a micro-batch."""
        schema = VISIT if relation == "visit" else INFO
        reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.option("recursiveFileLookup", "true").parquet(str(self.folders[relation]))

    def timed(self, frame: DataFrame, mode: str = "append") -> list[float]:
        """Run a query to its end into nothing; seconds of its micro-batches."""
        checkpoint = tempfile.mkdtemp(dir=self.work)
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).format("noop")
        query = writer.start()
        try:
            query.processAllAvailable()
            return seconds_of(query)
        finally:
            query.stop()

    def rate(self, seconds: Sequence[float], warm: int = WARM) -> float:
        """Rows a second of the median micro-batch."""
        rows = self.rows[warm : warm + len(seconds)]
        return float(statistics.median(n / s for n, s in zip(rows, seconds, strict=True)))

    # --- sides --------------------------------------------------------------------

    def ours(self, kind: str) -> tuple[float, bool]:
        """The kit's job: rows a second, and whether its changes add up to the recomputed view."""
        total: dict[tuple[Any, ...], int] = {}

        def sink(changes: dict[str, ss.Changes], number: int) -> None:
            for row in changes["result"].to_pandas().itertuples(index=False, name=None):
                total[row[:-2]] = total.get(row[:-2], 0) + row[-1]

        place = self.work / f"job {kind}"
        with ss.spark.stream(
            kind, views(RESULT), self.folders, sink, session=self.session, checkpoint=place, bins=2
        ) as job:
            job.finish()
            seconds = seconds_of(job.query)
        there = {row: n for row, n in total.items() if n}
        return self.rate(seconds), there == dict.fromkeys(self.answer(), 1)

    def answer(self) -> list[tuple[Any, ...]]:
        """The view, recomputed by Spark's batch SQL."""
        for relation, schema in (("info", INFO), ("visit", VISIT)):
            frame = self.session.read.schema(schema).option("recursiveFileLookup", "true")
            frame.parquet(str(self.folders[relation])).createOrReplaceTempView(f"bench_{relation}")
        found = self.session.sql(
            "SELECT category, MAX(length) FROM (SELECT product, category FROM bench_info GROUP BY ALL "
            "HAVING SUM(diff) > 0) JOIN (SELECT product, user, length FROM bench_visit GROUP BY ALL "
            "HAVING SUM(diff) > 0) USING (product) GROUP BY category"
        )
        return [tuple(row) for row in found.collect()]

    def passing(self) -> float:
        """Rows through Python and out again, without state."""

        def same(batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches

        return self.rate(self.timed(self.read("visit").mapInPandas(same, VISIT)))

    def idiom(self) -> float:
        """Two stateful operators, a MapState entry a row, as the manual's examples are written."""
        from bench.spark_idiom import longest

        frame = longest(self.read("info"), self.read("visit"))
        checkpoint = tempfile.mkdtemp(dir=self.work)
        query = frame.writeStream.outputMode("update").option("checkpointLocation", checkpoint).format("noop").start()
        try:
            query.processAllAvailable()
            told = [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress if p["numInputRows"]]
        finally:
            query.stop()
        return self.rate(told[1:], 1)

    def joined(self) -> float:
        """Spark's stream-stream join over the insertions."""
        info, visit = (self.read(name).where("diff > 0").drop("diff") for name in ("info", "visit"))
        return self.rate(self.timed(info.join(visit, "product").select("category", "length")))

    def greatest(self) -> float:
        """Spark's MAX over the insertions, without the join."""
        visit = self.read("visit").where("diff > 0")
        return self.rate(self.timed(visit.groupBy("product").agg({"length": "max"}), "update"))


def rates(shop: Shop, slow: Shop, say: Callable[[str], None]) -> list[measure.Row]:
    """The rows of ``rate``."""
    peers: dict[str, float | None] = {}
    for name, side in ((PASS, shop.passing), (MAX, shop.greatest), (JOIN, shop.joined), (IDIOM, slow.idiom)):
        say(name)
        peers[name] = side()
    out = []
    for kind in ("full", "shared"):
        say(f"{kind} state")
        value, equal = shop.ours(kind)
        what = f"{kind}: rows a second"
        for against, target in ((PASS, 0.6), (IDIOM, 20.0)):
            row = measure.compared(f"{what}, to {against}", value, "rows/s", peers, against=against, target=target)
            out.append(measure.Row(**{**vars(row), "equal": equal}))
    return out


def latency(session: SparkSession, work: Path, quick: bool) -> list[measure.Row]:
    """The rows of ``latency``: epochs of one visit."""
    out = []
    for kind in ("full", "shared"):
        with ss.spark.engine(kind, views(RESULT), session, checkpoint=work / f"floor {kind}", bins=2) as engine:
            engine.step({"info": [(("p", "c"), 1)]})
            runs = 8 if quick else 30
            number = iter(range(runs + 3))
            step = measure.times(
                lambda: engine.step({"visit": [(("p", "u", next(number)), 1)]}),  # noqa: B023
                runs=runs,
                warm=3,
            )
            told = [p["durationMs"] for p in engine.progress()][-runs:]
            read = measure.times(lambda: engine.read("result", key="c"), runs=runs, warm=1)  # noqa: B023
            state = measure.times(engine.state, runs=3, warm=1)
        parts = {n: 1e3 * statistics.median(p.get(n, 0) / 1e3 for p in told) for n in max(told, key=len)}
        out.append(measure.Row(f"{kind}: step of one row", 1e3 * statistics.median(step), "ms", parts))
        peers = {"the state reader, state()": 1e3 * statistics.median(state)}
        out.append(measure.Row(f"{kind}: read of one key", 1e3 * statistics.median(read), "ms", peers))
    return out


def size(table: pd.DataFrame) -> tuple[int, int]:
    """Rows and bytes of a state table, base tables included."""
    return int(table["rows"].sum()), int(table["bytes"].sum())


def sharing(shop: Shop) -> list[measure.Row]:
    """The rows of ``sharing``: two views in one query, beside two queries."""
    sizes: dict[str, tuple[int, int]] = {}
    for name, kind, each in (
        ("one query, shared", "shared", [(RESULT, COUNTS)]),
        ("one query, full", "full", [(RESULT, COUNTS)]),
        ("a query a view, full", "full", [(RESULT,), (COUNTS,)]),
    ):
        rows = total = 0
        for n, sql in enumerate(each):
            place = shop.work / f"{name} {n}"
            with ss.spark.stream(
                kind, views(*sql), shop.folders, lambda *_: None, session=shop.session, checkpoint=place, bins=2
            ) as job:
                job.finish()
            more, bytes_ = size(ss.spark.state(place, session=shop.session))
            rows, total = rows + more, total + bytes_
        sizes[name] = (rows, total)
    out = []
    for at, unit in ((0, "rows"), (1, "bytes")):
        peers: dict[str, float | None] = {name: found[at] for name, found in sizes.items()}
        value = peers.pop("one query, shared")
        out.append(
            measure.compared(
                f"shared: {unit} of state of two views", value, unit, peers, against="a query a view, full", less=True
            )
        )
    return out


def late(shop: Shop) -> list[measure.Row]:
    """The rows of ``late``: a second view on rows that are there."""
    out = []
    for kind in ("full", "shared"):
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
            slow = Shop(session, work, QUICK_IDIOM if chosen.quick else BATCH + 1, IDIOM_EPOCHS)
        if "rate" in wanted:
            rows += rates(Shop(session, work, BATCH, QUICK_EPOCHS if chosen.quick else EPOCHS), slow, say)
        if "latency" in wanted:
            say("latency")
            rows += latency(session, work, chosen.quick)
        if "sharing" in wanted:
            say("sharing")
            rows += sharing(slow)
        if "late" in wanted:
            say("late views")
            rows += late(slow)
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
