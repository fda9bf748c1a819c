"""The stateful operator that Spark runs: the bins of one stage, in transformWithStateInPandas.

A row of the stream is one message (`BinMessage`), a blob of many rows of a relation. Rows for other stages pass through
unchanged. Source: Spark 4's transformWithState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructType

from ...errors import Error
from ..bins import files
from ..bins.bin import BinFactory
from ..bins.messages import BinMessage
from ..bins.worker_cache import run_bin
from ..bins.worker_rpc import SocketRpc
from .errors import Refused
from .lazy_processor import LazyProcessor

WIRE = "bin INT, stage INT, channel INT, what STRING, blob BINARY"
COLUMNS = ["bin", "stage", "channel", "what", "blob"]

# Types instead of DDL texts, which each task would send to the JVM to be parsed.
_HEAD, _RUN, _BLOB = (
    StructType().add("head", StringType()),
    StructType().add("part", StringType()).add("run", StringType()),
    StructType().add("blob", BinaryType()),
)


@cache
def _worker_rpc() -> SocketRpc | None:
    """This process's RPC, which listens from the first call on; None if no port can be opened."""
    try:
        return SocketRpc()
    except OSError:
        return None


class _SparkStore:
    """A bin's `Store` over Spark's state variables."""

    def __init__(self, states: Mapping[str, Any]) -> None:
        self._head, self._runs = states["head"], states["runs"]

    def head(self) -> str | None:
        found = self._head.get()
        return None if found is None else str(found[0])

    def run(self, part: str, name: str) -> bytes:
        found = self._runs.getValue((part, name))
        assert found is not None, f"the state store has lost the run {name} of {part}"
        return bytes(found[0])

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        for part, name, blob in added:
            self._runs.updateValue((part, name), (blob,))
        for part, name in removed:
            self._runs.removeKey((part, name))
        self._head.update((head,))


class StageProcessor:
    """Runs the bins of one stage: the `Work` of its operator. ``bin_of_key``: Spark's grouping key -> bin."""

    def __init__(self, plan: BinFactory, stage: int, bin_of_key: dict[int, int]) -> None:
        self.plan, self.stage, self.bin_of_key = plan, stage, bin_of_key

    def rows(self, states: Mapping[str, Any], key: Any, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Process the messages of one bin in one micro-batch."""
        first, *others = frames
        frame = pd.concat([first, *others]) if others else first
        mine = frame["stage"] == self.stage
        if not mine.all():
            yield frame[~mine][COLUMNS]
            frame = frame[mine]
        if len(frame):
            number = self.bin_of_key[int(key[0])]
            messages = [
                BinMessage(self.stage, number, int(c), str(w), bytes(b))
                for c, w, b in zip(frame["channel"], frame["what"], frame["blob"], strict=True)
            ]
            try:
                out = run_bin(self.plan, self.stage, number, messages, _SparkStore(states), _worker_rpc())
            except Error as error:
                raise Refused(error) from error
            if out:
                key_of_bin = {n: key for key, n in self.bin_of_key.items()}
                yield pd.DataFrame(
                    [(key_of_bin[m.bin], m.stage, m.channel, m.what, m.blob) for m in out], columns=COLUMNS
                )

    def close(self) -> None:
        """Drop the input files in memory; bins stay in the worker's cache."""
        files.clear()


def run_stages(wire: DataFrame, plan: BinFactory, stages: int, bin_of_key: dict[int, int]) -> DataFrame:
    """A stream of messages after all stages have processed it: what is left are messages to the driver."""
    for stage in range(1, stages + 1):
        operator = LazyProcessor(StageProcessor(plan, stage, bin_of_key), {"head": _HEAD}, {"runs": (_RUN, _BLOB)})
        wire = wire.groupBy("bin").transformWithStateInPandas(
            statefulProcessor=operator, outputStructType=WIRE, outputMode="Update", timeMode="None"
        )
    return wire
