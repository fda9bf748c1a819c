"""The stateful operator that Spark runs: one stage's bins, through transformWithStateInPandas.

A row is one message (:class:`~..bins.messages.BinMessage`), a blob of many rows of a relation; rows
of other stages pass through. All that is done with them is :func:`..bins.worker_cache.run_bin`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructType

from ...errors import Error
from ..bins import files
from ..bins.bin import Plan
from ..bins.messages import BinMessage
from ..bins.worker_cache import run_bin
from ..bins.worker_rpc import SocketRpc
from .lazy_processor import Declared

WIRE = "bin INT, stage INT, channel INT, what STRING, blob BINARY"
COLUMNS = ["bin", "stage", "channel", "what", "blob"]
MARK = "<<refused "


# Not as text: for each of them a task would ask the JVM what it says.
_HEAD, _RUN, _BLOB = (
    StructType().add("head", StringType()),
    StructType().add("part", StringType()).add("run", StringType()),
    StructType().add("blob", BinaryType()),
)

_rpc: list[SocketRpc | None] = []


def _worker_rpc() -> SocketRpc | None:
    """This process' neighbours; it can be asked itself from now on. None where no port may be opened."""
    if not _rpc:
        try:
            _rpc.append(SocketRpc())
        except OSError:
            _rpc.append(None)
    return _rpc[0]


class _Store:
    """:class:`..bins.messages.Store` over Spark's."""

    def __init__(self, states: Mapping[str, Any]) -> None:
        self._head, self._runs = states["head"], states["runs"]

    def head(self) -> str | None:
        """See :meth:`..bins.messages.Store.head`."""
        found = self._head.get()
        return None if found is None else str(found[0])

    def run(self, part: str, name: str) -> bytes:
        """See :meth:`..bins.messages.Store.run`."""
        found = self._runs.getValue((part, name))
        assert found is not None, f"the state store has lost the run {name} of {part}"
        return bytes(found[0])

    def write(self, head: str, fresh: Iterable[tuple[str, str, bytes]], gone: Iterable[tuple[str, str]]) -> None:
        """See :meth:`..bins.messages.Store.write`."""
        for part, name, blob in fresh:
            self._runs.updateValue((part, name), (blob,))
        for part, name in gone:
            self._runs.removeKey((part, name))
        self._head.update((head,))


class Stage:
    """Runs the bins of one stage; the :class:`.lazy_processor.Work` of its operator."""

    def __init__(self, plan: Plan, stage: int, labels: dict[int, int]) -> None:
        self.plan, self.stage, self.labels = plan, stage, labels

    def rows(self, states: Mapping[str, Any], key: Any, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """One bin's rows of one micro-batch."""
        first, *others = frames
        frame = pd.concat([first, *others]) if others else first
        mine = frame["stage"] == self.stage
        if not mine.all():
            yield frame[~mine][COLUMNS]
            frame = frame[mine]
        if len(frame):
            number = self.labels[int(key[0])]
            messages = [
                BinMessage(self.stage, number, int(c), str(w), bytes(b))
                for c, w, b in zip(frame["channel"], frame["what"], frame["blob"], strict=True)
            ]
            try:
                out = run_bin(self.plan, self.stage, number, messages, _Store(states), _worker_rpc())
            except Error as error:
                raise Refused(error) from error
            if out:
                label = {n: key for key, n in self.labels.items()}
                yield pd.DataFrame([(label[m.bin], m.stage, m.channel, m.what, m.blob) for m in out], columns=COLUMNS)

    def close(self) -> None:
        """Nothing is held beyond the batch but what the process keeps."""
        files.clear()


class Refused(Exception):
    """An error of the kit on its way through the JVM, which carries text only."""

    def __init__(self, error: Error) -> None:
        told = json.dumps([type(error).__name__, str(error)]).encode()
        super().__init__(f"{MARK}{base64.b64encode(told).decode()}>>")


def through(wire: DataFrame, plan: Plan, stages: int, labels: dict[int, int]) -> DataFrame:
    """The messages of a stream through all stages."""
    for stage in range(1, stages + 1):
        operator = Declared(Stage(plan, stage, labels), {"head": _HEAD}, {"runs": (_RUN, _BLOB)})
        wire = wire.groupBy("bin").transformWithStateInPandas(
            statefulProcessor=operator, outputStructType=WIRE, outputMode="Update", timeMode="None"
        )
    return wire
