"""When a phase has settled: the pair of snapshots and the second look between them must agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from records import SECOND, right

from grader.phases.live import Live
from grader.phases.settle import settle, settle_all
from grader.record import SentWave
from grader.shop import Wave, snapshot
from grader.shop.counter import CLOSED
from grader.terms import Entity, Kind, Limits, State, Status
from grader.verdict.violations import violations
from grader.wire.jobs import Result

PHASE = "duplicates"
ENTITY = {Kind.FIND_ORDER: Entity.ORDER, Kind.FIND_USER: Entity.USER, Kind.FIND_ITEM: Entity.ITEM}
FIELD = {Entity.ORDER: "paid", Entity.USER: "credit", Entity.ITEM: "stock"}


class Shop:
    """A counter without a network: each read takes ``each`` seconds of its clock, and is answered by ``says``."""

    def __init__(self, says: Callable[[Wave, Entity, int, int], int], each: float = 0.001) -> None:
        """``says``: given the wave, what is read, and its right value, the value that is answered."""
        self.record = right((PHASE,))
        # The hand-made snapshots are the truth; those that count are taken anew.
        (truth, *_) = (self.record.shot(n) for n, s in enumerate(self.record.snapshots_taken) if s["phase"] == PHASE)
        self.truth = {entity: dict(zip(*truth.read[entity][::2], strict=True)) for entity in Entity}
        self._says, self._each = says, each
        self._now, self.hung_up = 100 * SECOND, 0

    def now(self) -> int:
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += max(0, int(seconds * SECOND))

    def hang_up(self) -> None:
        self.hung_up += 1

    def send(self, wave: Wave) -> Result:
        entity, n = ENTITY[wave.kind], len(wave.subject)
        self.record.waves.append(SentWave(wave.phase, wave.name, self._now, n))
        self._now += int(self._each * SECOND * -(-n // wave.connections))
        said = [self._says(wave, entity, int(row), int(self.truth[entity][row])) for row in wave.subject]
        none = np.zeros(n, dtype=np.int64)
        bodies = [json.dumps({FIELD[entity]: value}).encode() for value in said]
        return Result(none, none, np.full(n, 200, np.int16), none.astype(np.uint8), bodies)

    insist = send


def settled(shop: Shop, convergence: float = 10.0) -> bool:
    counter: Any = shop
    said: list[str] = []
    live = Live(shop.record, counter, Limits(convergence=convergence), 1, 0, {PHASE: 1.0}, said.append)
    return settle(live, PHASE, "audit")


def test_a_right_system_settles_at_once_after_a_second_look() -> None:
    """The first pair, two seconds apart, is accepted. Between its snapshots each id was read alone."""
    lone: list[tuple[Entity, int]] = []

    def says(wave: Wave, entity: Entity, row: int, value: int) -> int:
        if wave.connections == 1:
            lone.append((entity, row))
        return value

    shop = Shop(says)
    assert settled(shop) and violations(shop.record, PHASE) == []
    first, second = (s for s in shop.record.snapshots_taken if s["name"].endswith("of the pair"))
    assert 2.0 <= (second["begin"] - first["end"]) / SECOND < 2.5
    assert set(lone) == {(e, int(row)) for e in Entity for row in shop.record.shot(0).read[e][0]}
    assert shop.hung_up > 0


def test_a_stale_worker_that_bursts_never_reach_is_found() -> None:
    """One worker answers bursts. Another one, with stale state, answers single requests."""
    old = 7
    stale = Shop(lambda wave, entity, row, value: value * (wave.connections == CLOSED or (entity, row) != (0, old)))
    assert not settled(stale)
    assert ("ok_not_paid", old) in {(v.rule, v.order) for v in violations(stale.record, PHASE)}


def test_stale_answers_that_end_within_the_limit_are_accepted() -> None:
    """Single requests get an old value for five seconds. The phase settles after that without a violation."""
    shop: Shop
    shop = Shop(lambda wave, entity, row, value: value * (wave.connections == CLOSED or shop.now() > 105 * SECOND))
    assert settled(shop) and violations(shop.record, PHASE) == []
    assert shop.now() < 110 * SECOND


def test_a_second_look_at_a_slow_system_ends_with_the_time_for_it() -> None:
    """With reads of half a second the second look ends early, and the pair takes little longer."""
    shop = Shop(lambda wave, entity, row, value: value, each=0.5)
    began = shop.now()
    assert settled(shop)
    bursts = 2 * sum(-(-len(shop.record.shot(0).read[entity][0]) // CLOSED) for entity in Entity)
    assert (shop.now() - began) / SECOND < bursts * 0.5 + 2.0 + 8 * 0.5


def test_after_a_failed_phase_waiting_ends_with_the_run() -> None:
    """A phase that never settles waits until the limit; after a failed phase, until the time of the run."""
    shop = Shop(lambda wave, entity, row, value: 0)
    began = shop.now()
    assert not settled(shop, 60.0) and shop.now() - began >= 60 * SECOND
    counter: Any = shop
    for budget, most in ((shop.now() / SECOND + 20, 25), (0.0, 10)):
        again = shop.now()
        limits = Limits(convergence=60.0, budget=budget)
        assert not settle(Live(shop.record, counter, limits, 1, 0, {PHASE: 1.0}, lambda said: None), PHASE, "audit")
        assert 4 <= (shop.now() - again) / SECOND < most


@pytest.mark.parametrize(
    ("answer", "moves", "back", "good", "seconds"),
    [
        (Status.TIMEOUT, False, 135, True, 35),  # an order without an answer, completed by a timer of 35 s
        (Status.TIMEOUT, False, 10**6, False, 60),
        (200, True, 10**6, False, 60),
        (200, False, 10**6, False, 20),
    ],
)
def test_without_convergence_quick_waits_for_effects_that_are_under_way(
    answer: int, moves: bool, back: int, good: bool, seconds: int
) -> None:
    """It waits for a minute while values change or an order without an answer is wrong, otherwise for 20 s."""
    order = 7

    def says(wave: Wave, entity: Entity, row: int, value: int) -> int:
        if shop.now() > back * SECOND:
            return value
        if moves and (entity, row) == (Entity.USER, 0):
            return value + shop.now() // SECOND
        return value * ((entity, row) != (Entity.ORDER, order))

    shop: Any
    shop = Shop(says)
    tries = (shop.record.history["kind"] == Kind.CHECKOUT) & (shop.record.history["subject"] == order)
    shop.record.history["status"][tries] = answer
    began, limits = shop.now(), Limits(convergence=60.0, still=20.0)
    live = Live(shop.record, shop, limits, 1, 0, {PHASE: 1.0}, lambda said: None)
    assert settle(live, PHASE, "audit") is good
    assert seconds <= (shop.now() - began) / SECOND < seconds + 8


@pytest.mark.parametrize(("back", "seconds", "waves"), [(101, 1, 9), (10**6, 2, 12)])
def test_a_snapshot_repeats_all_lost_reads_together(back: int, seconds: int, waves: int) -> None:
    """Lost orders, users and items are repeated together, four times in all."""

    class Away(Shop):
        def insist(self, wave: Wave) -> Result:
            found = self.send(wave)
            if self.now() < back * SECOND:
                found.status[wave.subject % 2 == 0] = 503
            return found

    shop: Any = Away(lambda wave, entity, row, value: value, each=0.0)
    before = len(shop.record.waves)
    shot = snapshot(shop, PHASE, "audit")
    assert shop.now() == (100 + seconds) * SECOND and len(shop.record.waves) - before == waves
    for entity, (rows, states, values) in shot.read.items():
        read = states == State.READ
        assert (read == (rows % 2 == 1)).all() if seconds == 2 else read.all()
        assert all(shop.truth[entity][row] == value for row, value in zip(rows[read], values[read], strict=True))


def test_the_last_snapshot_waits_for_a_restart() -> None:
    """The last snapshot is repeated while reads are lost. A system that stays dead is a change."""

    class Away(Shop):
        until = 104 * SECOND

        def send(self, wave: Wave) -> Result:
            found = super().send(wave)
            found.status[:] = 503 if self.now() < self.until else 200
            return found

        insist = send

    for until, lost in ((104 * SECOND, False), (10**6 * SECOND, True)):
        shop: Any = Away(lambda wave, entity, row, value: value)
        shop.until = until
        live = Live(shop.record, shop, Limits(convergence=20.0), 1, 0, {PHASE: 1.0}, lambda said: None)
        shot = shop.record.shot(settle_all(live))
        assert any((states == State.LOST).any() for _, states, _ in shot.read.values()) is lost
        assert shop.now() < 130 * SECOND
