"""Phase 1 against simulated systems: one that hangs, and one whose reads lag behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from fake_system import FakeSystem, Twist

from grader.phases import contract
from grader.phases.live import Live
from grader.record import Exchange, Record
from grader.report.groups import exchange
from grader.shop import Wave
from grader.terms import Kind, Limits, Status
from grader.verdict.special import special
from grader.wire.jobs import Result


class Counter:
    """Every request times out, except those with some titles, which get a 400."""

    def __init__(self, answered: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self._answered = answered

    def send(self, wave: Wave) -> Result:
        self.asked.append(wave.name)
        none = np.zeros(1, dtype=np.int64)
        status = 400 if wave.name in self._answered else Status.TIMEOUT
        return Result(none, none, np.array([status], np.int16), none.astype(np.uint8), [b""])

    insist = send


class Loses(FakeSystem):
    """Applies the concurrent changes of one kind once more than it shows at first."""

    def __init__(self, kind: Kind, behind: float) -> None:
        super().__init__(behind=behind or 1e-9)
        self._loses = kind

    def send(self, wave: Wave) -> Result:
        answers = super().send(wave)
        if wave.kind == self._loses and len(wave.middles) > 1:
            before = self.state()
            self.do(wave.kind, wave.middles[0].decode().split("/"))
            self.states.append((self.now, before))
        return answers


class FreeOnes(FakeSystem):
    """A system that charges nothing for its batch orders."""

    def apply(self, wants: list[tuple[str, int]]) -> None:
        super().apply([(name, 0 if name == "u9" else amount) for name, amount in wants])


def asked(counter: Any, limits: Limits = Limits()) -> Live:  # noqa: B008
    live = Live(Record(), counter, limits, 1, 0, {"contract": 5.0}, lambda said: None, None)
    if isinstance(counter, FakeSystem):
        live.clock = lambda: counter.now  # type: ignore[method-assign]
    contract.run(live)
    return live


def exchanges(counter: Any, limits: Limits = Limits()) -> list[Exchange]:  # noqa: B008
    return asked(counter, limits).record.exchanges


@pytest.mark.parametrize("lost", ["", "u0", "i29", "u9", "un70", "in71"])
def test_right_reads_are_repeated_at_the_end_of_the_run(lost: str) -> None:
    """A batch value, a payment or a subtraction that changes by itself is found at the end of the run."""
    shop = FakeSystem()
    live = asked(shop, Limits(convergence=0.05))
    before = len(live.record.exchanges)
    if lost:
        shop.amounts[lost] += 1
    for once_more in live.at_the_end:
        once_more()
    found = live.record.exchanges[before:]
    assert len(found) >= 12 and all(one.title.endswith("at the end of the run") for one in found)
    wrong = [one.request for one in found if not one.agreed]
    assert len(wrong) == bool(lost) and all(lost[1:] in one for one in wrong), wrong


def field(name: str, form: Callable[[Any], Any]) -> Twist:
    """A mistake in the form of one field."""

    def twist(kind: Kind, words: list[str], right: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        status, body = right()
        return status, {**body, name: form(body[name])} if name in body else body

    return twist


def answers(route: Kind, status: int, wrong: str = "") -> Twist:
    """A route that does nothing and answers with a status; with ``wrong``, only if it is among the arguments."""
    return lambda kind, words, right: (status, {}) if kind == route and (not wrong or wrong in words) else right()


@pytest.mark.parametrize("behind", [0.0, 3.0])
@pytest.mark.parametrize(
    ("twist", "got"),
    [
        (field("items", lambda lines: [line[0] for line in lines]), 'which is not a list of lines like ["item id", 2]'),
        (field("paid", int), "paid is 0, which is not true or false"),
        (field("total_cost", float), ".0, which is not a whole number"),
        (field("credit", str), 'credit is "500", which is not a whole number'),
        (field("order_id", lambda one: None), "order_id is null, which is not an id"),
    ],
    ids=["items", "paid", "total_cost", "credit", "order_id"],
)
def test_a_wrong_form_is_found_in_a_slow_system_and_reported_once(twist: Twist, got: str, behind: float) -> None:
    """Neither slow answers nor lagging reads excuse a form. Later questions do not report it again."""
    live = asked(FakeSystem(twist, behind), Limits(convergence=20.0))
    found, *more = special(live.record, "contract", set())
    assert not more, more
    assert found.rule == "contract" and got in found.detail, found.detail


@pytest.mark.parametrize(
    ("twist", "titles"),
    [
        (answers(Kind.CHECKOUT, 500), ["check out an order from batch_init", "check out the order"]),
        (answers(Kind.PAY, 404), ["pay"]),
        (answers(Kind.ADD_ITEM, 200, "no-such-item"), ["add a line with an unknown item"]),
        (answers(Kind.BATCH_USERS, 404), ["create users with batch_init"]),
        (answers(Kind.SUBTRACT, 500), ["subtract stock"]),
    ],
    ids=["checkout", "pay", "unknown item", "batch_init", "subtract"],
)
def test_one_wrong_route_is_not_reported_by_other_routes(twist: Twist, titles: list[str]) -> None:
    """Questions that depend on a wrong answer are not asked, or are asked with new things."""
    found = special(asked(FakeSystem(twist), Limits(convergence=20.0)).record, "contract", set())
    assert [v.detail.partition(":")[0] for v in found] == titles


def credits(added: Iterable[int]) -> Twist:
    """Reads of a user of batch_init are wrong by these amounts, one after the other."""
    more, ticks = iter(added), itertools.count()

    def twist(kind: Kind, words: list[str], right: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        status, body = right()
        mine = (kind, words) == (Kind.FIND_USER, ["29"])
        return status, {"credit": 500 + next(more), "at": next(ticks)} if mine else body

    return twist


def often(*answers: tuple[int, int]) -> str:
    return ", ".join(f'{times} x answered 200 {{"credit": {credit}}}' for times, credit in answers)


@pytest.mark.parametrize(
    ("added", "differs"),
    [
        (itertools.cycle([1, 2]), often((25, 501), (24, 502))),
        (itertools.repeat(1), ""),
        (itertools.count(1), often(*((1, 500 + n) for n in range(1, 5))) + ", and 45 others"),
    ],
    ids=["two", "one", "many"],
)
def test_different_answers_to_one_read_are_counted(added: Iterable[int], differs: str) -> None:
    """If a read stays wrong, the record and the reports say how often each answer came. Other fields do not count."""
    live = asked(FakeSystem(credits(added)), Limits(convergence=10.0))
    (wrong,) = [one for one in live.record.exchanges if not one.agreed]
    (found,) = special(live.record, "contract", set())
    assert wrong.differs == differs and found.detail.endswith(differs)
    assert ("; its answers differ: " in found.detail) == ("All answers" in exchange(live.record)) == bool(differs)


@pytest.mark.parametrize(
    ("added", "agreed", "differs"),
    [
        ([3, 0, *[3] * 99], False, often((26, 503), (1, 500))),
        ([0, *[3] * 99], False, ""),
        ([3, 0, 0], True, ""),
    ],
    ids=["wrong, right and wrong", "right and wrong", "wrong and right"],
)
def test_a_read_that_is_wrong_again_at_the_end_says_so(added: list[int], agreed: bool, differs: str) -> None:
    """A right answer between wrong ones counts as different. A value that only changes, or only lags, does not."""
    live = asked(FakeSystem(credits(added)), Limits(convergence=5.0))
    (once_more,) = live.at_the_end
    once_more()
    *_, again = (one for one in live.record.exchanges if one.request.endswith("/find_user/29"))
    assert (again.agreed, again.differs) == (agreed, differs)


def test_an_order_of_many_can_be_checked_out_and_is_charged() -> None:
    found = exchanges(FreeOnes(), Limits(convergence=0.0))
    assert [one.title for one in found if not one.agreed] == ["the user of that order was charged"]


@pytest.mark.parametrize("behind", [0.0, 1.0, 3.0, 15.0, 19.0])
def test_reads_may_come_from_a_model_that_follows(behind: float) -> None:
    """Reads may lag. Those without time to wait are repeated at the end, or dropped if their thing has changed."""
    counter = FakeSystem(behind=behind)
    found = exchanges(counter, Limits(convergence=20.0))
    assert not [one for one in found if not one.agreed and one.asked]
    judged = sum(one.agreed for one in found)
    assert judged >= 50 and counter.now < 45, (judged, counter.now)


@pytest.mark.parametrize("behind", [0.0, 3.0, 30.0])
def test_reads_that_follow_hide_nothing(behind: float) -> None:
    """A value that stays wrong is found, with or without time to wait for each read."""
    found = exchanges(Loses(Kind.ADD_FUNDS, behind), Limits(convergence=20.0))
    wrong = [one.title for one in found if not one.agreed and one.asked]
    assert any(title.startswith("credit after") for title in wrong), wrong


def test_a_system_that_hangs_is_not_asked_everything() -> None:
    """After four timeouts in a row nothing more is asked, and the record says so. An answer resets the count."""
    silent = Counter()
    found = exchanges(silent)
    sent = [one for one in found if one.asked]
    assert len(silent.asked) == len(sent) == 4 and len(found) > 60 and not any(one.agreed for one in found)
    asked_last = found.index(sent[-1])
    assert {one.got for one in found[asked_last + 1 :]} == {"not sent: the system does not answer"}
    seldom = Counter(("create orders with batch_init",))
    exchanges(seldom, Limits(convergence=0.0))
    assert len(seldom.asked) == 7
