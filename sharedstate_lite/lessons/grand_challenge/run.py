"""The client that every solution uses. It pulls batches ahead of the computation, and posts answers when complete.

    with Run(address, ahead=16) as run:
        for number, rows, last in run.batches():    # the next batch is pulled in the meantime
            run.answer(market.step(rows))           # posts a batch when all of its symbols are answered
        run.wait()

``ahead`` is the maximum number of batches that have been pulled but not answered. 1 means no pipelining. A larger
number increases throughput, but also latency, because the challenger measures the time from sending a batch to
receiving its answers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import pyarrow as pa

from ...errors import Error
from .calls import UNLIMITED, stubs
from .challenger_pb2 import Benchmark, BenchmarkConfiguration
from .rows import results, rows

AHEAD = 16
"""The default number of batches that are pulled before the first one is answered, so that round trips overlap."""
QUERIES = ("Q1", "Q2")
CALL_SECONDS = 30
"""The timeout of one call."""


class Run:
    """One benchmark, with the number ``id``. It is a context manager.

    ``batches`` must be called from only one thread, and ``answer`` can be called from any thread. Raises Error if the
    challenger cannot be reached or refuses a call.
    """

    def __init__(
        self, address: str, *, ahead: int = AHEAD, name: str = "", queries: Sequence[str] = QUERIES, token: str = ""
    ) -> None:
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
            raise Error(f"ahead={ahead!r} is not a valid number of batches. Pass 1 (no pipelining) or more.")
        if not queries or not set(queries) <= set(QUERIES):
            raise Error(f"queries={queries!r} is not valid. Pass a list with Q1, Q2 or both.")
        self._address, self._queries = address, set(queries)
        self._channel = grpc.insecure_channel(address, options=UNLIMITED)
        self._calls = stubs(self._channel)
        self._free, self._lock, self._done = threading.Semaphore(ahead), threading.Lock(), threading.Event()
        self._wanted: dict[int, int] = {}
        self._came: dict[int, dict[int, Any]] = {}
        self._last: int | None = None
        self._open = 0
        # gRPC cancels a call whose future is garbage-collected.
        self._posted: set[Any] = set()
        self._error: Error | None = None
        asked = BenchmarkConfiguration(
            token=token,
            benchmark_name=name,
            benchmark_type="test",
            queries=[query for query in QUERIES if query in queries],
        )
        try:
            self.id: int = self._call("createNewBenchmark", asked).id
            self._benchmark = Benchmark(id=self.id)
        except Error:
            self.close()
            raise

    def batches(self) -> Iterator[tuple[int, pa.Table, bool]]:
        """Yield (number, rows, last) for each batch. ``last`` is True for the last batch.

        The rows have the schema :data:`.rows.ROWS`. The challenger's clock starts when the first batch is pulled, so
        start tasks or a query before that. Raises Error if the run fails.
        """
        self._check()
        self._call("startBenchmark", self._benchmark)
        self._free.acquire()
        coming = self._pull()
        while True:
            try:
                batch = coming.result()
            except grpc.RpcError as error:
                self.fail(self._told("nextBatch", error))
                self._check()
            coming = self._pull() if not batch.last and self._free.acquire(blocking=False) else None
            table = rows(batch)
            with self._lock:
                self._wanted[batch.seq_id] = len(batch.lookup_symbols)
                self._open += 1
                if batch.last:
                    self._last = batch.seq_id
            if not batch.lookup_symbols:
                self._post(batch.seq_id, {})
            yield batch.seq_id, table, batch.last
            if batch.last:
                return
            if coming is None:
                self._free.acquire()
                coming = self._pull()

    def answer(self, answers: pa.Table) -> None:
        """Add answers, as rows of :data:`.rows.ANSWERS`, and post those of each batch that is now complete.

        Repeated rows are ignored.
        """
        complete = []
        with self._lock:
            for line in answers.to_pylist():
                number = line["batch"]
                if number in self._wanted:
                    came = self._came.setdefault(number, {})
                    came[line["position"]] = line
                    if len(came) == self._wanted[number]:
                        complete.append((number, self._came.pop(number)))
                        del self._wanted[number]
        for number, came in complete:
            self._post(number, came)

    def wait(self) -> int:
        """Wait for all answers, end the benchmark, and return its number. Raises Error if the run failed."""
        self._done.wait()
        self._check()
        self._call("endBenchmark", self._benchmark)
        return self.id

    def fail(self, error: Error) -> None:
        """Mark the run as failed. After that, ``batches`` and ``wait`` raise the first error passed to this method."""
        self._error = self._error or error
        self._done.set()
        self._free.release()

    def over(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return True if the run is complete or has failed."""
        return self._done.wait(seconds)

    @property
    def failed(self) -> Error | None:
        """The error with which the run failed, or None."""
        return self._error

    def close(self) -> None:
        """Close the connection. Calling it again has no effect.

        If ``wait`` was not called, the benchmark is not ended on the challenger.
        """
        self.fail(Error(f"the run on the challenger at {self._address} was closed before its end"))
        self._channel.close()

    def _pull(self) -> Any:
        self._check()
        return self._calls["nextBatch"].future(self._benchmark, timeout=CALL_SECONDS)

    def _post(self, number: int, came: dict[int, Any]) -> None:
        both = results(self.id, number, came.values())
        posted = [self._calls[f"result{q}"] for q in QUERIES if q in self._queries]
        messages = [message for q, message in zip(QUERIES, both, strict=True) if q in self._queries]
        left = [len(posted)]

        def came_back(call: Any) -> None:
            error = None if call.cancelled() else call.exception()
            if error is not None:
                self.fail(self._told(f"the answer to batch {number}", error))
            with self._lock:
                self._posted.discard(call)
                left[0] -= 1
                if left[0]:
                    return
                self._open -= 1
                finished = self._last is not None and not self._open
            self._free.release()
            if finished:
                self._done.set()

        for call, message in zip(posted, messages, strict=True):
            under_way = call.future(message, timeout=CALL_SECONDS)
            with self._lock:
                self._posted.add(under_way)
            under_way.add_done_callback(came_back)

    def _call(self, name: str, asked: Any) -> Any:
        try:
            return self._calls[name](asked, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            raise self._told(name, error) from error
        except ValueError as error:  # gRPC raises it if the channel has been closed
            raise self._error or self._told(name, error) from error

    def _told(self, what: str, error: Any) -> Error:
        why = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
        return Error(f"the challenger at {self._address} did not accept {what}: {why}. Check that it is running.")

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
