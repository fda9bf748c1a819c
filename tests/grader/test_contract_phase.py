"""Phase 1 against simulated systems: one that hangs, and one whose reads lag behind."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

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


class Shop:
    """A right system in a few lines. Each read keeps returning an old value for some more reads."""

    def __init__(self, lag: int) -> None:
        self._lag, self._kept = lag, dict[tuple[Kind, str], list[Any]]()
        self._amounts, self._prices, self._orders = dict[str, int](), dict[str, int](), dict[str, dict[str, Any]]()

    def send(self, wave: Wave) -> Result:
        none = np.zeros(len(wave.middles), dtype=np.int64)
        said = [self._say(wave.kind, end.decode().split("/")) for end in wave.middles]
        status = np.array([code for code, _ in said], np.int16)
        return Result(none, none, status, none.astype(np.uint8), [json.dumps(body).encode() for _, body in said])

    def insist(self, wave: Wave) -> Result:
        return self.send(wave)

    def wait(self, seconds: float) -> None:
        pass

    def _say(self, kind: Kind, words: list[str]) -> tuple[int, Any]:
        read = kind in (Kind.FIND_ORDER, Kind.FIND_USER, Kind.FIND_ITEM)
        kept = self._kept.get((kind, words[0]))
        if read and kept and kept[0] < self._lag:
            kept[0] += 1
            return 200, kept[1]
        try:
            body = self._do(kind, words)
        except (KeyError, ValueError) as error:
            return 404, {"error": str(error)}
        if read:
            self._kept[kind, words[0]] = [0, body]
        return 200, body

    def _do(self, kind: Kind, words: list[str]) -> Any:
        amounts, orders, new = self._amounts, self._orders, f"n{len(self._amounts) + len(self._orders)}"
        if kind in (Kind.BATCH_USERS, Kind.BATCH_ITEMS):
            many = [f"{'u' if kind == Kind.BATCH_USERS else 'i'}{n}" for n in range(int(words[0]))]
            amounts.update(dict.fromkeys(many, int(words[1])))
            self._prices.update(dict.fromkeys(many, int(words[-1])))
        elif kind == Kind.BATCH_ORDERS:
            for n in range(int(words[0])):
                orders[str(n)] = {"user": str(n), "lines": [[str(n), 1, int(words[3])]], "paid": False}
        elif kind in (Kind.CREATE_USER, Kind.CREATE_ITEM):
            of, field = ("u", "user_id") if kind == Kind.CREATE_USER else ("i", "item_id")
            amounts[of + new], self._prices[of + new] = 0, int(words[0] or 0)
            return {field: new}
        elif kind == Kind.CREATE_ORDER:
            orders[new] = {"user": words[0], "lines": [], "paid": False}
            return {"order_id": new}
        elif kind == Kind.ADD_ITEM:
            orders[words[0]]["lines"].append([words[1], int(words[2]), self._prices["i" + words[1]]])
        elif kind == Kind.FIND_ORDER:
            order = orders[words[0]]
            items, cost = [line[:2] for line in order["lines"]], sum(q * price for _, q, price in order["lines"])
            return {"items": items, "paid": order["paid"], "user_id": order["user"], "total_cost": cost}
        elif kind == Kind.FIND_USER:
            return {"credit": amounts["u" + words[0]]}
        elif kind == Kind.FIND_ITEM:
            return {"stock": amounts["i" + words[0]], "price": self._prices["i" + words[0]]}
        elif kind == Kind.CHECKOUT:
            order = orders[words[0]]
            if not order["paid"]:
                cost = sum(q * price for _, q, price in order["lines"])
                self._change([("u" + order["user"], -cost), *(("i" + item, -q) for item, q, _ in order["lines"])])
                order["paid"] = True
        else:
            of = "u" if kind in (Kind.ADD_FUNDS, Kind.PAY) else "i"
            sign = 1 if kind in (Kind.ADD_FUNDS, Kind.ADD_STOCK) else -1
            self._change([(of + words[0], sign * int(words[1]))])
        return {}

    def _change(self, wants: list[tuple[str, int]]) -> None:
        after = dict[str, int]()
        for name, amount in wants:
            after[name] = after.get(name, self._amounts[name]) + amount
        if min(after.values()) < 0:
            raise ValueError("not enough")
        self._amounts.update(after)


class ReadModel(Shop):
    """The same with a clock; reads lag ``behind`` seconds. ``loses``: one concurrent change is lost."""

    def __init__(self, behind: float, loses: Kind | None = None) -> None:
        super().__init__(0)
        self.now, self._behind, self._loses = 0.0, behind, loses
        self._states: list[tuple[float, Any]] = []

    def send(self, wave: Wave) -> Result:
        self.now += 0.01
        if wave.kind == self._loses and len(wave.middles) > 1:
            answers, before = super().send(wave), self._state()
            (end, *_) = wave.middles
            self._do(wave.kind, end.decode().split("/"))  # as many as were acknowledged, and one more
            self._states.append((self.now, before))
            return answers
        return super().send(wave)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def _state(self) -> Any:
        return copy.deepcopy((self._amounts, self._prices, self._orders))

    def _say(self, kind: Kind, words: list[str]) -> tuple[int, Any]:
        if kind not in (Kind.FIND_ORDER, Kind.FIND_USER, Kind.FIND_ITEM):
            said = super()._say(kind, words)
            self._states.append((self.now, self._state()))
            return said
        new = self._amounts, self._prices, self._orders
        seen = [state for at, state in self._states if at <= self.now - self._behind] or [({}, {}, {})]
        self._amounts, self._prices, self._orders = seen[-1]
        said = super()._say(kind, words)
        self._amounts, self._prices, self._orders = new
        return said


Twist = Callable[[Kind, list[str], Callable[[], tuple[int, Any]]], tuple[int, Any]]


class Twisted(ReadModel):
    """The same with one mistake: ``twist`` gets a request and a function that answers it right, and answers."""

    def __init__(self, twist: Twist, behind: float = 0.0) -> None:
        super().__init__(behind)
        self._twist = twist

    def send(self, wave: Wave) -> Result:
        if wave.kind in (Kind.BATCH_USERS, Kind.BATCH_ITEMS, Kind.BATCH_ORDERS):
            self.now += 0.3  # a slow answer is no lag
        return super().send(wave)

    def _say(self, kind: Kind, words: list[str]) -> tuple[int, Any]:
        return self._twist(kind, words, lambda: super(Twisted, self)._say(kind, words))


class FreeOnes(Shop):
    """A system that charges nothing for its batch orders."""

    def _change(self, wants: list[tuple[str, int]]) -> None:
        super()._change([(name, 0 if name == "u9" else amount) for name, amount in wants])


def asked(counter: Any, limits: Limits = Limits()) -> Live:  # noqa: B008
    live = Live(Record(), counter, limits, 1, 0, {"contract": 5.0}, lambda said: None, None)
    if isinstance(counter, ReadModel):
        live.clock = lambda: counter.now  # type: ignore[method-assign]
    contract.run(live)
    return live


def exchanges(counter: Any, limits: Limits = Limits()) -> list[Exchange]:  # noqa: B008
    return asked(counter, limits).record.exchanges


@pytest.mark.parametrize("lost", ["", "u0", "i29", "u9", "un70", "in71"])
def test_right_reads_are_repeated_at_the_end_of_the_run(lost: str) -> None:
    """A batch value, a payment or a subtraction that changes by itself is found at the end of the run."""
    shop = Shop(0)
    live = asked(shop, Limits(convergence=0.05))
    before = len(live.record.exchanges)
    if lost:
        shop._amounts[lost] += 1
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
    live = asked(Twisted(twist, behind), Limits(convergence=20.0))
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
    found = special(asked(Twisted(twist), Limits(convergence=20.0)).record, "contract", set())
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
    live = asked(Twisted(credits(added)), Limits(convergence=10.0))
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
    live = asked(Twisted(credits(added)), Limits(convergence=5.0))
    (once_more,) = live.at_the_end
    once_more()
    *_, again = (one for one in live.record.exchanges if one.request.endswith("/find_user/29"))
    assert (again.agreed, again.differs) == (agreed, differs)


def test_an_order_of_many_can_be_checked_out_and_is_charged() -> None:
    found = exchanges(FreeOnes(0), Limits(convergence=0.0))
    assert [one.title for one in found if not one.agreed] == ["the user of that order was charged"]


@pytest.mark.parametrize("behind", [0.0, 1.0, 3.0, 15.0, 19.0])
def test_reads_may_come_from_a_model_that_follows(behind: float) -> None:
    """Reads may lag. Those without time to wait are repeated at the end, or dropped if their thing has changed."""
    counter = ReadModel(behind)
    found = exchanges(counter, Limits(convergence=20.0))
    assert not [one for one in found if not one.agreed and one.asked]
    judged = sum(one.agreed for one in found)
    assert judged >= 50 and counter.now < 45, (judged, counter.now)


@pytest.mark.parametrize("behind", [0.0, 3.0, 30.0])
def test_reads_that_follow_hide_nothing(behind: float) -> None:
    """A value that stays wrong is found, with or without time to wait for each read."""
    found = exchanges(ReadModel(behind, Kind.ADD_FUNDS), Limits(convergence=20.0))
    wrong = [one.title for one in found if not one.agreed and one.asked]
    assert any(title.startswith("credit after") for title in wrong), wrong


@pytest.mark.parametrize(("lag", "seconds", "right"), [(0, 0.0, True), (3, 60.0, True), (10**9, 0.05, False)])
def test_answers_may_lag_behind_but_not_for_ever(lag: int, seconds: float, right: bool) -> None:
    """A wrong read is repeated until the convergence limit. If it stays wrong, it is reported."""
    found = exchanges(Shop(lag), Limits(convergence=seconds))
    assert all(one.agreed for one in found) == right, [one for one in found if not one.agreed]
    assert all(one.request.startswith("GET") for one in found if not one.agreed)


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
