"""Decides the verdict of each phase and of the run. The first row that applies decides.

| a phase | its verdict |
|---|---|
| has a violation that is proven | fail |
| has only missing answers, and the machine was too busy | void |
| was cut off by the submission | fail |
| was cut off by the machine or the grader | void |
| only measures, as speed without --require | measured |
| otherwise | pass |

| a run | its verdict |
|---|---|
| was ended by the submission | fail |
| has a phase that fails | fail |
| was ended by the machine or the grader | void |
| has a void phase, or only phases that were not tested | void |
| otherwise | pass |

A violation is proven if it was found in a snapshot for which the phase had waited until it settled, or until the
convergence limit. A phase that was cut off is judged by the last such snapshot, and by the requests before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..outcomes import Verdict
from ..record import Record
from ..record.notes import Contract, Faults, content
from ..table import PHASES, TABLE
from ..terms import GRADER, MACHINE, SUBMISSION
from .figures import figures
from .powercut import PowerCut, powercut
from .score import Score, at_most, judged, nothing, score
from .special import special
from .speed import best, steps
from .story import gravity
from .violations import Violation, ended, late_changes, violations, without_order

FAIL, VOID = Verdict.FAIL, Verdict.VOID
LATE_MS = 5.0
"""A phase can be void only if the p99 of the generator's delay in sending exceeds this many milliseconds."""
FOREIGN = 0.2
"""A phase can be void only if, in addition, other programs used more than this many cores on average."""
_CUT_OFF = {SUBMISSION: FAIL, MACHINE: VOID, GRADER: VOID}
"""The verdict of a phase, and of a run without a violation, by what ended the run."""


@dataclass(frozen=True)
class PhaseVerdict:
    """The verdict of one phase, its figures and notes for the reports, and why it was not tested."""

    verdict: Verdict
    figures: dict[str, Any] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class Judgement:
    """The result of judging a record, for the reports."""

    verdict: Verdict
    why: str
    """What ended the run early, or why something was not judged although it was requested; otherwise ""."""
    phases: dict[str, PhaseVerdict]
    violations: tuple[Violation, ...]
    speed: dict[str, Any] | None = None
    score: Score | None = None
    at_most: Score | None = None
    """For a fail without a score, because the machine kept a phase from being judged: the score that it can reach."""
    not_tested: tuple[tuple[str, str], ...] = ()
    """Everything that was not tested, each with the reason."""
    powercut: PowerCut = PowerCut(False)


def judge(record: Record) -> Judgement:
    """Judge a record. This is a pure function."""
    failure, asked = record.about.get("failure"), record.about["asked"]
    kind, why = (failure["kind"], failure["why"]) if failure else ("", "")
    phases, broken, speed = _phases(record, kind)
    verdicts = {name: phase.verdict for name, phase in phases.items()}
    verdict = _run_verdict(verdicts, kind)
    busy = ", ".join(name for name, each in verdicts.items() if each == VOID)
    if not why and (busy or verdict == VOID):
        why = f"the machine was too busy to judge {busy}" if busy else "no phase was judged"
    points, most, complete = None, None, set(judged(record)) <= set(asked)
    if kind == SUBMISSION:
        speed, points = None, nothing(record)
    elif complete and record.notes(Contract).silent:
        why, points = phases["duplicates"].why, nothing(record)
    elif verdict != VOID:
        numbers = {name: phase.figures for name, phase in phases.items()}
        rate = speed["sustained_per_s"] if speed else 0
        # Without the last snapshot, which a failure precedes, a late change would go unnoticed.
        points = score(record, verdicts, numbers, broken, rate) if not failure else None
        if points is None and verdict == FAIL and complete:
            most = at_most(record, verdicts, numbers, broken, rate)
    cut = powercut(record)
    return Judgement(verdict, why, phases, tuple(broken), speed, points, most, _not_tested(record, phases, cut), cut)


def _phases(record: Record, kind: str) -> tuple[dict[str, PhaseVerdict], list[Violation], dict[str, Any] | None]:
    """Judge each phase of the table. Returns also all violations, the gravest first, and the best rate.

    ``kind``: what ended the run, or "".
    """
    broken: list[Violation] = []
    phases: dict[str, PhaseVerdict] = {}
    speed: dict[str, Any] | None = None
    late = late_changes(record)
    for phase in _reported(record):
        if phase not in record.phases or record.phases[phase].skipped:
            phases[phase] = PhaseVerdict(Verdict.NOT_TESTED, {}, _why_not(record, phase))
            continue
        numbers = {**figures(record, phase), **content(record.phases[phase])}
        mine = violations(record, phase)
        mine += special(record, phase, {violation.order for violation in mine})
        mine += [violation for violation in late if violation.phase == phase]
        mine += _service(record, phase, numbers)
        if phase == "speed":
            speed = best(record, clean=not mine)
            numbers["steps"] = steps(record)
            mine += _too_slow(record, speed)
        phases[phase] = PhaseVerdict(_phase_verdict(record, phase, mine, numbers, kind), numbers)
        broken += mine
    return phases, sorted(broken, key=gravity), speed


