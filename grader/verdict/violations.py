"""Turns the audit's findings into violations, with the grader's labels and the system's ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..audit import COUNTED, INDETERMINATE, Finding, audit, clean, view_of
from ..record import Record, Shot
from ..record.tables import Column
from ..table import TABLE
from ..terms import Entity, Kind, State

LOST = "lost: rows that stood before the kill are gone"
"""What a violation says of an id that a kill made unknown."""


@dataclass(frozen=True)
class Violation:
    """One violation of a rule."""

    label: str
    """The grader's name for the order, the same in every run with this seed; "" if no single order is identified."""
    order_id: str
    """The system's id for the order."""
    candidates: tuple[str, ...]
    """Labels of the orders that may have broken the rule."""
    rule: str
    phase: str
    detail: str
    order: int = -1
    """The order's row in the record, or -1 if no single order is identified."""
    rows: tuple[int, ...] = ()
    """The rows of the candidates."""
    times: int | None = None
    """How often the order was charged, or took its stock; None if that is not known."""
    due: int | None = None
    """How often it should have been: 1 if it is paid, otherwise 0; None if that is not what is wrong."""
    lost: bool = False
    """Whether a kill has removed what was acknowledged."""


def without_order(rule: str, phase: str, detail: str, lost: bool = False) -> Violation:
    """Return a violation that no order or balance is to blame for.

    >>> without_order("unavailable", "load", "no order could be set up").label
    ''
    """
    return Violation("", "", (), rule, phase, detail, lost=lost)


def of_order(record: Record, order: int, rule: str, phase: str, detail: str) -> Violation:
    """Return a violation of one order, a row of the record."""
    return Violation(label(record, order), str(record.orders["id"][order]), (), rule, phase, detail, order)


def label(record: Record, order: int) -> str:
    """Return the label of an order, for example "load-000123", or "" if ``order`` is -1 instead of a row."""
    if order < 0:
        return ""
    table = record.orders
    return f"{table['phase'][order]}-{int(table['number'][order]):06d}"


def ended(record: Record, phase: str) -> bool:
    """Return whether a phase ran to its end."""
    return record.phases[phase].end_s is not None


def judged_until(record: Record, phase: str) -> float:
    """Return the time (ns of the run) up to which requests of a phase are judged, if it was cut off.

    It is the end of the last snapshot for which the phase waited. The effects of later requests were still to come.
    """
    if ended(record, phase):
        return np.inf
    return max((shot["end"] for shot in record.snapshots_taken if shot["phase"] == phase), default=-1)


def deciding(record: Record, phase: str) -> int:
    """Return the number of the snapshot that judges a phase, or -1 if the phase has no snapshot.

    It is usually the phase's last snapshot. If no pair was accepted although the last snapshot is clean, it is the one
    before, because a value that is sometimes wrong is a violation.
    """
    taken = record.snapshots_taken
    kept = [n for n, shot in enumerate(taken) if shot["phase"] == phase]
    if len(kept) < 2 or taken[kept[-1]]["accepted"] or not clean(view_of(record, record.shot(kept[-1]))):
        return kept[-1] if kept else -1
    return kept[-2]


def violations(record: Record, phase: str) -> list[Violation]:
    """Return the violations in the snapshot that judges a phase, one for each rule and order."""
    number = deciding(record, phase)
    if number < 0:
        return []
    shot = record.shot(number)
    view = view_of(record, shot)
    if not clean(view):
        return _worded(record, phase, audit(view), shot)
    later = [n for n, taken in enumerate(record.snapshots_taken) if taken["phase"] == phase and n > number]
    return [unstable(record, phase, number, later[0])] if later else []


def killed(record: Record, since: int = -1) -> bool:
    """Return whether the grader killed a process after ``since`` (ns of the run)."""
    events = record.events
    return bool(((events["at"] > since) & (events["what"] == "kill")).any())


def _worded(record: Record, phase: str, findings: list[Finding], shot: Shot) -> list[Violation]:
    """Turn findings into violations.

    After a kill, an id that has become unknown is lost. If acknowledged orders are lost, only they are reported, not
    the users and items that were lost with them.
    """
    firm, unread = list[Violation](), list[Violation]()
    for finding in findings:
        rows, states, _ = shot.read[Entity(finding.entity)]
        lost = states[rows == finding.subject].tolist() == [State.UNKNOWN] and killed(record)
        names = tuple(label(record, order) for order in finding.candidates)
        order_id = record.orders["id"][finding.order] if finding.order >= 0 else ""
        detail = LOST if lost else finding.detail
        if finding.order >= 0 and finding.rule in COUNTED and _added_meanwhile(record, finding):
            detail += f", or an addition of {('', 'credit', 'stock')[finding.entity]} at that moment was overwritten"
        violation = Violation(
            label(record, finding.order),
            order_id,
            names,
            finding.rule,
            phase,
            detail,
            finding.order,
            finding.candidates,
            finding.times,
            finding.due,
            lost,
        )
        (unread if lost and finding.rule == "unavailable" else firm).append(violation)
    return firm if any(violation.lost for violation in firm) else firm + unread


