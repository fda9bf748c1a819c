"""Decide whether a snapshot is accepted, and find which order broke which rule.

A snapshot is accepted if and only if
  1  every OK order is paid, and every order that is FAIL or was never sent is unpaid;
  2  every user's credit is the acknowledged amount minus the totals of the user's paid orders;
  3  every item's stock is the acknowledged amount minus the quantities in its paid orders;
  4  no balance is negative.
These four rules are sufficient. Balances only decrease between two audits, so the paid orders can be executed in any
order; tests/grader/test_audit.py compares the rules with a search over all executions. A top-up would invalidate this
argument, so there is an audit before each one.

The rules are checked with sums over whole columns. Only the balances that break a rule are decoded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..orders.blocks import COLD_PRICE, LEAST, MOST, SIDE
from ..terms import Entity, State
from .digits import Digits, read_money, read_stock
from .outcomes import FAIL, NONE, OK
from .view import View

Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
COUNTED = ("charged_times", "taken_times")
"""The rules about how often an order took effect: on its user's credit, and on its items' stock."""
_RULE = {Entity.USER: "charged_times", Entity.ITEM: "taken_times"}
_VERB = {Entity.USER: "charged", Entity.ITEM: "taken"}


@dataclass(frozen=True)
class Finding:
    """One broken rule, and the order that broke it."""

    rule: str
    order: int
    """The row of the order that broke the rule; -1 if it is unknown."""
    candidates: tuple[int, ...]
    """The rows of other orders that may have broken it."""
    entity: int
    """The Entity whose value breaks the rule."""
    subject: int
    detail: str
    times: int | None = None
    """How often the order took effect; None if that is not known."""
    due: int | None = None
    """How often it should have: 1 if it is paid, otherwise 0; None if that is not known."""


def clean(view: View) -> bool:
    """Return whether ``audit`` finds no broken rule. Cheaper than ``audit``, which also finds the reasons."""
    masks = list(_orders(view).values())
    for balances in _balances(view):
        masks += [balances.broken, balances.negative, balances.lost]
    return not any(bool(mask.any()) for mask in masks)


def audit(view: View) -> list[Finding]:
    """Return all broken rules: first those of orders, then unreadable and negative balances, then wrong balances."""
    findings = []
    words = {
        "ok_not_paid": "a checkout was answered 2xx, but the order is unpaid or unknown",
        "refused_but_paid": "every checkout was answered 4xx or was never sent, but the order is paid",
        "unavailable": "the order cannot be read",
    }
    for rule, mask in _orders(view).items():
        findings += [Finding(rule, int(o), (), Entity.ORDER, int(o), words[rule]) for o in np.flatnonzero(mask)]
    users, items = _balances(view)
    for entity, balances, word in ((Entity.USER, users, "credit"), (Entity.ITEM, items, "stock")):
        for subject in np.flatnonzero(balances.lost):
            detail = f"the {word} cannot be read"
            findings.append(
                Finding("unavailable", -1, _orders_of(view, entity, int(subject)), entity, int(subject), detail)
            )
        for subject in np.flatnonzero(balances.negative):
            detail = f"the {word} is {balances.value[subject]:,}"
            findings.append(_of_all(view, "negative", entity, int(subject), detail))
    return findings + _charges(view, users) + _takings(view, items)


@dataclass(frozen=True)
class _Balances:
    """The balances of all users or all items. ``effect``: the amount taken; ``expected``: the sum of paid orders."""

    value: Longs
    effect: Longs
    expected: Longs
    broken: Bools
    negative: Bools
    lost: Bools


def _orders(view: View) -> dict[str, Bools]:
    read = view.order_in & (view.order_state == State.READ)
    paid = view.paid != 0
    gone = view.order_in & (view.order_state == State.UNKNOWN) & (view.outcome == OK)
    return {
        "ok_not_paid": (read & (view.outcome == OK) & ~paid) | gone,
        "refused_but_paid": read & ((view.outcome == FAIL) | (view.outcome == NONE)) & paid,
        "unavailable": view.order_in & (view.order_state != State.READ) & ~gone,
    }


def _sums(size: int, where: Longs, what: Longs) -> Longs:
    """Return exact sums of ``what`` by index ``where``.

    Low and high bits are summed separately, because bincount sums in float64, which is exact only up to 2**53.
    """
    low, high = what & 0xFFFFFF, what >> 24
    return np.asarray(
        np.bincount(where, low, size).astype(np.int64) + (np.bincount(where, high, size).astype(np.int64) << 24)
    )


def _balances(view: View) -> tuple[_Balances, _Balances]:
    paid = view.order_in & (view.paid != 0)
    blind = view.order_in & (view.order_state != State.READ)
    users, items = len(view.credit), len(view.stock)
    line_paid, line_blind = paid[view.line_order], blind[view.line_order]
    expected = (
        _sums(users, view.user[paid], view.cost[paid]),
        _sums(items, view.line_item[line_paid], view.line_quantity[line_paid]),
    )
    dim = np.zeros(users, bool), np.zeros(items, bool)  # a balance cannot be judged if one of its orders was not read
    dim[0][view.user[blind]] = True
    dim[1][view.line_item[line_blind]] = True
    columns = (
        (view.user_in, view.user_state, view.credit, view.credit_initial),
        (view.item_in, view.item_state, view.stock, view.stock_initial),
    )
    made = []
    for (inside, state, value, initial), wanted, unclear in zip(columns, expected, dim, strict=True):
        read = inside & (state == State.READ)
        effect = initial - value
        broken = read & (effect != wanted) & ~unclear
        made.append(_Balances(value, effect, wanted, broken, read & (value < 0), inside & ~read))
    return made[0], made[1]


def _orders_of(view: View, entity: Entity, subject: int) -> tuple[int, ...]:
    if entity == Entity.USER:
        return tuple(np.flatnonzero(view.order_in & (view.user == subject)).tolist())
    orders = view.line_order[view.line_item == subject]
    return tuple(np.unique(orders[view.order_in[orders]]).tolist())


def _of_all(view: View, rule: str, entity: Entity, subject: int, detail: str, due: int | None = None) -> Finding:
    """Return a finding about an entire balance. It names the only order, or lists several as candidates."""
    orders = _orders_of(view, entity, subject)
    if len(orders) == 1:
        return Finding(rule, orders[0], (), entity, subject, detail, due=due)
    return Finding(rule, -1, orders, entity, subject, detail, due=due)


def _squares(size: int, broken: Bools, owner: Longs, order: Longs, slot: NDArray[np.integer]) -> tuple[Longs, Longs]:
    """Return the broken balances that have digits, int64[n], and their orders by slot, int64[n, 6] (-1: no order)."""
    subjects = np.unique(owner[broken[owner]])
    place = np.full(size, -1, dtype=np.int64)
    place[subjects] = np.arange(len(subjects))
    orders = np.full((len(subjects), SIDE), -1, dtype=np.int64)
    mine = broken[owner]
    orders[place[owner[mine]], slot[mine]] = order[mine]
    return subjects, orders


def _times(entity: Entity, subject: int, order: int, times: int, paid: int) -> Finding:
    """Return the finding that an order took effect on a balance ``times`` times, in place of once or never."""
    verb = _VERB[entity]
    detail = f"{verb} {times} times, should be {'once' if paid else 'never'}" if times != 1 else f"{verb}, and not paid"
    return Finding(_RULE[entity], order, (), entity, subject, detail, times, paid)


def _total(entity: Entity, balances: _Balances, subject: int) -> str:
    return f"{_VERB[entity]} {balances.effect[subject]:,} in total, should be {balances.expected[subject]:,}"


def _charges(view: View, users: _Balances) -> list[Finding]:
    """Return the findings about credit: by digits for the users of blocks, otherwise by the cost of the orders."""
    rows = np.flatnonzero(view.order_in & (view.slot >= 0))
    subjects, orders = _squares(len(users.value), users.broken, view.user[rows], rows, view.slot[rows])
    hot = np.where(orders >= 0, view.cost[orders] % COLD_PRICE, 0)
    digits = read_money(users.effect[subjects], hot)
    plain = np.setdiff1d(np.flatnonzero(users.broken), subjects)
    return [
        *_named(view, Entity.USER, subjects, orders, digits, users),
        *(_plain(view, Entity.USER, int(subject), users, view.cost) for subject in plain),
    ]


def _named(
    view: View, entity: Entity, subjects: Longs, orders: Longs, digits: Digits, balances: _Balances
) -> list[Finding]:
    """Return one finding for each order with a wrong digit, and one for each balance with unreliable digits.

    For example, the orders in slots 0 and 1 of an item are paid, so 1 + 8 units should be taken. If 2 + 8 are, the
    digit of slot 0 is 2: its order was taken twice. If 64 more are, but no order has slot 2, no digit can be trusted.
    """
    known = orders >= 0
    paid = np.where(known, view.paid[orders], 0)
    doubtful = digits.doubtful | (~known & (digits.times != 0)).any(axis=1)
    findings = []
    for row in np.flatnonzero(doubtful):
        subject = int(subjects[row])
        addition = _addition(view, entity, subject, balances)
        detail = f"{_total(entity, balances, subject)}; {addition or 'the wrong orders cannot be identified'}"
        # A balance that is too small can also be due to an order that took effect 9 times. Only an addition can make it
        # so large.
        more = balances.effect[subject] < balances.expected[subject]
        candidates = () if addition and more else tuple(orders[row][known[row]].tolist())
        findings.append(Finding(_RULE[entity], -1, candidates, entity, subject, detail))
    wrong = known & (digits.times != paid) & ~doubtful[:, None]
    for row, slot in zip(*np.nonzero(wrong), strict=True):
        order, times = int(orders[row, slot]), int(digits.times[row, slot])
        findings.append(_times(entity, int(subjects[row]), order, times, int(paid[row, slot])))
    return findings


def _plain(view: View, entity: Entity, subject: int, balances: _Balances, unit: Longs) -> Finding:
    """Return a finding about a balance without digits. It names the only order, or lists several as candidates.

    For example, a user has one order, of 30, and 60 are missing: it was charged twice. If 40 are missing, only the
    total is known. ``unit``: what each order takes.
    """
    orders = _orders_of(view, entity, subject)
    effect, total = int(balances.effect[subject]), _total(entity, balances, subject)
    if len(orders) == 1 and unit[orders[0]] and effect % int(unit[orders[0]]) == 0:
        return _times(entity, subject, orders[0], effect // int(unit[orders[0]]), int(view.paid[orders[0]]))
    if addition := _addition(view, entity, subject, balances):
        candidates = orders if len(orders) > 1 else ()
        return Finding(_RULE[entity], -1, candidates, entity, subject, f"{total}; {addition}")
    return _of_all(view, _RULE[entity], entity, subject, total, None if balances.expected[subject] else 0)


def _addition(view: View, entity: Entity, subject: int, balances: _Balances) -> str:
    """Return which acknowledged additions of credit or stock explain a wrong balance exactly; "" if none do.

    An order that explains it is the likelier cause, so the result is then "", too.
    """
    subjects, amounts = view.funds.get(entity, (np.zeros(0, np.int64),) * 2)
    less = int(balances.effect[subject] - balances.expected[subject])
    mine = slice(*np.searchsorted(subjects, [subject, subject + 1]))
    for amount, count in zip(*np.unique(amounts[mine], return_counts=True), strict=True):
        number, rest = divmod(abs(less), int(amount))
        if not rest and 0 < number <= count and not _explained(view, entity, subject, less):
            what = f"one addition of {amount:,}" if number == 1 else f"{number} additions of {amount:,}"
            how = "acknowledged, but missing" if less > 0 else "applied twice"
            return f"the difference is exactly {what} to the {('', 'credit', 'stock')[entity]}, {how}"
    return ""


def _explained(view: View, entity: Entity, subject: int, less: int) -> bool:
    """Return whether a balance is ``less`` than expected because each line of one order took effect -1 to 6 times."""
    lines = np.flatnonzero(view.line_item == subject)
    for order in _orders_of(view, entity, subject):
        mine = lines[view.line_order[lines] == order]
        amounts = view.cost[[order]] if entity == Entity.USER else view.line_quantity[mine]
        sums = np.zeros(1, dtype=np.int64)
        for amount in amounts:
            sums = np.unique(sums[:, None] + amount * (np.arange(LEAST, MOST + 1) - view.paid[order]))
        if less in sums:
            return True
    return False


def _takings(view: View, items: _Balances) -> list[Finding]:
    """Return the findings about stock: of items with digits, of hot items, and of all others.

    An order of a block takes 8**slot units of a cold item, which has digits, and a few of a hot item, which many orders
    share. So a wrong hot item blames no order by itself, but it shows if the digits are wrong.
    """
    digit = view.order_in[view.line_order] & (view.slot[view.line_order] >= 0)
    cold = digit & (view.item_price[view.line_item] == COLD_PRICE)
    hot = digit & ~cold
    order, item = view.line_order[cold], view.line_item[cold]
    subjects, orders = _squares(len(items.value), items.broken, item, order, view.slot[order])
    digits = read_stock(items.effect[subjects])
    implied = _implied(view, hot, orders, digits)
    is_hot = np.isin(np.arange(len(items.value)), view.line_item[hot])
    off = is_hot & view.item_in & (view.item_state == State.READ) & (items.effect != implied)
    doubted = set(view.line_order[hot & off[view.line_item]].tolist())
    findings = [
        _with_lower(finding, orders) if finding.order in doubted else finding
        for finding in _named(view, Entity.ITEM, subjects, orders, digits, items)
    ]
    for subject in np.flatnonzero(off):
        detail = (
            f"taken {items.effect[subject]:,} in total, but the other lines of its orders imply {implied[subject]:,}"
        )
        candidates = _orders_of(view, Entity.ITEM, int(subject))
        findings.append(Finding("taken_times", -1, candidates, Entity.ITEM, int(subject), detail))
    for subject in np.setdiff1d(np.flatnonzero(items.broken & ~is_hot), subjects):
        lines = view.line_item == subject
        unit = _sums(len(view.paid), view.line_order[lines], view.line_quantity[lines])
        findings.append(_plain(view, Entity.ITEM, int(subject), items, unit))
    return findings


def _implied(view: View, hot: Bools, orders: Longs, digits: Digits) -> Longs:
    """Return how many units of each item its hot lines took, if each order took effect as often as its digit says.

    For example, two orders have lines of 3 and of 4 units of one item. By their digits they took effect once and twice,
    so 3 + 2 * 4 = 11 units are gone.
    """
    times = view.paid.copy()
    trusted = ~digits.doubtful[:, None] & (orders >= 0)
    times[orders[trusted]] = digits.times[trusted]
    return _sums(len(view.stock), view.line_item[hot], times[view.line_order[hot]] * view.line_quantity[hot])


def _with_lower(finding: Finding, orders: Longs) -> Finding:
    """Return a finding with the orders in lower slots as candidates.

    Their hot items disagree with the digits: 8 effects of slot 0, for example, look like one more effect of slot 1.
    """
    ((row, slot),) = np.argwhere(orders == finding.order)
    return replace(finding, candidates=tuple(int(order) for order in orders[row, :slot] if order >= 0))
