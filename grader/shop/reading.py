"""A snapshot: every order, user and item of a scope, read over the network, with retries for what was lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..record import Shot
from ..record.tables import Column
from ..terms import PHASES, Entity, Kind, State
from ..wire.jobs import Longs
from .answers import read_amount, read_paid
from .counter import CLOSED, Counter, Wave
from .routes import middle

TRIES = 3
_READS: dict[Entity, tuple[Kind, Callable[[bytes], int | None]]] = {
    Entity.ORDER: (Kind.FIND_ORDER, read_paid),
    Entity.USER: (Kind.FIND_USER, lambda body: read_amount(body, "credit")),
    Entity.ITEM: (Kind.FIND_ITEM, lambda body: read_amount(body, "stock")),
}


def scope(counter: Counter, entity: Entity, phase: str) -> Longs:
    """The rows that a snapshot of a phase reads; of all phases for ""."""
    table = counter.record.rows(entity)
    ready = table["ready"] == 1
    if phase:
        ready = ready & (table["phase"] == PHASES.index(phase))
    return np.asarray(np.flatnonzero(ready), dtype=np.int64)


def snapshot(counter: Counter, phase: str, name: str) -> Shot:
    """Read everything of a phase, or of all of them."""
    begin = counter.now()
    read = {entity: _read(counter, phase, name, entity) for entity in Entity}
    return Shot(begin, counter.now(), read)


def _read(counter: Counter, phase: str, name: str, entity: Entity) -> tuple[Column, Column, Column]:
    subject = scope(counter, entity, phase)
    kind, value_of = _READS[entity]
    ids = counter.record.rows(entity)["id"]
    state = np.full(len(subject), State.LOST, dtype=np.int8)
    value = np.zeros(len(subject), dtype=np.int64)
    for attempt in range(1, TRIES + 1):
        left = np.flatnonzero(state == State.LOST)
        if not len(left):
            break
        middles = [middle(ids[row]) for row in subject[left]]
        answers = counter.send(
            Wave(phase, name, kind, subject[left], middles, attempt=attempt, bodies=True, connections=CLOSED)
        )
        for at, code, body in zip(left, answers.status, answers.bodies, strict=True):
            if 200 <= code < 300:
                number = value_of(body)
                state[at] = State.MALFORMED if number is None else State.READ
                value[at] = number or 0
            elif 400 <= code < 500 and code != 429:
                state[at] = State.UNKNOWN
    return subject, state, value
