"""Computes the result of the power cuts from a record. It affects neither the verdict nor the score.

An order is lost if it was answered 2xx before a cut and is unpaid or unknown afterwards. An order is half there if its
charge or its stock does not match its state (paid or unpaid).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..audit import Finding, audit, view_of
from ..record import Record
from ..terms import POWER_CUT
from .violations import deciding, label

SHOWN = 3
"""The maximum number of orders that the result names."""
_HALF = ("charged_times", "taken_times")


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
    notes = cut.phases[POWER_CUT]
    cuts = notes["cuts"]
    history = cut.history
    done = cut.checkouts() & (history["status"] >= 200) & (history["status"] < 300)
    acknowledged = len(np.unique(history["subject"][done]))
    counted = {"cuts": len(cuts), "dropped": sum(each["blocks"] for each in cuts), "acknowledged": acknowledged}
    if notes.get("not_back"):
        return PowerCut(True, notes["not_back"], came_back=False, **counted)
    found = audit(view_of(cut, cut.shot(deciding(cut, POWER_CUT))))
    lost = [f for f in found if f.rule == "ok_not_paid"]
    half = list({f.order: f for f in found if f.rule in _HALF and f.order >= 0}.values())
    other = sum(f.order < 0 or f.rule not in ("ok_not_paid", *_HALF) for f in found)
    named = tuple(_example(cut, cuts, f) for f in [*lost, *half][:SHOWN])
    return PowerCut(True, lost=len(lost), half_there=len(half), other=other, examples=named, **counted)


def _example(record: Record, cuts: list[dict[str, int]], finding: Finding) -> Example:
    number = int(record.orders["number"][finding.order])
    cut = next(each["cut"] for each in cuts if each["first"] <= number <= each["last"])
    detail = "lost" if finding.rule == "ok_not_paid" else finding.detail
    return Example(label(record, finding.order), str(record.orders["id"][finding.order]), cut, detail)
