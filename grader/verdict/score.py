"""Computes the score of a run with the rubric in its record.

A phase with a violation scores 0, and a violation of a safety rule caps the total. A submission that could not run, or
whose run ended early because of it, scores 0. A run has no score if it is void, or if one of phases 1 to 5 did not run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..record import Record
from ..terms import JUDGED, SAFETY
from .violations import Violation


@dataclass(frozen=True)
class Part:
    """One row of the score: a measured value in words, and the ``points`` for it out of ``most``."""

    name: str
    measured: str
    points: float
    most: float


@dataclass(frozen=True)
class Score:
    """The parts of a score, their sum (``total``), and the sum after the cap for broken safety rules (``points``)."""

    parts: tuple[Part, ...]
    total: float
    points: float
    capped: bool


def score(
    record: Record, verdicts: dict[str, str], figures: dict[str, dict[str, object]], found: list[Violation], rate: float
) -> Score | None:
    """Return the score of a judged record, or None if the verdict of any of phases 1 to 5 is neither pass nor fail.

    ``verdicts`` and ``figures`` have the phases as keys, and ``found`` contains all violations. ``rate`` is the
    sustained rate in checkouts per second.
    """
    if any(verdicts[phase] not in ("pass", "fail") for phase in JUDGED):
        return None
    rubric = record.about["rubric"]
    parts = [
        Part(phase, verdicts[phase], float(rubric[phase]) * (verdicts[phase] == "pass"), float(rubric[phase]))
        for phase in JUDGED
    ]
    faults = figures["faults"]
    offered, silent = (
        _number(faults, "offered"),
        sum(_number(faults, n) for n in ("timeouts", "lost", "shed", "dropped")),
    )
    share = 1 - silent / offered if offered else 0.0
    parts.append(_part("availability", f"{100 * share:.1f}% answered", share, rubric))
    settled = faults.get("settled_s")
    seconds = float(settled) if isinstance(settled, int | float) else 60.0
    said = f"settled after {seconds:.1f} s" if settled is not None else "never settled"
    parts.append(_part("convergence", said, 1 - seconds / 60, rubric))
    refused = sum(v.rule == "false_refusal" for v in found)
    parts.append(_part("false_refusals", f"{refused:,}", float(not refused), rubric))
    parts.append(_part("speed", f"{rate:,.0f} per second", math.log10(max(1.0, rate)) / 4, rubric))
    total = round(sum(part.points for part in parts), 1)
    capped = any(v.rule in SAFETY for v in found) and total > rubric["safety_cap"]
    return Score(tuple(parts), total, float(rubric["safety_cap"]) if capped else total, capped)


def nothing(record: Record) -> Score:
    """Return the score of a submission that could not run to the end."""
    rubric = {name: float(most) for name, most in record.about["rubric"].items() if name != "safety_cap"}
    return Score(tuple(Part(name, "not reached", 0.0, most) for name, most in rubric.items()), 0.0, 0.0, False)


def _number(figures: dict[str, object], name: str) -> int:
    value = figures.get(name, 0)
    return value if isinstance(value, int) else 0


def _part(name: str, measured: str, share: float, rubric: dict[str, float]) -> Part:
    most = float(rubric[name])
    return Part(name, measured, round(most * min(1.0, max(0.0, share)), 1), most)
