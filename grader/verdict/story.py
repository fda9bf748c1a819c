"""Traces one order: its attempts and their answers, the faults around them, and the values read at the end.

Each moment comes from an entry in the history or from an event, and the final values come from a snapshot. Nothing is
inferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..record import Record
from ..table import TABLE
from ..terms import GRAVITY, NEVER_WRITTEN, Entity, Kind, State, done, status_word
from .violations import Violation, deciding, label

FAULTS = ("kill", "pause")
"""The events that are faults."""
AROUND = 0.3
"""A story includes the events up to this many seconds before its first attempt and after its last one."""
TOGETHER = 50_000_000
"""Faults less than this many nanoseconds apart are merged into one, for example when all processes are killed."""


@dataclass(frozen=True)
class Moment:
    """One event in a story. ``at`` is in seconds since the start of the run."""

    at: float
    lane: str
    """The column that shows it: grader for a request or an answer, faults for an event of a process."""
    what: str
    mark: str
    """The sign to show: sent, done, refused, unknown, never, kill, pause, up or other."""
    process: str = ""
    attempt: int = 0
    """The number of the attempt that was sent."""


@dataclass(frozen=True)
class Sum:
    """The balance of one user or item.

    ``start`` is its value at the start, ``less`` is the amount that its paid orders took, and ``shown`` is the value
    that was read, or None if it was unreadable.
    """

    entity: Entity
    id: str
    start: int
    orders: int
    """The number of paid orders that reduced this balance."""
    less: int
    shown: int | None


@dataclass(frozen=True)
class Story:
    """The story of one order, with times in seconds since the start of the run.

    ``begin`` is the time when its first checkout was due, and ``read`` is the end of the snapshot that judges it.
    """

    label: str
    order_id: str
    begin: float
    read: float
    moments: tuple[Moment, ...]
    paid: str
    """The answer of the order service: paid, not paid, or the reason why neither is known."""
    sums: tuple[Sum, ...]


def gravity(violation: Violation) -> tuple[Any, ...]:
    """Return the key that sorts violations: the gravest kind first, of it the earliest phase, of that single orders."""
    rule, phase = violation.rule, list(TABLE).index(violation.phase)
    rank, group = next((n, group) for n, group in enumerate(GRAVITY) if rule in group)
    return rank, phase, not violation.label, group.index(rule), violation.label


def named(violations: tuple[Violation, ...]) -> Violation | None:
    """Return the violation to show first."""
    return min(violations, key=gravity, default=None)


def faults(record: Record) -> list[tuple[float, str]]:
    """Return the grader's kills and pauses, each with its time and a description.

    Times are in seconds since the start of the run. Faults less than TOGETHER apart are merged into one.
    """
    events = record.events
    merged: list[tuple[int, list[str]]] = []
    for row in np.argsort(events["at"], kind="stable"):
        what = str(events["what"][row])
        if what not in FAULTS:
            continue
        at, fault = int(events["at"][row]), f"{what} {events['process'][row]}"
        if merged and at - merged[-1][0] < TOGETHER:
            merged[-1][1].append(fault)
        else:
            merged.append((at, [fault]))
    return [(at / 1e9, some[0] if len(some) == 1 else f"{some[0]} and {len(some) - 1} more") for at, some in merged]


def answers(record: Record, order: int) -> list[tuple[int, int, int, int]]:
    """Return an order's checkouts as (due, sent, done, status), sorted by due time. The times are in ns."""
    history = record.history
    mine = np.flatnonzero((history["kind"] == Kind.CHECKOUT) & (history["subject"] == order))
    rows = [tuple(int(history[c][row]) for c in ("due", "sent", "done", "status")) for row in mine]
    return sorted((due, sent, done, status) for due, sent, done, status in rows)


def fault_of(known: list[tuple[float, str]], first: int, last: int) -> int:
    """Return the index of the fault that is nearest to the attempts between two times (in ns), or -1 if there is none.

    This is the first fault after ``first`` or, if there is none, the last one before it. Only faults within AROUND
    seconds of the attempts are considered.
    """
    begin, end = first / 1e9, last / 1e9
    near = [n for n, (at, _) in enumerate(known) if begin - AROUND <= at <= end + AROUND]
    return next((n for n in near if known[n][0] >= begin), near[-1] if near else -1)


