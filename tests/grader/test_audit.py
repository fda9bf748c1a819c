"""The rule of acceptance against a search over all executions; the digits against orders with m effects."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.audit import FAIL, INDETERMINATE, OK, Finding, View, audit, clean, outcomes
from grader.audit.digits import read_stock
from grader.audit.outcomes import NONE
from grader.orders import COLD_PRICE, HOT_ITEMS, Blocks
from grader.orders.blocks import CREDIT, LEAST, MOST, OFFSET, STOCK
from grader.terms import Entity, State, Status

READ = int(State.READ)


def view(
    outcome: list[int], paid: list[int], owner: list[int], lines: list[tuple[int, int, int]],
    credit: tuple[list[int], list[int]], stock: tuple[list[int], list[int]],
) -> View:  # fmt: skip
    """A small instance in which everything was read, with price 1. ``credit`` and ``stock`` are (initial, read)."""
    orders, users, items = len(paid), len(credit[0]), len(stock[0])
    cost = [sum(quantity for order, _, quantity in lines if order == o) for o in range(orders)]
    long = lambda values: np.array(values, dtype=np.int64)  # noqa: E731
    yes = lambda n: np.ones(n, dtype=np.bool_)  # noqa: E731
    column = lambda at: long([line[at] for line in lines])  # noqa: E731
    return View(
        long(outcome), yes(orders), np.full(orders, READ), long(paid), long(cost), long(owner), np.full(orders, -1),
        column(0), column(1), column(2),
        yes(users), np.full(users, READ), long(credit[1]), long(credit[0]),
        yes(items), np.full(items, READ), long(stock[1]), long(stock[0]), np.ones(items, dtype=np.int64),
    )  # fmt: skip


def reachable(
    outcome: list[int], owner: list[int], lines: list[tuple[int, int, int]], credit: list[int], stock: list[int]
) -> set[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Every end state (paid, credit, stock) of a right system, found by trying all executions."""
    found = set()
    for sequence in permutations(range(len(outcome))):
        for chosen in range(1 << len(outcome)):
            money, goods, paid = list(credit), list(stock), [0] * len(outcome)
            for order in sequence:
                if not chosen >> order & 1:
                    continue
                for o, item, quantity in lines:
                    if o == order:
                        goods[item] -= quantity
                        money[owner[order]] -= quantity
                if min(*money, *goods, 0) < 0:
                    break
                paid[order] = 1
            else:
                if all(p or r != OK for p, r in zip(paid, outcome, strict=True)):
                    if not any(p and r in (FAIL, NONE) for p, r in zip(paid, outcome, strict=True)):
                        found.add((tuple(paid), tuple(money), tuple(goods)))
    return found


@given(st.data())
def test_accepts_exactly_what_a_right_system_can_end_in(data: st.DataObject) -> None:
    """Among all states near a small instance, the audit accepts exactly those that some execution reaches."""
    orders = data.draw(st.integers(1, 3))
    outcome = data.draw(st.lists(st.sampled_from([NONE, FAIL, INDETERMINATE, OK]), min_size=orders, max_size=orders))
    owner = data.draw(st.lists(st.integers(0, 1), min_size=orders, max_size=orders))
    lines = [(o, data.draw(st.integers(0, 1)), data.draw(st.integers(1, 2))) for o in range(orders) for _ in range(2)]
    credit = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=2))
    stock = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=2))
    right = reachable(outcome, owner, lines, credit, stock)
    end = st.lists(st.integers(-1, 6), min_size=2, max_size=2)
    tried = {
        (
            tuple(data.draw(st.lists(st.integers(0, 1), min_size=orders, max_size=orders))),
            tuple(data.draw(end)),
            tuple(data.draw(end)),
        )
        for _ in range(5)
    }
    for paid, money, goods in right | tried:
        judged = view(outcome, list(paid), owner, lines, (credit, list(money)), (stock, list(goods)))
        assert clean(judged) == ((paid, money, goods) in right)
        assert clean(judged) == (audit(judged) == [])


def test_who_alone_brought_a_balance_below_zero_is_named() -> None:
    """A wrong balance with one order names it. With several orders all of them are candidates."""
    judged = view([FAIL, FAIL, FAIL], [0, 0, 0], [0, 1, 1], [(0, 0, 3)], ([0, 0], [-3, -1]), ([2], [-1]))
    found = {(f.entity, f.subject): (f.order, f.candidates) for f in audit(judged) if f.rule == "negative"}
    assert found == {(Entity.USER, 0): (0, ()), (Entity.USER, 1): (-1, (1, 2)), (Entity.ITEM, 0): (0, ())}


def test_a_refusal_does_not_settle_an_earlier_attempt() -> None:
    """OK: any 2xx. FAIL: all are 4xx or unwritten. NONE: no attempt. INDETERMINATE: the rest. -1 is ignored."""
    attempts = {
        0: [400, Status.REFUSED, 429],
        1: [400, Status.TIMEOUT],
        2: [Status.RESET, 409, 201],
        3: [503, 400],
        4: [Status.DROPPED],
        5: [302],
        -1: [200],
    }
    rows = [(order, status) for order, statuses in attempts.items() for status in statuses]
    subject, status = np.array(rows).T
    expected = [FAIL, INDETERMINATE, OK, INDETERMINATE, FAIL, INDETERMINATE, NONE]
    assert outcomes(7, subject, status).tolist() == expected


