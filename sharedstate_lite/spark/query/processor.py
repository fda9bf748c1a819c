"""The stateful operator of one stage. Spark runs it in transformWithStateInPandas, and it runs the bins of the stage.

Each row of the stream is one message (`BinMessage`), whose blob usually contains many rows of a relation. Messages to
other stages pass through unchanged. Source: Spark 4's transformWithState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.types import BinaryType, StringType, StructType

from ...errors import Error
from ..bins.bin import BinFactory
from ..bins.bin_placement import grouping_keys
from ..bins.messages import BinMessage
from ..bins.worker_cache import run_bin
from ..bins.worker_rpc import SocketRpc
from .errors import RowRefused
from .lazy_processor import LazyProcessor

WIRE = "bin INT, stage INT, channel INT, what STRING, blob BINARY"
COLUMNS = ["bin", "stage", "channel", "what", "blob"]
KEY = "grouping_key"
"""The column by which Spark groups messages: for bin n, the key whose hash is n."""

# These are types and not DDL strings, because each task would send such strings to the JVM to parse them.
_HEAD, _RUN, _BLOB = (
    StructType().add("head", StringType()),
    StructType().add("part", StringType()).add("run", StringType()),
    StructType().add("blob", BinaryType()),
)


@cache
def _worker_rpc() -> SocketRpc | None:
    """Return the RPC of this process, or None if it cannot open a port. The first call starts the RPC."""
    try:
        return SocketRpc()
    except OSError:
        return None


class _SparkStore:
    """The `Store` of one bin, in Spark's state variables."""

    def __init__(self, states: Mapping[str, Any]) -> None:
        self._head, self._runs = states["head"], states["runs"]

    def head(self) -> str | None:
        found = self._head.get()
        return None if found is None else str(found[0])

    def run(self, part: str, name: str) -> bytes:
        found = self._runs.getValue((part, name))
        assert found is not None, f"the run {name} of {part} is missing in the state store"
        return bytes(found[0])

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        for part, name, blob in added:
            self._runs.updateValue((part, name), (blob,))
        for part, name in removed:
            self._runs.removeKey((part, name))
        self._head.update((head,))


class StageProcessor:
    """Runs the bins of one stage. It is the `Work` of the stage's operator."""

    def __init__(self, plan: BinFactory, stage: int) -> None:
        self.plan, self.stage = plan, stage

    def rows(self, states: Mapping[str, Any], key: Any, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Process the messages to one bin in one micro-batch, and yield the messages that the bin sends."""
        first, *others = frames
        frame = pd.concat([first, *others]) if others else first
        mine = frame["stage"] == self.stage
        if not mine.all():
            yield frame[~mine][COLUMNS]
            frame = frame[mine]
        if len(frame):
            number = int(frame["bin"].iloc[0])
            messages = [
                BinMessage(self.stage, number, int(c), str(w), bytes(b))
                for c, w, b in zip(frame["channel"], frame["what"], frame["blob"], strict=True)
            ]
            try:
                out = run_bin(self.plan, self.stage, number, messages, _SparkStore(states), _worker_rpc())
            except Error as error:
                raise RowRefused(error) from error
            if out:
                yield pd.DataFrame([(m.bin, m.stage, m.channel, m.what, m.blob) for m in out], columns=COLUMNS)

    def close(self) -> None:
        """Drop the input files that are in memory. The bins stay in the worker's cache."""
        self.plan.close()


def run_stages(wire: DataFrame, plan: BinFactory, stages: int) -> DataFrame:
    """Add the operators of all stages to a stream of messages. The result contains only messages to the driver."""
    key = expr(f"get(array({', '.join(map(str, grouping_keys(plan.numbers)))}), bin)")
    for stage in range(1, stages + 1):
        operator = LazyProcessor(StageProcessor(plan, stage), {"head": _HEAD}, {"runs": (_RUN, _BLOB)})
        groups = wire.withColumn(KEY, key).groupBy(KEY)
        wire = groups.transformWithStateInPandas(
            statefulProcessor=operator, outputStructType=WIRE, outputMode="Update", timeMode="None"
        )
    return wire
