"""Managed state on Spark, beside a ValueState for each key, Spark's own aggregation, and rows passed through.

Rows:
    rate    rows a second: the count, sum and maximum of each of 100,000 keys, in micro-batches of 20,000 rows and
            of 100,000 rows; and rows for each second of processor time, of Spark and of its Python processes
    move    half of the bins move to other slots while the job runs, all in one step or one a step: the longest
            micro-batch, beside one at rest

Every side is given the same Parquet files, one after the other, with the kit's session, and drops or writes a row for
each key that changed. A rate is that of the median file after the first two, from the moment when the file is there to
the end of its micro-batch. The kit's side runs once before, and this does not count.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import psutil  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402
from bench.spark_shop import WARM, dropped  # noqa: E402
from sharedstate_lite import managed as m  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = ["rate", "move"]
PACKAGES = ["pyspark", "numpy", "pandas", "pyarrow"]
KEYS = 100_000
BATCHES = (20_000, 100_000)
SCHEMA = "key BIGINT, x BIGINT"
SOURCE = m.source("events", SCHEMA, key="key")
BY_ROW, BUILT_IN, PASS = "a ValueState, row by row", "Spark's aggregation", "rows passed through"
REST = "a micro-batch at rest"


class Totals(m.Operator):
    """Count, sum and maximum of each key; the new values of each key that changed."""

    out = "key BIGINT, n BIGINT, s BIGINT, most BIGINT"
    total = m.Reducing("STRUCT<n: BIGINT, s: BIGINT, most: BIGINT>", {"n": "sum", "s": "sum", "most": "max"})

    def rows(self, batch: Any, out: Any) -> None:
        """A few array operations."""
        self.total.add(batch.keys, {"n": 1, "s": batch["x"], "most": batch["x"]})
        last = batch.keys.groups.last
        out.add({"key": batch["key"].take(last), **self.total.get(batch.keys[last])}, at=last)


class Rates(NamedTuple):
    """Rows a second, and rows for each second of processor time."""

    wall: float
    processor: float


class Side:
    """The files of one size of batch, and the sides that read them."""

    def __init__(self, session: SparkSession, work: Path, batch: int, epochs: int) -> None:
        self.session, self.work, self.batch = session, work, batch
        self.folder = work / f"batches of {batch}"
        self.folder.mkdir()
        draw = np.random.default_rng(5)
        self.files = [self.folder / f"{n:03d}.parquet" for n in range(epochs)]
        rows = []
        for n, file in enumerate(self.files):
            rows.append(pd.DataFrame({"key": draw.integers(0, KEYS, batch), "x": draw.integers(0, 100, batch)}))
            rows[-1].to_parquet(file, index=False)
            os.utime(file, (1_700_000_000 + 2 * n,) * 2)  # Spark reads files in the order of their times
        found = pd.concat(rows).groupby("key")["x"].agg(["count", "sum", "max"])
        self.answer = found.reset_index().to_numpy().tolist()

    def run(self, folder: Path, process: Callable[[], object]) -> Rates:
        """Put one file after the other into a folder, and process each."""
        wall, spent = [], []
        for file in self.files:
            os.link(file, folder / file.name)
            before = processor()
            wall.append(timed(process))
            spent.append(processor() - before)
        return Rates(*(self.batch / statistics.median(each[WARM:]) for each in (wall, spent)))

    def ours(self) -> tuple[Rates, bool]:
        """The kit's rates, and whether its state is the recomputed one."""
        given, out, state = (Path(tempfile.mkdtemp(dir=self.work)) for _ in range(3))
        with m.spark.run(Totals(), SOURCE, {"events": given}, out, checkpoint=state, session=self.session) as job:
            rates = self.run(given, job.run_available)
            return rates, totals(job) == self.answer

    def peer(self, build: Callable[[DataFrame], DataFrame]) -> Rates:
        """The rates of another query over the same files."""
        given = Path(tempfile.mkdtemp(dir=self.work))
        reader = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        writer = build(reader.parquet(str(given))).writeStream.outputMode("update")
        query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=self.work)).foreachBatch(dropped).start()
        try:
            return self.run(given, query.processAllAvailable)
        finally:
            query.stop()


