"""The faults of a run and their order, and what happens to a fault that hit nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from records import right

from grader.orders import BLOCK, COLD_PRICE, SIDE
from grader.phases import faults
from grader.phases.faults import KILL, PAUSE, Fault
from grader.phases.goods import among
from grader.phases.live import Live
from grader.record.notes import Faults
from grader.terms import Entity, Limits
from grader.verdict.violations import violations
from grader.wire.jobs import Result, Word


def bare(monkeypatch: pytest.MonkeyPatch, **fakes: Any) -> None:
    """Replace what needs a system: everything is set up, answered, paid and settled, unless ``fakes`` say otherwise."""
    usual = {"_calm": 0.01, "_median": 0.02, "_again": None, "_alive": True, "_sells": [], "settle": True}
    for name, result in usual.items():
        monkeypatch.setattr(faults, name, fakes.get(name, lambda *of, result=result: result))
    monkeypatch.setattr(faults, "_strike", fakes["_strike"])
    monkeypatch.setattr(faults, "_short", fakes["_short"])
    monkeypatch.setattr(faults, "stocked", lambda *of: (fakes["stock"], None, 1))


def live_of(seconds: float = 4.0, counter: Any = None, services: Any = None, **limits: float) -> Live:
    """A run with a record of this phase alone."""
    return Live(right(("faults",)), counter, Limits(**limits), 1, 0, {"faults": seconds}, lambda step: None, services)  # type: ignore[arg-type]


def test_a_kill_that_came_after_its_burst_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill that missed its burst is repeated once with new orders, a pause is not. Neither counts as left out."""
    under_way = {"a": [0, 12], "b": [0, 0], "everything": [36]}
    struck: list[Fault] = []

    def strike(live: Live, fault: Fault, orders: np.ndarray, delay: float) -> tuple[Any, int]:
        struck.append(fault)
        return SimpleNamespace(status=np.full(len(orders), 200)), under_way[fault.service].pop(
            0
        ) if fault.what == KILL else 0

    stock = SimpleNamespace(orders=np.zeros(99 * BLOCK, dtype=np.int64), seconds=0.1)
    short = lambda live, many, each: np.zeros((many, 4), dtype=np.int64)  # noqa: E731
    bare(monkeypatch, stock=stock, _strike=strike, _short=short)
    live = live_of(services=SimpleNamespace(names=["a", "b"], can_pause=True))
    faults.run(live)
    kills = [(KILL, "a"), (KILL, "a"), (KILL, "b"), (KILL, "b"), (KILL, "everything")]
    # 4 s leave room for eight blocks.
    assert [(fault.what, fault.service) for fault in struck] == [
        *kills,
        (PAUSE, "a"),
        (PAUSE, "b"),
        (faults.ANSWERED, "a"),
    ]
    assert [fault.under_way for fault in live.notes(Faults).faults][:5] == [0, 12, 0, 0, 36]
    assert len(live.notes(Faults).left_out) == len(faults.plan(["a", "b"], True)) - 6


def test_every_burst_has_orders_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each burst has two orders without credit and two without stock, so that a kill hits an undo."""
    made: list[dict[str, Any]] = []

    def own(live: Live, phase: str, count: int, **how: Any) -> np.ndarray:
        made.append(how)
        return np.arange(count) + 100 * len(made)

    monkeypatch.setattr(faults, "own", own)
    live: Any = None
    short = faults._short(live, 3, 4)
    assert short.tolist() == [[100, 101, 200, 201], [102, 103, 202, 203], [104, 105, 204, 205]]
    assert [sorted(how.keys() - {"numbers"}) for how in made] == [["credit"], ["stock"]]
    numbers = np.concatenate([how["numbers"] for how in made])
    assert len(set(numbers.tolist())) == 12 and numbers.min() >= 500_000
    assert among(np.arange(8), short[0]).tolist() == [100, 0, 1, 101, 2, 3, 200, 4, 5, 201, 6, 7]
    assert among(np.arange(2), short[0, :0]).tolist() == [0, 1]
    assert faults._short(live, 2, 2).tolist() == [[300, 400], [301, 401]], "on a slow system"


@pytest.mark.parametrize(
    ("clean", "said"), [(True, ["strike", "settle", "again 31", "settle"]), (False, ["strike", "settle"])]
)
def test_the_phase_settles_before_and_after_the_last_retries(
    monkeypatch: pytest.MonkeyPatch, clean: bool, said: list[str]
) -> None:
    """Otherwise a saga that resumes only with the next checkout of its order would pass."""
    heard: list[str] = []
    usable = np.arange(BLOCK) % (BLOCK - 1)
    stock = SimpleNamespace(orders=usable, seconds=1.0)

    def strike(live: Live, fault: Fault, orders: np.ndarray, delay: float) -> tuple[Any, int]:
        assert orders.tolist().count(35) == 4, "those that must be refused"
        heard.append("strike")
        return SimpleNamespace(status=np.full(len(orders), 503)), BLOCK

    def settle(live: Live, *of: Any) -> bool:
        heard.append("settle")
        live.notes(Faults).settled_s = 5.0 / heard.count("settle")
        return clean

    bare(
        monkeypatch, stock=stock, _strike=strike, settle=settle, _sells=lambda *of: usable[:18],
        _short=lambda live, many, each: np.full((many, each), 35),
        _again=lambda live, orders, status: heard.append(f"again {len(orders)}"),
    )  # fmt: skip
    live = live_of(5.0, services=SimpleNamespace(names=["a"], can_pause=False))
    faults.run(live)
    assert heard == ["strike", "again 27", *said]
    assert live.notes(Faults).settled_s == 5.0, "the longer one is how long it took to converge"


def test_top_ups_come_right_before_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lazy write is then lost for users and items that exist already."""
    heard = list[Any]()
    stock = SimpleNamespace(orders=np.arange(BLOCK), users=np.arange(6), items=np.arange(6))
    monkeypatch.setattr(faults, "stock_blocks", lambda *of: (stock, None))
    monkeypatch.setattr(faults, "top_up_at_once", lambda counter, wave, added: heard.append(wave.subject.tolist()))
    monkeypatch.setattr(faults, "_kill", lambda *of: heard.append("kill"))
    live = live_of(counter=SimpleNamespace(send=lambda wave: SimpleNamespace(status=np.full(18, 200))))
    live.record.users["ready"][2] = 0
    assert faults._sells(live, ["a"], 1, np.zeros(0, dtype=np.int64)).tolist() == list(range(18, 36))
    assert heard == [[0, 1, 3, 4, 5, 0, 1, 2, 3, 4, 5], "kill"]


