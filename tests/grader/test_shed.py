"""Shed requests are sent again, and phases work with an incomplete setup."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_system import FakeSystem, http, in_memory
from hypothesis import given
from hypothesis import strategies as st
from records import SECOND, orders_of, right

from grader.phases import duplicates, goods, load, scarcity, speed
from grader.phases.live import Live
from grader.record.notes import Load, Scarcity, Speed
from grader.shop import Wave
from grader.shop.counter import Counter
from grader.terms import Entity, Kind, Limits, Status
from grader.verdict.figures import figures
from grader.wire.jobs import Result


class Shedding(Counter):
    """Accepts some requests of each wave, beginning with the last, and sheds the others."""

    def __init__(self, lets_in: int, says: int) -> None:
        super().__init__(right(()), None, None, Limits())  # type: ignore[arg-type]
        self.lets_in, self._says = lets_in, says
        self.waves: list[Wave] = []

    def send(self, wave: Wave) -> Result:
        self.waves.append(wave)
        n = len(wave.middles)
        status = np.full(n, self._says, np.int16)
        status[max(0, n - self.lets_in) :] = 200
        times = np.full(n, len(self.waves), dtype=np.int64)
        return Result(times.copy(), times, status, np.zeros(n, np.uint8), list(wave.middles), times.copy())

    def wait(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize("says", [429, int(Status.REFUSED)])
def test_shed_requests_are_sent_until_accepted(says: int) -> None:
    """Shed requests are repeated over fewer connections each time, and each keeps its own answer."""
    counter = Shedding(16, says)
    ends = [b"%d" % n for n in range(40)]
    found = counter.insist(Wave("load", "set-up", Kind.ADD_STOCK, np.arange(40), ends, connections=32, bodies=True))
    assert (found.status == 200).all() and found.bodies == ends
    assert [len(wave.middles) for wave in counter.waves] == [40, 24, 8]
    assert [wave.connections for wave in counter.waves] == [32, 16, 8]
    assert found.done.tolist() == [3] * 8 + [2] * 16 + [1] * 16


@pytest.mark.parametrize(("lets_in", "says", "waves"), [(0, 429, 15), (0, 503, 1), (0, int(Status.TIMEOUT), 1)])
def test_the_repetition_ends(lets_in: int, says: int, waves: int) -> None:
    """The repetition ends if none is accepted. A 5xx is not repeated, as it may have had its effect."""
    counter = Shedding(lets_in, says)
    found = counter.insist(Wave("load", "set-up", Kind.ADD_STOCK, np.arange(4), [b"x"] * 4))
    assert (found.status == says).all() and len(counter.waves) == waves


def test_a_dead_service_is_waited_for_once() -> None:
    """The wait for a dead service happens once, over all waves. After an accepted request the count starts again."""
    counter = Shedding(0, int(Status.REFUSED))

    def tries(kind: Kind, requests: int = 4) -> int:
        before = len(counter.waves)
        counter.insist(Wave("contract", "set-up", kind, np.arange(requests), [b"x"] * requests))
        return len(counter.waves) - before

    assert tries(Kind.ADD_STOCK) == 15
    assert [tries(Kind.FIND_ITEM), tries(Kind.ADD_STOCK), tries(Kind.SUBTRACT)] == [1, 1, 1]
    tries(Kind.ADD_STOCK, 0)  # a wave of nothing says nothing of it
    assert tries(Kind.ADD_STOCK) == 1
    assert tries(Kind.PAY) == 15, "another service has tries of its own"
    counter.lets_in = 1
    assert tries(Kind.FIND_ITEM) == 4
    counter.lets_in = 0
    assert tries(Kind.ADD_STOCK) == 1 and tries(Kind.FIND_ITEM) == 14, "to this kind nobody has been let in"


@given(st.lists(st.tuples(st.sampled_from(list(Kind)), st.integers(0, 3)), max_size=40), st.integers(0, 2))
def test_requests_have_a_limit_of_tries(asked: list[tuple[Kind, int]], lets_in: int) -> None:
    """If none is accepted, no kind sends more than fifteen waves, and later requests are sent once."""
    counter = Shedding(lets_in, 429)
    for kind, requests in asked:
        counter.insist(Wave("load", "set-up", kind, np.arange(requests), [b"x"] * requests))
    for kind in Kind:
        waves = [wave for wave in counter.waves if wave.kind == kind]
        mine = [requests for of, requests in asked if of == kind]
        most = sum(max(1, requests) for requests in mine) if lets_in else 14 * any(mine) + len(mine)
        assert len(waves) <= most


@pytest.mark.parametrize(
    ("done", "shed", "left"), [(700, 300, 50), (900, 100, 50), (640, 300, 20), (500, 300, 0), (997, 3, 3), (1000, 0, 0)]
)
def test_some_shed_requests_of_the_load_stay_unsent(done: int, shed: int, left: int) -> None:
    """Some shed requests of the load phase stay unsent, but never so many that too few would be done."""
    status = np.full(1000, 503, dtype=np.int16)
    status[:done], status[done : done + shed] = 200, 429
    turned_away = np.flatnonzero(status == 429)
    again = load.again(live_of("load", None, 5.0), status, turned_away)
    assert len(again) == shed - left and set(again) <= set(turned_away) and len(set(again)) == len(again)
    assert done + len(again) >= min(900, done + shed)


def live_of(phase: str, counter: Any, seconds: float) -> Live:
    return Live(right((phase,)), counter, Limits(), 1, 0, {phase: seconds}, lambda said: None)


@pytest.mark.parametrize(("ready", "tries", "stopped"), [([12], 1, False), ([7, 8], 2, False), ([0, 7, 7], 3, True)])
def test_scarcity_needs_twice_as_many_orders_as_are_sold(
    monkeypatch: pytest.MonkeyPatch, ready: list[int], tries: int, stopped: bool
) -> None:
    """The scarcity phase works with twice K orders, as some answers of the setup may be lost."""
    made: list[int] = []

    def make(live: Live, enough: int) -> Any:
        made.append(enough)
        return np.arange(3 * enough), Entity.ITEM, np.zeros(1, dtype=np.int64)

    usable = iter(ready)
    monkeypatch.setattr(scarcity, "_enough", lambda live: 4)
    monkeypatch.setattr(scarcity, "_by_stock", make)
    monkeypatch.setattr(scarcity, "ready", lambda live, orders: orders[: next(usable)])
    monkeypatch.setattr(scarcity, "_sell_out", lambda *of: False)
    waits: list[float] = []
    live = live_of("scarcity", SimpleNamespace(send=lambda wave: None, wait=waits.append), 5.0)
    scarcity.run(live)
    assert len(made) == tries and bool(live.notes(Scarcity).stopped) is stopped
    assert waits == [1.0] * (tries if stopped else tries - 1)


@pytest.mark.parametrize(("works", "tries"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_failed_blocks_are_replaced(monkeypatch: pytest.MonkeyPatch, works: int, tries: int) -> None:
    """Failed blocks are replaced by others, with new hot items, three times, a second apart."""
    made: list[tuple[int, int, int]] = []
    live = live_of("load", SimpleNamespace(wait=lambda seconds: waits.append(seconds)), 5.0)
    orders = orders_of(live.record, "load")
    waits: list[float] = []

    def stock_blocks(counter: Any, phase: str, seed: int, first: int, count: int, hot: np.ndarray) -> Any:
        made.append((first, count, len(hot)))
        live.record.orders["ready"][orders] = 0
        live.record.orders["ready"][orders[0]] = len(made) >= works  # one is enough to go on with
        return SimpleNamespace(orders=orders, number=len(made)), np.arange(3)

    monkeypatch.setattr(goods, "stock_blocks", stock_blocks)
    stock, hot, first = goods.stocked(live, "load", 4, 2, np.arange(3))
    assert stock.number == len(made) == tries and waits == [1.0] * (tries - 1)  # type: ignore[attr-defined]
    assert made == [(4 + 2 * n, 2, 0 if n else 3) for n in range(tries)] and first == 4 + 2 * tries and len(hot) == 3


def test_a_top_up_without_an_answer_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order whose top-up promised nothing may be refused, so it is not sent again.

    Nor is each fourth of the others: an effect that comes by itself, once there is enough, shows in them.
    """
    live = live_of("duplicates", None, 15.0)
    record, sent = live.record, dict[str, np.ndarray]()
    orders = orders_of(record, "duplicates")
    kinds = iter([*np.split(orders, 6), orders[:0]])
    item = np.array([record.lines["item"][record.lines["order"] == order][0] for order in orders])

    def top_up(counter: Any, phase: str, entity: Entity, rows: np.ndarray, amount: np.ndarray) -> None:
        record.rows(entity)["ready"][rows[:1]] = 0

    monkeypatch.setattr(duplicates, "own", lambda *of, **kind: next(kinds))
    monkeypatch.setattr(duplicates, "crossed", lambda *of: orders[:0])
    monkeypatch.setattr(duplicates, "ready", lambda live, orders: orders)
    monkeypatch.setattr(duplicates, "short_items", lambda live, some: item[np.searchsorted(orders, some)])
    monkeypatch.setattr(duplicates, "_send", lambda live, name, some, *of, **more: sent.update({name: some}))
    monkeypatch.setattr(duplicates, "settle", lambda *of: True)
    monkeypatch.setattr(duplicates, "top_up", top_up)
    duplicates.run(live)
    poor, scarce = sent["short"][:6], sent["short"][6:]
    users, again = record.orders["user"], set(sent["after top-up"].tolist())
    # In this record several orders have one user, and several one item.
    rich = [order for order in poor if users[order] != users[poor[0]]]
    there = [order for order, of in zip(scarce, item[np.searchsorted(orders, scarce)], strict=True) if of != item[24]]
    left = {some[n] for some in (rich, there) for n in range(3, len(some), 4)}
    assert again == {*rich, *there} - left and 0 < len(rich + there) < len(sent["short"]) and len(left) >= 2


