"""Start and stop a challenger on this machine, and read its records."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import pandas as pd
import pyarrow as pa

from ...errors import Error
from .calls import RECORDS, UNLIMITED
from .challenger_pb2 import Batch, ResultQ1, ResultQ2

ROOT = Path(__file__).resolve().parents[3]
END_SECONDS = 10
"""How long its process may take to end before it is killed."""


@dataclass(frozen=True)
class Record:
    """A benchmark as the challenger recorded it."""

    name: str
    kind: str
    seconds: float
    """From startBenchmark to endBenchmark."""
    calls: pd.DataFrame
    """Columns: batch, query ("Q1", "Q2"), sent, came (seconds since the start; NaN: never)."""
    answers: list[tuple[ResultQ1 | None, ResultQ2 | None]]
    """By batch; None for an answer that did not arrive or was not asked for."""

    @property
    def missing(self) -> int:
        """The number of answers that did not arrive."""
        return int(self.calls["came"].isna().sum())

    @property
    def batches(self) -> int:
        """The number of batches that were handed out."""
        return len(self.answers)

    @property
    def latency(self) -> pd.Series:
        """By batch: seconds from sending it to receiving its last answer."""
        by = self.calls.groupby("batch")
        return by["came"].max() - by["sent"].first()

    def line(self) -> dict[str, float]:
        """The organisers' ranking figures: batches, seconds, batches/s, and latency p50, p95, max in ms."""
        middle, late, most = (1000 * self.latency.quantile([0.5, 0.95, 1.0])).tolist()
        told = {"batches": self.batches, "seconds": self.seconds, "batches/s": self.batches / self.seconds}
        return {**told, "p50 ms": middle, "p95 ms": late, "max ms": most}


class Challenger:
    """A server that hands out these batches, in a process of its own at ``address``; a context manager.

    It ends with this process, because it reads a pipe from it. Raises Error if it does not start.
    """

    def __init__(self, batches: Iterable[Batch]) -> None:
        messages = [batch.SerializeToString() for batch in batches]
        if not messages:
            raise Error("Challenger: there are no batches. Pass one or more, such as batches(ticks).")
        command = [sys.executable, "-m", "sharedstate_lite.lessons.grand_challenge.server"]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        settings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GRPC_VERBOSITY": "NONE"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings, start_new_session=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        pipe: Any = self._process.stdin
        table = pa.table({"batch": pa.array(messages, pa.binary())})
        # If the process has ended already, the missing port below shows it.
        with contextlib.suppress(OSError), pa.ipc.new_stream(pipe, table.schema) as writer:
            writer.write_table(table, max_chunksize=256)
            writer.close()
            self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            self.close()
            raise Error(f"Challenger: {' '.join(command)} ended with {self._process.returncode}. Run it to see why.")
        self.address = f"127.0.0.1:{int(told)}"
        """Host and port for gRPC."""
        self._channel = grpc.insecure_channel(self.address, options=UNLIMITED)

    def record(self, benchmark: int) -> Record:
        """The record of a benchmark that has ended. Raises Error for another number."""
        try:
            call: Any = self._channel.unary_unary(f"/{RECORDS}/record")
            said: bytes = call(str(benchmark).encode())
        except grpc.RpcError as error:
            raise Error(f"Challenger: {_detail(error)}") from error
        with pa.ipc.open_stream(said) as reader:
            table = reader.read_all()
        about = json.loads(table.schema.metadata[b"about"])
        answers: dict[int, list[ResultQ1 | ResultQ2 | None]] = {}
        for line in table.select(["batch", "query", "answer"]).to_pylist():
            pair = answers.setdefault(line["batch"], [None, None])
            if line["answer"] is not None:
                pair[line["query"]] = (ResultQ1, ResultQ2)[line["query"]].FromString(line["answer"])
        calls = table.select(["batch", "query", "sent", "came"]).to_pandas()
        calls["query"] = calls["query"].map({0: "Q1", 1: "Q2"})
        pairs: list[tuple[ResultQ1 | None, ResultQ2 | None]] = [(one, two) for one, two in answers.values()]  # type: ignore[misc]
        return Record(about["name"], about["type"], about["seconds"], calls, pairs)

    def close(self) -> None:
        """Stop the process. Harmless when repeated."""
        if hasattr(self, "_channel"):
            self._channel.close()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _detail(error: grpc.RpcError) -> str:
    """The server's message."""
    return str(error.details()) if isinstance(error, grpc.Call) else str(error)
