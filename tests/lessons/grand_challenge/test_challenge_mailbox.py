"""Tasks that ask the driver, and that restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from ticksdrawn import check

from sharedstate_lite import worker
from sharedstate_lite.lessons.grand_challenge import Challenger
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch
from sharedstate_lite.lessons.grand_challenge.mailbox import BatchServer, MarketTask
from sharedstate_lite.lessons.grand_challenge.run import Run
from sharedstate_lite.worker.handles.driver import DriverServer


class Died(Exception):
    """The simulated death of a task."""


class Mortal(MarketTask):
    """A task that dies before a request, ``deaths`` times."""

    def __init__(self, box: worker.Mailbox, snapshot: int, letters: int, deaths: int) -> None:
        super().__init__(box, snapshot)
        self.letters, self.deaths = letters, deaths
        self.begun: list[int] = []

    def _ask(self, table: pa.Table, **what: Any) -> tuple[pa.Table, dict[str, Any]]:
        if what["what"] == "begin":
            self._left = self.letters
        self._left -= 1
        if self._left < 0 and self.deaths:
            self.deaths -= 1
            raise Died
        answer = super()._ask(table, **what)
        if what["what"] == "begin":
            self.begun.append(answer[1]["upto"])
        return answer


def until_done(task: MarketTask, part: int) -> int:
    """Run a task, and again when it dies; returns the number of batches of its last attempt."""
    while True:
        try:
            return next(task.work(iter([part])))
        except Died:
            continue


@pytest.mark.parametrize(("ahead", "deaths"), [(1, 0), (8, 0), (4, 3)])
def test_tasks_that_ask_and_die(
    application: DriverServer, challenger: Challenger, handed_out: list[Batch], ahead: int, deaths: int
) -> None:
    """All answers equal the single pass's, although tasks die and restart from their snapshots."""
    with Run(challenger.address, ahead=ahead) as run, worker.Mailbox(application) as box:
        server = BatchServer(run, 2)
        box.serve(server.answer)
        tasks = [Mortal(box, 5, 9, deaths), Mortal(box, 5, 1_000, 0)]
        with ThreadPoolExecutor(2) as pool:
            took = list(pool.map(until_done, tasks, range(2)))
        number = run.wait()
        held = [len(log) for log in server._log]
    check(challenger.record(number), handed_out, number)
    assert tasks[0].begun[0] == -1 and len(tasks[0].begun) == deaths + 1
    assert took == [len(handed_out) - 1 - tasks[0].begun[-1], len(handed_out)]
    assert (tasks[0].begun[-1] >= 4) == bool(deaths)
    assert max(held) < 5 + 8


def test_a_run_that_fails_fails_its_tasks(application: DriverServer, challenger: Challenger) -> None:
    """A task that waits for a batch gets the error of the failed run."""
    with Run(challenger.address) as run, worker.Mailbox(application) as box:
        server = BatchServer(run, 1)
        box.serve(server.answer)
        with ThreadPoolExecutor(1) as pool:
            run.close()
            asked = pool.submit(until_done, MarketTask(box), 0)
            with pytest.raises(Exception, match="was closed before its end"):
                asked.result()