def test_acknowledged_top_ups_during_checkouts_count() -> None:
    """Acknowledged top-ups count and refused ones do not. A user or item without an answer is no longer judged."""
    waves: list[Wave] = []

    def send(wave: Wave) -> Any:
        waves.append(wave)
        status = np.full(len(wave.middles), 200)
        status[np.flatnonzero(wave.kinds == Kind.ADD_FUNDS)[:2]] = 400, 429
        status[np.flatnonzero(wave.kinds == Kind.ADD_STOCK)[0]] = 503
        return SimpleNamespace(status=status, done=np.full(len(wave.middles), SECOND))

    live = live_of("duplicates", SimpleNamespace(send=send), 5.0)
    record = live.counter.record = live.record
    before = len(record.funds)
    order = int(orders_of(record, "duplicates")[0])
    duplicates._topped_up_meanwhile(live, np.array([order]))
    (wave,) = waves
    assert wave.kinds is not None and wave.kinds.tolist().count(Kind.CHECKOUT) == 1
    assert wave.subject[wave.kinds == Kind.CHECKOUT].tolist() == [order]
    first, second = record.lines["item"][record.lines["order"] == order]
    given = list(zip(record.funds["kind"][before:], record.funds["subject"][before:], strict=True))
    user = int(record.orders["user"][order])
    assert given == [(Entity.USER, user), *[(Entity.ITEM, item) for item in (second, first, second, first, second)]]
    assert (record.users["ready"][user], record.items["ready"][first], record.items["ready"][second]) == (1, 0, 1)