@pytest.mark.parametrize("state", [State.LOST, State.MALFORMED, State.UNKNOWN])
@pytest.mark.parametrize("column", ["user_state", "item_state"])
def test_a_balance_that_cannot_be_read_is_not_accepted(column: str, state: State) -> None:
    """If a user or an item cannot be read, the snapshot is not clean, and the finding is unavailable."""
    known = view([OK], [1], [0], [(0, 0, 2)], ([10], [8]), ([5], [3]))
    assert clean(known) and audit(known) == []
    unread = replace(known, **{column: np.array([int(state)])})
    assert not clean(unread) and [found.rule for found in audit(unread)] == ["unavailable"]


@pytest.mark.parametrize("state", [State.LOST, State.MALFORMED, State.UNKNOWN])
def test_balances_of_an_order_that_cannot_be_read_are_not_judged(state: State) -> None:
    """It is unknown whether the order is paid, so what is missing from its user and its item breaks no rule."""
    known = view([OK, INDETERMINATE], [1, 0], [0, 0], [(0, 0, 2), (1, 0, 3)], ([10], [5]), ([10], [5]))
    assert {found.rule for found in audit(known)} == {"charged_times", "taken_times"}
    unread = replace(known, order_state=np.array([READ, int(state)]))
    assert not clean(unread) and [(found.rule, found.order) for found in audit(unread)] == [("unavailable", 1)]


@pytest.mark.parametrize("outcome", [FAIL, NONE])
def test_an_order_that_was_refused_or_never_sent_is_unpaid(outcome: int) -> None:
    """Such an order is paid, and its amounts add up: the snapshot is not clean."""
    paid = view([outcome], [1], [0], [(0, 0, 2)], ([10], [8]), ([5], [3]))
    assert not clean(paid) and [(found.rule, found.order) for found in audit(paid)] == [("refused_but_paid", 0)]


@pytest.mark.parametrize(
    ("lines", "read", "additions", "named", "said"),
    [
        ([4], 7, [10, 1, 1, 1], [], "2 additions of 1 to the stock, acknowledged, but missing"),
        ([4], 10, [10, 1, 1, 1], [], "one addition of 1 to the stock, applied twice"),
        ([4], 3, [10, 1, 1, 1], [], ""),
        ([2], 9, [10, 1, 1, 1], [0], "taken 2 times, should be once"),
        ([1, 1], 22, [12, 6], [0, 1], "one addition of 6 to the stock, applied twice"),
    ],
)
def test_a_lost_or_doubled_addition_is_named_and_no_order(
    lines: list[int], read: int, additions: list[int], named: list[int], said: str
) -> None:
    """A difference of exactly an acknowledged addition is called that. A multiple of the only order names the order."""
    orders, total = len(lines), sum(additions)
    bought = [(order, 0, quantity) for order, quantity in enumerate(lines)]
    amounts = {Entity.ITEM: (np.zeros(len(additions), np.int64), np.array(additions))}
    spent = [100] * orders, [100 - quantity for quantity in lines]
    known = view([OK] * orders, [1] * orders, list(range(orders)), bought, spent, ([total], [read]))
    (found,) = audit(replace(known, funds=amounts))
    assert found.rule == "taken_times" and said in found.detail, found.detail
    if said:
        assert {found.order, *found.candidates} - {-1} == set(named)
    else:
        assert found.order == 0 and "addition" not in found.detail


@pytest.mark.parametrize(
    ("lines", "paid", "read", "additions", "named"),
    [
        ([(0, 3), (0, 4)], [0], 0, [6], [0]),
        ([(0, 2), (1, 3)], [0, 1], 5, [8, 2], [0, 1]),
        ([(0, 2), (0, 3), (1, 1)], [1, 0], 9, [8, 3], [0, 1]),
    ],
    ids=["its first line was taken twice", "the other order kept its stock", "one of its lines was not taken"],
)
def test_an_order_that_explains_a_balance_goes_before_an_addition(
    lines: list[tuple[int, int]], paid: list[int], read: int, additions: list[int], named: list[int]
) -> None:
    """If lines of one order explain the whole difference, the detail does not guess an addition."""
    bought = [(order, 0, quantity) for order, quantity in lines]
    spent = [sum(q for order, _, q in bought if order == o) * yes for o, yes in enumerate(paid)]
    credit = [100] * len(paid), [100 - money for money in spent]
    outcome, owner = [OK if yes else FAIL for yes in paid], list(range(len(paid)))
    known = view(outcome, paid, owner, bought, credit, ([sum(additions)], [read]))
    amounts = {Entity.ITEM: (np.zeros(len(additions), np.int64), np.array(sorted(additions)))}
    (found,) = audit(replace(known, funds=amounts))
    assert "addition" not in found.detail and {found.order, *found.candidates} - {-1} == set(named)


