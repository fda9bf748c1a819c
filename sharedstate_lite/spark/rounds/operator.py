"""The stateful operators of a query, one for each stage. Spark runs them in transformWithState.

Each row of the stream is one message (`BinMessage`). Spark groups the messages by bin, and the `Work` of the operator
runs the bin (`.worker.StageWork`).

When a query starts, Spark starts a new Python process for each stateful operator, one after the other, only to ask for
the operator's state variables. If the class of the operator were imported from the kit, each of these processes would
import the kit and Arrow. Instead, `LazyProcessor` is pickled by value and needs only PySpark. Its `Work` is pickled
separately, and unpickled when the first rows arrive, once in each worker (`.worker.unpickled`): a worker runs the tasks
of many micro-batches.

A message is a ``Row``, because a round has few messages: pandas frames of a few rows took most of the time in Python.
Source: Spark 4's transformWithState.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.functions import expr
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructType

from .keys import grouping_keys
from .worker import StageWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .bin import Recipe

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

WIRE = "bin INT, stage INT, channel INT, what STRING, blob BINARY"
KEY = "grouping_key"
"""The column by which Spark groups messages: for bin n, the key whose hash is n."""

# These are types and not DDL strings, because each task would send such strings to the JVM to parse them.
_HEAD, _RUN, _BLOB = (
    StructType().add("head", StringType()),
    StructType().add("part", StringType()).add("run", StringType()),
    StructType().add("blob", BinaryType()),
)


class Work(Protocol):
    """The interface of the object that processes the rows of a `LazyProcessor`."""

    def rows(self, states: Mapping[str, Any], rows: Iterator[Row]) -> Iterator[Any]:
        """Process the rows of one key in one micro-batch, and yield named tuples, whose fields are the columns.

        ``states`` has Spark's state variables by name.
        """

    def close(self) -> None:
        """Release what the task used. Called after the last rows of a micro-batch."""


class LazyProcessor(StatefulProcessor):
    """A stateful operator that passes its rows to ``work``.

    ``values`` has the state variables with a single value, as name -> schema. ``maps`` has those that are maps, as
    name -> (schema of the keys, schema of the values).
    """

    def __init__(self, work: Work, values: Mapping[str, StructType], maps: Mapping[str, tuple[StructType, StructType]]):
        self._pickled: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._work: Any = None
        self._values, self._maps = values, maps

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables to Spark."""
        self._states: dict[str, Any] = {name: handle.getValueState(name, of) for name, of in self._values.items()}
        self._states |= {name: handle.getMapState(name, key, of) for name, (key, of) in self._maps.items()}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        """Process the rows of one key; see `Work.rows`. The first call in a process unpickles the work."""
        if self._work is None:
            from sharedstate_lite.spark.rounds.worker import unpickled

            self._work = unpickled(self._pickled)
        for row in self._work.rows(self._states, rows):
            yield Row(**row._asdict())

    def close(self) -> None:
        """Close the work if it was unpickled; see `Work.close`."""
        if self._work is not None:
            self._work.close()


def run_stages(wire: DataFrame, recipe: Recipe, stages: int) -> DataFrame:
    """Add the operators of all stages to a stream of messages. The result contains only messages to the driver."""
    keys = ", ".join(map(str, grouping_keys(recipe.numbers)))
    key = expr(f"CAST(get(array({keys}), bin) AS INT)")
    for stage in range(1, stages + 1):
        operator = LazyProcessor(StageWork(recipe, stage), {"head": _HEAD}, {"runs": (_RUN, _BLOB)})
        groups = wire.withColumn(KEY, key).groupBy(KEY)
        wire = groups.transformWithState(
            statefulProcessor=operator, outputStructType=WIRE, outputMode="Update", timeMode="None"
        )
    return wire
