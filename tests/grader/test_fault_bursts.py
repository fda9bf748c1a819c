"""Which faults a run has, in which order, and what becomes of one that hit nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from records import right

from grader.orders import BLOCK
from grader.phases import faults
from grader.phases.faults import KILL, PAUSE, Fault
from grader.phases.live import Live
from grader.terms import Limits


def test_a_kill_that_came_after_its_burst_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with fresh orders, and not for ever; a pause is not, and nothing that was tried counts as left out."""
    under_way = {"a": [0, 12], "b": [0, 0], "everything": [36]}
    struck: list[Fault] = []

    def strike(live: Live, fault: Fault, orders: np.ndarray, delay: float) -> tuple[Any, int]:
        struck.append(fault)
        return None, under_way[fault.service].pop(0) if fault.what == KILL else 0

    record = right(("faults",))
    stock = SimpleNamespace(orders=np.zeros(99 * BLOCK, dtype=np.int64), seconds=0.1)
    monkeypatch.setattr(faults, "stocked", lambda *of: (stock, None, 1))
    monkeypatch.setattr(faults, "_calm", lambda *of: 0.01)
    monkeypatch.setattr(faults, "_median", lambda *of: 0.02)
    monkeypatch.setattr(faults, "_strike", strike)
    monkeypatch.setattr(faults, "_again", lambda *of: None)
    monkeypatch.setattr(faults, "_alive", lambda *of: True)
    monkeypatch.setattr(faults, "_sells", lambda *of: [])
    monkeypatch.setattr(faults, "settle", lambda *of: True)
    services: Any = SimpleNamespace(names=["a", "b"], can_pause=True)
    counter: Any = None
    live = Live(record, counter, Limits(), 1, 0, {"faults": 4.0}, lambda said: None, services)
    faults.run(live)
    kills = [(KILL, "a"), (KILL, "a"), (KILL, "b"), (KILL, "b"), (KILL, "everything")]
    # 4 s leave room for eight blocks.
    assert [(fault.what, fault.service) for fault in struck] == [
        *kills,
        (PAUSE, "a"),
        (PAUSE, "b"),
        (faults.ANSWERED, "a"),
    ]
    assert [fault["under_way"] for fault in live.notes("faults")["faults"]][:5] == [0, 12, 0, 0, 36]
    assert len(live.notes("faults")["left_out"]) == len(faults.plan(["a", "b"], True)) - 6


@pytest.mark.parametrize(("broken", "alive"), [(0, True), (200, True), (10**9, False)])
def test_a_pool_of_broken_connections_is_used_up(broken: int, alive: bool) -> None:
    """A system that answers 503 for each connection which its database's end broke comes back; a dead one does not."""
    now, left = [0.0], [broken]

    def send(wave: Any) -> Any:
        now[0] += 0.01
        dead = min(left[0], len(wave.subject))
        left[0] -= dead
        return SimpleNamespace(status=np.array([503] * dead + [200] * (len(wave.subject) - dead)))

    def wait(seconds: float) -> None:
        now[0] += seconds

    record = right(("faults",))
    counter: Any = SimpleNamespace(send=send, wait=wait, now=lambda: int(now[0] * 1e9))
    live = Live(record, counter, Limits(convergence=20.0), 1, 0, {}, lambda said: None)
    live.clock = lambda: now[0]  # type: ignore[method-assign]
    assert faults._alive(live, np.arange(4)) is alive
    assert alive or 20 < now[0] < 21
