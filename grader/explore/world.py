"""What a run is about: new users, items and orders, and the requests of the client."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import VoidError
from ..phases import Live
from ..record import Record
from ..shop import Wave
from ..shop.routes import middle
from ..shop.stocking import new_items, new_orders, new_users
from ..terms import Entity, Kind, State, denied, done, refused, status_word
from ..verdict import Violation
from ..verdict.violations import without_order
from ..wire.jobs import Result
from .cases import ADD_FUNDS, CHECKOUT, PRICES, SUBTRACT, Scenario

PHASE = "explore"
_TRIES = 20
"""How many pairs of items are created until their ids are in ascending order."""
_KINDS = {
    CHECKOUT: (Kind.CHECKOUT, Entity.ORDER, 0),
    ADD_FUNDS: (Kind.ADD_FUNDS, Entity.USER, 1),
    SUBTRACT: (Kind.SUBTRACT, Entity.ITEM, -1),
}
"""The kind of each request of the client, the thing that it changes, and the sign of its amount."""
_CONFLICT, _OFTEN = 409, 150
"""The status that stands for its own request; and more reads than a pool usually has connections."""


class SetUpError(VoidError):
    """An order could not be set up."""


@dataclass(frozen=True)
class World:
    """The rows of a run. ``names``: those of the system's ids."""

    scenario: Scenario
    rows: dict[Entity, tuple[int, ...]]
    names: dict[str, str]

    def wave(self, record: Record) -> Wave:
        """Return the requests of the client, which are sent together."""
        found = [(*_KINDS[what], row, amount) for what, row, amount in self.scenario.calls]
        rows = np.array([self.rows[entity][row] for _, entity, _, row, _ in found])
        ids = [record.rows(entity)["id"][row] for (_, entity, *_), row in zip(found, rows, strict=True)]
        middles = [middle(made, *(amount,) * bool(amount)) for made, (*_, amount) in zip(ids, found, strict=True)]
        kinds = np.array([int(kind) for kind, *_ in found])
        return Wave(PHASE, "calls", Kind.CHECKOUT, rows, middles, connections=len(rows), kinds=kinds)

    def answered(self, record: Record, result: Result) -> None:
        """Record what the answers to the requests mean for the amounts.

        A user or an item whose request got no definite answer is not judged.
        """
        for (what, row, amount), status, at in zip(self.scenario.calls, result.status, result.done, strict=True):
            _, entity, sign = _KINDS[what]
            subject = self.rows[entity][row]
            if sign and done(status):
                record.funds.append(kind=int(entity), subject=subject, amount=sign * amount, at=int(at))
            elif sign and not denied(status):
                record.rows(entity)["ready"][subject] = 0

    def read_often(self, live: Live) -> None:
        """Read each thing many times, as customers do. A pool answers 503 once for each connection that has broken."""
        reads = {Entity.ORDER: Kind.FIND_ORDER, Entity.USER: Kind.FIND_USER, Entity.ITEM: Kind.FIND_ITEM}
        for entity, kind in reads.items():
            row = self.rows[entity][0]
            made = middle(live.record.rows(entity)["id"][row])
            live.counter.send(Wave(PHASE, "read often", kind, np.full(_OFTEN, row), [made] * _OFTEN))

    def once_more(self, live: Live, wave: Wave, told: list[str], front: str) -> list[int]:
        """Check each order out once more. Returns the statuses, and adds a line for each one to ``told``."""
        found = []
        for number, row in enumerate(self.rows[Entity.ORDER]):
            made = live.record.orders["id"][row]
            one = replace(
                wave, name="once more", subject=np.full(1, row), middles=[middle(made)], kinds=None, connections=1,
                attempt=2, may_refuse=True,
            )  # fmt: skip
            found.append(int(live.counter.send(one).status[0]))
            told.append(f"client -> {front}   POST /checkout/{'OP'[number]}, once more: {status_word(found[-1])}")
        return found

    def unsold(self, record: Record, statuses: list[int]) -> list[Violation]:
        """Return a violation if each order was refused once more, although there is enough for more than are paid."""
        rows, states, values = record.shot(len(record.snapshots_taken) - 1).read[Entity.ORDER]
        sold = int(((states == State.READ) & (values != 0)).sum())
        firm = all(refused(np.array(statuses)) & (np.array(statuses) != _CONFLICT))
        if sold >= self.scenario.paid or not firm or len(rows) < len(self.rows[Entity.ORDER]):
            return []
        detail = f"there was enough for {self.scenario.paid} orders, but {sold} are paid, and all are refused once more"
        return [without_order("never_sold", PHASE, detail)]


def set_up(live: Live, scenario: Scenario) -> World:
    """Create the users, items and orders of a scenario. Raises SetUpError if a request is not answered 2xx."""
    counter, record = live.counter, live.record
    users = new_users(counter, PHASE, np.full(len(scenario.credit), -1), np.array(scenario.credit))
    for _ in range(_TRIES):
        items = new_items(counter, PHASE, np.full(2, -1), np.array(PRICES), np.array(scenario.stock))
        if operator.lt(*record.items["id"][items]):
            break  # many systems take items in the order of their ids, and it must be the same in each run
    orders = []
    for number, (user, units) in enumerate(scenario.orders):
        lines = [
            (items[at : at + 1], np.full(1, units[at]), np.full(1, PRICES[at])) for at in np.flatnonzero(units).tolist()
        ]
        orders += new_orders(counter, PHASE, np.full(1, number), users[user : user + 1], np.full(1, -1), lines).tolist()
    if not record.orders["ready"][orders].all():
        answers = sorted({status_word(int(status)) for status in record.history["status"]})
        raise SetUpError(f"an order could not be set up ({', '.join(answers)}); try checkout --phases contract first")
    rows = {Entity.ORDER: tuple(orders), Entity.USER: tuple(users.tolist()), Entity.ITEM: tuple(items.tolist())}
    letters = {Entity.ORDER: "OP", Entity.USER: "UV", Entity.ITEM: "XY"}
    ids = {
        str(record.rows(entity)["id"][row]): letter
        for entity in (Entity.ORDER, Entity.USER, Entity.ITEM)
        for row, letter in zip(rows[entity], letters[entity], strict=False)
    }
    return World(scenario, rows, ids)


__all__ = ["PHASE", "SetUpError", "World", "set_up"]
