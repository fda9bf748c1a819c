"""Phase 1: call every route with valid and invalid arguments, and record each exchange with the expected answer.

The phase begins by calling batch_init of each service, which is called at most once in a run. If a request depends on
an earlier answer that was wrong, it is not sent. After several timeouts in a row, no more requests are sent.

If a read returns a wrong answer, it is repeated until the convergence limit, because reads may lag behind and may fail
with 5xx. Only the time during which reads were wrong counts. Once that time is used up, the last read of each user,
item or order is repeated at the end of the phase, unless it has changed since. Lag excuses only values: a field that is
missing or has the wrong type is a violation. At the end of the run, all reads that were right are repeated, and must
still be right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..record import Exchange
from ..record.notes import Contract
from ..shop import Wave
from ..shop.answers import as_amount, as_id, fields, read_amount, read_id, read_paid
from ..shop.routes import ROUTES, middle
from ..terms import Kind, Status, denied, done, status_word
from ..wire.jobs import Result
from .goods import full
from .live import Live

PHASE = "contract"
_SHOWN = 2000
"""The maximum number of bytes of a body to record."""
_SHOWN_FIELD = 80
"""The maximum number of characters of a malformed field to show."""
_DIFFERENT = 4
"""The maximum number of different answers to show, if repetitions of a wrong read get several."""
_AGAIN = 0.2
"""Seconds between repetitions of a wrong read. All repetitions together take at most the convergence limit, and at most
as long again at the end of the phase."""
_CROWD, _SHARE = 20, 0.5
"""The number of concurrent requests for one user, item or order; and the share of the phase's time that all of these
requests may take on a slow system."""
_SILENT = 4
"""After this many timeouts in a row, no more requests are sent."""
DONE, REFUSED, EITHER = "2xx", "4xx", "2xx or 4xx"


class _Answer(NamedTuple):
    """The body of an answer, and whether everything in it was as expected."""

    body: bytes
    right: bool


@dataclass
class _Question:
    """One request of the phase, its expected answer, and its entry in the record."""

    kind: Kind
    end: bytes
    expect: str
    wanted: dict[str, Any]
    """The expected fields of the body."""
    entry: Exchange
    counts: dict[str, int] = field(default_factory=dict)
    """How often each answer came, from the first wrong one on."""

    @property
    def place(self) -> tuple[Kind, bytes]:
        """The route and its arguments."""
        return self.kind, self.end


class _Questions:
    """Sends requests one at a time and records the answers."""

    def __init__(self, live: Live) -> None:
        self._live, self._timeouts, self._limit = live, 0, min(live.limits.still, live.limits.convergence)
        self._left = {"value": self._limit, "form": self._limit}
        """The seconds that are left for repeating reads with a wrong value, and with a field of a wrong form."""
        self._never = False
        """Whether a value has stayed wrong for the entire limit, which is enough to fail."""
        self._malformed: set[tuple[Kind, str]] = set()
        """The fields that an answer of the route had in a wrong form. They are not judged again."""
        self._broken: set[Kind] = set()
        """The routes whose last valid request failed."""
        self._later: dict[tuple[Kind, bytes], _Question] = {}
        """The reads that are still wrong, and are repeated at the end of the phase."""
        self._known: dict[tuple[Kind, bytes], _Question] = {}
        """The reads that were right, and are repeated at the end of the run."""

    @property
    def silent(self) -> bool:
        """Whether the system has stopped answering. If so, no more requests are sent."""
        return self._timeouts == _SILENT

    def ask(self, title: str, kind: Kind, parts: list[Any], expect: str, after: bool = True, **wanted: Any) -> _Answer:
        """Send a request, record its answer, and return it; an empty, wrong answer if the request was not sent.

        ``parts``: the arguments in its path, None for a missing id. ``expect``: the expected class of its status.
        ``after``: whether the answers that this request depends on were right. ``wanted``: the expected fields of the
        body, ... for any id. A field that was malformed in an earlier answer of the route is not judged again.
        """
        service, method, path = ROUTES[kind]
        end = middle(*parts)
        wanted = {name: value for name, value in wanted.items() if (kind, name) not in self._malformed}
        expected = expect + "".join(f", {name} {_word(value)}" for name, value in wanted.items())
        request = f"{method} {service} {path}{end.decode()}"
        question = _Question(
            kind, end, expect, wanted, Exchange(title, service, request, expected, reads=method == "GET")
        )
        body, why = b"", self._blocked(question, None not in parts, after)
        if why:
            question.entry.got, question.entry.asked = f"not sent: {why}", False
        else:
            self._forget(kind, end, [] if question.entry.reads else parts)
            status, body = self._until_right(question)
            self._remember(question, status, body)
        self._live.record.exchanges.append(question.entry)  # only once it is complete
        return _Answer(body, question.entry.agreed)

    def _blocked(self, question: _Question, complete: bool, after: bool) -> str:
        """Return why a request must not be sent, or "". ``complete``: whether all of its arguments are known."""
        if self.silent:
            return "the system does not answer"
        if question.expect == REFUSED and question.kind in self._broken:
            return "a valid request to this route failed"
        if not complete:
            return "an earlier answer had no id that this request needs"
        return "" if after else "an answer that this request depends on was wrong"

    def _until_right(self, question: _Question) -> tuple[int, bytes]:
        """Send a request, and repeat a read that is wrong while there is time. Returns the last status and body."""
        entry, wrong_since = question.entry, -1.0
        while True:
            status, body = self._read(question)
            wrong = "form" if entry.why else "value"
            if entry.agreed or not entry.reads or question.expect != DONE or status < 200:
                break
            wrong_since = self._live.clock() if wrong_since < 0 else wrong_since
            if self._live.clock() >= wrong_since + self._left[wrong]:
                if wrong == "value":
                    self._never |= self._left[wrong] == self._limit
                    if not self._never:
                        self._later[question.place] = question
                break
            self._live.counter.wait(_AGAIN)
        if wrong_since >= 0:
            self._left[wrong] = max(0.0, self._left[wrong] - (self._live.clock() - wrong_since))
        return status, body

    def _remember(self, question: _Question, status: int, body: bytes) -> None:
        """Remember what an answer means for later requests."""
        self._bad_fields(question, status, body)
        if question.entry.agreed and question.entry.reads and question.expect == DONE:
            self._known[question.place] = question
        if question.expect == DONE:
            (self._broken.discard if status // 100 == 2 else self._broken.add)(question.kind)
        self._timeouts = self._timeouts + 1 if status == Status.TIMEOUT else 0

    def _read(self, question: _Question) -> tuple[int, bytes]:
        """Send a request and record the answer. Returns its status and its body."""
        entry, wanted, expect = question.entry, question.wanted, question.expect
        answer = self._send(entry.title, question.kind, [question.end])
        status, body = int(answer.status[0]), answer.bodies[0]
        good = status // 100 == 2
        fits = good and expect != REFUSED or status // 100 == 4 and expect != DONE
        why = [_malformed(body, *each) for each in wanted.items()] if good else []
        entry.agreed = fits and not any(why) and all(_is(body, *each) for each in wanted.items())
        entry.got = f"{status_word(status)} {body[:_SHOWN].decode(errors='replace')}".strip()
        entry.why, entry.status, entry.differs = "; ".join(filter(None, why)), status, ""
        counts = question.counts
        if counts or not entry.agreed:
            values = {name: value for name, value in fields(body).items() if name in wanted and good}
            shown = f"{status_word(status)} {json.dumps(values)[:_SHOWN] if values else ''}".strip()
            counts[shown] = counts.get(shown, 0) + 1
        if len(counts) > 1 and not entry.agreed:
            often = [f"{times} x {shown[:_SHOWN_FIELD]}" for shown, times in counts.items()]
            more = f", and {len(often) - _DIFFERENT} others" if len(often) > _DIFFERENT else ""
            entry.differs = f"{', '.join(often[:_DIFFERENT])}{more}"
        return status, body

    def _bad_fields(self, question: _Question, status: int, body: bytes) -> set[tuple[Kind, str]]:
        """Return the fields that are malformed for the first time in this answer. They will not be judged again."""
        wanted = question.wanted.items() if status // 100 == 2 else ()
        new = {(question.kind, name) for name, value in wanted if _malformed(body, name, value)} - self._malformed
        self._malformed |= new
        return new

    def _forget(self, kind: Kind, end: bytes, changed: list[Any]) -> None:
        """Do not repeat earlier reads of the users, items and orders in ``changed``, or the read that is sent now."""
        names = {middle(part) for part in changed}
        for places in (self._known, self._later):
            for place in [place for place in places if place == (kind, end) or place[1] in names]:
                entry = places.pop(place).entry
                if places is self._later:
                    entry.got = f"not judged, because reads lag behind and it has changed since: {entry.got}"
                    entry.asked = False

    def ask_again(self) -> None:
        """Repeat the reads that were still wrong until all answers are right, or until the convergence limit."""
        until = self._live.clock() + self._limit
        answers: dict[tuple[Kind, bytes], tuple[int, bytes]] = {}
        while self._later and not self.silent:
            for place, question in list(self._later.items()):
                answers[place] = self._read(question)
                if question.entry.agreed:
                    del self._later[place]
            if self._live.clock() >= until:
                break
            self._live.counter.wait(_AGAIN)
        for place, question in self._later.items():
            entry = question.entry
            if entry.why and not self._bad_fields(question, *answers[place]):
                entry.got = f"not judged, because an earlier answer had the same malformed field: {entry.got}"
                entry.asked = False

    def once_more(self) -> None:
        """At the end of the run, repeat the reads that were right, except reads of things that have changed since."""
        for place, question in self._known.items():
            entry = replace(question.entry, title=f"{question.entry.title}, at the end of the run", again=True)
            self._live.record.exchanges.append(entry)
            self._later[place] = replace(question, entry=entry)
        self.ask_again()

    def crowd(self, title: str, kind: Kind, parts: list[Any], times: int) -> tuple[int, int]:
        """Send the same request ``times`` times concurrently.

        Returns how many were acknowledged, and how many have an unknown effect.
        """
        if None in parts or self.silent:
            return 0, 0
        self._forget(kind, b"", parts)
        status = self._send(title, kind, [middle(*parts)] * times).status
        return int(done(status).sum()), int((~done(status) & ~denied(status)).sum())

    def _send(self, title: str, kind: Kind, ends: list[bytes]) -> Result:
        subject = np.full(len(ends), -1, dtype=np.int64)
        if len(ends) == 1:
            return self._live.counter.insist(Wave(PHASE, title, kind, subject, ends, connections=1, bodies=True))
        return self._live.counter.send(
            Wave(PHASE, title, kind, subject, ends, due=full(len(ends), 0), connections=64, bodies=True)
        )


def _items(body: bytes) -> dict[str, int] | None:
    """Return the quantity of each item in an order; None if a line is no pair or object of an id and an integer."""
    order: dict[str, int] = {}
    lines = fields(body).get("items")
    for line in lines if isinstance(lines, list) else [None]:
        if isinstance(line, dict):
            line = [line.get("item_id", line.get("id")), line.get("quantity", line.get("amount"))]
        if not isinstance(line, list) or len(line) != 2:
            return None
        item, quantity = as_id(line[0]), as_amount(line[1])
        if item is None or quantity is None:
            return None
        order[item] = order.get(item, 0) + quantity
    return order


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps([[item, quantity] for item, quantity in value.items()])
    if value is ...:
        return "an id"
    if not isinstance(value, range):
        return json.dumps(value)
    if not value:
        return "(no amount can be right, because more was taken than there was)"
    return f"{value[0]}" if len(value) == 1 else f"{value[0]} to {value[-1]}"


def _malformed(body: bytes, name: str, value: Any) -> str:
    """Return why a field does not have the form of the expected value; "" if it does."""
    had = fields(body)
    if name not in had:
        return f"it has no field {name}"
    said = f"{name} is {json.dumps(had[name])[:_SHOWN_FIELD]}"
    if name == "paid":
        return "" if isinstance(had[name], bool) else f"{said}, which is not true or false"
    if name == "items":
        return "" if _items(body) is not None else f'{said}, which is not a list of lines like ["item id", 2]'
    if value is ... or isinstance(value, str):
        return "" if read_id(body, name) is not None else f"{said}, which is not an id"
    return "" if read_amount(body, name) is not None else f"{said}, which is not a whole number"


def _is(body: bytes, name: str, value: Any) -> bool:
    """Return whether a field that is not malformed has the expected value."""
    if name == "paid":
        return bool(read_paid(body) == int(value))
    if name == "items":
        return bool(_items(body) == value)
    if value is ...:
        return True
    if isinstance(value, str):
        return bool(read_id(body, name) == value)
    return bool(read_amount(body, name) in (value if isinstance(value, range) else (value,)))


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
        live.notes(Contract).silent = True
    else:
        live.at_the_end.append(questions.once_more)


def _ask_all(ask: Any) -> None:
    _batches(ask)
    user, item = _users(ask), _items_of_stock(ask)
    _orders(ask, user, item)
    _too_much(ask)


def _batches(ask: Any) -> None:
    """Call batch_init of all three services, and check out one of the orders that it created."""
    users = ask("create users with batch_init", Kind.BATCH_USERS, [30, 500], DONE).right
    items = ask("create items with batch_init", Kind.BATCH_ITEMS, [30, 40, 7], DONE).right
    orders = ask("create orders with batch_init", Kind.BATCH_ORDERS, [10, 30, 30, 7], DONE).right
    for one in ("0", "29"):
        ask("a user from batch_init", Kind.FIND_USER, [one], DONE, users, credit=500)
        ask("an item from batch_init", Kind.FIND_ITEM, [one], DONE, items, stock=40, price=7)
    many = ask("an order from batch_init", Kind.FIND_ORDER, ["9"], DONE, orders, paid=False)
    lines, user = _items(many.body), read_id(many.body, "user_id")
    if not lines or user is None:
        return
    ask("the user of that order", Kind.FIND_USER, [user], DONE, users, credit=500)
    ask("an item of that order", Kind.FIND_ITEM, [min(lines)], DONE, items, stock=40, price=7)
    cost = 7 * sum(lines.values())
    ask("the cost of that order", Kind.FIND_ORDER, ["9"], DONE, orders, total_cost=cost)
    if cost > 500 or max(lines.values()) > 40 or min(lines.values()) < 1:
        return  # without lines of zero, the cost also limits how many items are read below
    paid = ask("check out an order from batch_init", Kind.CHECKOUT, ["9"], DONE, users and items).right
    ask("the user of that order was charged", Kind.FIND_USER, [user], DONE, paid, credit=500 - cost)
    for item, quantity in lines.items():
        ask("the stock of that order was taken", Kind.FIND_ITEM, [item], DONE, paid, stock=40 - quantity)


def _user(ask: Any, credit: int) -> str | None:
    """Create a user with credit. Returns the id; None if a request failed."""
    user = read_id(ask("create another user", Kind.CREATE_USER, [], DONE, user_id=...).body, "user_id")
    return user if ask("add credit to the other user", Kind.ADD_FUNDS, [user, credit], DONE).right else None


def _item(ask: Any, price: int, stock: int) -> str | None:
    """Create an item with stock. Returns the id; None if a request failed."""
    item = read_id(ask("create another item", Kind.CREATE_ITEM, [price], DONE, item_id=...).body, "item_id")
    return item if ask("add stock to the other item", Kind.ADD_STOCK, [item, stock], DONE).right else None


def _users(ask: Any) -> str | None:
    """Call all routes of the payment service. Returns a user with a credit of 70."""
    user = read_id(ask("create a user", Kind.CREATE_USER, [], DONE, user_id=...).body, "user_id")
    ask("a new user has no credit", Kind.FIND_USER, [user], DONE, credit=0)
    good = ask("add credit", Kind.ADD_FUNDS, [user, 100], DONE).right
    good = ask("pay", Kind.PAY, [user, 30], DONE, good).right
    good = ask("pay more than the credit", Kind.PAY, [user, 71], REFUSED, good).right
    ask("the remaining credit", Kind.FIND_USER, [user], DONE, good, credit=70)
    good = ask("pay all of the remaining credit", Kind.PAY, [user, 70], DONE, good).right
    good = ask("add credit again", Kind.ADD_FUNDS, [user, 70], DONE, good).right
    ask("read an unknown user", Kind.FIND_USER, ["no-such-user"], REFUSED)
    ask("add credit to an unknown user", Kind.ADD_FUNDS, ["no-such-user", 5], REFUSED)
    ask("an unknown user pays", Kind.PAY, ["no-such-user", 5], REFUSED)
    return user if good else _user(ask, 70)


def _items_of_stock(ask: Any) -> str | None:
    """Call all routes of the stock service. Returns an item with a price of 5 and a stock of 6."""
    item = read_id(ask("create an item", Kind.CREATE_ITEM, [5], DONE, item_id=...).body, "item_id")
    ask("a new item has no stock", Kind.FIND_ITEM, [item], DONE, stock=0, price=5)
    good = ask("add stock", Kind.ADD_STOCK, [item, 10], DONE).right
    good = ask("subtract stock", Kind.SUBTRACT, [item, 4], DONE, good).right
    good = ask("subtract more than the stock", Kind.SUBTRACT, [item, 7], REFUSED, good).right
    ask("the remaining stock", Kind.FIND_ITEM, [item], DONE, good, stock=6, price=5)
    good = ask("subtract all of the remaining stock", Kind.SUBTRACT, [item, 6], DONE, good).right
    good = ask("add stock again", Kind.ADD_STOCK, [item, 6], DONE, good).right
    ask("read an unknown item", Kind.FIND_ITEM, ["no-such-item"], REFUSED)
    ask("add stock to an unknown item", Kind.ADD_STOCK, ["no-such-item", 5], REFUSED)
    ask("subtract stock from an unknown item", Kind.SUBTRACT, ["no-such-item", 5], REFUSED)
    return item if good else _item(ask, 5, 6)


def _orders(ask: Any, user: str | None, item: str | None) -> None:
    """Call all routes of the order service. Its checkouts have enough credit and stock."""
    order = read_id(ask("create an order", Kind.CREATE_ORDER, [user], DONE, order_id=...).body, "order_id")
    ask("an empty order", Kind.FIND_ORDER, [order], DONE, paid=False, items={}, user_id=user, total_cost=0)
    added = ask("add a line", Kind.ADD_ITEM, [order, item, 2], DONE).right
    line = {"items": {item: 2}, "user_id": user, "total_cost": 10}
    ask("an order with one line", Kind.FIND_ORDER, [order], DONE, added, paid=False, **line)
    if not ask("add a line with an unknown item", Kind.ADD_ITEM, [order, "no-such-item", 1], REFUSED).right:
        # The order may now contain an item that does not exist.
        order = read_id(ask("create another order", Kind.CREATE_ORDER, [user], DONE, order_id=...).body, "order_id")
        added = ask("add a line to the other order", Kind.ADD_ITEM, [order, item, 2], DONE).right
    ask("add a line to an unknown order", Kind.ADD_ITEM, ["no-such-order", item, 1], REFUSED)
    ask("read an unknown order", Kind.FIND_ORDER, ["no-such-order"], REFUSED)
    paid = ask("check out the order", Kind.CHECKOUT, [order], DONE, added).right
    ask("check out an unknown order", Kind.CHECKOUT, ["no-such-order"], REFUSED)
    ask("the order is paid", Kind.FIND_ORDER, [order], DONE, paid, paid=True, **line)
    ask("the stock was taken", Kind.FIND_ITEM, [item], DONE, paid, stock=4)
    ask("the user was charged", Kind.FIND_USER, [user], DONE, paid, credit=60)
    ask("check out the same order again", Kind.CHECKOUT, [order], EITHER, paid)
    ask("add a line to a paid order", Kind.ADD_ITEM, [order, item, 1], EITHER, paid)
    ask("check out the paid order after that", Kind.CHECKOUT, [order], EITHER, paid)
    ask("the stock was taken only once", Kind.FIND_ITEM, [item], DONE, paid, stock=4)
    ask("the user was charged only once", Kind.FIND_USER, [user], DONE, paid, credit=60)


def _too_much(ask: Any) -> None:
    """Check out one order that exceeds the stock and one that exceeds the credit. Both must be refused."""
    user, item = _user(ask, 60), _item(ask, 5, 4)
    order = read_id(ask("create a second order", Kind.CREATE_ORDER, [user], DONE, order_id=...).body, "order_id")
    added = ask("add a line that exceeds the stock", Kind.ADD_ITEM, [order, item, 5], DONE).right
    refused = ask("check out with too little stock", Kind.CHECKOUT, [order], REFUSED, added).right
    ask("the refused order is not paid", Kind.FIND_ORDER, [order], DONE, refused, paid=False)
    if not refused:
        user, item = _user(ask, 60), _item(ask, 5, 4)
    dear = _item(ask, 61, 1)
    order = read_id(ask("create a third order", Kind.CREATE_ORDER, [user], DONE, order_id=...).body, "order_id")
    added = ask("add a line that exceeds the credit", Kind.ADD_ITEM, [order, dear, 1], DONE).right
    added = ask("add a second line", Kind.ADD_ITEM, [order, item, 1], DONE, added).right
    added = ask("add the same item again", Kind.ADD_ITEM, [order, item, 2], DONE, added).right
    lines = {"items": {dear: 1, item: 3}, "user_id": user, "total_cost": 76}
    ask("an order with three lines", Kind.FIND_ORDER, [order], DONE, added, paid=False, **lines)
    refused = ask("check out with too little credit", Kind.CHECKOUT, [order], REFUSED, added).right
    ask(
        "the refused order is not paid, and its lines are unchanged",
        Kind.FIND_ORDER,
        [order],
        DONE,
        refused,
        paid=False,
        **lines,
    )
    ask("the expensive item's stock is unchanged", Kind.FIND_ITEM, [dear], DONE, refused, stock=1)
    ask("the stock is unchanged", Kind.FIND_ITEM, [item], DONE, refused, stock=4)
    ask("the credit is unchanged", Kind.FIND_USER, [user], DONE, refused, credit=60)


def _at_once(questions: _Questions, times: int) -> None:
    """Call each route that changes an amount many times concurrently. No change may be lost or applied twice."""
    ask = questions.ask
    user = read_id(ask("create a second user", Kind.CREATE_USER, [], DONE, user_id=...).body, "user_id")
    item = read_id(ask("create a third item", Kind.CREATE_ITEM, [3], DONE, item_id=...).body, "item_id")
    order = read_id(ask("create a fourth order", Kind.CREATE_ORDER, [user], DONE, order_id=...).body, "order_id")
    for thing, service, change, take, find, name in (
        (user, "credit", Kind.ADD_FUNDS, Kind.PAY, Kind.FIND_USER, "credit"),
        (item, "stock", Kind.ADD_STOCK, Kind.SUBTRACT, Kind.FIND_ITEM, "stock"),
    ):
        added, perhaps = questions.crowd(f"add {service} {times} times concurrently", change, [thing, 2], times)
        if perhaps == times > 0:
            return  # the system hangs, so every further request would take a full timeout
        title = f"{service} after {added} concurrent additions of 2"
        amount: dict[str, Any] = {name: range(2 * added, 2 * (added + perhaps) + 1)}
        ask(title, find, [thing], DONE, **amount)
        taken, unsure = questions.crowd(f"take {service} {times} times concurrently", take, [thing, 3], times)
        low, high = 2 * added - 3 * (taken + unsure), 2 * (added + perhaps) - 3 * taken
        title = f"{service} after {added} additions of 2 and {taken} subtractions of 3"
        amount = {name: range(max(0, low), high + 1)}
        ask(title, find, [thing], DONE, **amount)
    added, perhaps = questions.crowd(f"add a line {times} times concurrently", Kind.ADD_ITEM, [order, item, 1], times)
    cost = range(3 * added, 3 * (added + perhaps) + 1)
    ask(f"an order after {added} concurrent additions", Kind.FIND_ORDER, [order], DONE, paid=False, total_cost=cost)
