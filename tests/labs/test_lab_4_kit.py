"""Lab 4 and the kit: what the checks call right is what ConcurrentSet and Cache of `ss.worker` answer in each case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from grader.lab.checks import Check, load
from sharedstate_lite.worker.runtime import cache as cache_module
from sharedstate_lite.worker.runtime.cache import CacheState, unpack_positions
from sharedstate_lite.worker.runtime.concurrent_set import ConcurrentSetState
from sharedstate_lite.worker.runtime.lru import KEY
from sharedstate_lite.worker.runtime.resource import Context

CHECKS = load(Path(__file__).resolve().parents[2] / "labs" / "4-sharing-on-spark" / "checks.py")
NUMBERS = {"x": 0, "y": 1, "z": 2}


async def unused(*args: Any) -> Any:
    """A function of the runtime that these resources do not call here."""
    raise AssertionError(args)


def context() -> Context:
    return Context("application", "resource 1", unused, lambda _: None, unused)


class KitsCache:
    """The kit's cache, called as in the lab. A value is a number or None."""

    def __init__(self, clock: Callable[[float], None], capacity: int, max_age: float) -> None:
        self.clock, self.state = clock, CacheState(context(), {"capacity": capacity, "ttl": max_age})

    def all(self, calls: Iterable[Sequence[Any]]) -> Any:
        async def answers() -> list[Any]:
            return [await getattr(self, name)(*given) for name, *given in calls]

        return json.loads(json.dumps(asyncio.run(answers())))

    def key(self, key: Any) -> pa.Table:
        return pa.table({KEY: pa.array([NUMBERS.get(key, key)], pa.int64())})

    async def ask(self, task: Any, now: float, key: Any) -> Any:
        self.clock(now)
        head = {"op": "get", "wait": False, "rows": 1}
        said, rows = await self.state.answer(head, self.key(key), task)
        if len(unpack_positions(str(said["load"]))):
            return "load"
        assert rows is not None
        return "wait" if len(unpack_positions(str(said["wait"]))) else ("value", rows.column("value")[0].as_py())

    async def loaded(self, task: Any, now: float, key: Any, value: Any) -> None:
        self.clock(now)
        table = self.key(key).append_column("value", pa.array([value], pa.int64()))
        await self.state.answer({"op": "put"}, table, task)

    async def gone(self, task: Any) -> None:
        self.state.disconnected(task)


class Kit:
    """The kit's resources in the place of a student's module."""

    def __init__(self, clock: Callable[[float], None]) -> None:
        self.clock = clock

    def play(self, cls: str, method: str, calls: Iterable[tuple[int, int, list[int]]]) -> list[list[int]]:
        assert (cls, method) == ("Dedup", "add_new")
        state, answers = ConcurrentSetState(context(), {}), []
        for part, attempt, ids in calls:
            values = list(dict.fromkeys(ids))  # the handle sends each value of a batch once
            head = {"task": [1, part, attempt, "query", None], "rows": len(ids)}
            _, table = asyncio.run(state.answer(head, pa.table({"value": values}), None))
            assert table is not None
            answers.append([id for id, new in zip(values, table.column("new").to_pylist(), strict=True) if new])
        return answers

    def new(self, cls: str, capacity: int, max_age: float) -> KitsCache:
        assert cls == "Cache"
        return KitsCache(self.clock, capacity, max_age)


@pytest.mark.parametrize("check", [one for one in CHECKS if one.task in (1, 4)], ids=lambda check: check.id)
def test_the_kit_answers_what_is_right(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every case of a check, the kit's resource gives the right answers."""
    now = [0.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(cache_module, "time", Clock)
    kit: Any = Kit(lambda time: now.__setitem__(0, time))
    cases = list(check.cases(kit))
    for case in cases[:: 1 + len(cases) // 150]:
        assert case.ask() == json.loads(json.dumps(case.right)), case.trace
