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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..orders.blocks import COLD_PRICE, LEAST, MOST, SIDE
from ..terms import Entity, State
from .digits import Digits, read_money, read_stock
from .outcomes import FAIL, NONE, OK
from .view import View

Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    findings += _charges(view, users)
    findings += _takings(view, items)
    return findings


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
    found = view.line_order[view.line_item == subject]
    return tuple(np.unique(found[view.order_in[found]]).tolist())


def _of_all(view: View, rule: str, entity: Entity, subject: int, detail: str) -> Finding:
    """Return a finding about an entire balance. It names the only order, or lists several as candidates."""
    orders = _orders_of(view, entity, subject)
    if len(orders) == 1:
        return Finding(rule, orders[0], (), entity, subject, detail)
    return Finding(rule, -1, orders, entity, subject, detail)


def _squares(size: int, broken: Bools, owner: Longs, order: Longs, slot: NDArray[np.integer]) -> tuple[Longs, Longs]:
    """Return the broken balances that have digits, int64[n], and their orders by slot, int64[n, 6] (-1: no order)."""
    subjects = np.unique(owner[broken[owner]])
    place = np.full(size, -1, dtype=np.int64)
    place[subjects] = np.arange(len(subjects))
    orders = np.full((len(subjects), SIDE), -1, dtype=np.int64)
    mine = broken[owner]
    orders[place[owner[mine]], slot[mine]] = order[mine]
    return subjects, orders


def _say(times: int, verb: str, paid: int) -> str:
    return f"{verb} {times} times, should be {'once' if paid else 'never'}" if times != 1 else f"{verb}, and not paid"


def _total(verb: str, balances: _Balances, subject: int) -> str:
    return f"{verb} {balances.effect[subject]:,} in total, should be {balances.expected[subject]:,}"


def _charges(view: View, users: _Balances) -> list[Finding]:
    findings: list[Finding] = []
    squared = view.order_in & (view.slot >= 0)
    rows = np.flatnonzero(squared)
    subjects, orders = _squares(len(users.value), users.broken, view.user[rows], rows, view.slot[rows])
    hot = np.where(orders >= 0, view.cost[orders] % COLD_PRICE, 0)
    digits = read_money(users.effect[subjects], hot)
    findings += _named(view, Entity.USER, "charged_times", subjects, orders, digits, users)
    for subject in np.setdiff1d(np.flatnonzero(users.broken), subjects):
        findings.append(_plain(view, Entity.USER, "charged_times", int(subject), users, view.cost))
    return findings


def _named(
    view: View, entity: Entity, rule: str, subjects: Longs, orders: Longs, digits: Digits, balances: _Balances
) -> list[Finding]:
    """Return one finding for each order with a wrong digit, and one for each balance with unreliable digits."""
    verb = "charged" if entity == Entity.USER else "taken"
    findings = []
    known = orders >= 0
    paid = np.where(known, view.paid[orders], 0)
    stray = (~known & (digits.times != 0)).any(axis=1)
    for row in np.flatnonzero(digits.doubtful | stray):
        subject = int(subjects[row])
        addition = _addition(view, entity, subject, balances)
        detail = f"{_total(verb, balances, subject)}; {addition or 'the wrong orders cannot be identified'}"
        # A balance that is too small can also be due to an order that took effect 9 times. Only an addition can make it
        # so large.
        more = balances.effect[subject] < balances.expected[subject]
        named = () if addition and more else tuple(orders[row][known[row]].tolist())
        findings.append(Finding(rule, -1, named, entity, subject, detail))
    wrong = known & (digits.times != paid) & ~(digits.doubtful | stray)[:, None]
    for row, slot in zip(*np.nonzero(wrong), strict=True):
        order, times = int(orders[row, slot]), int(digits.times[row, slot])
        findings.append(Finding(rule, order, (), entity, int(subjects[row]), _say(times, verb, int(paid[row, slot]))))
    return findings


def _plain(view: View, entity: Entity, rule: str, subject: int, balances: _Balances, unit: Longs) -> Finding:
    """Return a finding about a balance without digits. It names the only order, or lists several as candidates."""
    verb = "charged" if entity == Entity.USER else "taken"
    orders = _orders_of(view, entity, subject)
    effect, total = int(balances.effect[subject]), _total(verb, balances, subject)
    if len(orders) == 1 and unit[orders[0]] and effect % int(unit[orders[0]]) == 0:
        detail = _say(effect // int(unit[orders[0]]), verb, int(view.paid[orders[0]]))
        return Finding(rule, orders[0], (), entity, subject, detail)
    if addition := _addition(view, entity, subject, balances):
        return Finding(rule, -1, orders if len(orders) > 1 else (), entity, subject, f"{total}; {addition}")
    return _of_all(view, rule, entity, subject, total)


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
    findings: list[Finding] = []
    inside = view.order_in[view.line_order]
    digit = inside & (view.slot[view.line_order] >= 0)
    cold = digit & (view.item_price[view.line_item] == COLD_PRICE)
    order, item = view.line_order[cold], view.line_item[cold]
    subjects, orders = _squares(len(items.value), items.broken, item, order, view.slot[order])
    digits = read_stock(items.effect[subjects])
    times = view.paid.copy()
    trusted = ~digits.doubtful[:, None] & (orders >= 0)
    times[orders[trusted]] = digits.times[trusted]
    # Many orders share a hot item. Their decoded effects must add up to its change.
    hot = digit & ~cold
    size = len(items.value)
    told = _sums(size, view.line_item[hot], times[view.line_order[hot]] * view.line_quantity[hot])
    is_hot = np.zeros(size, dtype=np.bool_)
    is_hot[view.line_item[hot]] = True
    off = is_hot & view.item_in & (view.item_state == State.READ) & (items.effect != told)
    doubted = np.zeros(len(view.paid), dtype=np.bool_)
    doubted[view.line_order[hot & off[view.line_item]]] = True
    place = {int(o): (row, slot) for row, line in enumerate(orders) for slot, o in enumerate(line)} if off.any() else {}
    for found in _named(view, Entity.ITEM, "taken_times", subjects, orders, digits, items):
        if found.order >= 0 and doubted[found.order]:
            row, slot = place[found.order]
            lower = tuple(int(o) for o in orders[row, :slot] if o >= 0)
            found = Finding(found.rule, found.order, lower, found.entity, found.subject, found.detail)
        findings.append(found)
    for subject in np.flatnonzero(off):
        detail = f"taken {items.effect[subject]:,} in total, but the other lines of its orders imply {told[subject]:,}"
        named = _orders_of(view, Entity.ITEM, int(subject))
        findings.append(Finding("taken_times", -1, named, Entity.ITEM, int(subject), detail))
    quantity = np.zeros(len(view.paid), dtype=np.int64)
    plain = np.setdiff1d(np.flatnonzero(items.broken & ~is_hot), subjects)
    for subject in plain:
        mine = view.line_item == subject
        quantity[view.line_order[mine]] = _sums(len(quantity), view.line_order[mine], view.line_quantity[mine])[
            view.line_order[mine]
        ]
        findings.append(_plain(view, Entity.ITEM, "taken_times", int(subject), items, quantity))
    return findings
