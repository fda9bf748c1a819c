"""The files that bench/spark_views.py measures on, and the sides that read them.

A :class:`Shop` is the rows of one run as Parquet files, one a micro-batch. Each side is a
method: it runs a query over all of them and gives the rows a second, or the seconds, of its
micro-batches, the first of them left out.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sharedstate_lite as ss
from sharedstate_lite import data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 200_000
WARM = 2
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

    def timed(
        self, frame: DataFrame, mode: str = "append", sink: Callable[[DataFrame, int], None] | None = None
    ) -> list[float]:
        """Run a query to its end, into nothing or a foreachBatch sink; seconds of its micro-batches."""
        checkpoint = tempfile.mkdtemp(dir=self.work)
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
        query = (writer.format("noop") if sink is None else writer.foreachBatch(sink)).start()
        try:
            query.processAllAvailable()
            return seconds_of(query)
        finally:
            query.stop()

    def rate(self, *runs: Sequence[float], warm: int = WARM) -> float:
        """Rows a second of the median micro-batch of all runs."""
        rates = [n / s for seconds in runs for n, s in zip(self.rows[warm:], seconds, strict=False)]
        return float(statistics.median(rates))

    # --- sides --------------------------------------------------------------------

    def ours(self, kind: str) -> tuple[list[float], bool]:
        """The kit's job: seconds of its micro-batches, and whether its changes add up to the recomputed view."""
        total: dict[tuple[Any, ...], int] = {}

        def sink(changes: dict[str, ss.Changes], number: int) -> None:
            for row in changes["result"].to_pandas().itertuples(index=False, name=None):
                total[row[:-2]] = total.get(row[:-2], 0) + row[-1]

        place = tempfile.mkdtemp(dir=self.work)
        with ss.spark.stream(
            kind, views(RESULT), self.folders, sink, session=self.session, checkpoint=place, bins=2
        ) as job:
            job.finish()
            seconds = seconds_of(job.query)
        there = {row: n for row, n in total.items() if n}
        return seconds, there == dict.fromkeys(self.answer(), 1)

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

    def passing(self, sink: Callable[[DataFrame, int], None] | None) -> list[float]:
        """Seconds of micro-batches that pass rows through Python and out again, without state."""

        def same(batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches

        return self.timed(self.read("visit").mapInPandas(same, VISIT), sink=sink)

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
        return self.rate(told[1:], warm=1)

    def joined(self) -> float:
        """Spark's stream-stream join over the insertions."""
        info, visit = (self.read(name).where("diff > 0").drop("diff") for name in ("info", "visit"))
        return self.rate(self.timed(info.join(visit, "product").select("category", "length")))

    def greatest(self) -> float:
        """Spark's MAX over the insertions, without the join."""
        visit = self.read("visit").where("diff > 0")
        return self.rate(self.timed(visit.groupBy("product").agg({"length": "max"}), "update"))


def dropped(frame: DataFrame, number: int) -> None:
    """A foreachBatch sink that has Spark make all rows, and drop them."""
    frame.write.format("noop").mode("overwrite").save()
