"""Solve the challenge in a streaming query: batches arrive as rows, and a stateful operator answers them.

A row holds what one or more batches have for one part, as a blob: a table of :data:`.rows.ROWS`. So the symbols of a
part arrive as one columnar batch, and their state is one blob in the state store, read and written once per
micro-batch. Spark checkpoints it, so a restarted query continues. :mod:`.files` and :mod:`.source` bring the rows and
take the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructType

from ...errors import Error
from ...spark.bins.bin_placement import grouping_keys
from ...spark.query.lazy_processor import LazyProcessor
from .market import Market
from .run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WIRE = "label INT, upto BIGINT, blob BINARY"
"""The label of the part, the last batch, the rows."""


def packed(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpacked(blob: bytes) -> pa.Table:
    """A table from bytes."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


class MarketOperator:
    """The market of one part's symbols; the :class:`~...spark.query.lazy_processor.Work` of the operator."""

    def rows(self, states: Mapping[str, Any], key: Any, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Answer the rows of a part in one micro-batch."""
        frame = pd.concat(frames).sort_values("upto")
        held = states["market"].get()
        market = Market(None if held is None else unpacked(bytes(held[0])))
        answers = market.step(pa.concat_tables(unpacked(bytes(blob)) for blob in frame["blob"]))
        states["market"].update((packed(market.state()),))
        told = {"label": [int(key[0])], "upto": [int(frame["upto"].iloc[-1])], "blob": [packed(answers)]}
        yield pd.DataFrame(told)

    def close(self) -> None:
        """Holds nothing beyond a micro-batch."""


def operator() -> LazyProcessor:
    """The stateful operator that keeps markets."""
    return LazyProcessor(MarketOperator(), {"market": StructType().add("blob", BinaryType())}, {})


def answer_stream(wire: DataFrame) -> DataFrame:
    """The answers to a stream of rows (``WIRE``), in the same form."""
    return wire.groupBy("label").transformWithStateInPandas(
        statefulProcessor=operator(), outputStructType=WIRE, outputMode="Append", timeMode="None"
    )


def part_labels(session: SparkSession, parts: int | None) -> list[int]:
    """One label for each part (default: as many parts as tasks run at once). Raises Error for an invalid number."""
    count = session.sparkContext.defaultParallelism if parts is None else parts
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise Error(f"parts={parts!r}. Pass a number of parts, 1 or more.")
    return grouping_keys(count)


def drive(
    run: Run, query: StreamingQuery, put: Callable[[int, pa.Table], None], look: Callable[[], None], seconds: float
) -> int:
    """Put every batch where the query finds it, and call ``look()`` every ``seconds``; returns the benchmark's number.

    Raises Error if the run fails, the query ends, or ``look`` raises.
    """

    def watch() -> None:
        try:
            while not run.over(seconds):
                look()
                if not query.isActive:
                    run.fail(Error(f"the query on Spark ended: {str(query.exception())[:300]}"))
        except Exception as error:  # otherwise the waiting run would hang
            run.fail(Error(f"an answer could not be read: {type(error).__name__}: {error}"))

    watching = threading.Thread(target=watch, name="sharedstate-lite challenge", daemon=True)
    watching.start()
    for number, rows, _ in run.batches():
        put(number, rows)
    number = run.wait()
    watching.join()
    return number