def _added_meanwhile(record: Record, finding: Finding) -> bool:
    """Return whether credit or stock was added to a balance during a checkout of the order that a finding names."""
    history = record.history
    kind = Kind.ADD_FUNDS if finding.entity == Entity.USER else Kind.ADD_STOCK
    added = (history["kind"] == kind) & (history["subject"] == finding.subject)
    tried = (history["kind"] == Kind.CHECKOUT) & (history["subject"] == finding.order)
    begins, ends = history["sent"], np.maximum(history["done"], history["sent"])
    overlaps = (begins[added][:, None] <= ends[tried]) & (begins[tried] <= ends[added][:, None])
    return bool((overlaps & (begins[added] > 0)[:, None]).any())


def lost_in_kill(record: Record, before: int, after: int) -> list[Violation]:
    """Return the rules of the audit that a snapshot breaks for the ids of an earlier one, as violations of faults."""
    shot = _same_rows(record.shot(before), record.shot(after))
    return _worded(record, "faults", audit(view_of(record, shot)), shot)


def moved(first: Shot, second: Shot) -> bool:
    """Return whether a value of one snapshot is different in a later one."""
    return any(len(_moved(first, second, entity)[0]) for entity in Entity)


def vanished(first: Shot, second: Shot) -> bool:
    """Return whether an id that one snapshot read is unknown in a later one."""
    return any((_moved(first, second, entity)[2][0] == State.UNKNOWN).any() for entity in Entity)


def _same_rows(first: Shot, second: Shot) -> Shot:
    """Return a snapshot reduced to the rows of an earlier one. A row that is no longer ready is in the first alone."""
    read = {}
    for entity, (rows, _, _) in first.read.items():
        again, states, values = second.read[entity]
        rows = rows[np.isin(rows, again)]
        place = np.searchsorted(again, rows)
        read[entity] = rows, states[place], values[place]
    return Shot(second.begin, second.end, read)


def _moved(first: Shot, second: Shot, entity: Entity) -> tuple[Column, tuple[Column, Column], tuple[Column, Column]]:
    """Return the values that differ between two snapshots: their rows, and (state, value) before and after."""
    rows, states, values = first.read[entity]
    again, states_2, values_2 = second.read[entity]
    common = np.isin(rows, again)
    place = np.searchsorted(again, rows[common])
    moved = (values[common] != values_2[place]) | (states[common] != states_2[place])
    before, after = (states[common], values[common]), (states_2[place], values_2[place])
    return rows[common][moved], (before[0][moved], before[1][moved]), (after[0][moved], after[1][moved])


def completed(record: Record, before: int, after: int) -> bool:
    """Return whether all changes between two snapshots come from INDETERMINATE orders that were paid in the meantime.

    All balances must still add up. A recovery that runs on a timer can complete these orders long after a clean pair
    of snapshots.
    """
    first, second = record.shot(before), record.shot(after)
    orders, _, (_, paid) = _moved(first, second, Entity.ORDER)
    if not len(orders) or not paid.all() or (view_of(record, first).outcome[orders] != INDETERMINATE).any():
        return False
    lines = record.lines
    touched = {
        Entity.USER: record.orders["user"][orders],
        Entity.ITEM: lines["item"][np.isin(lines["order"], orders)],
    }
    if any(len(np.setdiff1d(_moved(first, second, entity)[0], some)) for entity, some in touched.items()):
        return False
    return clean(view_of(record, _same_rows(first, second)))


def _said(state: int, value: int) -> str:
    """Return the result of one read in words."""
    words = {State.READ: f"{value:,}", State.UNKNOWN: "unknown id", State.MALFORMED: "unreadable answer"}
    return words.get(State(state), "no answer")


def unstable(record: Record, phase: str, before: int, after: int) -> Violation:
    """Return the violation for two snapshots that should be equal. It names the first value that changed."""
    first, second = record.shot(before), record.shot(after)
    for entity in Entity:
        rows, old, new = _moved(first, second, entity)
        if len(rows):
            row, (was, then) = rows[0], (_said(state[0], value[0]) for state, value in (old, new))
            thing = f"{('order', 'user', 'item')[entity]} {record.rows(entity)['id'][row]}"
            detail = f"{thing} still changed: first {was}, then {then}"
            if entity == Entity.ORDER:
                return of_order(record, int(row), "unstable", phase, detail)
            return without_order("unstable", phase, detail)
    return without_order("unstable", phase, "two snapshots contain different ids")


def late_changes(record: Record) -> list[Violation]:
    """Return the violations of values that changed after the last snapshot of their phase was accepted.

    The final snapshot of the run must have the same values, except for orders that were completed since. If ids became
    unknown after a kill, the faults phase broke the rules, not the phase that created them.
    """
    taken = record.snapshots_taken
    last = [n for n, shot in enumerate(taken) if shot["phase"] == ""]
    if not last:
        return []
    final, changed = record.shot(last[-1]), []
    for phase in TABLE:
        # Only the last snapshot of the phase is compared, because each earlier one was followed by a top-up.
        kept = [n for n, shot in enumerate(taken) if shot["phase"] == phase][-1:]
        for number in kept if kept and taken[kept[0]]["accepted"] else ():
            if moved(record.shot(number), final) and not completed(record, number, last[-1]):
                changed.append((phase, number))
    gone = any(killed(record, record.shot(n).end) and vanished(record.shot(n), final) for _, n in changed)
    late = []
    for phase, number in changed:
        lost = lost_in_kill(record, number, last[-1]) if gone and killed(record, record.shot(number).end) else []
        late += lost or [unstable(record, phase, number, last[-1])]
    return late
