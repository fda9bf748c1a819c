"""The input of an audit: the orders, users and items of one snapshot, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..record import Record, Shot
from ..terms import Entity, State
from .outcomes import outcomes

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """The columns to judge, indexed by the rows of the record's tables. ``*_in`` marks the rows to judge."""

    outcome: NDArray[Any]
    order_in: NDArray[np.bool_]
    order_state: NDArray[Any]
    paid: Longs
    """1 if the snapshot shows the order as paid, otherwise 0."""
    cost: Longs
    user: Longs
    slot: NDArray[Any]
    """The order's slot in its block; -1 if its amounts do not encode digits."""
    line_order: Longs
    line_item: Longs
    line_quantity: Longs
    user_in: NDArray[np.bool_]
    user_state: NDArray[Any]
    credit: Longs
    """The credit in the snapshot."""
    credit_initial: Longs
    item_in: NDArray[np.bool_]
    item_state: NDArray[Any]
    stock: Longs
    stock_initial: Longs
    item_price: Longs
    funds: dict[Entity, tuple[Longs, Longs]] = field(default_factory=dict)
    """The acknowledged additions of credit and stock: the rows of the users or items, ascending, and the amounts."""


def view_of(record: Record, shot: Shot) -> View:
    """Return the view of a snapshot.

    It includes the attempts that were due before the snapshot ended, and the amounts acknowledged before it began.
    """
    history, tables = record.history, record.tables
    # The snapshot cannot show requests that were sent after it.
    chosen = record.checkouts() & (history["due"] <= shot.end)
    orders = len(record.orders)
    found = outcomes(orders, history["subject"][chosen], history["status"][chosen])
    columns: dict[Entity, tuple[Any, Any, Any]] = {}
    for entity in Entity:
        at, states, values = shot.read[entity]
        size = len(record.rows(entity))
        inside = np.zeros(size, dtype=np.bool_)
        state, value = np.full(size, State.LOST, dtype=np.int8), np.zeros(size, dtype=np.int64)
        inside[at], state[at], value[at] = True, states, values
        columns[entity] = inside & (record.rows(entity)["ready"] == 1), state, value
    lines = tables["lines"]
    return View(
        found,
        *columns[Entity.ORDER],
        record.orders["cost"],
        record.orders["user"],
        record.orders["slot"],
        lines["order"],
        lines["item"],
        lines["quantity"],
        *columns[Entity.USER],
        record.initial(Entity.USER, shot.begin),
        *columns[Entity.ITEM],
        record.initial(Entity.ITEM, shot.begin),
        record.items["price"],
        {entity: record.additions(entity, shot.begin) for entity in (Entity.USER, Entity.ITEM)},
    )
