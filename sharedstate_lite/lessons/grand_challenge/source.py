"""Solves the challenge in a streaming query whose readers send requests to the driver, without files.

The query's sink is a function in the driver. The operator, the state and the micro-batches are the same as in
:mod:`.files`. Spark plans a micro-batch when the driver reports new batches, and the reading tasks then ask the driver
for their parts. Only Spark's checkpoint is written to disk.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ... import worker
from .rows import ROWS, slices
from .run import Run
from .stream import WIRE, answer_stream, drive, packed, part_labels, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_SECONDS = 0.05
"""The interval between two checks that the query is still running."""


def by_source(address: str, session: SparkSession, *, parts: int | None = None, **options: Any) -> int:
    """Solve a benchmark, and return its number. Parameters and errors are the same as for :func:`.files.by_files`."""
    marks = part_labels(session, parts)
    with (
        tempfile.TemporaryDirectory(prefix="sharedstate-lite-") as home,
        Run(address, **{"name": "source", **options}) as run,
        worker.Mailbox(session) as box,
    ):
        queue, first = BatchQueue(marks), threading.Event()
        queue.put(-1, ROWS.empty_table())  # start the query before the benchmark
        box.serve(queue.answer)

        def sink(frame: DataFrame, _: int) -> None:
            blobs: list[Any] = frame.toArrow().column("blob").to_pylist()
            for blob in blobs:
                run.answer(unpacked(blob))
            first.set()

        session.dataSource.register(data_source(box, len(marks)))
        answers = answer_stream(session.readStream.format("sharedstate_challenge").load()).writeStream
        query = answers.foreachBatch(sink).option("checkpointLocation", f"{home}/spark").start()

        try:
            while not first.wait(LOOK_SECONDS) and query.isActive:
                continue
            return drive(run, query, queue.put, lambda: None, LOOK_SECONDS)
        finally:
            query.stop()


class BatchQueue:
    """Answers the readers' requests in the driver, and keeps the batches that are not yet in Spark's checkpoint.

    ``marks`` are the labels of the parts. Batch n of the challenge is at the query's offset n + 1. Offset 0 is an empty
    batch that starts the query.
    """

    def __init__(self, marks: list[int]) -> None:
        self._marks = marks
        self._lock = threading.Lock()
        self._came: deque[tuple[int, list[pa.Table]]] = deque()
        self._upto = 0

    def put(self, number: int, rows: pa.Table) -> None:
        """Add a batch, so that the query can read it."""
        parts = slices(rows, len(self._marks))
        with self._lock:
            self._came.append((number + 1, parts))
            self._upto = number + 2

    def answer(self, request: pa.Table) -> pa.Table:
        """Answer a reader's request: return the end offset or the rows of a part, or release committed batches."""
        said = json.loads((request.schema.metadata or {})[b"request"])
        with self._lock:
            if said["what"] == "how far":
                return ROWS.empty_table().replace_schema_metadata({"upto": str(self._upto)})
            if said["what"] == "done":
                while self._came and self._came[0][0] < said["end"]:
                    self._came.popleft()
                return ROWS.empty_table()
            part = said["part"]
            found = [parts[part] for number, parts in self._came if said["start"] <= number < said["end"]]
        about = {"label": str(self._marks[part])}
        return pa.concat_tables([ROWS.empty_table(), *found]).replace_schema_metadata(about)


def data_source(box: worker.Mailbox, parts: int) -> type[DataSource]:
    """Return a data source with ``parts`` partitions, whose readers send their requests through ``box``."""

    class ChallengeReader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"upto": 0}

        def latestOffset(self, *_: Any) -> dict[str, int]:
            return {"upto": int(_request(box, what="how far").schema.metadata[b"upto"])}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition((part, start["upto"], end["upto"])) for part in range(parts)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            part, start, end = partition.value
            rows = _request(box, what="rows", part=part, start=start, end=end)
            label = int(rows.schema.metadata[b"label"])
            yield label, end - 2, packed(rows.replace_schema_metadata(None))

        def commit(self, end: dict[str, int]) -> None:
            _request(box, what="done", end=end["upto"])

    class ChallengeSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "sharedstate_challenge"

        def schema(self) -> str:
            return WIRE

        def streamReader(self, schema: Any) -> ChallengeReader:
            return ChallengeReader()

    return ChallengeSource


def _request(box: worker.Mailbox, **what: Any) -> pa.Table:
    answer: pa.Table = box.ask(ROWS.empty_table().replace_schema_metadata({"request": json.dumps(what)}))
    return answer