def _reported(record: Record) -> list[str]:
    """Return the phases that the reports list: those of a session, and others that the record has."""
    return [name for name in TABLE if name in PHASES or name in record.phases]


def _phase_verdict(record: Record, phase: str, broken: list[Violation], numbers: dict[str, Any], kind: str) -> Verdict:
    """Return the verdict of a phase by the first table above. ``kind``: what ended the run, or ""."""
    no_answers = all(v.rule == "unavailable" and v.order < 0 for v in broken) and not record.phases[phase].stopped
    if broken and not (no_answers and _busy(record, phase, numbers)):
        return FAIL
    if broken:
        return VOID
    if kind and not ended(record, phase):
        return _CUT_OFF[kind]
    only_measured = not TABLE[phase].judged and not (phase == "speed" and record.about.get("require"))
    return Verdict.MEASURED if only_measured else Verdict.PASS


def _run_verdict(verdicts: dict[str, Verdict], kind: str) -> Verdict:
    """Return the verdict of a run by the second table above. ``verdicts``: those of its phases."""
    if kind == SUBMISSION or FAIL in verdicts.values():
        return FAIL
    if kind or VOID in verdicts.values() or not {Verdict.PASS, Verdict.MEASURED} & {*verdicts.values()}:
        return VOID
    return Verdict.PASS


def _not_tested(record: Record, phases: dict[str, PhaseVerdict], cut: PowerCut) -> tuple[tuple[str, str], ...]:
    """Return everything that the verdict does not cover, each with the reason."""
    left = [(f"phase {name}", phase.why) for name, phase in phases.items() if phase.verdict == Verdict.NOT_TESTED]
    left += [(fault, "no time was left for it") for fault in record.notes(Faults).left_out]
    left += [(what, why) for what, why in record.about.get("untested", [])]
    if not cut.tested:
        left.append(("power cut", cut.why))
    left.append(("lost or delayed messages between the services", "all processes run on one machine"))
    return tuple(left)


def _why_not(record: Record, phase: str) -> str:
    """Return why a phase was not tested."""
    if phase in record.phases:
        return record.phases[phase].skipped
    early = record.about.get("failure") or phase in record.about["asked"]
    return "the run ended before this phase" if early else "not requested"


def _service(record: Record, phase: str, numbers: dict[str, Any]) -> list[Violation]:
    """Return a violation if the phase had to stop early, or if too few checkouts of the load phase were done."""
    if stopped := record.phases[phase].stopped:
        return [without_order("unavailable", phase, stopped)]
    if phase != "load" or not ended(record, phase):
        return []
    offered, answered = numbers["offered"], numbers["done"] + numbers.get("done_again", 0)
    least = record.about["limits"]["success"]
    if offered and answered >= least * offered:
        return []
    share = 100 * answered / offered if offered else 0.0
    detail = f"{share:.1f}% of {offered:,} checkouts were done, but {100 * least:.0f}% are required"
    return [without_order("unavailable", phase, detail)]


def _too_slow(record: Record, speed: dict[str, Any] | None) -> list[Violation]:
    """Return a violation if the speed phase has ended, and did not sustain the rate of --require."""
    required, reached = record.about.get("require") or 0, speed["sustained_per_s"] if speed else 0
    if reached >= required or not ended(record, "speed"):
        return []
    return [
        without_order(
            "unavailable",
            "speed",
            f"{required:,} checkouts per second are required, but {reached:,} were sustained",
        )
    ]


def _busy(record: Record, phase: str, numbers: dict[str, Any]) -> bool:
    """Return whether the generator was late although connections were free, while other programs used the CPU."""
    if float(numbers["late_p99_ms"]) <= LATE_MS:
        return False
    samples, notes = record.samples, record.phases[phase]
    begin, end = (notes.begin_s or 0.0) * 1e9, np.inf if notes.end_s is None else notes.end_s * 1e9
    during = (samples["at"] >= begin) & (samples["at"] <= end)
    return bool(during.any() and samples["foreign"][during].mean() > FOREIGN)