def test_scarcity_stops_after_a_top_up_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the top-up promised nothing, no more must be sold. The second half of the phase still runs."""
    asked: list[int] = []

    def sell_out(live: Live, by: str, orders: np.ndarray, enough: int) -> bool:
        asked.append(enough)
        return True

    live = live_of("scarcity", SimpleNamespace(send=lambda wave: None, wait=lambda seconds: None), 5.0)

    def top_up(counter: Any, phase: str, entity: Entity, rows: np.ndarray, amount: np.ndarray) -> None:
        live.record.rows(entity)["ready"][rows] = entity != Entity.ITEM

    for by, entity in (("_by_stock", Entity.ITEM), ("_by_credit", Entity.USER)):
        monkeypatch.setattr(scarcity, by, lambda live, k, e=entity: (np.arange(3 * k), e, np.zeros(1, dtype=np.int64)))
    monkeypatch.setattr(scarcity, "_enough", lambda live: 4)
    monkeypatch.setattr(scarcity, "ready", lambda live, orders: orders)
    monkeypatch.setattr(scarcity, "_sell_out", sell_out)
    monkeypatch.setattr(scarcity, "top_up", top_up)
    scarcity.run(live)
    assert asked == [4, 4, 6]


def test_a_slow_systems_steps_are_spread_over_their_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a block a second, orders are spread out: a system that sells 20 a second holds 15 to 20."""
    table = right(("speed",)).orders
    offered: list[float] = []

    def send(wave: Wave) -> Any:
        assert wave.due is not None
        n = len(wave.due)
        offered.append((n - 1) / max(float(wave.due[-1]) / 1e9, 1e-9))
        done = wave.due + (5_000_000_000 if offered[-1] > 20 else 10_000_000)
        return SimpleNamespace(status=np.full(n, 200), done=done, due=wave.due)

    live = Live(right(("speed",)), SimpleNamespace(send=send), Limits(), 1, 0, {"speed": 20.0}, lambda said: None)  # type: ignore[arg-type]
    live.record.about["probe"] = {"sustained_per_s": 20.0}
    stock = SimpleNamespace(orders=np.flatnonzero(table["phase"] == "speed"), seconds=0.01)
    monkeypatch.setattr(speed, "stocked", lambda *of: (stock, of[-1], 0))
    monkeypatch.setattr(speed, "settle", lambda *of: True)
    speed.run(live)
    steps = live.notes(Speed).steps
    assert steps[0].rate == 40 and live.notes(Speed).limit_found
    held = [step.rate for step, rate in zip(steps, offered, strict=True) if rate <= 20]
    assert 16 <= max(held) <= 20


