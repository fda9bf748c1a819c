"""Computes the score of a run with the rubric in its record.

A phase with a violation scores 0, and a violation of a safety rule caps the total. A submission that could not run, or
whose run ended early because of it, scores 0. A run has no score if it is void, or if one of phases 1 to 5 was not
judged; if the machine is the reason, a fail has the points that it can still reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..outcomes import Verdict
from ..record import Record
from ..record.notes import Faults
from ..table import JUDGED
from ..terms import SAFETY
from .violations import Violation

Verdicts = dict[str, Verdict]
_DECIDED = (Verdict.PASS, Verdict.FAIL)
UNJUDGED = "not judged"
"""What a part of the score says that the machine kept from being judged."""


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


def judged(record: Record) -> tuple[str, ...]:
    """Return the phases that the record's score needs: those that are judged and had points when it was written.

    So a phase that is added later takes no score from earlier records.
    """
    return tuple(phase for phase in JUDGED if phase in record.about["rubric"])


def score(
    record: Record, verdicts: Verdicts, figures: dict[str, dict[str, object]], broken: list[Violation], rate: float
) -> Score | None:
    """Return the score of a judged record, or None if one of its `judged` phases neither passed nor failed.

    ``verdicts`` and ``figures`` have the phases as keys, and ``broken`` contains all violations. ``rate`` is the
    sustained rate in checkouts per second.
    """
    if any(verdicts[phase] not in _DECIDED for phase in judged(record)):
        return None
    return _score(record, verdicts, figures, broken, rate)


def at_most(
    record: Record, verdicts: Verdicts, figures: dict[str, dict[str, object]], broken: list[Violation], rate: float
) -> Score:
    """Return the score that a run can reach if everything that was not judged turns out right. See `score`."""
    return _score(record, verdicts, figures, broken, rate)


def _score(
    record: Record, verdicts: Verdicts, figures: dict[str, dict[str, object]], broken: list[Violation], rate: float
) -> Score:
    """Return the score. What was not judged has all of its points, and is called so."""
    rubric, faults = record.about["rubric"], figures["faults"]
    decided = {phase: verdicts[phase] in _DECIDED for phase in judged(record)}
    parts = [
        _part(phase, verdicts[phase] if decided[phase] else UNJUDGED, float(verdicts[phase] != Verdict.FAIL), rubric)
        for phase in decided
    ]
    offered = _number(faults, "offered")
    silent = sum(_number(faults, name) for name in ("timeouts", "lost", "shed", "dropped"))
    share = 1 - silent / offered if offered else 0.0
    settled = record.notes(Faults).settled_s
    seconds = 60.0 if settled is None else settled
    how = "never settled" if settled is None else f"settled after {seconds:.1f} s"
    refused = sum(violation.rule == "false_refusal" for violation in broken)
    all_refusals = bool(refused) or all(decided.values())
    fast = math.log10(max(1.0, rate)) / 4
    has_rate = verdicts["speed"] in (*_DECIDED, Verdict.MEASURED) or "speed" not in record.about["asked"]
    for name, measured, part, known in (
        ("availability", f"{100 * share:.1f}% answered", share, decided["faults"]),
        ("convergence", how, 1 - seconds / 60, decided["faults"]),
        ("false_refusals", f"{refused:,}", float(not refused), all_refusals),
        ("speed", f"{rate:,.0f} per second", fast, has_rate or all(decided.values())),
    ):
        parts.append(_part(name, measured if known else UNJUDGED, part if known else 1.0, rubric))
    total = round(sum(part.points for part in parts), 1)
    capped = any(violation.rule in SAFETY for violation in broken) and total > rubric["safety_cap"]
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
