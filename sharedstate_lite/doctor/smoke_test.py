"""A small stateful Spark query over two micro-batches, for ``python -m sharedstate_lite.doctor --spark``.

The query succeeds only if Java, protobuf, Arrow, Python workers, RocksDB's native library and a checkpoint folder all
work together. The doctor runs this module in a separate process with a time limit, and reports the last line that it
prints.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session.session import session
from sharedstate_lite.system.cache import cache_dir

BATCHES = [["Apple", "Banana", "Apple"], ["Apple"]]
EXPECTED = {("Apple", 3), ("Banana", 1)}


class CountRows(StatefulProcessor):
    """Counts the rows of each product in a ValueState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the ValueState."""
        self._count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Add the number of this batch's rows to the count, and emit the new count."""
        before = self._count.get()
        total = (before[0] if before is not None else 0) + sum(len(frame) for frame in rows)
        self._count.update((total,))
        yield pd.DataFrame({"product": [key[0]], "n": [total]})

    def close(self) -> None:
        """Do nothing, because there are no resources to release."""


def run(folder: Path) -> str:
    """Run the query with its files in ``folder``, and return a line that says how long it took.

    Raises Error if the counts are wrong or if the state is not in RocksDB.
    """
    began = time.monotonic()
    spark = session()
    ready = time.monotonic()
    try:
        source, checkpoint = folder / "in", folder / "checkpoint"
        source.mkdir()
        counts = (
            spark.readStream.schema("product STRING")
            .csv(str(source))
            .groupBy("product")
            .transformWithStateInPandas(CountRows(), "product STRING, n BIGINT", outputMode="Update", timeMode="None")
        )
        writer = counts.writeStream.format("memory").queryName("smoke_test").outputMode("update")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        for number, products in enumerate(BATCHES):
            (source / f"{number}.csv").write_text("\n".join(products) + "\n")
            query.processAllAvailable()
        rows = {(row["product"], row["n"]) for row in spark.table("smoke_test").collect()}
        query.stop()
        if not rows >= EXPECTED:
            raise Error(f"counted {sorted(rows)} instead of {sorted(EXPECTED)}: the query lost its state")
        if not list((checkpoint / "state").rglob("*.zip")):
            raise Error("the checkpoint does not contain a RocksDB snapshot: the session uses another state store")
    finally:
        spark.stop()
    return f"started in {ready - began:.0f} s; the query with state in RocksDB took {time.monotonic() - ready:.0f} s"


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory(dir=cache_dir("doctor")) as name:
            print(run(Path(name)), flush=True)
    except Exception as error:  # one line for the doctor; Spark's output is in the log
        print(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}", flush=True)
        sys.exit(1)
