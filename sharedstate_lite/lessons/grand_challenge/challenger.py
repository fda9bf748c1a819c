"""Starts and stops a challenger on this machine, and reads its records."""

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
"""If the challenger's process does not stop within this time, it is killed."""


@dataclass(frozen=True)
class Record:
    """The challenger's record of a benchmark. ``name`` and ``kind`` are the benchmark's name and type."""

    name: str
    kind: str
    seconds: float
    """The time from startBenchmark to endBenchmark."""
    calls: pd.DataFrame
    """One row per batch and query.

    The columns are batch, query ("Q1" or "Q2"), sent (the time at which the batch was sent) and came (the time at
    which the answer arrived, or NaN if it did not). Times are in seconds since the start.
    """
    answers: list[tuple[ResultQ1 | None, ResultQ2 | None]]
    """The answers to each batch, with None for an answer that did not arrive or was not requested."""

    @property
    def missing(self) -> int:
        """The number of answers that did not arrive."""
        return int(self.calls["came"].isna().sum())

    @property
    def batches(self) -> int:
        """The number of batches that were sent to the client."""
        return len(self.answers)

    @property
    def latency(self) -> pd.Series:
        """For each batch, the seconds from sending it to receiving its last answer."""
        by = self.calls.groupby("batch")
        return by["came"].max() - by["sent"].first()

    def line(self) -> dict[str, float]:
        """Return the figures that the organisers use for ranking.

        They are batches, seconds, batches/s, and the latency in ms as p50, p95 and max.
        """
        middle, late, most = (1000 * self.latency.quantile([0.5, 0.95, 1.0])).tolist()
        told = {"batches": self.batches, "seconds": self.seconds, "batches/s": self.batches / self.seconds}
        return {**told, "p50 ms": middle, "p95 ms": late, "max ms": most}


class Challenger:
    """A server in a separate process that hands out the given batches. It is a context manager.

    The server reads a pipe from this process, and therefore stops when this process does. Raises Error if it does not
    start.
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
        # If the process has already stopped, it does not write a port, which is detected below.
        with contextlib.suppress(OSError), pa.ipc.new_stream(pipe, table.schema) as writer:
            writer.write_table(table, max_chunksize=256)
            writer.close()
            self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            self.close()
            code = self._process.returncode
            raise Error(f"Challenger: {' '.join(command)} stopped with exit status {code}. Run it to see why.")
        self.address = f"127.0.0.1:{int(told)}"
        """The host and port of the gRPC service."""
        self._channel = grpc.insecure_channel(self.address, options=UNLIMITED)

    def record(self, benchmark: int) -> Record:
        """Return the record of a benchmark. Raises Error if the benchmark does not exist or has not been ended."""
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
        """Stop the server's process. Calling it again has no effect."""
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
    """Return the error message that the server sent, or the text of the error if there is none."""
    return str(error.details()) if isinstance(error, grpc.Call) else str(error)
