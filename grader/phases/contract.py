"""Phase 1: call every route with valid and invalid arguments, and record each exchange with the expected answer.

The phase begins by calling batch_init of each service, which is called at most once in a run. If a request needs an id
from an earlier request that failed, it is not sent and its answer is recorded as wrong. After several timeouts in a
row, no more requests are sent.

If a read returns a wrong answer, it is repeated until the convergence limit, because reads may lag behind and may fail
with 5xx. Once that time is used up, the last read of each user, item or order is repeated at the end of the phase,
unless it has changed since. At the end of the run, all reads that were right are repeated, and must still be right.
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
"""The maximum number of bytes of a body to record."""
_AGAIN = 0.2
"""Seconds between repetitions of a wrong read. All repetitions together take at most the convergence limit, and at most
as long again at the end of the phase."""
_CROWD, _SHARE = 20, 0.5
"""The number of concurrent requests for one user, item or order; and the share of the phase's time that all of these
requests may take on a slow system."""
_SILENT = 4
"""After this many timeouts in a row, no more requests are sent."""
DONE, REFUSED, EITHER = "2xx", "4xx", "2xx or 4xx"


@dataclass
class _Question:
    """One request of the phase, its expected answer, and its entry in the record."""

    title: str
    kind: Kind
    end: bytes
    expect: str
    wanted: dict[str, Any]
    kept: dict[str, Any]


class _Questions:
    """Sends requests one at a time and records the answers."""

    def __init__(self, live: Live) -> None:
        self._live, self._silent, self._left = live, 0, live.limits.convergence
        self._never = False
        self._later: dict[tuple[Kind, bytes], _Question] = {}
        self._known: dict[tuple[Kind, bytes], _Question] = {}

    @property
    def silent(self) -> bool:
        """Whether the system has stopped answering. If so, no more requests are sent."""
        return self._silent == _SILENT

    def ask(self, title: str, kind: Kind, parts: list[Any], expect: str, **wanted: Any) -> bytes:
        """Send a request, record its answer, and return the body; b"" if the request was not sent.

        ``parts``: the arguments in its path, None for a missing id. ``expect``: the expected class of its status.
        ``wanted``: the expected fields of the body.
        """
        service, method, path = ROUTES[kind]
        end = middle(*parts)
        kept: dict[str, Any] = {
            "title": title,
            "service": service,
            "request": f"{method} {service} {path}{end.decode()}",
        }
        kept["expected"] = expect + "".join(f", {name} {_word(value)}" for name, value in wanted.items())
        lost = "an earlier answer had no id that this request needs" if None in parts else ""
        if lost or self.silent:
            kept.update(got=f"not sent: {lost or 'the system does not answer'}", agreed=False, asked=False)
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
                self._never |= whole  # one read that stays wrong for the entire limit is enough to fail
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
        """Send a request and record the answer. Returns status and body."""
        answer = self._send(asked.title, asked.kind, [asked.end])
        status, body = int(answer.status[0]), answer.bodies[0]
        said = status // 100 == 2 and asked.expect != REFUSED or status // 100 == 4 and asked.expect != DONE
        asked.kept["agreed"] = bool(said and all(_is(body, name, value) for name, value in asked.wanted.items()))
        asked.kept["got"] = f"{status_word(status)} {body[:_SHOWN].decode(errors='replace')}".strip()
        return status, body

    def _forget(self, kind: Kind, end: bytes, changed: list[Any]) -> None:
        """Drop the reads to repeat of everything that ``changed`` names, and of what ``kind`` and ``end`` read now."""
        names = {middle(one) for one in changed}
        for known in [one for one in self._known if one == (kind, end) or one[1] in names]:
            del self._known[known]
        for known in [one for one in self._later if one == (kind, end) or one[1] in names]:
            old = self._later.pop(known).kept
            old.update(got=f"not judged, because reads lag behind and it has changed since: {old['got']}", asked=False)

    def ask_again(self) -> None:
        """Repeat the reads that were still wrong until all answers are right, or until the convergence limit."""
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
        """Repeat all right reads at the end of the run, except reads of things that were changed later."""
        for known, asked in self._known.items():
            again = replace(asked, title=f"{asked.title}, at the end of the run", kept=dict(asked.kept))
            again.kept["title"] = again.title
            self._live.record.exchanges.append(again.kept)
            self._later[known] = again
        self.ask_again()

    def crowd(self, title: str, kind: Kind, parts: list[Any], times: int) -> tuple[int, int]:
        """Send the same request ``times`` times concurrently.

        Returns how many were acknowledged, and how many have an unknown effect.
        """
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
    """Return the quantity of each item in an order; None if a line is neither a pair nor an object."""
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
        return "(no amount can be right, because more was taken than there was)"
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
    """Run the phase. Set the note ``silent`` if the system stopped answering."""
    live.say("contract: calling every route with valid and invalid arguments")
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
    ask("create users with batch_init", Kind.BATCH_USERS, [30, 500], DONE)
    ask("create items with batch_init", Kind.BATCH_ITEMS, [30, 40, 7], DONE)
    ask("create orders with batch_init", Kind.BATCH_ORDERS, [10, 30, 30, 7], DONE)
    for one in ("0", "29"):
        ask("a user from batch_init", Kind.FIND_USER, [one], DONE, credit=500)
        ask("an item from batch_init", Kind.FIND_ITEM, [one], DONE, stock=40, price=7)
    many = ask("an order from batch_init", Kind.FIND_ORDER, ["9"], DONE, paid=False)
    if lines := _items(many):
        ask("the user of that order", Kind.FIND_USER, [read_id(many, "user_id")], DONE, credit=500)
        ask("an item of that order", Kind.FIND_ITEM, [min(lines)], DONE, stock=40, price=7)
        ask("the cost of that order", Kind.FIND_ORDER, ["9"], DONE, total_cost=7 * sum(lines.values()))
        _check_out_one_of_many(ask, read_id(many, "user_id"), lines)
    user = read_id(ask("create a user", Kind.CREATE_USER, [], DONE), "user_id")
    ask("a new user has no credit", Kind.FIND_USER, [user], DONE, credit=0)
    ask("add credit", Kind.ADD_FUNDS, [user, 100], DONE)
    ask("pay", Kind.PAY, [user, 30], DONE)
    ask("pay more than the credit", Kind.PAY, [user, 71], REFUSED)
    ask("the remaining credit", Kind.FIND_USER, [user], DONE, credit=70)
    ask("pay all of the remaining credit", Kind.PAY, [user, 70], DONE)
    ask("add credit again", Kind.ADD_FUNDS, [user, 70], DONE)
    ask("read an unknown user", Kind.FIND_USER, ["no-such-user"], REFUSED)
    ask("add credit to an unknown user", Kind.ADD_FUNDS, ["no-such-user", 5], REFUSED)
    ask("an unknown user pays", Kind.PAY, ["no-such-user", 5], REFUSED)
    item = read_id(ask("create an item", Kind.CREATE_ITEM, [5], DONE), "item_id")
    ask("a new item has no stock", Kind.FIND_ITEM, [item], DONE, stock=0, price=5)
    ask("add stock", Kind.ADD_STOCK, [item, 10], DONE)
    ask("subtract stock", Kind.SUBTRACT, [item, 4], DONE)
    ask("subtract more than the stock", Kind.SUBTRACT, [item, 7], REFUSED)
    ask("the remaining stock", Kind.FIND_ITEM, [item], DONE, stock=6, price=5)
    ask("subtract all of the remaining stock", Kind.SUBTRACT, [item, 6], DONE)
    ask("add stock again", Kind.ADD_STOCK, [item, 6], DONE)
    ask("read an unknown item", Kind.FIND_ITEM, ["no-such-item"], REFUSED)
    ask("add stock to an unknown item", Kind.ADD_STOCK, ["no-such-item", 5], REFUSED)
    ask("subtract stock from an unknown item", Kind.SUBTRACT, ["no-such-item", 5], REFUSED)
    order = read_id(ask("create an order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("an empty order", Kind.FIND_ORDER, [order], DONE, paid=False, items={}, user_id=user, total_cost=0)
    ask("add a line", Kind.ADD_ITEM, [order, item, 2], DONE)
    line = {"items": {item: 2}, "user_id": user, "total_cost": 10}
    ask("an order with one line", Kind.FIND_ORDER, [order], DONE, paid=False, **line)
    ask("add a line with an unknown item", Kind.ADD_ITEM, [order, "no-such-item", 1], REFUSED)
    ask("add a line to an unknown order", Kind.ADD_ITEM, ["no-such-order", item, 1], REFUSED)
    ask("read an unknown order", Kind.FIND_ORDER, ["no-such-order"], REFUSED)
    ask("check out an unknown order", Kind.CHECKOUT, ["no-such-order"], REFUSED)
    ask("check out the order", Kind.CHECKOUT, [order], DONE)
    ask("the order is paid", Kind.FIND_ORDER, [order], DONE, paid=True, **line)
    ask("the stock was taken", Kind.FIND_ITEM, [item], DONE, stock=4)
    ask("the user was charged", Kind.FIND_USER, [user], DONE, credit=60)
    ask("check out the same order again", Kind.CHECKOUT, [order], EITHER)
    ask("add a line to a paid order", Kind.ADD_ITEM, [order, item, 1], EITHER)
    ask("check out the paid order after that", Kind.CHECKOUT, [order], EITHER)
    _too_much(ask, user, item)
    ask("the stock is unchanged", Kind.FIND_ITEM, [item], DONE, stock=4)
    ask("the credit is unchanged", Kind.FIND_USER, [user], DONE, credit=60)


def _check_out_one_of_many(ask: Any, user: str | None, lines: dict[str, int]) -> None:
    """Check out an order that batch_init created, if credit and stock suffice. The system chose its user and lines."""
    cost = 7 * sum(lines.values())
    if cost > 500 or max(lines.values()) > 40:
        return
    ask("check out an order from batch_init", Kind.CHECKOUT, ["9"], DONE)
    ask("the user of that order was charged", Kind.FIND_USER, [user], DONE, credit=500 - cost)
    for item, quantity in lines.items():
        ask("the stock of that order was taken", Kind.FIND_ITEM, [item], DONE, stock=40 - quantity)


def _too_much(ask: Any, user: str | None, item: str | None) -> None:
    """Check out one order that exceeds the stock and one that exceeds the credit. Both must be refused, unpaid."""
    order = read_id(ask("create a second order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("add a line that exceeds the stock", Kind.ADD_ITEM, [order, item, 5], DONE)
    ask("check out with too little stock", Kind.CHECKOUT, [order], REFUSED)
    ask("the refused order is not paid", Kind.FIND_ORDER, [order], DONE, paid=False)
    dear = read_id(ask("create an expensive item", Kind.CREATE_ITEM, [61], DONE), "item_id")
    ask("add stock to the expensive item", Kind.ADD_STOCK, [dear, 1], DONE)
    order = read_id(ask("create a third order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    ask("add a line that exceeds the credit", Kind.ADD_ITEM, [order, dear, 1], DONE)
    ask("add a second line", Kind.ADD_ITEM, [order, item, 1], DONE)
    ask("add the same item again", Kind.ADD_ITEM, [order, item, 2], DONE)
    lines = {"items": {dear: 1, item: 3}, "user_id": user, "total_cost": 76}
    ask("an order with three lines", Kind.FIND_ORDER, [order], DONE, paid=False, **lines)
    ask("check out with too little credit", Kind.CHECKOUT, [order], REFUSED)
    ask("the refused order is not paid", Kind.FIND_ORDER, [order], DONE, paid=False)
    ask("the expensive item's stock is unchanged", Kind.FIND_ITEM, [dear], DONE, stock=1)


def _at_once(questions: _Questions, times: int) -> None:
    """Call each route that changes an amount many times concurrently. No change may be lost or applied twice."""
    ask = questions.ask
    user = read_id(ask("create a second user", Kind.CREATE_USER, [], DONE), "user_id")
    item = read_id(ask("create a third item", Kind.CREATE_ITEM, [3], DONE), "item_id")
    order = read_id(ask("create a fourth order", Kind.CREATE_ORDER, [user], DONE), "order_id")
    for thing, service, change, take, find, field in (
        (user, "credit", Kind.ADD_FUNDS, Kind.PAY, Kind.FIND_USER, "credit"),
        (item, "stock", Kind.ADD_STOCK, Kind.SUBTRACT, Kind.FIND_ITEM, "stock"),
    ):
        done, perhaps = questions.crowd(f"add {service} {times} times concurrently", change, [thing, 2], times)
        if perhaps == times > 0:
            return  # the system hangs, so every further request would take a full timeout
        said = f"{service} after {done} concurrent additions of 2"
        ask(said, find, [thing], DONE, **{field: range(2 * done, 2 * (done + perhaps) + 1)})
        taken, unsure = questions.crowd(f"take {service} {times} times concurrently", take, [thing, 3], times)
        low, high = 2 * done - 3 * (taken + unsure), 2 * (done + perhaps) - 3 * taken
        said = f"{service} after {done} additions of 2 and {taken} subtractions of 3"
        ask(said, find, [thing], DONE, **{field: range(max(0, low), high + 1)})
    done, perhaps = questions.crowd(f"add a line {times} times concurrently", Kind.ADD_ITEM, [order, item, 1], times)
    cost = range(3 * done, 3 * (done + perhaps) + 1)
    ask(f"an order after {done} concurrent additions", Kind.FIND_ORDER, [order], DONE, paid=False, total_cost=cost)
