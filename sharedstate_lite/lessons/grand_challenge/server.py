"""The challenger's process, which hands out batches, receives answers, and records the times of both.

:mod:`.challenger` starts it. It reads the batches from standard input, as an Arrow stream with one column of messages.
When standard input is closed, which happens at the latest when the parent process exits, this process stops. It writes
one line with its port to standard output.

The six calls are those of the organisers' protocol. Several benchmarks can run at the same time, each with all batches,
and nextBatch can be called concurrently. A call that violates the protocol returns a gRPC status:

    INVALID_ARGUMENT     the queries are invalid, or the answer is for a query that was not requested
    NOT_FOUND            the benchmark does not exist
    FAILED_PRECONDITION  the benchmark has not been started or has been ended, or the batch has not been handed out
    ALREADY_EXISTS       the query has already been answered for this batch
    OUT_OF_RANGE         the last batch has already been handed out

A second service, ``SharedStateLite.Records/record``, takes the number of a benchmark as text and returns its record
as an Arrow stream; see :meth:`BenchmarkState.table`.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
import pyarrow as pa
from google.protobuf.empty_pb2 import Empty

from .calls import RECORDS, UNLIMITED, handlers
from .challenger_pb2 import Q1, Q2, Benchmark, BenchmarkConfiguration, ResultQ1, ResultQ2

THREADS = 16
"""The number of calls that can be processed at the same time."""
_RECORD: list[Any] = [
    pa.field("batch", pa.int64()),
    pa.field("query", pa.int8()),
    pa.field("sent", pa.float64()),
    pa.field("came", pa.float64()),
    pa.field("answer", pa.binary()),
]
RECORD = pa.schema(_RECORD)


class BenchmarkState:
    """The state of one benchmark: when batches were handed out, and the answers with their times of arrival.

    Times are in seconds since startBenchmark.
    """

    def __init__(self, asked: BenchmarkConfiguration) -> None:
        self.asked = asked
        self.queries = sorted(set(asked.queries))
        self.began: float | None = None
        self.ended: float | None = None
        self.sent: list[float] = []
        self.came: dict[tuple[int, int], tuple[float, bytes]] = {}

    def table(self) -> pa.Table:
        """Return the record as a table with one row per batch and query.

        The columns are batch, query (0 for Q1 and 1 for Q2), sent, came and answer (the message). ``came`` and
        ``answer`` are NULL if the answer did not arrive. The metadata contain the benchmark's name, type and seconds.
        """
        told = [
            (n, q, sent, *self.came.get((n, q), (None, None))) for n, sent in enumerate(self.sent) for q in self.queries
        ]
        about = {"name": self.asked.benchmark_name, "type": self.asked.benchmark_type, "seconds": self.ended}
        columns = list(zip(*told, strict=True)) or [()] * len(RECORD)
        return pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, RECORD, strict=True)],
            schema=RECORD.with_metadata({"about": json.dumps(about)}),
        )


class Service:
    """The implementation of both services. gRPC calls its methods from several threads."""

    def __init__(self, batches: list[bytes], clock: Callable[[], float] = time.perf_counter) -> None:
        self._batches, self._clock = batches, clock
        self._benchmarks: dict[int, BenchmarkState] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def createNewBenchmark(self, asked: BenchmarkConfiguration, context: grpc.ServicerContext) -> Benchmark:
        """Create a benchmark, and return its number."""
        if not asked.queries or not set(asked.queries) <= {Q1, Q2}:
            _refuse(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                "queries must be Q1, Q2 or both",
            )
        with self._lock:
            number = next(self._numbers)
            self._benchmarks[number] = BenchmarkState(asked)
        return Benchmark(id=number)

    def startBenchmark(self, asked: Benchmark, context: grpc.ServicerContext) -> Empty:
        """Start the benchmark's clock."""
        with self._lock:
            state = self._find(asked.id, context)
            if state.began is not None:
                _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"benchmark {asked.id} has already been started")
            state.began = self._clock()
        return Empty()

    def nextBatch(self, asked: Benchmark, context: grpc.ServicerContext) -> bytes:
        """Return the next batch, as a message that was serialized in advance."""
        with self._lock:
            state = self._running(asked.id, context)
            number = len(state.sent)
            if number == len(self._batches):
                _refuse(
                    context,
                    grpc.StatusCode.OUT_OF_RANGE,
                    f"benchmark {asked.id} has no more batches; batch {number - 1} was the last one",
                )
            state.sent.append(self._now(state))
        return self._batches[number]

    def resultQ1(self, answer: ResultQ1, context: grpc.ServicerContext) -> Empty:
        """Receive an answer to Q1."""
        return self._result(Q1, answer, context)

    def resultQ2(self, answer: ResultQ2, context: grpc.ServicerContext) -> Empty:
        """Receive an answer to Q2."""
        return self._result(Q2, answer, context)

    def endBenchmark(self, asked: Benchmark, context: grpc.ServicerContext) -> Empty:
        """Stop the benchmark's clock, even if answers are missing."""
        with self._lock:
            state = self._running(asked.id, context)
            state.ended = self._now(state)
        return Empty()

    def record(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        """Return the record of a benchmark as an Arrow stream. ``asked`` is its number as text."""
        with self._lock:
            state = self._find(int(asked), context)
            if state.ended is None:
                _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"benchmark {int(asked)} has not been ended")
            table = state.table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _result(self, query: Any, answer: ResultQ1 | ResultQ2, context: grpc.ServicerContext) -> Empty:
        message, batch = answer.SerializeToString(), answer.batch_seq_id
        with self._lock:
            state = self._running(answer.benchmark_id, context)
            now = self._now(state)
            if query not in state.queries:
                _refuse(
                    context,
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"benchmark {answer.benchmark_id} does not ask for Q{query + 1}",
                )
            if not 0 <= batch < len(state.sent):
                _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"batch {batch} has not been handed out")
            if (batch, query) in state.came:
                _refuse(
                    context, grpc.StatusCode.ALREADY_EXISTS, f"Q{query + 1} of batch {batch} has already been answered"
                )
            state.came[batch, query] = now, message
        return Empty()

    def _now(self, state: BenchmarkState) -> float:
        assert state.began is not None
        return self._clock() - state.began

    def _find(self, number: int, context: grpc.ServicerContext) -> BenchmarkState:
        state = self._benchmarks.get(number)
        if state is None:
            _refuse(
                context, grpc.StatusCode.NOT_FOUND, f"there is no benchmark {number}; call createNewBenchmark first"
            )
        return state

    def _running(self, number: int, context: grpc.ServicerContext) -> BenchmarkState:
        state = self._find(number, context)
        if state.began is None or state.ended is not None:
            why = "has not been started" if state.began is None else "has been ended"
            _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"benchmark {number} {why}")
        return state


def _refuse(context: grpc.ServicerContext, code: grpc.StatusCode, why: str) -> NoReturn:
    context.abort(code, why)
    raise AssertionError("context.abort() did not raise an exception")


def serve(batches: list[bytes]) -> tuple[grpc.Server, int]:
    """Start a server on a free port of the loopback interface, and return the server and the port."""
    service = Service(batches)
    server = grpc.server(ThreadPoolExecutor(THREADS), options=UNLIMITED)
    calls = {name: getattr(service, name) for name in dir(service) if not name.startswith("_") and name != "record"}
    record = grpc.method_handlers_generic_handler(
        RECORDS, {"record": grpc.unary_unary_rpc_method_handler(service.record)}
    )
    server.add_generic_rpc_handlers((handlers(calls), record))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main() -> None:
    """Read the batches, serve them, and stop when standard input is closed."""
    stdin: Any = sys.stdin.buffer
    with pa.ipc.open_stream(stdin) as reader:
        batches: Any = reader.read_all().column("batch").to_pylist()
    server, port = serve(batches)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while stdin.read(1 << 16):
        continue
    server.stop(None)


if __name__ == "__main__":
    main()
