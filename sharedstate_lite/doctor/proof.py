"""``--spark``'s proof: one transformWithState query over two micro-batches, its state in RocksDB.

Runs as ``python -m sharedstate_lite.doctor.proof`` in a process of its own, which the
doctor ends after a time limit. It needs all of it at once: Java, protobuf, Arrow,
Python workers, RocksDB's native library and a checkpoint on disk. The last line on
standard output is the finding.
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
from sharedstate_lite.spark.session.paths import literal
from sharedstate_lite.spark.session.session import session
from sharedstate_lite.system.cache import cache_dir

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BATCHES = [["Apple", "Banana", "Apple"], ["Apple"]]
EXPECTED = {("Apple", 3), ("Banana", 1)}


class Count(StatefulProcessor):
    """Rows seen for each product, in one ValueState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Add this batch's rows to the count and emit it."""
        before = self._count.get()
        total = (before[0] if before is not None else 0) + sum(len(frame) for frame in rows)
        self._count.update((total,))
        yield pd.DataFrame({"product": [key[0]], "n": [total]})

    def close(self) -> None:
        """Nothing is held outside the state."""


def prove(folder: Path) -> str:
    """Run the query in the folder and compare. Returns the finding; raises where the answer is wrong."""
    began = time.monotonic()
    spark = session()
    ready = time.monotonic()
    try:
        if spark.conf.get("spark.sql.streaming.stateStore.providerClass", "") != PROVIDER:
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        source = folder / "in"
        source.mkdir()
        counts = (
            spark.readStream.schema("product STRING")
            .csv(literal(source))
            .groupBy("product")
            .transformWithStateInPandas(Count(), "product STRING, n BIGINT", outputMode="Update", timeMode="None")
        )
        writer = counts.writeStream.format("memory").queryName("doctor_proof").outputMode("update")
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        for number, products in enumerate(BATCHES):
            (source / f"{number}.csv").write_text("\n".join(products) + "\n")
            query.processAllAvailable()
        rows = {(row["product"], row["n"]) for row in spark.table("doctor_proof").collect()}
        query.stop()
        if not rows >= EXPECTED:
            raise Error(f"counted {sorted(rows)} instead of {sorted(EXPECTED)}: state is not kept on this machine")
        stored = list((folder / "checkpoint" / "state").rglob("*.zip"))
        if not stored:
            raise Error("no RocksDB snapshot in the checkpoint: the state went elsewhere")
    finally:
        spark.stop()
    asked = time.monotonic() - ready
    return f"started in {ready - began:.0f} s; transformWithState on RocksDB answered in {asked:.0f} s"


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory(dir=cache_dir("doctor")) as name:
            print(prove(Path(name)), flush=True)
    except Exception as error:  # one line for the doctor; the rest is in the log
        print(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}", flush=True)
        sys.exit(1)
