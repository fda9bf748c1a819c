"""A snapshot: every order, user and item of a scope, read over the network, with retries for what was lost.

``snapshot`` reads everything side by side, in one burst. Of several workers behind one port, one that happens to run
may answer all of a short burst, so ``look_again`` reads the same things once more in another order, one request after
the other and over fresh connections: what another worker remembers differently shows then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..record import Shot
from ..record.tables import Column
from ..terms import RUNS, Entity, Kind, State
from ..wire.jobs import Longs
from .answers import read_amount, read_paid
from .counter import CLOSED, Counter, Wave
from .routes import middle

TRIES, _BETWEEN = 4, 1.0
"""Of a read that was lost, within one snapshot; seconds between them, from the second on, so that a process that has
exited is back."""
_LOOKS = 4
"""How often at most a second look goes through everything: of two workers that take turns at random, the same one
answers for a thing each time in one case of 16."""
_FEW, _MANY = 8, 256
"""Requests between two looks at the clock: at first, and at most."""
_GLANCE = 0.2
"""Seconds that they should take, so that a slow system is not read much longer than it was to be."""
Read = tuple[Longs, Column, Column]
"""Orders, users or items; the state of each one's reading; its value."""
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
        ready = ready & (table["phase"] == RUNS.index(phase))
    return np.asarray(np.flatnonzero(ready), dtype=np.int64)


def snapshot(counter: Counter, phase: str, name: str) -> Shot:
    """Read everything of a phase, or of all of them."""
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
    """A snapshot, with what a second look before ``until`` (nanoseconds of the run) found to differ; it ends there.

    What was lost is no difference: the next snapshot asks for it again.
    """
    rng = np.random.default_rng(len(counter.record.waves))
    size, left = _FEW, deque[tuple[Entity, Longs]]()
    for _ in range(_LOOKS):
        left.extend((entity, rng.permutation(len(read[0]))) for entity, read in shot.read.items() if len(read[0]))
        while left and (began := counter.now()) < until:
            entity, places = left.popleft()
            if len(places) > size:
                left.append((entity, places[size:]))  # orders, users and items take turns
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
    """Orders, users or items of which nothing has been read yet."""
    return subject, np.full(len(subject), State.LOST, dtype=np.int8), np.zeros(len(subject), dtype=np.int64)


def _read(
    counter: Counter, phase: str, name: str, entity: Entity, read: Read, connections: int = CLOSED, attempt: int = 1
) -> None:
    """Ask for what is lost of some orders, users or items, once; what comes of it is written into ``read``."""
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
