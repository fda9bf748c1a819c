"""Decides the verdict of each phase and of the run. A proven violation is a fail, even on a busy machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..record import Record
from ..terms import JUDGED, PHASES
from .figures import figures
from .powercut import PowerCut, powercut
from .score import Score, nothing, score
from .special import special
from .speed import best, steps
from .story import gravity
from .violations import Violation, completed, killed, lost_in_kill, moved, unstable, vanished, violations

LATE_MS = 5.0
"""A phase can be void only if the p99 of the generator's delay in sending exceeds this many milliseconds."""
FOREIGN = 0.2
"""A phase can be void only if, in addition, other programs used more than this many cores on average."""


_FAILED = {"submission": "fail", "void": "void"}
"""The verdict of a run that ended early, by what ended it."""


@dataclass(frozen=True)
class PhaseVerdict:
    """The verdict of one phase: pass, fail, void, not_tested, or (for speed without --require) measured."""

    verdict: str
    figures: dict[str, Any] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class Judgement:
    """The result of judging a record, for the reports."""

    verdict: str
    why: str
    phases: dict[str, PhaseVerdict]
    violations: tuple[Violation, ...]
    speed: dict[str, Any] | None = None
    score: Score | None = None
    not_tested: tuple[tuple[str, str], ...] = ()
    """Everything that was not tested, each with the reason."""
    powercut: PowerCut = PowerCut(False)


def judge(record: Record) -> Judgement:
    """Judge a record. This is a pure function."""
    failure = record.about.get("failure")
    asked = record.about["asked"]
    found: list[Violation] = []
    phases: dict[str, PhaseVerdict] = {}
    speed: dict[str, Any] | None = None
    late = _late_changes(record) if not failure else []
    for phase in PHASES:
        if phase not in record.phases or record.phases[phase].get("skipped"):
            why = record.phases.get(phase, {}).get("skipped") or _why_not(phase, asked, failure)
            phases[phase] = PhaseVerdict("not_tested", {}, why)
            continue
        mine = violations(record, phase)
        mine += special(record, phase, {v.order for v in mine})
        mine += [v for v in late if v.phase == phase]
        numbers = {**figures(record, phase), **record.phases[phase]}
        mine += _service(record, phase, numbers)
        found += mine
        verdict = "fail" if mine else "pass"
        if phase == "speed":
            speed = best(record, clean=not mine)
            numbers["steps"] = steps(record)
            required = record.about.get("require") or 0
            reached = speed["sustained_per_s"] if speed else 0
            if required and reached < required:
                detail = f"{required:,} checkouts per second are required, but {reached:,} were sustained"
                mine.append(Violation("", "", (), "unavailable", phase, detail))
                found.append(mine[-1])
            verdict = "fail" if mine else "pass" if required else "measured"
        if (
            mine
            and not numbers.get("stopped")
            and all(v.rule == "unavailable" and v.order < 0 for v in mine)
            and _busy(record, phase, numbers)
        ):
            verdict = "void"
        if failure and not mine and "end_s" not in record.phases[phase]:
            verdict = _FAILED[failure["kind"]]
        phases[phase] = PhaseVerdict(verdict, numbers)
    found.sort(key=gravity)
    if failure:
        kind, cut = _FAILED[failure["kind"]], powercut(record)
        left, points = _not_tested(record, phases, cut), nothing(record) if kind == "fail" else None
        return Judgement(kind, failure["why"], phases, tuple(found), None, points, left, cut)
    words = [phases[phase].verdict for phase in JUDGED]
    # Speed affects the verdict only with --require, but a violation in any phase is a fail.
    verdict = (
        "fail"
        if "fail" in (*words, phases["speed"].verdict)
        else "void"
        if "void" in words or not {"pass", "measured"} & {*words, phases["speed"].verdict}
        else "pass"
    )
    why = "" if verdict != "void" else "no phase was judged" if "void" not in words else "the machine was too busy"
    verdicts, numbers_of = ({n: getattr(p, a) for n, p in phases.items()} for a in ("verdict", "figures"))
    points = score(record, verdicts, numbers_of, found, speed["sustained_per_s"] if speed else 0)
    points = points if verdict != "void" else None
    cut = powercut(record)
    return Judgement(verdict, why, phases, tuple(found), speed, points, _not_tested(record, phases, cut), cut)


def _not_tested(record: Record, phases: dict[str, PhaseVerdict], cut: PowerCut) -> tuple[tuple[str, str], ...]:
    """Return everything that the verdict does not cover, each with the reason."""
    left = [(f"phase {name}", phase.why) for name, phase in phases.items() if phase.verdict == "not_tested"]
    for fault in record.phases.get("faults", {}).get("left_out", []):
        left.append((fault, "no time was left for it"))
    left += [(what, why) for what, why in record.about.get("untested", [])]
    if not cut.tested:
        left.append(("power cut", cut.why))
    left.append(("lost or delayed messages between the services", "all processes run on one machine"))
    return tuple(left)


def _why_not(phase: str, asked: list[str], failure: Any) -> str:
    if failure:
        return "the run ended before this phase"
    return "not requested" if phase not in asked else "the run ended before this phase"


def _service(record: Record, phase: str, numbers: dict[str, Any]) -> list[Violation]:
    """Return a violation if the phase had to stop early, or if too few checkouts of the load phase were done."""
    if numbers.get("stopped"):
        return [Violation("", "", (), "unavailable", phase, str(numbers["stopped"]))]
    if phase != "load":
        return []
    offered, done = numbers["offered"], numbers["done"] + numbers.get("done_again", 0)
    least = record.about["limits"]["success"]
    if not offered or done < least * offered:
        share = 100 * done / offered if offered else 0.0
        detail = f"{share:.1f}% of {offered:,} checkouts were done, but {100 * least:.0f}% are required"
        return [Violation("", "", (), "unavailable", phase, detail)]
    return []


def _busy(record: Record, phase: str, numbers: dict[str, Any]) -> bool:
    """Return whether the generator was late although connections were free, while other programs used the CPU."""
    if float(numbers["late_p99_ms"]) <= LATE_MS:
        return False
    samples, about = record.samples, record.phases[phase]
    begin, end = about.get("begin_s", 0.0) * 1e9, about.get("end_s", np.inf) * 1e9
    mine = (samples["at"] >= begin) & (samples["at"] <= end)
    return bool(mine.any() and samples["foreign"][mine].mean() > FOREIGN)


def _late_changes(record: Record) -> list[Violation]:
    """Return the violations of values that changed after the last snapshot of their phase was accepted.

    The final snapshot of the run must have the same values, except for orders that were completed since. If ids became
    unknown after a kill, the faults phase broke the rules, not the phase that created them.
    """
    taken = record.snapshots_taken
    last = [n for n, shot in enumerate(taken) if shot["phase"] == ""]
    if not last:
        return []
    final, changed = record.shot(last[-1]), []
    for phase in PHASES:
        # Only the last snapshot of the phase is compared, because each earlier one was followed by a top-up.
        kept = [n for n, shot in enumerate(taken) if shot["phase"] == phase][-1:]
        for number in kept if kept and taken[kept[0]]["accepted"] else ():
            if moved(record.shot(number), final) and not completed(record, number, last[-1]):
                changed.append((phase, number))
    gone = any(killed(record, record.shot(n).end) and vanished(record.shot(n), final) for _, n in changed)
    found = []
    for phase, number in changed:
        lost = lost_in_kill(record, number, last[-1]) if gone and killed(record, record.shot(number).end) else []
        found += lost or [unstable(record, phase, number, last[-1])]
    return found
