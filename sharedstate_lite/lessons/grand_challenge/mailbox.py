"""Solves the challenge in Spark tasks that send requests to the driver, without files or a broker.

One job has ``parts`` tasks, which run from the first batch to the last. Each task processes the symbols of its part and
keeps their state in memory. A request from a task contains its answers and asks for more batches. The driver returns
all batches that have arrived for the task, or waits for the next one. A task that has fallen behind therefore receives
several batches in one response.

All parts must run at the same time, because a batch needs the answers from all of them. The tasks are therefore one
barrier stage, which Spark starts as a unit, and restarts as a unit if a task fails. If there are more parts than slots,
this module raises an error, because Spark would wait ten minutes for slots. After a restart, each task continues from
its last snapshot. It sends a snapshot to the driver every ``SNAPSHOT`` batches, after their answers are posted. The
driver keeps all later batches. An answer that is computed twice is identical, and is posted only once.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ... import worker
from ...errors import Error
from .market import Market
from .rows import ANSWERS, ROWS, slices
from .run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNAPSHOT = 100
"""The number of batches between two snapshots.

This limits how many batches the driver keeps, and how many a task repeats after a restart.
"""


def by_mailbox(address: str, session: SparkSession, *, parts: int | None = None, **options: Any) -> int:
    """Solve a benchmark with ``parts`` tasks (by default one per slot), and return the number of the benchmark.

    The options are those of :class:`.run.Run`. Raises Error if the driver or a task fails.
    """
    context = session.sparkContext
    slots = _slots(session)
    count = slots if parts is None else parts
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= slots:
        raise Error(
            f"parts={parts!r} is not possible, because all tasks must run at the same time and the session has {slots} "
            f"slots. Pass 1 to {slots} parts, or use a session with more cores."
        )
    with Run(address, **{"name": "mailbox", **options}) as run, worker.Mailbox(session) as box:
        box.serve(BatchServer(run, count).answer)
        work: Any = MarketTask(box).work
        try:
            took = context.parallelize(range(count), count).barrier().mapPartitions(work)
            # Spark restarts a barrier stage only if a shuffle follows it. Without a shuffle, some results may already
            # have been sent to the driver.
            took.map(lambda batches: (0, batches)).reduceByKey(max, 1).collect()
        except Exception as error:  # the run's own error explains more than py4j's
            raise run.failed or Error(f"by_mailbox: the tasks failed on Spark: {_first(error)}") from error
        return run.wait()


class BatchServer:
    """Answers the tasks' requests in the driver, and keeps the batches of each part since its last snapshot.

    It starts to pull batches when a task has started for every part.
    """

    def __init__(self, run: Run, parts: int) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._log: list[deque[tuple[int, pa.Table]]] = [deque() for _ in range(parts)]
        self._snapshots: list[tuple[int, pa.Table] | None] = [None] * parts
        self._last: int | None = None
        self._begun: set[int] = set()
        self._feeding = threading.Thread(target=self._feed, name="sharedstate-lite challenge", daemon=True)
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def _feed(self) -> None:
        """Pull all batches from the challenger, and wake the requests that are waiting for them."""
        try:
            for number, rows, last in self._run.batches():
                parts = slices(rows, len(self._log))
                with self._lock:
                    for log, part in zip(self._log, parts, strict=True):
                        log.append((number, part))
                    self._last = number if last else None
                self._wake()
        except Error:  # the run raises this error in wait()
            self._wake()

    async def answer(self, request: pa.Table) -> pa.Table:
        """Answer a request from :class:`MarketTask`."""
        said = json.loads(request.schema.metadata[b"request"])
        part: int = said["part"]
        if said["what"] == "begin":
            with self._lock:
                before = self._snapshots[part]
                ready = part not in self._begun and len(self._begun) + 1 == len(self._log)
                self._begun.add(part)
            if ready:
                self._feeding.start()
            upto, state = before if before is not None else (-1, Market().state())
            return _reply(state, upto=upto)
        if said["what"] == "keep":
            with self._lock:
                self._snapshots[part] = said["upto"], request.replace_schema_metadata(None)
                log = self._log[part]
                while log and log[0][0] <= said["upto"]:
                    log.popleft()
            return _reply(ANSWERS.empty_table())
        self._run.answer(request)
        if said["what"] == "post":
            return _reply(ANSWERS.empty_table())
        return await self._more(part, said["upto"])

    async def _more(self, part: int, upto: int) -> pa.Table:
        news = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._waiting.add(news)
        try:
            while True:
                news[1].clear()
                if self._run.failed is not None:
                    raise self._run.failed
                with self._lock:
                    found = [(number, table) for number, table in self._log[part] if number > upto]
                    if self._last is not None and (found[-1][0] if found else upto) == self._last:
                        return _reply(
                            pa.concat_tables([ROWS.empty_table(), *(t for _, t in found)]), upto=self._last, last=True
                        )
                if found:
                    return _reply(pa.concat_tables([t for _, t in found]), upto=found[-1][0], last=False)
                await news[1].wait()
        finally:
            with self._lock:
                self._waiting.discard(news)

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)


class MarketTask:
    """Processes the batches of a part in a Spark task. The object is pickled and sent to the tasks."""

    def __init__(self, box: worker.Mailbox, snapshot: int = SNAPSHOT) -> None:
        self._box, self._snapshot = box, snapshot

    def work(self, numbers: Iterator[int]) -> Iterator[int]:
        """Answer all batches of each part after its snapshot. Yields the number of batches answered."""
        for part in numbers:
            table, said = self._ask(ANSWERS.empty_table(), what="begin", part=part)
            market, upto = Market(table), said["upto"]
            kept, count, last = upto, 0, False
            answers = ANSWERS.empty_table()
            while not last:
                rows, said = self._ask(answers, what="more", part=part, upto=upto)
                answers = market.step(rows)
                count, upto, last = count + said["upto"] - upto, said["upto"], said["last"]
                if upto - kept >= self._snapshot:
                    # Post the answers first, because a restart from the snapshot does not compute them again.
                    self._ask(answers, what="post", part=part)
                    self._ask(market.state(), what="keep", part=part, upto=upto)
                    answers, kept = ANSWERS.empty_table(), upto
            self._ask(answers, what="more", part=part, upto=upto)
            yield count

    def _ask(self, table: pa.Table, **what: Any) -> tuple[pa.Table, dict[str, Any]]:
        answer = self._box.ask(_reply(table, **what))
        return answer.replace_schema_metadata(None), json.loads(answer.schema.metadata[b"request"])


def _reply(table: pa.Table, **what: Any) -> pa.Table:
    return table.replace_schema_metadata({"request": json.dumps(what)})


def _slots(session: SparkSession) -> int:
    """Return the number of tasks that can run at the same time on the current executors."""
    # A cluster that has just been started may not have executors yet. A job waits for the first one.
    session.sparkContext.parallelize([0], 1).count()
    scala = session.sparkContext._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:300]
