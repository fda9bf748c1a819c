"""The streaming query that solves the challenge: batches arrive as rows, and a stateful operator answers them.

A row contains the data of one or more batches for one part, as a blob. The blob is a serialized table with the schema
:data:`.rows.ROWS`, so the operator processes all symbols of a part in columns. Their state is one blob in the state
store, which is read and written once per micro-batch. Spark checkpoints this state, so a restarted query can continue.
:mod:`.files` and :mod:`.source` pass the rows to the query and receive the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructType

from ...errors import Error
from ...spark.rounds.keys import grouping_keys
from ...spark.rounds.operator import LazyProcessor
from .market import Market
from .run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WIRE = "label INT, upto BIGINT, blob BINARY"
"""The schema of the query's rows: the label of the part, the number of its last batch, and the blob."""


def packed(table: pa.Table) -> bytes:
    """Serialize a table to bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpacked(blob: bytes) -> pa.Table:
    """Deserialize a table from the bytes that :func:`packed` returned."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


class WireRow(NamedTuple):
    """A row of the query."""

    label: int
    upto: int
    blob: bytes


class MarketOperator:
    """Keeps the market of each part's symbols. It is the operator's :class:`~...spark.rounds.operator.Work`."""

    def rows(self, states: Mapping[str, Any], rows: Iterator[Any]) -> Iterator[WireRow]:
        """Process the rows of a part in one micro-batch, and yield their answers as one row."""
        mine = sorted(rows, key=lambda row: int(row.upto))
        held = states["market"].get()
        market = Market(None if held is None else unpacked(bytes(held[0])))
        answers = market.step(pa.concat_tables(unpacked(row.blob) for row in mine))
        states["market"].update((packed(market.state()),))
        yield WireRow(mine[-1].label, mine[-1].upto, packed(answers))

    def close(self) -> None:
        """Do nothing, because there are no resources that outlive a micro-batch."""


def operator() -> LazyProcessor:
    """Return the stateful operator, which keeps one market per part."""
    return LazyProcessor(MarketOperator(), {"market": StructType().add("blob", BinaryType())}, {})


def answer_stream(wire: DataFrame) -> DataFrame:
    """Return the stream of answers to a stream of rows. Both have the schema ``WIRE``."""
    return wire.groupBy("label").transformWithState(
        statefulProcessor=operator(), outputStructType=WIRE, outputMode="Append", timeMode="None"
    )


def part_labels(session: SparkSession, parts: int | None) -> list[int]:
    """Return one label per part.

    By default, there are as many parts as tasks that can run at the same time. Raises Error if ``parts`` is not a
    positive integer.
    """
    count = session.sparkContext.defaultParallelism if parts is None else parts
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise Error(f"parts={parts!r} is not a valid number of parts. Pass an integer that is 1 or larger.")
    return grouping_keys(count)


def drive(
    run: Run, query: StreamingQuery, put: Callable[[int, pa.Table], None], look: Callable[[], None], seconds: float
) -> int:
    """Drive a benchmark to its end, and return its number.

    Calls ``put`` for every batch, which passes it to the query. Until all batches are answered, also calls ``look``
    every ``seconds``. Raises Error if the run fails, the query stops, or ``look`` raises.
    """

    def watch() -> None:
        try:
            while not run.over(seconds):
                look()
                if not query.isActive:
                    run.fail(Error(f"the query on Spark stopped: {str(query.exception())[:300]}"))
        except Exception as error:  # without this, the waiting run would hang
            run.fail(Error(f"an answer could not be read: {type(error).__name__}: {error}"))

    watching = threading.Thread(target=watch, name="sharedstate-lite challenge", daemon=True)
    watching.start()
    for number, rows, _ in run.batches():
        put(number, rows)
    number = run.wait()
    watching.join()
    return number