def timed(action: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def processor() -> float:
    """Seconds of processor time that this process and all below it have taken so far, ended ones included."""
    me = psutil.Process()
    total = 0.0
    for each in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += sum(each.cpu_times()[:4])
    return total


def totals(job: Any) -> list[list[int]]:
    """The state of a job: key, count, sum and maximum."""
    found = job.read("total")
    return [[key, *total.values()] for key, total in zip(found["key"], found["total"], strict=True)]


def by_row(rows: DataFrame) -> DataFrame:
    """A group and a ValueState for each key, and an update for each row, as Spark's manual shows."""
    from bench.spark_idiom import ByRow

    return rows.groupBy("key").transformWithState(ByRow(), Totals.out, "Update", "None")


def built_in(rows: DataFrame) -> DataFrame:
    """Spark's own operators in the JVM."""
    from pyspark.sql import functions as f

    return rows.groupBy("key").agg(f.count("*"), f.sum("x"), f.max("x"))


def passed(rows: DataFrame) -> DataFrame:
    """A Python stage without state, which returns what it gets."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return rows.mapInPandas(same, SCHEMA)


def rates(session: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> list[measure.Row]:
    """The rows of ``rate``."""
    out = []
    for batch in BATCHES:
        side = Side(session, work, batch, 5 if quick else 12)
        if batch == BATCHES[0]:
            say("warming up")  # the JVM compiles what it runs, and the first side would pay for it
            side.ours()
            side.peer(passed)
        say(f"ours, {batch:,} rows a batch")
        value, equal = side.ours()
        peers: dict[str, Rates] = {}
        for name, build in ((PASS, passed), (BUILT_IN, built_in), (BY_ROW, by_row)):
            if name != BY_ROW or batch == BATCHES[0]:
                say(f"{name}, {batch:,} rows a batch")
                peers[name] = side.peer(build)
        targets = {BATCHES[0]: ((BY_ROW, 6.0), (BUILT_IN, 1.0)), BATCHES[1]: ((PASS, 0.2), (BUILT_IN, None))}
        for against, target in targets[batch]:
            for at, unit in enumerate(("rows/s", "rows a second of processor time")):
                what, rates = f"{batch:,} rows a batch, to {against}", {name: each[at] for name, each in peers.items()}
                out.append(measure.compared(f"{what}{', processor' * at}", value[at], unit, rates, against=against,
                                            target=None if at else target, equal=equal))  # fmt: skip
    return out


def moves(session: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> list[measure.Row]:
    """The rows of ``move``: 16 bins go from two slots to four, so that 8 of them move."""
    side = Side(session, work, BATCHES[0] + 1, 20 if quick else 30)
    worst: dict[str, float] = {}
    rest: list[float] = []
    equal = True
    for plan in ("all", "fluid"):
        say(f"bins move, {plan}")
        given, out, state = (Path(tempfile.mkdtemp(dir=work)) for _ in range(3))
        moving: list[float] = []
        with m.spark.run(
            Totals(), SOURCE, {"events": given}, out, checkpoint=state, session=session, slots=4, workers=2
        ) as job:
            for number, file in enumerate(side.files):
                if number == len(side.files) // 2:
                    job.rescale(4, plan)
                os.link(file, given / file.name)
                seconds = moving if job.moving else rest
                seconds.append(timed(lambda job=job: job.run_available(moves=False)))  # type: ignore[misc]
            equal &= totals(job) == side.answer
            equal &= not job.moving and sorted(job.owners) == [slot for slot in range(4) for _ in range(4)]
        worst[plan] = max(moving)
    peers: dict[str, float | None] = {"all bins in one step": worst["all"], REST: statistics.median(rest[WARM:])}
    return [measure.compared("the longest micro-batch, a bin a step", worst["fluid"], "s", peers,
                             against="all bins in one step", less=True, equal=equal)]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    wanted = chosen.only or ROWS
    progress = measure.Progress([(name, 3 if name == "rate" else 2) for name in wanted])
    out: list[measure.Row] = []
    with ss.spark.session() as session, tempfile.TemporaryDirectory() as work:
        for at, name in enumerate(wanted):
            part = rates if name == "rate" else moves
            out += part(session, Path(work), chosen.quick, lambda text, at=at: progress.at(at, 0.5))  # type: ignore[misc]
    progress.clear()
    return measure.finish(out, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
