"""The challenger's process: hands out batches, receives answers, and records the times. :mod:`.challenger` starts it.

Standard input has the batches, as an Arrow stream with a column of messages, and then nothing: its end, which comes
with the end of the owner, stops the process. Standard output gets one line with the port.

The six calls are the organisers'. Several benchmarks may run at once, each with all batches, and nextBatch may be
called several times at once. A call that breaks the protocol gets a gRPC status:

    INVALID_ARGUMENT     no query, or an answer to a query that was not asked for
    NOT_FOUND            no such benchmark
    FAILED_PRECONDITION  not started, ended already, an answer to a batch that was not handed out
    ALREADY_EXISTS       a second answer
    OUT_OF_RANGE         a batch after the last one

A second service, ``SharedStateLite.Records/record``, takes the number of a benchmark as text and returns its record
as an Arrow stream: see :meth:`BenchmarkState.table`.
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
"""Calls answered at once."""
_RECORD: list[Any] = [
    pa.field("batch", pa.int64()),
    pa.field("query", pa.int8()),
    pa.field("sent", pa.float64()),
    pa.field("came", pa.float64()),
    pa.field("answer", pa.binary()),
]
RECORD = pa.schema(_RECORD)


class BenchmarkState:
    """One benchmark: the batches handed out and the answers received. Times are seconds since startBenchmark."""

    def __init__(self, asked: BenchmarkConfiguration) -> None:
        self.asked = asked
        self.queries = sorted(set(asked.queries))
        self.began: float | None = None
        self.ended: float | None = None
        self.sent: list[float] = []
        self.came: dict[tuple[int, int], tuple[float, bytes]] = {}

    def table(self) -> pa.Table:
        """One row for each batch and query: batch, query (0 is Q1), sent, came, answer (the message).

        ``came`` and ``answer`` are NULL without an answer. The metadata hold name, type and seconds.
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
    """The service; gRPC calls it from several threads."""

    def __init__(self, batches: list[bytes], clock: Callable[[], float] = time.perf_counter) -> None:
        self._batches, self._clock = batches, clock
        self._benchmarks: dict[int, BenchmarkState] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def createNewBenchmark(self, asked: BenchmarkConfiguration, context: grpc.ServicerContext) -> Benchmark:
        """Create a benchmark."""
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
        """Start the clock."""
        with self._lock:
            state = self._find(asked.id, context)
            if state.began is not None:
                _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"benchmark {asked.id} has already been started")
            state.began = self._clock()
        return Empty()

    def nextBatch(self, asked: Benchmark, context: grpc.ServicerContext) -> bytes:
        """Return the next batch, which was serialized before the start."""
        with self._lock:
            state = self._running(asked.id, context)
            number = len(state.sent)
            if number == len(self._batches):
                _refuse(
                    context,
                    grpc.StatusCode.OUT_OF_RANGE,
                    f"benchmark {asked.id}: batch {number - 1} was marked as the last",
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
        """Stop the clock; answers may be missing."""
        with self._lock:
            state = self._running(asked.id, context)
            state.ended = self._now(state)
        return Empty()

    def record(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        """See the module."""
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
    raise AssertionError("abort raises")


def serve(batches: list[bytes]) -> tuple[grpc.Server, int]:
    """Start a server on a free port of the loopback interface."""
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
    """The process."""
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
