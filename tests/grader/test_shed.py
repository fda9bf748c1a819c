"""What a system sheds is sent again; phases get by with what a slow or forgetful connection leaves of their set-up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from records import right

from grader.phases import duplicates, scarcity
from grader.phases.live import Live
from grader.shop import Wave
from grader.shop.counter import Counter
from grader.terms import Entity, Kind, Limits, Status
from grader.wire.jobs import Result


class Shedding(Counter):
    """Lets in so many requests of a wave, beginning with the last, and says no to the others."""

    def __init__(self, lets_in: int, says: int) -> None:
        self._lets_in, self._says = lets_in, says
        self.waves: list[Wave] = []

    def send(self, wave: Wave) -> Result:
        self.waves.append(wave)
        n = len(wave.middles)
        status = np.full(n, self._says, np.int16)
        status[max(0, n - self._lets_in) :] = 200
        times = np.full(n, len(self.waves), dtype=np.int64)
        return Result(times.copy(), times, status, np.zeros(n, np.uint8), list(wave.middles), times.copy())

    def wait(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize("says", [429, int(Status.REFUSED)])
def test_what_is_shed_is_sent_until_it_is_let_in(says: int) -> None:
    """On fewer connections each time; every request has its own answer."""
    counter = Shedding(16, says)
    ends = [b"%d" % n for n in range(40)]
    found = counter.insist(Wave("load", "set-up", Kind.ADD_STOCK, np.arange(40), ends, connections=32, bodies=True))
    assert (found.status == 200).all() and found.bodies == ends
    assert [len(wave.middles) for wave in counter.waves] == [40, 24, 8]
    assert [wave.connections for wave in counter.waves] == [32, 16, 8]
    assert found.done.tolist() == [3] * 8 + [2] * 16 + [1] * 16


@pytest.mark.parametrize(("lets_in", "says", "waves"), [(0, 429, 16), (0, 503, 1), (0, int(Status.TIMEOUT), 1)])
def test_nobody_is_asked_for_ever(lets_in: int, says: int, waves: int) -> None:
    """Where nobody is let in it ends; what promises nothing is not sent again, as it may have been done."""
    counter = Shedding(lets_in, says)
    found = counter.insist(Wave("load", "set-up", Kind.ADD_STOCK, np.arange(4), [b"x"] * 4))
    assert (found.status == says).all() and len(counter.waves) == waves


def live_of(phase: str, counter: Any, seconds: float) -> Live:
    return Live(right((phase,)), counter, Limits(), 1, 0, {phase: seconds}, lambda said: None)


@pytest.mark.parametrize(("ready", "tries", "stopped"), [([12], 1, False), ([7, 8], 2, False), ([0, 7, 7], 3, True)])
def test_scarcity_needs_twice_as_many_orders_as_are_sold(
    monkeypatch: pytest.MonkeyPatch, ready: list[int], tries: int, stopped: bool
) -> None:
    """Not each order that it would have: a set-up whose answers were lost is none of the system's promises."""
    made: list[int] = []

    def make(live: Live, enough: int) -> Any:
        made.append(enough)
        return np.arange(3 * enough), Entity.ITEM, np.zeros(1, dtype=np.int64)

    usable = iter(ready)
    monkeypatch.setattr(scarcity, "_enough", lambda live: 4)
    monkeypatch.setattr(scarcity, "_by_stock", make)
    monkeypatch.setattr(scarcity, "ready", lambda live, orders: (orders[: (n := next(usable))], [b""] * n))
    monkeypatch.setattr(scarcity, "_sell_out", lambda *of: False)
    live = live_of("scarcity", SimpleNamespace(send=lambda wave: None), 5.0)
    scarcity.run(live)
    assert len(made) == tries and ("stopped" in live.notes("scarcity")) is stopped


@pytest.mark.parametrize(("each", "least", "most"), [(0.15, 40, 200), (0.0001, 600, 900)])
def test_a_system_of_one_thread_is_sent_what_it_can_answer(
    monkeypatch: pytest.MonkeyPatch, each: float, least: int, most: int
) -> None:
    """However quick its set-up: one order is checked out 40 times at once first, and that took so long."""
    now, sent = [0.0], []

    def own(live: Live, phase: str, count: int, **kind: Any) -> np.ndarray:
        now[0] += 0.01 * count
        return np.arange(count)

    def send(live: Live, name: str, orders: np.ndarray, times: int, attempt: int, gap: int = 0) -> None:
        sent.append(len(orders) * times)
        now[0] += len(orders) * times * each

    monkeypatch.setattr(duplicates, "own", own)
    monkeypatch.setattr(duplicates, "crossed", lambda live, phase, pairs: np.arange(2 * pairs))
    monkeypatch.setattr(duplicates, "ready", lambda live, orders: (orders, [b""] * len(orders)))
    monkeypatch.setattr(duplicates, "_send", send)
    monkeypatch.setattr(duplicates, "settle", lambda *of: False)
    live = live_of("duplicates", None, 15.0)
    live.clock = lambda: now[0]  # type: ignore[method-assign]
    duplicates.run(live)
    assert sent[0] == duplicates.AT_ONCE and least <= sum(sent) <= most
