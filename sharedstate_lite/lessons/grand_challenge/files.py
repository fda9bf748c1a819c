"""Solves the challenge in a streaming query that reads and writes files.

    challenger -> this process -> files -> streaming query -> files -> this process -> challenger

Without shared state, a dataflow needs such a hand-off for request and response. Each batch is a file in a folder that
the query lists, and its answers are files too. An answer is used only after Spark has listed its file in
``_spark_metadata``. Until then, the file may be incomplete or come from a failed attempt. In production, a queue such
as Kafka would replace the folders. The advantage of this design is that everything in flight is on disk.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from .rows import ROWS, slices
from .run import Run
from .stream import WIRE, answer_stream, drive, packed, part_labels, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.005
"""The polling interval for answers, because Spark does not send an event when it has listed a file."""


def by_files(address: str, session: SparkSession, *, parts: int | None = None, **options: Any) -> int:
    """Solve a benchmark with files in a temporary folder, and return the number of the benchmark.

    The symbols are divided into ``parts`` parts. The default is the number of tasks that can run at the same time. The
    options are those of :class:`.run.Run`. Raises Error if the run or Spark fails.
    """
    marks = part_labels(session, parts)
    with (
        tempfile.TemporaryDirectory(prefix="sharedstate-lite-") as home,
        Run(address, **{"name": "files", **options}) as run,
    ):
        inbox, outbox = InputFolder(Path(home) / "in", marks), OutputFolder(Path(home) / "out")
        inbox.put(-1, ROWS.empty_table())  # start the query before the benchmark
        answers = answer_stream(session.readStream.schema(WIRE).parquet(str(inbox.path))).writeStream
        query = answers.format("parquet").option("checkpointLocation", f"{home}/spark").start(str(outbox.path))

        def look() -> None:
            for table in outbox.fresh():
                run.answer(table)

        try:
            while not list(outbox.fresh()) and query.isActive:
                run.over(LOOK_SECONDS)
            return drive(run, query, inbox.put, look, LOOK_SECONDS)
        finally:
            query.stop()


class InputFolder:
    """The folder that the query reads, with one file per batch and one row per part in each file."""

    def __init__(self, path: Path, marks: list[int]) -> None:
        self.path, self._marks = path, marks
        path.mkdir()
        self._stamp = 0

    def put(self, number: int, rows: pa.Table) -> None:
        """Write a batch's file atomically, with a later modification time than all earlier files."""
        file = self.path / f"{number + 1:08d}.parquet"
        blobs = [packed(part) for part in slices(rows, len(self._marks))]
        columns: Any = [
            pa.array(self._marks, pa.int32()),
            pa.array([number] * len(blobs), pa.int64()),
            pa.array(blobs, pa.binary()),
        ]
        unfinished = file.with_name(f".{file.name}")
        pq.write_table(pa.table(columns, names=["label", "upto", "blob"]), unfinished)
        # Spark sorts files by their modification time in milliseconds.
        self._stamp = max(unfinished.stat().st_mtime_ns, self._stamp + 1_000_000)
        os.utime(unfinished, ns=(self._stamp, self._stamp))
        unfinished.replace(file)


class OutputFolder:
    """The folder that the query writes its answers to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 0
        self._seen: set[str] = set()

    def fresh(self) -> Iterator[pa.Table]:
        """Yield the answers in all files that Spark has listed since the last call."""
        while True:
            lists = [self.path / "_spark_metadata" / f"{self._next}{end}" for end in ("", ".compact")]
            found = next((path for path in lists if path.exists()), None)
            if found is None:
                return
            for line in found.read_text().splitlines()[1:]:
                path = unquote(urlparse(json.loads(line)["path"]).path)
                if path not in self._seen:
                    self._seen.add(path)
                    blobs: list[Any] = pq.read_table(path).column("blob").to_pylist()
                    for blob in blobs:
                        yield unpacked(blob)
            self._next += 1
