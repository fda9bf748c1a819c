"""Phase 1: call every route with valid and invalid arguments, and record each exchange with the expected answer.

It begins with the batch_init of each service, which is called at most once in a run. A question whose ids are missing,
because an earlier one failed, is not asked and counts as wrong. After several timeouts in a row nothing more is asked.
A wrong read is repeated until the convergence limit, as reads may lag behind and may fail with 5xx. If the time is
used up, the last read of each thing is repeated at the end of the phase, unless the thing has changed since. At the end
of the run, all right reads are repeated once more, and must still be right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..shop import Wave
from ..shop.answers import fields, read_amount, read_id, read_paid
from ..shop.routes import ROUTES, middle
from ..terms import NEVER_WRITTEN, Kind, Status, status_word
from ..wire.jobs import Result
from .live import Live

PHASE = "contract"
_SHOWN = 2000
"""The most bytes of a body to record."""
_AGAIN = 0.2
"""Seconds between tries of a wrong read. All tries take at most the convergence limit, and as long again at the end."""
_CROWD, _SHARE = 20, 0.5
"""Concurrent requests for one thing, and the share of the phase's time for all of them on a slow system."""
_SILENT = 4
"""After so many timeouts in a row, nothing more is asked."""
DONE, REFUSED, EITHER = "2xx", "4xx", "2xx or 4xx"


@dataclass
class _Question:
    """A question, the expected answer, and its entry in the record."""

    title: str
    kind: Kind
    end: bytes
    expect: str
    wanted: dict[str, Any]
    kept: dict[str, Any]


class _Questions:
    """Asks questions one at a time, and records the answers."""

    def __init__(self, live: Live) -> None:
        self._live, self._silent, self._left = live, 0, live.limits.convergence
        self._never = False
        self._later: dict[tuple[Kind, bytes], _Question] = {}
        self._known: dict[tuple[Kind, bytes], _Question] = {}

    @property
    def silent(self) -> bool:
        """Whether the system has stopped answering, so that nothing more is asked."""
        return self._silent == _SILENT

    def ask(self, title: str, kind: Kind, parts: list[Any], expect: str, **wanted: Any) -> bytes:
        """Send a request, and return the body. ``expect``: the class of its status; ``wanted``: fields of the body."""
        service, method, path = ROUTES[kind]
        end = middle(*parts)
        kept: dict[str, Any] = {
            "title": title,
            "service": service,
            "request": f"{method} {service} {path}{end.decode()}",
        }
        kept["expected"] = expect + "".join(f", {name} {_word(value)}" for name, value in wanted.items())
        lost = "an earlier answer had no id" if None in parts else ""
        if lost or self.silent:
            kept.update(got=f"not asked: {lost or 'the system does not answer'}", agreed=False, asked=False)
            self._live.record.exchanges.append(kept)
            return b""
        self._forget(kind, end, parts if method != "GET" else [])
        began, mine = self._live.clock(), _Question(title, kind, end, expect, wanted, kept)
        whole = self._left == self._live.limits.convergence
        while True:
            status, body = self._read(mine)
            late = method == "GET" and expect == DONE and status >= 200
            if kept["agreed"] or not late:
                break
            if self._live.clock() >= began + self._left:
                self._never |= whole  # one read that stays wrong for the whole limit is enough to fail
                if not self._never:
                    self._later[kind, end] = mine
                break
            self._live.counter.wait(_AGAIN)
        if not kept["agreed"] or self._live.clock() - began > _AGAIN:
            self._left = max(0.0, self._left - (self._live.clock() - began))
        if kept["agreed"] and method == "GET" and expect == DONE:
            self._known[kind, end] = mine
        self._silent = self._silent + 1 if status == Status.TIMEOUT else 0
        self._live.record.exchanges.append(kept)
        return body

    def _read(self, asked: _Question) -> tuple[int, bytes]:
        """Send a question and record the answer. Returns status and body."""
        answer = self._send(asked.title, asked.kind, [asked.end])
        status, body = int(answer.status[0]), answer.bodies[0]
        said = status // 100 == 2 and asked.expect != REFUSED or status // 100 == 4 and asked.expect != DONE
        asked.kept["agreed"] = bool(said and all(_is(body, name, value) for name, value in asked.wanted.items()))
        asked.kept["got"] = f"{status_word(status)} {body[:_SHOWN].decode(errors='replace')}".strip()
        return status, body

    def _forget(self, kind: Kind, end: bytes, changed: list[Any]) -> None:
        """Drop the pending questions about things that change now or are read again."""
        names = {middle(one) for one in changed}
        for known in [one for one in self._known if one == (kind, end) or one[1] in names]:
            del self._known[known]
        for known in [one for one in self._later if one == (kind, end) or one[1] in names]:
            old = self._later.pop(known).kept
            old.update(got=f"not judged, as reads lag behind and this has changed since: {old['got']}", asked=False)

    def ask_again(self) -> None:
        """Repeat the pending questions until all answers are right, or until the convergence limit."""
        until = self._live.clock() + self._live.limits.convergence
        while self._later and not self.silent:
            for known, asked in list(self._later.items()):
                self._read(asked)
                if asked.kept["agreed"]:
                    del self._later[known]
            if self._live.clock() >= until:
                break
            self._live.counter.wait(_AGAIN)

    def once_more(self) -> None:
        """Repeat all right reads at the end of the run. Nothing has changed these things since."""
        for known, asked in self._known.items():
            again = replace(asked, title=f"{asked.title}, at the end of the run", kept=dict(asked.kept))
            again.kept["title"] = again.title
            self._live.record.exchanges.append(again.kept)
            self._later[known] = again
        self.ask_again()

    def crowd(self, title: str, kind: Kind, parts: list[Any], times: int) -> tuple[int, int]:
        """Send the same request many times at once. Returns how many were done, and how many promise nothing."""
        if None in parts or self.silent:
            return 0, 0
        self._forget(kind, b"", parts)
        status = self._send(title, kind, [middle(*parts)] * times).status
        done = (status >= 200) & (status < 300)
        refused = (status >= 400) & (status < 500) | np.isin(status, NEVER_WRITTEN)
        return int(done.sum()), int((~done & ~refused).sum())

    def _send(self, title: str, kind: Kind, ends: list[bytes]) -> Result:
        subject = np.full(len(ends), -1, dtype=np.int64)
        if len(ends) == 1:
            return self._live.counter.insist(Wave(PHASE, title, kind, subject, ends, connections=1, bodies=True))
        due = np.zeros(len(ends), dtype=np.int64)
        return self._live.counter.send(Wave(PHASE, title, kind, subject, ends, due=due, connections=64, bodies=True))