def blocks_view(blocks: Blocks, paid: np.ndarray, stock_times: np.ndarray, money_times: np.ndarray) -> View:
    """A run of whole blocks, in which each order took effect a given number of times in stock and in money."""
    n, users, cold_items = len(blocks), int(blocks.user.max()) + 1, int(blocks.item.max()) + 1
    items = cold_items + HOT_ITEMS
    credit_initial = np.full(users, CREDIT)
    stock_initial = np.full(items, STOCK)
    stock_initial[cold_items:] = 10**9
    credit, stock = credit_initial.copy(), stock_initial.copy()
    np.subtract.at(credit, blocks.user, money_times * blocks.cost)
    np.subtract.at(stock, blocks.item, stock_times * blocks.cold)
    np.subtract.at(stock, cold_items + blocks.hot_item, stock_times * blocks.hot)
    price = np.full(items, 1)
    price[:cold_items] = COLD_PRICE
    yes = lambda size: np.ones(size, dtype=np.bool_)  # noqa: E731
    return View(
        np.where(paid, OK, FAIL), yes(n), np.full(n, READ), paid.astype(np.int64), blocks.cost, blocks.user,
        blocks.slot, np.tile(np.arange(n), 2), np.concatenate([blocks.item, cold_items + blocks.hot_item]),
        np.concatenate([blocks.cold, blocks.hot]), yes(users), np.full(users, READ), credit, credit_initial,
        yes(items), np.full(items, READ), stock, stock_initial, price,
    )  # fmt: skip


def named(findings: list[Finding], rule: str) -> set[int]:
    return {f.order for f in findings if f.rule == rule and f.order >= 0}


@pytest.mark.parametrize(("times", "beyond"), [(LEAST, -1), (MOST, 1)])
def test_the_outermost_change_is_decoded_and_the_next_one_is_doubtful(times: int, beyond: int) -> None:
    """All six orders took effect 6 times, or -1 times: the digits are exact. One unit beyond is doubtful."""
    digits = read_stock(np.array([times * OFFSET, times * OFFSET + beyond]))
    assert digits.times[0].tolist() == [times] * 6 and digits.doubtful.tolist() == [False, True]


@given(st.integers(0, 10_000))
def test_from_minus_one_to_six_effects_exactly_the_wrong_orders_are_named(seed: int) -> None:
    """The audit names exactly the orders that took effect a wrong number of times, -1 to 6, in stock or in money."""
    rng = np.random.default_rng(seed)
    blocks = Blocks.draw([seed], 0, 2)
    paid = rng.integers(0, 2, len(blocks)).astype(np.bool_)
    guilty = rng.random(len(blocks)) < rng.choice([0.02, 0.3, 1.0])
    stock, money = (np.where(guilty, rng.integers(-1, 7, len(blocks)), paid) for _ in range(2))
    judged = blocks_view(blocks, paid, stock, money)
    findings = audit(judged)
    assert named(findings, "taken_times") == set(np.flatnonzero(stock != paid))
    assert named(findings, "charged_times") == set(np.flatnonzero(money != paid))
    assert clean(judged) == (findings == [])
    # Every hot item adds up, so nobody is under suspicion beside those who are named.
    assert all(not f.candidates for f in findings)


@given(st.integers(0, 10_000), st.sampled_from([-100, -9, -8, -3, -2, 7, 8, 9, 10, 15, 63, 64, 65, 500]))
def test_beyond_six_it_never_passes_and_the_guilty_one_is_among_the_suspects(seed: int, times: int) -> None:
    """An order that took effect more than 6 times is named or is a candidate. It never passes."""
    rng = np.random.default_rng(seed)
    blocks = Blocks.draw([seed], 0, 2)
    paid = rng.integers(0, 2, len(blocks)).astype(np.bool_)
    order = int(rng.integers(len(blocks)))
    for in_stock, in_money in ((True, False), (False, True), (True, True)):
        stock, money = paid.astype(np.int64), paid.astype(np.int64)
        stock[order] = times if in_stock else stock[order]
        money[order] = times if in_money else money[order]
        findings = audit(blocks_view(blocks, paid, stock, money))
        for rule, touched in (("taken_times", in_stock), ("charged_times", in_money)):
            suspects = {o for f in findings if f.rule == rule for o in (f.order, *f.candidates)}
            assert (order in suspects) == touched or not touched


def test_many_doubled_at_once_never_cancel() -> None:
    """One order is charged twice and another never, so the total is right. Both are named."""
    blocks = Blocks.draw([3], 0, 28)
    n = len(blocks)
    paid = np.ones(n, dtype=np.bool_)
    money = np.ones(n, dtype=np.int64)
    money[5], money[700] = 2, 0
    findings = audit(blocks_view(blocks, paid, np.ones(n, dtype=np.int64), money))
    assert {(f.order, f.rule) for f in findings} == {(5, "charged_times"), (700, "charged_times")}
