"""One order's run: each attempt and its answer, the faults around them, and what the services said at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..record import Record
from ..terms import Entity, Kind, State, status_word
from .violations import Violation, label


@dataclass(frozen=True)
class Moment:
    """One row of the timeline; ``at`` in seconds of the run."""

    at: float
    lane: str
    """grader, order, stock, payment or faults."""
    what: str


@dataclass(frozen=True)
class Story:
    """Of one order."""

    label: str
    order_id: str
    violation: Violation
    moments: tuple[Moment, ...]


def named(violations: tuple[Violation, ...]) -> Violation | None:
    """The violation whose order is named first: of the largest group of one rule and phase, the lowest label."""
    with_order = [v for v in violations if v.order >= 0] or list(violations)
    if not with_order:
        return None
    groups: dict[tuple[str, str], list[Violation]] = {}
    for violation in with_order:
        groups.setdefault((violation.rule, violation.phase), []).append(violation)
    largest = max(groups.values(), key=len)
    return min(largest, key=lambda v: v.label)


def story(record: Record, violation: Violation) -> Story:
    """What happened to a violation's order."""
    order, moments = violation.order, []
    if order >= 0:
        history = record.history
        mine = np.flatnonzero((history["kind"] == Kind.CHECKOUT) & (history["subject"] == order))
        for row in mine:
            sent, done, status = (int(history[c][row]) for c in ("sent", "done", "status"))
            if sent:
                moments.append(Moment(sent / 1e9, "grader", f"checkout sent, attempt {history['attempt'][row]}"))
            moments.append(Moment(done / 1e9, "grader", status_word(status)))
        if moments:
            first, last = moments[0].at - 1, moments[-1].at + 1
            events = record.events
            for at, process, what in zip(events["at"], events["process"], events["what"], strict=True):
                if first <= at / 1e9 <= last:
                    moments.append(Moment(at / 1e9, "faults", f"{process}: {what}"))
        moments += _readings(record, violation)
    return Story(violation.label, violation.order_id, violation, tuple(sorted(moments, key=lambda m: m.at)))


def _readings(record: Record, violation: Violation) -> list[Moment]:
    kept = [n for n, shot in enumerate(record.snapshots_taken) if shot["phase"] == violation.phase]
    if not kept:
        return []
    shot, order = record.shot(kept[-1]), violation.order
    lines = record.lines
    parts = [("order", Entity.ORDER, order), ("payment", Entity.USER, int(record.orders["user"][order]))]
    parts += [("stock", Entity.ITEM, int(item)) for item in lines["item"][lines["order"] == order]]
    moments = []
    for lane, entity, subject in parts:
        rows, states, values = shot.read[entity]
        at = np.flatnonzero(rows == subject)
        if len(at):
            moments.append(
                Moment(shot.end / 1e9, lane, _said(record, entity, subject, states[at[0]], values[at[0]], shot.begin))
            )
    return moments


def _said(record: Record, entity: Entity, subject: int, state: int, value: int, begin: int) -> str:
    if state != State.READ:
        return {State.UNKNOWN: "says that there is no such thing", State.MALFORMED: "answers nothing readable"}.get(
            State(state), "does not answer"
        )
    if entity == Entity.ORDER:
        return "says paid" if value else "says not paid"
    word = "credit" if entity == Entity.USER else "stock"
    return f"says {word} {value:,}, of {record.initial(entity, begin)[subject]:,}"


__all__ = ["Moment", "Story", "label", "named", "story"]
