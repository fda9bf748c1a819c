"""A machine on which drivers are killed at any step, in place of Spark: it runs micro-batches, again, on lost memory.

Everything of a driver is real but Spark's part of `Query`. ``stepping`` marks functions before and after which the
driver can die.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.rounds import worker
from sharedstate_lite.spark.rounds.inbox import to_table
from sharedstate_lite.spark.rounds.local import LocalStore
from sharedstate_lite.spark.rounds.message import BinMessage
from sharedstate_lite.spark.rounds.query import Query

Stores = dict[tuple[int, int], LocalStore]


class Killed(BaseException):
    """The driver ends here."""


class Machine:
    """What outlives a driver: the state of every bin after each micro-batch. ``left`` steps later the driver dies."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.left, self.dead = 0, False
        self.states: dict[int, Stores] = {0: {}}

    def step(self) -> None:
        """A point at which the driver can die."""
        self.left -= 1
        if self.left == 0:
            self.dead = True
            raise Killed


def batches(machine: Machine) -> type[Query]:
    """Spark's part of a query: it runs the file of each micro-batch, and commits it."""

    class Batches(Query):
        def _launch(self) -> None:
            worker._cached.clear()

        def stop(self) -> None:
            pass

        def _finish(self, waiting: bool) -> Error | None:
            refusal = None
            while (number := self.committed) < len(self.inbox.entries):
                machine.step()
                try:
                    frame = self._run(number)
                except Error as error:
                    refusal = refusal or error
                    self._void(number)
                    continue
                self._sink(frame, number)
                machine.step()
                commits = self.checkpoint / "commits"
                commits.mkdir(parents=True, exist_ok=True)
                (commits / str(number)).touch()
                machine.step()
            return refusal

        def _run(self, number: int) -> Any:
            """Run one micro-batch. Spark can lose what a task has returned, and then runs it on the state before."""
            rows = pyarrow.parquet.read_table(self.inbox.path / f"{number:08d}.parquet").to_pylist()
            waiting = [BinMessage(*(row[name] for name in BinMessage._fields)) for row in rows]
            after, out = dict(machine.states[number]), list[BinMessage]()
            for stage in range(1, self.stages + 1):
                mine, waiting = [m for m in waiting if m.stage == stage], [m for m in waiting if m.stage != stage]
                for bin in sorted({m.bin for m in mine}):
                    before = after.get((stage, bin), LocalStore())
                    here = [m for m in mine if m.bin == bin]
                    sent, after[stage, bin] = self._bin(stage, bin, here, before)
                    if machine.rng.random() < 0.5:
                        worker._cached.clear()
                        sent, _ = self._bin(stage, bin, here, before)
                    for message in sent:
                        (waiting if message.stage > stage else out).append(message)
            self.recipe.close()
            machine.step()
            if not self._file(number).exists():  # else the state of the attempt that wrote it is used
                machine.states[number + 1] = after
            return SimpleNamespace(toArrow=lambda: to_table(out + waiting))

        def _bin(
            self, stage: int, bin: int, messages: list[BinMessage], before: LocalStore
        ) -> tuple[list[BinMessage], LocalStore]:
            machine.rng.shuffle(messages)
            store = copy.deepcopy(before)
            return worker.run_bin(self.recipe, stage, bin, messages, store), store

    return Batches


def stepping(machine: Machine, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the driver, which can die before it and after it."""

    def run(*args: Any) -> Any:
        machine.step()
        value = function(*args)
        machine.step()
        return value

    return run
