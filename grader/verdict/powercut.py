"""Computes the result of the power cuts from a record. It affects neither the verdict nor the score.

An order is lost if it was answered 2xx before a cut and is unpaid or unknown afterwards. An order is half there if its
charge or its stock does not match its state (paid or unpaid).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..audit import COUNTED, Finding, audit, view_of
from ..record import Record
from ..record.notes import Cut, PowerCuts
from ..table import POWER_CUT
from ..terms import done
from .violations import deciding, label

SHOWN = 3
"""The maximum number of orders that the result names."""


@dataclass(frozen=True)
class Example:
    """One order that is lost or half there."""

    label: str
    order_id: str
    cut: int
    """The number of the cut that followed its checkout."""
    detail: str


@dataclass(frozen=True)
class PowerCut:
    """The result of the power cuts, for the reports."""

    tested: bool
    why: str = ""
    """The reason why power cuts were not tested, or why the system did not start again after a cut."""
    cuts: int = 0
    dropped: int = 0
    """The number of unsynced 4 KiB blocks that the cuts discarded."""
    acknowledged: int = 0
    came_back: bool = True
    lost: int = 0
    half_there: int = 0
    other: int = 0
    """The number of all other findings, such as a wrong balance that does not identify an order."""
    examples: tuple[Example, ...] = ()


def powercut(record: Record) -> PowerCut:
    """Return the result of a run's power cuts, or the reason why they were not tested."""
    about, cut = record.about.get(POWER_CUT), record.powercut
    if about is None or cut is None:
        early, old = "the run ended before this test", "an older version of the grader made this record"
        unknown = early if record.about.get("failure") else old
        return PowerCut(False, (about or {}).get("skipped") or unknown)
    notes = cut.notes(PowerCuts)
    cuts, history = notes.cuts, cut.history
    acknowledged = len(np.unique(history["subject"][cut.checkouts() & done(history["status"])]))
    numbers: dict[str, Any] = {
        "cuts": len(cuts),
        "dropped": sum(each.blocks for each in cuts),
        "acknowledged": acknowledged,
    }
    if notes.not_back:
        return PowerCut(True, notes.not_back, came_back=False, **numbers)
    findings = audit(view_of(cut, cut.shot(deciding(cut, POWER_CUT))))
    lost = [f for f in findings if f.rule == "ok_not_paid"]
    half = list({f.order: f for f in findings if f.rule in COUNTED and f.order >= 0}.values())
    other = sum(f.order < 0 or f.rule not in ("ok_not_paid", *COUNTED) for f in findings)
    examples = tuple(_example(cut, cuts, f) for f in [*lost, *half][:SHOWN])
    return PowerCut(True, lost=len(lost), half_there=len(half), other=other, examples=examples, **numbers)


def _example(record: Record, cuts: list[Cut], finding: Finding) -> Example:
    number = int(record.orders["number"][finding.order])
    cut = next(each.cut for each in cuts if each.first <= number <= each.last)
    detail = "lost" if finding.rule == "ok_not_paid" else finding.detail
    return Example(label(record, finding.order), str(record.orders["id"][finding.order]), cut, detail)