def longest(record: Record) -> int:
    """Return the order (a row) of the faults phase that took longest from its first checkout to its last 2xx answer.

    Only orders with an unanswered attempt are considered. Returns -1 if there are none.
    """
    history = record.history
    mine = np.flatnonzero((history["kind"] == Kind.CHECKOUT) & (history["subject"] >= 0))
    mine = mine[record.orders["phase"][history["subject"][mine]] == "faults"]
    if not len(mine):
        return -1
    subject, status = history["subject"][mine], history["status"][mine]
    begin = np.full(len(record.orders), np.iinfo(np.int64).max)
    np.minimum.at(begin, subject, history["due"][mine])
    unsure = np.isin(np.arange(len(begin)), subject[status < 0])
    ends = np.zeros(len(begin), dtype=np.int64)
    good = done(status)
    np.maximum.at(ends, subject[good], history["done"][mine][good])
    took = np.where((ends > 0) & unsure, ends - begin, -1)
    return int(np.argmax(took)) if took.max() > 0 else -1


def example(record: Record, violation: Violation) -> int:
    """Return the candidate (a row) of a violation whose checkout was done last, or -1 if no candidate was sent."""
    history = record.history
    sent = record.checkouts() & np.isin(history["subject"], violation.rows) & (history["sent"] > 0)
    if not sent.any():
        return -1
    ends = np.where(done(history["status"]), history["done"], 0)[sent]
    return int(history["subject"][sent][int(np.argmax(ends))])


def story(record: Record, order: int, phase: str) -> Story:
    """Return the story of an order (a row), up to the snapshot that judges ``phase``."""
    moments, tries = [], answers(record, order)
    for number, (due, sent, ended, status) in enumerate(tries, 1):
        if sent:
            moments.append(Moment(sent / 1e9, "grader", f"checkout sent, attempt {number}", "sent", attempt=number))
        moments.append(Moment((ended or sent or due) / 1e9, "grader", status_word(status), _mark(status)))
    begin = tries[0][0] / 1e9 if tries else 0.0
    if tries:
        first, last = begin - AROUND, tries[-1][2] / 1e9 + AROUND
        events = record.events
        for at, process, what in zip(events["at"], events["process"], events["what"], strict=True):
            if first <= int(at) / 1e9 <= last:
                word = str(what) if what in FAULTS else "up" if what in ("ready", "resume") else "other"
                moments.append(Moment(int(at) / 1e9, "faults", str(what), word, str(process)))
    moments.sort(key=lambda m: m.at)
    while moments and moments[0].mark in ("up", "other"):
        del moments[0]  # drop restarts before the first attempt
    paid, sums, read = _readings(record, order, phase)
    return Story(label(record, order), record.orders["id"][order], begin, read, tuple(moments), paid, sums)


def _mark(status: int) -> str:
    if status in NEVER_WRITTEN:
        return "never"
    return "done" if 200 <= status < 300 else "refused" if 400 <= status < 500 else "unknown"


def _readings(record: Record, order: int, phase: str) -> tuple[str, tuple[Sum, ...], float]:
    number = deciding(record, phase)
    if number < 0:
        return "not read", (), 0.0
    shot, orders, lines = record.shot(number), record.orders, record.lines
    if order not in shot.read[Entity.ORDER][0]:  # an order of an earlier phase, which the final snapshot covers
        shot = record.shot(len(record.snapshots_taken) - 1)
    rows, states, values = shot.read[Entity.ORDER]
    at = np.flatnonzero(rows == order)
    paid_orders = rows[(states == State.READ) & (values != 0)]
    paid = _paid(int(states[at[0]]), int(values[at[0]])) if len(at) else "not read"
    user = int(orders["user"][order])
    of_user = paid_orders[orders["user"][paid_orders] == user]
    sums = [_sum(record, shot.read, Entity.USER, user, len(of_user), int(orders["cost"][of_user].sum()), shot.begin)]
    paid_lines = np.isin(lines["order"], paid_orders)
    for item in lines["item"][lines["order"] == order]:
        mine = paid_lines & (lines["item"] == item)
        count, less = len(np.unique(lines["order"][mine])), int(lines["quantity"][mine].sum())
        sums.append(_sum(record, shot.read, Entity.ITEM, int(item), count, less, shot.begin))
    return paid, tuple(sums), shot.end / 1e9


def _sum(record: Record, read: object, entity: Entity, subject: int, orders: int, less: int, begin: int) -> Sum:
    assert isinstance(read, dict)
    rows, states, values = read[entity]
    at = np.flatnonzero(rows == subject)
    seen = len(at) and states[at[0]] == State.READ
    shown = int(values[at[0]]) if seen else None
    start = int(record.initial(entity, begin)[subject])
    return Sum(entity, str(record.rows(entity)["id"][subject]), start, orders, less, shown)


def _paid(state: int, value: int) -> str:
    if state == State.READ:
        return "paid" if value else "not paid"
    return {State.UNKNOWN: "no such order", State.MALFORMED: "unreadable answer"}.get(State(state), "no answer")
