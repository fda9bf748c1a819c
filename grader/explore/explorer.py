"""Runs the cases of one submission, confirms what is wrong, and prints it."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections import Counter
from itertools import pairwise

from ..errors import VoidError
from ..session import BUILDING, Wish
from ..terms import Entity
from ..verdict.story import story
from .cases import KINDS, SCENARIOS, Case, cases
from .cutter import ANSWER
from .system import PHASE, SOON, Run, System, running
from .through import CLIENT

TIMES = 3
"""How often each plain run must be the same, and how often a case is tried until it happens."""
MOST = 5
"""The maximum number of suspects that are confirmed."""
STILL = 20.0
"""The longest wait if nothing moves and each answer is definite, in seconds."""
PAGE = "docs/assignment.md, What can happen between your processes"


def wrong(run: Run) -> list[str]:
    """Return what is wrong after a run, one sentence for each value, or else for each violation."""
    told = story(run.record, run.order, PHASE)
    found = [
        f"{_thing(run, each.entity, each.id)} is {each.shown:,}, should be {each.start - each.less:,}"
        for each in told.sums
        if each.shown is not None and each.shown != each.start - each.less
    ]
    return found if run.violations and found else [f"{each.rule}: {each.detail}" for each in run.violations]


def values(run: Run) -> str:
    """Return all values that were read at the end of a run, in one line."""
    told = story(run.record, run.order, PHASE)
    found = [f"{run.names[told.order_id]} {told.paid}"]
    for each in told.sums:
        due = each.start - each.less
        shown = "unread" if each.shown is None else f"{each.shown:,}"
        found.append(f"{_thing(run, each.entity, each.id)} {shown}" + f" (should be {due:,})" * (each.shown != due))
    return ", ".join(found)


def _thing(run: Run, entity: Entity, made: str) -> str:
    return f"{'credit' if entity == Entity.USER else 'stock'} of {run.names[made]}"


class Explorer:
    """Runs the cases of a submission, and says what it sees. ``found``: violations, by the ids of their cases."""

    def __init__(self, wish: Wish, name: str) -> None:
        self._wish, self._name = wish, name
        self._ends = contextlib.ExitStack()
        self._system: System | None = None
        self._began = time.monotonic()
        self.ran, self.possible = Counter[str](), Counter[str]()
        self.found: dict[str, Run] = {}
        self.unrepeated: list[str] = []
        self._soon = SOON
        self.unconfirmed: list[str] = []
        self.unreached: list[str] = []

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def start(self) -> System:
        """Start the system with empty data. An earlier one is ended."""
        self._ends.close()
        self._system = self._ends.enter_context(running(self._wish, _starting))
        return self._system

    def plain(self) -> list[Case]:
        """Run each scenario three times without a fault, and return the cases. Raises VoidError if the runs differ."""
        system, plain, first = self._system or self.start(), [], list[Run]()
        self._began = time.monotonic()
        for scenario in SCENARIOS:
            runs = [system.run(Case(scenario)) for _ in range(TIMES)]
            for run in runs:
                _check(run)
                if run.violations:
                    if not self.suspect(run):
                        raise VoidError(
                            f"a checkout without a fault ({scenario.name}) was wrong once, and is not again"
                        )
                    return []
            if len({(run.words, run.status) for run in runs}) > 1:
                one, other = next((a, b) for a, b in pairwise(runs) if (a.words, a.status) != (b.words, b.status))
                raise VoidError(
                    f"{self._name}: the messages of a checkout ({scenario.name}) differ from run to run: once "
                    f"{_differs(one, other)}, once {_differs(other, one)}; explore needs the same each time"
                )
            plain.append((scenario, runs[0].messages))
            first.append(runs[0])
        pairs = Counter[tuple[str, str]]()
        for event, _ in first[0].messages:
            if event.kind != ANSWER and (event.receiver, event.sender) not in pairs:
                pairs[event.sender, event.receiver] += 1
        sent = ", ".join(f"{caller}->{callee} {number}" for (caller, callee), number in pairs.items()) or "none"
        names = ", ".join(each.name for each in self._wish.submission.processes)
        say(f"{self._name}: {names} (tier {system.tier}). Messages of a checkout: {sent}; the same each time.")
        if not any(CLIENT not in pair for pair in pairs):
            say("no process reaches another one by {port:NAME}, so no message between processes can be lost")
        found = list(cases(plain))
        self.possible.update(kind for kind, letter in KINDS.items() for case in found if case.id.startswith(letter))
        return found

    def run(self, case: Case) -> Run | None:
        """Run a case, up to three times until it happens. Returns None if it does not."""
        run = self._reach(self._system or self.start(), case, self._soon, self._soon)
        if run is None:
            self.unreached.append(f"{case.id} ({case})")
        else:
            self.ran.update(kind for kind, letter in KINDS.items() if case.id.startswith(letter))
        return run

    def _reach(self, system: System, case: Case, seconds: float, still: float) -> Run | None:
        tries = (system.run(case, seconds, still) for _ in range(TIMES))
        return next((run for run in tries if run.reached), None)

    def suspect(self, run: Run) -> bool:
        """Run a case again, on a fresh system, for as long as effects may take. Returns whether it is wrong again."""
        case, limits = run.case, self._wish.limits
        alike = any(each.case.place == case.place for each in self.found.values())
        if alike or len(self.found) + len(self.unrepeated) >= MOST:
            self.unconfirmed.append(case.id)
            return False
        at = time.monotonic() - self._began
        longest = limits.convergence + limits.ready
        say(f"at {at:.0f} s: {case.id}: {wrong(run)[0]}. Being confirmed on a fresh start (at most {longest:.0f} s)")
        again = self._reach(self.start(), case, limits.convergence, STILL)
        if again is None:
            self.unreached.append(f"{case.id} ({case})")
            return False
        if not again.violations:
            self.unrepeated.append(case.id)
            needed = again.record.phases[PHASE].settled_s or 0.0
            self._soon = max(self._soon, min(limits.convergence, 1.5 * needed))
            say(f"{case.id} was right after {needed:.0f} s; values have {self._soon:.0f} s to become right from now on")
            return False
        self.found[case.id] = again
        say(self.text(again))
        return True

    def text(self, run: Run) -> str:
        """Return a run as numbered steps, with the values at its end."""
        head = [f"FAIL  {each}" for each in wrong(run)] or ["nothing is wrong in this run:"]
        if run.violations:
            twice = run in self.found.values()
            head[0] += " (wrong in 2 of 2 runs, once on a fresh start)" if twice else " (not on a fresh start)"
        lines = [f"  {number:2}  {step}" for number, step in enumerate(run.steps, 1)]
        lines.append(f"  afterwards: {values(run)}")
        if run.case.nth:
            lines.append(f'  allowed: "{run.case.allowed}" ({PAGE})')
        return "\n".join((*head, f"  {run.case.id}: {run.case}", *lines))

    def ending(self, folder: str) -> str:
        """Return what was explored, and how to see the first violation again."""
        ran, possible = sum(self.ran.values()), sum(self.possible.values())
        kinds = ", ".join(f"{kind} {self.ran[kind]} of {self.possible[kind]}" for kind in KINDS)
        took = time.monotonic() - self._began
        lines = [f"explored {ran} of {possible} ({kinds}), {took:.0f} s; not explored: kills, races, two faults"]
        if self.unrepeated:
            lines.append(f"wrong once and right on a fresh start, so not counted: {', '.join(self.unrepeated)}")
        if self.unconfirmed:
            lines.append(f"wrong as well, and not run again: {', '.join(self.unconfirmed)}")
        if self.unreached:
            why = f"in {TIMES} tries, the messages before it were others"
            lines.append(f"did not happen ({why}): {', '.join(self.unreached)}")
        if shown := next((name for name in self.found if name != "plain"), ""):
            lines.append(f"again: python -m grader explore {shlex.quote(folder)} --case {shown}")
        return "\n".join(lines)


def _check(run: Run) -> None:
    """Raise VoidError if a plain run does not say what is right."""
    scenario, status = run.case.scenario, run.status
    if run.messages and run.restless >= len(run.messages):
        raise VoidError(
            "a process of the system works all the time, so the grader cannot tell when a message has had its effect; "
            "let threads wait for messages instead of asking again and again (or the machine is too busy: try again)"
        )
    due = 2 if scenario.payable else 4
    if status // 100 != due and not run.violations:
        raise VoidError(
            f"a checkout without a fault ({scenario.name}) got {status}, should be {due}xx; mend this first: python -m "
            "grader checkout FOLDER --quick"
        )


def _differs(run: Run, other: Run) -> str:
    """Return where the messages or the answer of a run are not those of another one."""
    mine, others = run.words, other.words
    if mine == others:
        return f"the answer is {run.status}"
    at = next((n for n, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), min(len(mine), len(others)))
    return f"message {at + 1} is {mine[at]}" if at < len(mine) else f"there are {len(mine)} messages"


def say(text: str) -> None:
    print(text, flush=True)


def _starting(text: str) -> None:
    if text == BUILDING:
        print(text, file=sys.stderr, flush=True)