def _items(body: bytes) -> dict[str, int] | None:
    """The quantity of each item of an order, whose lines are pairs or objects; None if they are neither."""
    found: dict[str, int] = {}
    lines = fields(body).get("items")
    for line in lines if isinstance(lines, list) else [None]:
        if isinstance(line, dict):
            line = [line.get("item_id", line.get("id")), line.get("quantity", line.get("amount"))]
        if not isinstance(line, list) or len(line) != 2 or type(line[1]) is not int:
            return None
        found[str(line[0])] = found.get(str(line[0]), 0) + line[1]
    return found


def _word(value: Any) -> str:
    if not isinstance(value, range):
        return repr(value)
    if not value:
        return "that cannot be right, as more was taken than there was"
    return f"{value[0]}" if len(value) == 1 else f"{value[0]} to {value[-1]}"


def _is(body: bytes, name: str, value: Any) -> bool:
    if name == "paid":
        return read_paid(body) == int(value)
    if name == "items":
        return bool(_items(body) == value)
    if isinstance(value, range):
        return bool(read_amount(body, name) in value)
    if isinstance(value, int):
        return read_amount(body, name) == value
    return bool(read_id(body, name) == value)


def run(live: Live) -> None:
    """Run the phase. The note ``silent`` marks a system that stopped answering."""
    live.say("contract: every route, valid and invalid")
    questions = _Questions(live)
    began = live.clock()
    _ask_all(questions.ask)
    if not questions.silent:
        each = max(1e-3, (live.clock() - began) / len(live.record.exchanges))
        _at_once(questions, int(min(_CROWD, max(4.0, _SHARE * live.seconds[PHASE] / each / 5))))
    questions.ask_again()
    if questions.silent:
        live.notes(PHASE)["silent"] = True
    else:
        live.at_the_end.append(questions.once_more)


