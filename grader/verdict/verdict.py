"""Decides the verdict of each phase and of the run. The first row that applies decides.

| a phase | its verdict |
|---|---|
| has a violation that is proven | fail |
| has only missing answers, and the machine was too busy | void |
| was cut off by the submission | fail |
| was cut off by the machine or the grader | void |
| is speed, without --require | measured |
| otherwise | pass |

| a run | its verdict |
|---|---|
| was ended by the submission | fail |
| has a phase that fails | fail |
| was ended by the machine or the grader | void |
| has a void phase among phases 1 to 5, or no phase that was judged | void |
| otherwise | pass |

A violation is proven if it was found in a snapshot for which the phase had waited until it settled, or until the
convergence limit. A phase that was cut off is judged by the last such snapshot, and by the requests before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..record import Record
from ..terms import GRADER, JUDGED, MACHINE, PHASES, SUBMISSION
from .figures import figures
from .powercut import PowerCut, powercut
from .score import Score, at_most, nothing, score
from .special import special
from .speed import best, steps
from .story import gravity
from .violations import Violation, completed, ended, killed, lost_in_kill, moved, unstable, vanished, violations

LATE_MS = 5.0
"""A phase can be void only if the p99 of the generator's delay in sending exceeds this many milliseconds."""
FOREIGN = 0.2
"""A phase can be void only if, in addition, other programs used more than this many cores on average."""
_CUT_OFF = {SUBMISSION: "fail", MACHINE: "void", GRADER: "void"}
"""The verdict of a phase, and of a run without a violation, by what ended the run."""


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
    kind = failure["kind"] if failure else ""
    broken: list[Violation] = []
    phases: dict[str, PhaseVerdict] = {}
    speed: dict[str, Any] | None = None
    late = _late_changes(record)
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
        if phase == "speed":
            speed = best(record, clean=not mine)
            numbers["steps"] = steps(record)
            mine += _too_slow(record, speed)
        phases[phase] = PhaseVerdict(_of_phase(record, phase, mine, numbers, kind), numbers)
        broken += mine
    broken.sort(key=gravity)
    verdicts, numbers_of = ({n: getattr(p, a) for n, p in phases.items()} for a in ("verdict", "figures"))
    verdict, why = _of_run(verdicts, kind), failure["why"] if failure else ""
    busy = ", ".join(name for name in JUDGED if verdicts[name] == "void")
    if not why and (busy or verdict == "void"):
        why = f"the machine was too busy to judge {busy}" if busy else "no phase was judged"
    points, most = None, None
    if kind == SUBMISSION:
        speed, points = None, nothing(record)
    elif set(JUDGED) <= set(asked) and record.phases.get("contract", {}).get("silent"):
        why, points = phases["duplicates"].why, nothing(record)
    elif verdict != "void":
        rate = speed["sustained_per_s"] if speed else 0
        # Without the last snapshot, which a failure precedes, a late change would go unnoticed.
        points = score(record, verdicts, numbers_of, broken, rate) if not failure else None
        if points is None and verdict == "fail" and set(JUDGED) <= set(asked):
            most = at_most(record, verdicts, numbers_of, broken, rate)
    cut = powercut(record)
    return Judgement(verdict, why, phases, tuple(broken), speed, points, most, _not_tested(record, phases, cut), cut)


def _of_phase(record: Record, phase: str, broken: list[Violation], numbers: dict[str, Any], kind: str) -> str:
    """Return the verdict of a phase by the first table above. ``kind``: what ended the run, or ""."""
    no_answers = all(v.rule == "unavailable" and v.order < 0 for v in broken) and not numbers.get("stopped")
    if broken and not (no_answers and _busy(record, phase, numbers)):
        return "fail"
    if broken:
        return "void"
    if kind and not ended(record, phase):
        return _CUT_OFF[kind]
    return "measured" if phase == "speed" and not record.about.get("require") else "pass"


def _of_run(verdicts: dict[str, str], kind: str) -> str:
    """Return the verdict of a run by the second table above. ``verdicts``: those of its phases."""
    if kind == SUBMISSION or "fail" in verdicts.values():
        return "fail"
    if kind or "void" in verdicts.values() or not {"pass", "measured"} & {*verdicts.values()}:
        return "void"
    return "pass"


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
    if phase != "load" or not ended(record, phase):
        return []
    offered, done = numbers["offered"], numbers["done"] + numbers.get("done_again", 0)
    least = record.about["limits"]["success"]
    if not offered or done < least * offered:
        share = 100 * done / offered if offered else 0.0
        detail = f"{share:.1f}% of {offered:,} checkouts were done, but {100 * least:.0f}% are required"
        return [Violation("", "", (), "unavailable", phase, detail)]
    return []


def _too_slow(record: Record, speed: dict[str, Any] | None) -> list[Violation]:
    """Return a violation if the speed phase has ended, and did not sustain the rate of --require."""
    required, reached = record.about.get("require") or 0, speed["sustained_per_s"] if speed else 0
    if reached >= required or not ended(record, "speed"):
        return []
    detail = f"{required:,} checkouts per second are required, but {reached:,} were sustained"
    return [Violation("", "", (), "unavailable", "speed", detail)]


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
