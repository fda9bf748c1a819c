"""Phase 1 against systems that are made up: what is asked of one that answers nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.phases import contract
from grader.phases.live import Live
from grader.record import Record
from grader.shop import Wave
from grader.terms import Limits, Status
from grader.wire.jobs import Result


class Counter:
    """Every request takes as long as it may, and is not answered; but for those of some titles, which get a 400."""

    def __init__(self, answered: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self._answered = answered

    def send(self, wave: Wave) -> Result:
        self.asked.append(wave.name)
        none = np.zeros(1, dtype=np.int64)
        status = 400 if wave.name in self._answered else Status.TIMEOUT
        return Result(none, none, np.array([status], np.int16), none.astype(np.uint8), [b""])


def exchanges(counter: Any) -> list[dict[str, Any]]:
    record = Record()
    contract.run(Live(record, counter, Limits(), 1, 0, {}, lambda said: None, None))
    return record.exchanges


def test_a_system_that_hangs_is_not_asked_everything() -> None:
    """After four questions without an answer the rest is not asked, and says so; an answer between starts anew."""
    silent = Counter()
    found = exchanges(silent)
    assert len(silent.asked) == 4 and len(found) == 52 and not any(one["agreed"] for one in found)
    assert {one["got"] for one in found[4:] if "an id" not in one["got"]} == {"not asked: nothing is answered"}
    assert sum(one.get("asked", True) for one in found) == 4
    seldom = Counter(("a user of many",))
    exchanges(seldom)
    assert len(seldom.asked) == 10 and seldom.asked.count("a user of many") == 2