def _ask_all(ask: Any) -> None:
    ask("users at once", Kind.BATCH_USERS, [30, 500], DONE)
    ask("items at once", Kind.BATCH_ITEMS, [30, 40, 7], DONE)
    ask("orders at once", Kind.BATCH_ORDERS, [10, 30, 30, 7], DONE)
    for one in ("0", "29"):
        ask("a user of many", Kind.FIND_USER, [one], DONE, credit=500)
        ask("an item of many", Kind.FIND_ITEM, [one], DONE, stock=40, price=7)
    many = ask("an order of many", Kind.FIND_ORDER, ["9"], DONE, paid=False)
    if lines := _items(many):
        ask("its user", Kind.FIND_USER, [read_id(many, "user_id")], DONE, credit=500)
        ask("an item of it", Kind.FIND_ITEM, [min(lines)], DONE, stock=40, price=7)
        ask("what it costs", Kind.FIND_ORDER, ["9"], DONE, total_cost=7 * sum(lines.values()))
        _check_out_one_of_many(ask, read_id(many, "user_id"), lines)
    user = read_id(ask("a user", Kind.CREATE_USER, [], DONE), "user_id")
    ask("no credit yet", Kind.FIND_USER, [user], DONE, credit=0)
    ask("credit", Kind.ADD_FUNDS, [user, 100], DONE)
    ask("pay", Kind.PAY, [user, 30], DONE)
    ask("pay too much", Kind.PAY, [user, 71], REFUSED)
    ask("what is left", Kind.FIND_USER, [user], DONE, credit=70)
    ask("pay all that is left", Kind.PAY, [user, 70], DONE)
    ask("credit again", Kind.ADD_FUNDS, [user, 70], DONE)
    ask("an unknown user", Kind.FIND_USER, ["no-such-user"], REFUSED)
    ask("credit for an unknown user", Kind.ADD_FUNDS, ["no-such-user", 5], REFUSED)
    ask("an unknown user pays", Kind.PAY, ["no-such-user", 5], REFUSED)
    item = read_id(ask("an item", Kind.CREATE_ITEM, [5], DONE), "item_id")
    ask("no stock yet", Kind.FIND_ITEM, [item], DONE, stock=0, price=5)
    ask("stock", Kind.ADD_STOCK, [item, 10], DONE)
    ask("take some", Kind.SUBTRACT, [item, 4], DONE)
    ask("take too much", Kind.SUBTRACT, [item, 7], REFUSED)
    ask("what is left", Kind.FIND_ITEM, [item], DONE, stock=6, price=5)
    ask("take all that is left", Kind.SUBTRACT, [item, 6], DONE)
    ask("stock again", Kind.ADD_STOCK, [item, 6], DONE)
    ask("an unknown item", Kind.FIND_ITEM, ["no-such-item"], REFUSED)
    ask("stock of nothing", Kind.ADD_STOCK, ["no-such-item", 5], REFUSED)
    ask("take from nothing", Kind.SUBTRACT, ["no-such-item", 5], REFUSED)
    order = read_id(ask("an order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("an empty order", Kind.FIND_ORDER, [order], DONE, paid=False, items={}, user_id=user, total_cost=0)
    ask("a line", Kind.ADD_ITEM, [order, item, 2], DONE)
    line = {"items": {item: 2}, "user_id": user, "total_cost": 10}
    ask("an order with a line", Kind.FIND_ORDER, [order], DONE, paid=False, **line)
    ask("a line of nothing", Kind.ADD_ITEM, [order, "no-such-item", 1], REFUSED)
    ask("a line of no order", Kind.ADD_ITEM, ["no-such-order", item, 1], REFUSED)
    ask("an unknown order", Kind.FIND_ORDER, ["no-such-order"], REFUSED)
    ask("check out nothing", Kind.CHECKOUT, ["no-such-order"], REFUSED)
    ask("check out", Kind.CHECKOUT, [order], DONE)
    ask("it is paid", Kind.FIND_ORDER, [order], DONE, paid=True, **line)
    ask("stock was taken", Kind.FIND_ITEM, [item], DONE, stock=4)
    ask("the user was charged", Kind.FIND_USER, [user], DONE, credit=60)
    ask("check out again", Kind.CHECKOUT, [order], EITHER)
    ask("a line for a paid order", Kind.ADD_ITEM, [order, item, 1], EITHER)
    ask("check out what is paid", Kind.CHECKOUT, [order], EITHER)
    _too_much(ask, user, item)
    ask("stock as before", Kind.FIND_ITEM, [item], DONE, stock=4)
    ask("credit as before", Kind.FIND_USER, [user], DONE, credit=60)


def _check_out_one_of_many(ask: Any, user: str | None, lines: dict[str, int]) -> None:
    """Check out an order of batch_init, whose content is the system's choice, if credit and stock suffice."""
    cost = 7 * sum(lines.values())
    if cost > 500 or max(lines.values()) > 40:
        return
    ask("check out one of many", Kind.CHECKOUT, ["9"], DONE)
    ask("its user was charged", Kind.FIND_USER, [user], DONE, credit=500 - cost)
    for item, quantity in lines.items():
        ask("stock of it was taken", Kind.FIND_ITEM, [item], DONE, stock=40 - quantity)


def _too_much(ask: Any, user: str | None, item: str | None) -> None:
    """One order exceeds the stock and one the credit: both are refused, without effect."""
    order = read_id(ask("a second order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("more than there is", Kind.ADD_ITEM, [order, item, 5], DONE)
    ask("out of stock", Kind.CHECKOUT, [order], REFUSED)
    ask("it is not paid", Kind.FIND_ORDER, [order], DONE, paid=False)
    dear = read_id(ask("a dear item", Kind.CREATE_ITEM, [61], DONE), "item_id")
    ask("stock of it", Kind.ADD_STOCK, [dear, 1], DONE)
    order = read_id(ask("a third order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("more than the user has", Kind.ADD_ITEM, [order, dear, 1], DONE)
    ask("a second line", Kind.ADD_ITEM, [order, item, 1], DONE)
    ask("the same item again", Kind.ADD_ITEM, [order, item, 2], DONE)
    lines = {"items": {dear: 1, item: 3}, "user_id": user, "total_cost": 76}
    ask("an order with three lines", Kind.FIND_ORDER, [order], DONE, paid=False, **lines)
    ask("out of credit", Kind.CHECKOUT, [order], REFUSED)
    ask("it is not paid", Kind.FIND_ORDER, [order], DONE, paid=False)
    ask("stock of the dear item as before", Kind.FIND_ITEM, [dear], DONE, stock=1)


def _at_once(questions: _Questions, times: int) -> None:
    """Call each route that changes an amount many times at once. No acknowledged change is lost or doubled."""
    ask = questions.ask
    user = read_id(ask("a second user", Kind.CREATE_USER, [], DONE), "user_id")
    item = read_id(ask("a third item", Kind.CREATE_ITEM, [3], DONE), "item_id")
    order = read_id(ask("a fourth order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    for thing, service, change, take, find, field in (
        (user, "credit", Kind.ADD_FUNDS, Kind.PAY, Kind.FIND_USER, "credit"),
        (item, "stock", Kind.ADD_STOCK, Kind.SUBTRACT, Kind.FIND_ITEM, "stock"),
    ):
        done, perhaps = questions.crowd(f"{service}, {times} times at once", change, [thing, 2], times)
        if perhaps == times > 0:
            return  # a system that hangs now would take a timeout for each
        said = f"{service} after {done} x 2 at once"
        ask(said, find, [thing], DONE, **{field: range(2 * done, 2 * (done + perhaps) + 1)})
        taken, unsure = questions.crowd(f"{service} taken, {times} times at once", take, [thing, 3], times)
        low, high = 2 * done - 3 * (taken + unsure), 2 * (done + perhaps) - 3 * taken
        said = f"{service} after {done} x 2 in and {taken} x 3 out, each at once"
        ask(said, find, [thing], DONE, **{field: range(max(0, low), high + 1)})
    done, perhaps = questions.crowd(f"a line, {times} times at once", Kind.ADD_ITEM, [order, item, 1], times)
    cost = range(3 * done, 3 * (done + perhaps) + 1)
    ask(f"an order after {done} lines at once", Kind.FIND_ORDER, [order], DONE, paid=False, total_cost=cost)
