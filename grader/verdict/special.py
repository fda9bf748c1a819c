"""Checks the rules of individual phases: the contract, false refusals, and too many or too few orders sold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..audit import FAIL, audit, outcomes, view_of
from ..record import Record
from ..terms import Entity, Kind
from .violations import LOST, Violation, ended, judged_until, killed, label

_MORE = {"why": ": ", "differs": "; its answers differ: "}
"""What an exchange may say besides the answer, and the text before it."""
AMPLE = ("duplicates", "load")
"""The phases that have enough stock and credit for every order, except in waves whose names begin with "short"."""


def special(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return the violations of the rule that applies only to this phase, if there is one.

    Orders (rows) in ``known`` already have a more serious violation, so their false refusals are not reported.
    """
    rule = _RULES.get(phase)
    return rule(record, phase, known) if rule else []


def _contract(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return a violation for each request with a wrong answer.

    Requests that could not be sent because of an earlier wrong answer are left out.
    """
    return [
        Violation("", "", (), "contract", phase, f"{e['title']}: {e['request']}: expected {e['expected']}, got {got}")
        for e in record.exchanges
        for got in (e["got"][:200] + "".join(f"{sign}{e[key]}" for key, sign in _MORE.items() if e.get(key)),)
        if not e["agreed"] and e.get("asked", True) and not _lost(record, e) and not _open(record, e)
    ]


def _open(record: Record, exchange: dict[str, Any]) -> bool:
    """Return whether the run ended before a wrong read was repeated until the convergence limit."""
    if "failure" not in record.about or exchange.get("again"):
        return "failure" in record.about
    return exchange["request"].startswith("GET") and not exchange.get("why") and not ended(record, "contract")


def _lost(record: Record, exchange: dict[str, Any]) -> bool:
    """Return whether an id of the contract phase became unknown after a kill."""
    return bool(exchange.get("again") and exchange["status"] // 100 == 4 and killed(record))


def _faults(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return one violation for all ids of the contract phase that a kill made unknown."""
    lost = [e for e in record.exchanges if not e["agreed"] and _lost(record, e) and not _open(record, e)]
    if not lost:
        return []
    detail = f"{LOST}: {len(lost)} of the contract phase, the first is {lost[0]['request']}: {lost[0]['got'][:200]}"
    return [Violation("", "", (), "contract", phase, detail)]


def _refusals(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return a violation for each falsely refused order.

    An order is falsely refused if it was answered only 4xx (other than 429) although there was enough stock and credit.
    """
    short = [n for n, w in enumerate(record.waves) if w["phase"] != phase or w["name"].startswith("short")]
    history = record.history
    mine = (history["kind"] == Kind.CHECKOUT) & ~np.isin(history["wave"], short)
    mine &= history["due"] <= judged_until(record, phase)
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
            f"refused with {said[int(order)]}, although there is enough stock and credit",
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
            rule = "oversold" if sold > enough else "leaked" if _misses(record, turn, by) else "never_sold"
            names = tuple(label(record, int(order)) for order in rows[mine]) if sold > enough else ()
            detail = f"there was enough {by} for {enough} orders, but {sold} are paid"
            found.append(Violation("", "", names, rule, phase, detail))
    return found


def _misses(record: Record, turn: dict[str, Any], by: str) -> bool:
    """Return whether the scarce stock or credit of a round does not add up in the snapshot that ended it."""
    first = turn["orders"][0]
    if by == "stock":
        scarce = Entity.ITEM, int(record.lines["item"][record.lines["order"] == first][0])
    else:
        scarce = Entity.USER, int(record.orders["user"][first])
    findings = audit(view_of(record, record.shot(turn["snapshot"])))
    return any((found.entity, found.subject) == scarce for found in findings)


_RULES: dict[str, Callable[[Record, str, set[int]], list[Violation]]] = {
    "contract": _contract,
    "duplicates": _refusals,
    "load": _refusals,
    "scarcity": _scarcity,
    "faults": _faults,
}
