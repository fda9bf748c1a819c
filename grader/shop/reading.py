"""Take a snapshot: read every order, user and item in a phase, and retry lost reads.

``snapshot`` reads everything concurrently. If several workers share a port, one of them may answer all the requests
in a short burst. Therefore, ``look_again`` reads the same things in a different order, one request at a time and over
new connections. This reveals workers that remember different values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..record import Shot
from ..record.tables import Column
from ..terms import Entity, Kind, State
from ..wire.jobs import Longs
from .answers import read_amount, read_paid
from .counter import CLOSED, Counter, Wave
from .routes import middle

TRIES, _BETWEEN = 4, 1.0
"""How often a lost read is tried in one snapshot, and the seconds before each try from the third on. A process can
restart in that time."""
_LOOKS = 4
"""How often `look_again` reads everything. If each read is answered by one of two workers at random, the same worker
answers all reads of a thing in 1 case of 16."""
_FEW, _MANY = 8, 256
"""The number of requests between two checks of the time: the initial number, and the maximum."""
_GLANCE = 0.2
"""The seconds that these requests should take, so that reading a slow system ends in time."""
Read = tuple[Longs, Column, Column]
"""The rows of orders, users or items, and the state and the value of each read."""
_READS: dict[Entity, tuple[Kind, Callable[[bytes], int | None]]] = {
    Entity.ORDER: (Kind.FIND_ORDER, read_paid),
    Entity.USER: (Kind.FIND_USER, lambda body: read_amount(body, "credit")),
    Entity.ITEM: (Kind.FIND_ITEM, lambda body: read_amount(body, "stock")),
}


def scope(counter: Counter, entity: Entity, phase: str) -> Longs:
    """Return the rows that a snapshot reads: those of a phase, or of all phases if ``phase`` is ""."""
    table = counter.record.rows(entity)
    ready = table["ready"] == 1
    if phase:
        ready = ready & (table["phase"] == phase)
    return np.asarray(np.flatnonzero(ready), dtype=np.int64)


def snapshot(counter: Counter, phase: str, name: str) -> Shot:
    """Read all orders, users and items of a phase, or of all phases if ``phase`` is ""."""
    begin = counter.now()
    read = {entity: _unread(scope(counter, entity, phase)) for entity in Entity}
    for attempt in range(1, TRIES + 1):
        lost = [entity for entity, (_, state, _) in read.items() if (state == State.LOST).any()]
        if not lost:
            break
        if attempt > 2:
            counter.wait(_BETWEEN)
        for entity in lost:
            _read(counter, phase, name, entity, read[entity], attempt=attempt)
    return Shot(begin, counter.now(), read)


def look_again(counter: Counter, phase: str, name: str, shot: Shot, until: int) -> Shot:
    """Read everything in a snapshot again, until ``until`` (in nanoseconds since the run began).

    Returns a copy of the snapshot that contains the first differences. A lost read is not a difference, because the
    next snapshot repeats it.
    """
    rng = np.random.default_rng(len(counter.record.waves))
    size, left = _FEW, deque[tuple[Entity, Longs]]()
    for _ in range(_LOOKS):
        left.extend((entity, rng.permutation(len(read[0]))) for entity, read in shot.read.items() if len(read[0]))
        while left and (began := counter.now()) < until:
            entity, places = left.popleft()
            if len(places) > size:
                left.append((entity, places[size:]))  # so that orders, users and items take turns
                places = places[:size]
            subject, state, value = shot.read[entity]
            counter.hang_up()
            _, states, values = again = _unread(subject[places])
            _read(counter, phase, name, entity, again, connections=1)
            size = int(np.clip(len(places) * _GLANCE * 1e9 / (counter.now() - began), 1, _MANY))
            moved = (states != State.LOST) & ((states != state[places]) | (values != value[places]))
            if moved.any():
                state, value = state.copy(), value.copy()
                state[places[moved]], value[places[moved]] = states[moved], values[moved]
                return Shot(shot.begin, counter.now(), {**shot.read, entity: (subject, state, value)})
    return Shot(shot.begin, counter.now(), shot.read)


def _unread(subject: Longs) -> Read:
    """Return rows that have not been read yet."""
    return subject, np.full(len(subject), State.LOST, dtype=np.int8), np.zeros(len(subject), dtype=np.int64)


def _read(
    counter: Counter, phase: str, name: str, entity: Entity, read: Read, connections: int = CLOSED, attempt: int = 1
) -> None:
    """Send each lost read once, and write the results into ``read``."""
    kind, value_of = _READS[entity]
    ids = counter.record.rows(entity)["id"]
    subject, state, value = read
    left = np.flatnonzero(state == State.LOST)
    middles = [middle(ids[row]) for row in subject[left]]
    answers = counter.insist(
        Wave(phase, name, kind, subject[left], middles, attempt=attempt, bodies=True, connections=connections)
    )
    for at, code, body in zip(left, answers.status, answers.bodies, strict=True):
        if 200 <= code < 300:
            number = value_of(body)
            state[at] = State.MALFORMED if number is None else State.READ
            value[at] = number or 0
        elif 400 <= code < 500 and code != 429:
            state[at] = State.UNKNOWN