@pytest.mark.parametrize(("each", "least", "most"), [(0.15, 40, 200), (0.0001, 600, 900)])
def test_a_system_with_one_thread_gets_fewer_orders(
    monkeypatch: pytest.MonkeyPatch, each: float, least: int, most: int
) -> None:
    """The number of orders depends on the time of 40 concurrent checkouts, not only on that of the setup."""
    now, sent = [0.0], []

    def own(live: Live, phase: str, count: int, **kind: Any) -> np.ndarray:
        now[0] += 0.01 * count
        return np.arange(count)

    def send(live: Live, name: str, orders: np.ndarray, times: int, attempt: int, gap: int = 0, **flags: bool) -> None:
        sent.append(len(orders) * times)
        now[0] += len(orders) * times * each

    monkeypatch.setattr(duplicates, "own", own)
    monkeypatch.setattr(duplicates, "crossed", lambda live, phase, pairs: np.arange(2 * pairs))
    monkeypatch.setattr(duplicates, "ready", lambda live, orders: orders)
    monkeypatch.setattr(duplicates, "_topped_up_meanwhile", lambda *of: None)
    monkeypatch.setattr(duplicates, "_send", send)
    monkeypatch.setattr(duplicates, "settle", lambda *of: False)
    live = live_of("duplicates", None, 15.0)
    live.clock = lambda: now[0]  # type: ignore[method-assign]
    duplicates.run(live)
    assert sent[0] == duplicates.AT_ONCE and least <= sum(sent) <= most


def test_the_figures_of_the_load_count_its_orders_once() -> None:
    """Neither the probe nor the checkouts that are sent again are offered, and the latter count as done again."""
    every = itertools.count(1)
    shed = lambda kind, raw: http(429, b"{}") if kind == Kind.CHECKOUT and next(every) % 5 == 0 else raw  # noqa: E731
    record = in_memory(FakeSystem(change=shed), ("load",))
    numbers = figures(record, "load")
    assert numbers["offered"] == record.notes(Load).orders and numbers["offered"] > numbers["done"]
    assert 0 < numbers["done_again"] <= numbers["shed"]


@pytest.mark.parametrize("stops", [False, True])
def test_what_must_still_be_right_is_asked_at_the_end_of_a_run(stops: bool) -> None:
    """Paid orders are checked out once more, and then the contract's reads are repeated, unless a phase had to stop."""
    dead = lambda kind, raw: http(500, b"{}") if stops and kind == Kind.CREATE_ORDER else raw  # noqa: E731
    record = in_memory(FakeSystem(change=dead), ("contract", "duplicates"))
    asked = [wave.name for wave in record.waves if wave.name == "at the end" or wave.name.endswith("end of the run")]
    assert asked[:1] == ["at the end"] * (not stops) and (len(asked) > 10) is not stops
    assert any(exchange.again for exchange in record.exchanges) is not stops