@pytest.mark.parametrize(("what", "times"), [(PAUSE, 2), (KILL, 1)])
def test_in_a_pause_each_checkout_is_sent_once_more(what: str, times: int) -> None:
    """The repetition comes after one to two thirds of the pause. The answers are those of the first checkouts."""
    now, waves, orders = [0.0], list[Any](), np.arange(BLOCK)

    def wait(seconds: float) -> None:
        now[0] += max(0.0, seconds)

    def poll(seconds: float, tend: bool = True) -> Any:
        wait(seconds)
        none = np.zeros(BLOCK * times, dtype=np.int64)
        status = np.repeat(np.array([200, 409], np.int16)[:times], BLOCK)
        return Result(none, none, status, none.astype(np.uint8)) if now[0] > 3 else Word(BLOCK, 0, 0)

    names = ("aim", "freeze", "pause", "resume", "kill", "restart", "wait_ready")
    services: Any = SimpleNamespace(names=["a"], **dict.fromkeys(names, lambda *of: None))
    counter: Any = SimpleNamespace(
        now=lambda: int(now[0] * 1e9), begin=lambda wave, **how: waves.append(wave), poll=poll, wait=wait
    )
    live = live_of(counter=counter, services=services)
    live.clock = lambda: now[0]  # type: ignore[method-assign]
    answers, _ = faults._strike(live, Fault(what, "a"), orders, 0.0)
    (wave,) = waves
    assert answers.status.tolist() == [200] * BLOCK and wave.subject.tolist() == orders.tolist() * times
    assert not wave.due[:BLOCK].any() and (np.diff(wave.due) >= 0).all() and len(wave.middles) == BLOCK * times
    assert wave.due[-1] == (2e9 if times == 2 else 0)


@pytest.mark.parametrize("entity", [Entity.USER, Entity.ITEM])
def test_a_lost_top_up_names_no_order(entity: Entity) -> None:
    """A smaller amount would look like one more effect of an order."""
    record = right(("faults",))
    amount = faults._MORE * (COLD_PRICE if entity == Entity.USER else 1)
    record.funds.append(kind=int(entity), subject=np.array([2]), amount=amount, at=2)
    found = violations(record, "faults")
    assert found and {v.rule for v in found} == {"charged_times" if entity == Entity.USER else "taken_times"}
    assert all(not v.label and len(v.candidates) == SIDE for v in found), found


@pytest.mark.parametrize(("broken", "alive"), [(0, True), (200, True), (10**9, False)])
def test_a_pool_of_broken_connections_recovers(broken: int, alive: bool) -> None:
    """A system that answers 503 once for each broken connection counts as alive; a dead one does not."""
    now, left = [0.0], [broken]

    def send(wave: Any) -> Any:
        now[0] += 0.01
        dead = min(left[0], len(wave.subject))
        left[0] -= dead
        return SimpleNamespace(status=np.array([503] * dead + [200] * (len(wave.subject) - dead)))

    def wait(seconds: float) -> None:
        now[0] += seconds

    live = live_of(counter=SimpleNamespace(send=send, wait=wait, now=lambda: int(now[0] * 1e9)), convergence=20.0)
    live.clock = lambda: now[0]  # type: ignore[method-assign]
    assert faults._alive(live, np.arange(4)) is alive
    assert alive or 20 < now[0] < 21
