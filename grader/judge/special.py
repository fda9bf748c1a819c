"""What only some phases can show: an exchange that is not as agreed, a false refusal, too many or too few sold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..audit import FAIL, outcomes
from ..record import Record
from ..terms import Entity, Kind
from .violations import Violation, label

AMPLE = ("duplicates", "load")
"""Phases with stock and credit for every order, save in waves that are named short."""


def special(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """The violations of a phase beside its audits; orders that are named already are not named for less."""
    rule = _RULES.get(phase)
    return rule(record, phase, known) if rule else []


def _contract(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """What was asked and did not agree; what could not be asked follows from that."""
    return [
        Violation("", "", (), "contract", phase, f"{e['title']}: {e['request']}: expected {e['expected']}, got {got}")
        for e in record.exchanges
        for got in (e["got"][:200],)
        if not e["agreed"] and e.get("asked", True)
    ]


def _refusals(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Stock and credit are ample: an order that only ever got 4xx (but 429) was refused falsely."""
    short = [n for n, w in enumerate(record.waves) if w["phase"] != phase or w["name"].startswith("short")]
    history = record.history
    mine = (history["kind"] == Kind.CHECKOUT) & ~np.isin(history["wave"], short)
    subject, status = history["subject"][mine], history["status"][mine]
    refused = (status >= 400) & (status < 500) & (status != 429)
    said: dict[int, int] = dict(zip(subject[refused].tolist(), status[refused].tolist(), strict=True))
    failed = outcomes(len(record.orders), subject, status) == FAIL
    return [
        Violation(
            label(record, int(order)),
            record.orders["id"][order],
            (),
            "false_refusal",
            phase,
            f"refused with {said[int(order)]}, with ample stock and credit",
            int(order),
        )
        for order in np.flatnonzero(failed)
        if int(order) in said and int(order) not in known
    ]


def _scarcity(record: Record, phase: str, known: set[int]) -> list[Violation]:
    found = []
    for turn in record.phases[phase].get("rounds", []):
        rows, _, paid = record.shot(turn["snapshot"]).read[Entity.ORDER]
        first, last = turn["orders"]
        mine = (rows >= first) & (rows <= last) & (paid != 0)
        sold, enough, by = int(mine.sum()), turn["enough"], turn["by"]
        if sold != enough:
            rule = "oversold" if sold > enough else "leaked"
            names = tuple(label(record, int(order)) for order in rows[mine]) if sold > enough else ()
            detail = f"enough {by} for {enough} orders, {sold} are paid"
            found.append(Violation("", "", names, rule, phase, detail))
    return found


_RULES: dict[str, Callable[[Record, str, set[int]], list[Violation]]] = {
    "contract": _contract,
    "duplicates": _refusals,
    "load": _refusals,
    "scarcity": _scarcity,
}
