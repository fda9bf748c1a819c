"""Runs the cases of one submission, confirms what is wrong, and prints it."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from ..errors import SubmissionError, VoidError
from ..session import BUILDING, Wish
from ..terms import status_word
from .cases import (
    KILL,
    KINDS,
    LOSE,
    RACE,
    RACES,
    SCENARIOS,
    SLOW,
    TWICE,
    WRITE,
    Case,
    Said,
    common,
    kills,
    losses,
    second,
    swapped,
    writes,
)
from .cutter import ANSWER
from .looks import LEFT_OUT, looked
from .play import Run
from .shown import VERSION, Shown, as_json, shown, text
from .steps import message
from .system import SOON, System, running
from .through import CLIENT
from .world import SetUpError
from .writes import TraceError

TIMES = 3
"""How often each plain run is tried until its answers are right, and a case until it happens."""
MOST = 5
"""The maximum number of suspects that are confirmed."""
PROGRESS = 20.0
"""Seconds between two lines of progress."""
QUICK = "quick"
"""The queue of the losses after which no caller waits."""
STILL = 20.0
"""The longest wait if nothing moves and each answer is definite, in seconds."""
WRITING, SWAPPING = 120.0, 120.0
"""The most seconds for kills at writes, which come last and have at most a third of the time, and for two swaps."""

Queue = tuple[str, str, Iterator[Case | None]]
"""A name, a kind, and the likeliest case first."""


class Explorer:
    """Runs the cases of a submission, and says what it sees. ``found``: violations, by the ids of their cases.

    ``slow``: for a person who looks at one case, with `slow`; nothing runs in a sandbox.
    """

    def __init__(self, wish: Wish, name: str, slow: bool = False) -> None:
        self._wish, self._name, self._slow = wish, name, slow
        self._names = tuple(each.name for each in wish.submission.processes)
        self._ends = contextlib.ExitStack()
        self._system: System | None = None
        self._began = time.monotonic()
        self._soon, self._tier = SOON, 0
        self._plain: list[tuple[Case, list[Said]]] = []
        self._right: defaultdict[str, list[Run]] = defaultdict(list)
        """The runs of each kind that were right, and that other cases can follow."""
        self._places: list[Case] = []
        self._racing: Iterator[Case | None] = iter(())
        """The races that are left, which go on while a suspect ages."""
        self._spent = defaultdict[str, float](float)
        """The seconds that each queue has used."""
        self._later: list[Case] = []
        """Those that could not be run then, or were wrong. They are run again."""
        self.ran, self.possible = Counter[str](), Counter[str]()
        self.found: dict[str, Shown] = {}
        self.unrepeated: list[str] = []
        self.unconfirmed: list[str] = []
        self.unreached: list[str] = []
        self.void: list[str] = []
        self.overdue = self.second = 0
        """How many messages were held for too long, and how many second faults did not happen."""
        ordered = sorted(wish.submission.processes, key=lambda each: each.role == "database")
        self._services = [each.name for each in ordered]
        self._writing = {(scenario.name, name) for scenario in SCENARIOS for name in self._services}
        """The scenarios, each with a service that is not known to have made all of its writes."""
        self.untraced = ""
        """Why services cannot be killed at writes."""

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def start(self) -> System:
        """Start the system with empty data. An earlier one is ended."""
        self._ends.close()
        self._system = None
        self._system = self._ends.enter_context(running(self._wish, _starting, self._slow))
        self._tier = self._system.tier
        return self._system

    def plain(self, times: int = TIMES) -> None:
        """Run each scenario ``times`` times without a fault. Raises VoidError if the answers differ or are wrong."""
        system = self._system or self.start()
        self._began = time.monotonic()
        differ, strangers = 0, set[str]()
        for scenario in SCENARIOS:
            case, runs = Case(scenario), list[Run]()
            for _ in range(times):
                before = system.strangers()
                tries = (system.run(case) for _ in range(TIMES))
                runs.append(run := next((one for one in tries if not one.void), None) or system.run(case))
                strangers |= {name for name, _ in system.strangers() - before}
                _check(run)
                if run.violations:
                    if not self.suspect(run):
                        raise VoidError(
                            f"a checkout without a fault ({scenario.name}) was wrong once, and is not again"
                        )
                    return
            if len(answers := {run.statuses for run in runs}) > 1:
                said = " or ".join(sorted(_got(one) for (one, *_) in answers))
                raise VoidError(f"{self._name}: a checkout without a fault ({scenario.name}) got {said}")
            messages = common([run.messages for run in runs])
            differ += max(len(run.messages) for run in runs) - len(messages)
            self._plain.append((case, messages))
        pairs = Counter[tuple[str, str]]()
        for event, _ in self._plain[0][1]:
            if event.kind != ANSWER and (event.receiver, event.sender) not in pairs:
                pairs[event.sender, event.receiver] += 1
        sent = ", ".join(f"{caller}->{callee} {number}" for (caller, callee), number in pairs.items()) or "none"
        same = f"{differ} more differ from run to run" if differ else "the same each time"
        names = ", ".join(self._names)
        say(f"{self._name}: {names} (tier {system.tier}). Messages of a checkout: {sent}; {same}.")
        if not any(CLIENT not in pair for pair in pairs):
            say("no process reaches another one by {port:NAME}, so no message between processes can be lost")
        if strangers:
            say(f"connections to {', '.join(sorted(strangers))} pass no proxy, so what is sent on them is not explored")

    def queues(self, only: list[str]) -> list[Queue]:
        """Return the cases that are asked for, after `plain`.

        A queue goes on when the run of the case that it has returned is known.
        """
        plain = [(case.scenario, messages) for case, messages in self._plain]
        lost, killed = list(losses(plain)), list(kills(plain, self._names))
        self.possible.update({kind: len(cases) for kind, cases in ((LOSE, lost), (KILL, killed)) if kind in only})
        slow = [case for case in lost if case.faults[0].what in SLOW]
        self._racing = self._races() if RACE in only else iter(())
        found: list[Queue] = [
            (QUICK, LOSE, iter(lost[: len(lost) - len(slow)])),
            (RACE, RACE, self._racing),
            (KILL, KILL, iter(killed)),
            (TWICE, TWICE, self._twice()),
            (LOSE, LOSE, iter(slow)),
        ]
        return [queue for queue in found if queue[1] in only]

    def _races(self) -> Iterator[Case]:
        """Return each race, then those with one swap, then those with two; runs that are alike are continued once.

        The races take turns, and swaps in the middle of a run come first: there one request has read, and not written.
        """
        cases, seen = _first_races(), set[tuple[object, ...]]()
        for swaps in range(3):
            self.possible[RACE] += len(cases)
            begun = self._spent[RACE]
            for case in cases:
                if swaps < 2 or self._spent[RACE] < begun + SWAPPING:
                    yield case
            runs, cases = list(self._right[RACE]), []
            self._right[RACE].clear()
            following = list[list[Case]]()
            for run in runs:
                if (shape := _shape(run)) not in seen:
                    seen.add(shape)
                    following.append(_middle_first(list(self._following(run))))
            cases = [case for turn in zip_longest(*following) for case in turn if case is not None]

    def _twice(self) -> Iterator[Case | None]:
        """Return each second fault after a case that was run and is right, or None while there is none.

        Two faults of the same kind between the same processes come first, for example the loss of a message and of its
        repetition. If everything until the second fault was the same in another case, it is left out.
        """
        seen = set[tuple[object, ...]]()
        while True:
            runs = [*self._right[LOSE], *self._right[KILL]]
            self._right[LOSE], self._right[KILL] = [], []
            runs = [run for run in runs if run.case.faults[0].what in (LOSE, KILL)]
            cases = [(run, case) for run in runs for case in self._following(run)]
            for run, case in sorted(cases, key=lambda each: len({fault.place for fault in each[1].faults})):
                first, last = case.faults
                cut = [n for n, said in enumerate(run.words) if said == last.at][last.nth - 1]
                state = (case.scenario, first.what, first.victims, run.words[: cut + 1], last)
                if state not in seen:
                    seen.add(state)
                    self.possible[TWICE] += 1
                    yield case
            if not cases:
                yield None

    def _writes(self) -> Iterator[Case]:
        """Return each kill before a write of a service, until it writes no more in this scenario."""
        for case in writes(self._services):
            if (case.scenario.name, case.faults[0].at) in self._writing:
                yield case

    def explore(self, only: list[str], until: float, stop: Callable[[], bool]) -> None:
        """Run the cases of all kinds: the quick losses, then in turn, by the time that each has used; last, writes."""
        if WRITE not in only:
            return self._explore(self.queues(only), until, stop)
        if others := [kind for kind in only if kind != WRITE]:
            left = until - time.monotonic()
            self._explore(self.queues(others), until - min(WRITING, left / 3), stop)
            if not stop() and time.monotonic() < until:
                self.start()  # a database of which little was used writes the same each time
        return self._explore([(WRITE, WRITE, self._writes())], min(until, time.monotonic() + WRITING), stop)

    def _explore(self, waiting: list[Queue], until: float, stop: Callable[[], bool]) -> None:
        spent, told = self._spent, time.monotonic()
        while (waiting or self._later) and time.monotonic() < until and not stop():
            quick = [queue for queue in waiting if queue[0] == QUICK]
            again: list[Queue] = [(RACE, RACE, iter([self._later.pop(0)]))] if self._later else []
            for name, kind, cases in again or quick or sorted(waiting, key=lambda queue: spent[queue[0]]):
                if (case := next(cases, None)) is not None:
                    break
                if kind != TWICE or len(waiting) == 1:
                    waiting.remove((name, kind, cases))
                    break
            if case is None:
                continue
            began = time.monotonic()
            if began > told + PROGRESS:
                told = began
                print(f"{self._ran()}; about {until - began:.0f} s left", file=sys.stderr, flush=True)
            try:
                run = self.run(case)
                spent[name] += time.monotonic() - began
                if run is not None and run.violations:
                    self.suspect(run)
            except TraceError as error:
                self.untraced = str(error)
                return

    def find(self, chosen: str) -> Case | None:
        """Return the case that a person means. A case that follows another one is found by running that one."""
        plain = [(case.scenario, messages) for case, messages in self._plain]
        cases = [*losses(plain), *kills(plain, self._names), *_first_races(), *writes(self._services)]
        while True:
            if (case := next((case for case in cases if case.meant(chosen)), None)) is not None:
                return case
            before = next((case for case in cases if case.begins(chosen)), None)
            if before is None:
                return None
            for _ in range(TIMES):  # what follows a fault by itself comes too late in some runs
                if (run := self.run(before)) is None:
                    return None
                cases = list(self._following(run))
                if any(case.meant(chosen) or case.begins(chosen) for case in cases):
                    break

    def messages(self, scenario: str) -> tuple[str, ...]:
        """Return the messages of a scenario without a fault, after `plain`; those of a race in its usual order."""
        for case, messages in self._plain:
            if case.scenario.name == scenario:
                return tuple(said for _, said in messages)
        run = self.run(next(case for case in _first_races() if case.scenario.name == scenario))
        return run.words if run else ()

    def _following(self, run: Run) -> Iterator[Case]:
        """Return the cases that do one thing more than the case of a run."""
        case = run.case
        if case.kind == RACE:
            delivered = [event for event, _ in run.messages]
            swaps = swapped(case, delivered, run.choices, partial(message, names=run.world.names))
            for number, swap in enumerate(dict.fromkeys(swaps), 1):
                yield replace(case, swaps=(*case.swaps, swap), id=f"{case.id}.{number}")
        elif len(case.faults) == 1:
            for number, fault in enumerate(second(case, run.messages, self._names), 1):
                yield replace(case, faults=(*case.faults, fault), id=f"{case.id}.{number}")

    def run(self, case: Case) -> Run | None:
        """Run a case, up to three times until it happens. Returns None if it does not."""
        run = self._reach(case)
        if run is not None:
            self._count(run)
        return run

    def _count(self, run: Run) -> None:
        kind = run.case.kind
        self.ran[kind] += 1
        self.possible[WRITE] += kind == WRITE  # it is not known how often a service writes
        if not run.violations and kind != TWICE:
            self._right[kind].append(run)

    def _reach(self, case: Case) -> Run | None:
        void = ""
        for _ in range(TIMES):
            run = self._try(case)
            self.overdue += _late(run)
            void = run.void
            if _happened(run):
                return run
            if case.kind == WRITE and not run.reached and not void:
                self._writing.discard((case.scenario.name, case.faults[0].at))
                return None
        if void:
            self.void.append(f"{case.id} ({void})")
        elif case.kind == TWICE:
            self.second += 1
        else:
            self.unreached.append(f"{case.id} ({case})")
        return None

    def _try(self, case: Case) -> Run:
        """Run a case. If the system has stopped working, it is started again."""
        try:
            return (self._system or self.start()).run(case, self._soon, self._soon)
        except SetUpError:
            return self.start().run(case, self._soon, self._soon)
        except SubmissionError:  # not ready while something was held
            return self.start().run(case, self._soon, self._soon, flowing=True)

    def slow(self, case: Case) -> Run:
        """Run a case. Enter delivers the next message, however long it takes, so the run proves nothing (`legal`).

        Raises VoidError if the case does not happen.
        """
        system = self._system or self.start()
        say(f"{system.table()}\nEnter delivers the next message. The time-outs of callers go on meanwhile.")

        def pace(said: str) -> None:
            if said:
                say(f"next: {said}")
                sys.stdin.readline()

        system.pace = pace
        run = system.run(case)
        if not run.reached:
            raise VoidError(f"{case.id} ({case}) has not happened: other messages came")
        return run

    def suspect(self, run: Run, told_already: bool = False) -> bool:
        """Run a case again twice, first on a freshly started system, and judge both when effects have had their time.

        Returns whether both are wrong. Meanwhile races go on, which break nothing. ``told_already``: its steps are on
        the terminal.
        """
        case, limits = run.case, self._wish.limits
        told = shown(run)
        alike = any(each.place == case.place for each in self._places)
        alike = alike or any((each.kind, each.rules) == (told.kind, told.rules) for each in self.found.values())
        if alike or len(self.found) + len(self.unrepeated) >= MOST:
            self.unconfirmed.append(case.id)
            return False
        at, longest = time.monotonic() - self._began, limits.convergence + limits.ready
        say(f"at {at:.0f} s: {case.id}: {told.wrong[0]}. Being confirmed on a fresh start (at most {longest:.0f} s)")
        system, again = self.start(), list[Run]()
        while len(again) < 2:
            if (one := self._reach(case)) is None:
                if case.kind == WRITE:
                    self.unreached.append(f"{case.id} ({case})")
                return False
            again.append(one)
            if not one.violations and len(again) == 1:
                break
        since = time.monotonic()
        if self._system is system:
            self._age(system, [one for one in again if one.violations and not one.failed], since)
        if self._system is not system and not all(one.failed for one in again):
            self.void.append(f"{case.id} (the system has stopped working while it was confirmed)")
            return False
        for one in again:
            if one.violations and not one.failed:
                waited = time.monotonic() - since
                system.judge(one, max(1.0, limits.convergence - waited), max(1.0, STILL - waited))
        if why := next((one.void for one in again if one.void), ""):
            self.void.append(f"{case.id} ({why})")
            return False
        times = 1 + sum(bool(one.violations) for one in again)
        told = shown(next((one for one in again if one.violations), run), (times, 1 + len(again)))
        if times < TIMES:
            self.unrepeated.append(f"{case.id} ({times} of {1 + len(again)} runs)")
            if again[-1].violations or len(again) == 2:
                needed = time.monotonic() - since
                self._soon = max(self._soon, min(limits.convergence, 1.5 * needed))
            say(f"{case.id} was right in a run on a fresh start; values have {self._soon:.0f} s from now on")
            return False
        self.found[case.id] = told
        self._places.append(case)
        say(text(told).partition("\n")[0] if told_already else text(told))
        return True

    def _age(self, system: System, wrong: list[Run], since: float) -> None:
        """Run races until the values of wrong runs are right, or have had most of their time."""
        while wrong and self._system is system:
            looks = [system.look(one) for one in wrong]
            longest = self._wish.limits.convergence if any(changing for _, changing in looks) else STILL
            if all(right for right, _ in looks) or time.monotonic() - since > longest - self._soon:
                return
            if (case := next(self._racing, None)) is None:
                return
            try:
                run = system.run(case, self._soon, self._soon)
            except (SetUpError, SubmissionError):
                return self._later.append(case)
            if run.violations or not _happened(run):
                self._later.append(case)
            else:
                self._count(run)

    def _left(self, only: list[str]) -> list[str]:
        """Return what is not tried. ``only``: the kinds that are."""
        left = [kind for kind in KINDS if kind not in (*only, WRITE)]
        if WRITE not in only or self._writing:
            left.append("kills at later writes" if self.ran[WRITE] else "kills at writes")
        return left

    def report(self, folder: str, only: list[str], right: Run | None = None) -> dict[str, Any]:
        """Return the content of explore.json, after one more run of each case that was found.

        ``folder``: that of the system, as in the command line. ``right``: a run to show in which nothing is wrong.
        """
        cases = [*zip(self._places, self.found.values(), strict=True)]
        cases += [(right.case, shown(right))] if right is not None else []
        told = [as_json(self._looked(case, each), folder) for case, each in cases]
        kinds = [{"kind": kind, "ran": self.ran[kind], "possible": self.possible[kind]} for kind in only]
        return {
            "explore": VERSION,
            "name": self._name,
            "again": shlex.join(["python", "-m", "grader", "explore", folder]),
            "processes": list(self._names),
            "tier": self._tier,
            "cases": told,
            "kinds": [kind for kind in kinds if kind["possible"]],
            "not_explored": [*(kind for kind in only if not self.possible[kind] and kind != WRITE), *self._left(only)],
            "not_repeated": self.unrepeated,
            "not_run_again": self.unconfirmed,
            "not_reached": self.unreached,
            "void": self.void,
            "second_faults_missed": self.second,
            "held_too_long": self.overdue,
        }

    def _looked(self, case: Case, told: Shown) -> Shown:
        """Return what a report says of a case, with what can be read after each of its steps."""
        try:
            return looked(case, told, self._system or self.start(), self._soon)
        except (SubmissionError, VoidError) as error:
            self._ends.close()
            self._system = None
            return replace(told, left_out=f"{LEFT_OUT}: another run of this case came to no end ({error}).")

    def _ran(self) -> str:
        """Return how many cases were run, of those that are known so far."""
        of = {kind: count for kind, count in self.possible.items() if count}
        kinds = ", ".join(f"{kind} {self.ran[kind]} of {of[kind]}" for kind in KINDS if kind in of)
        return f"{sum(self.ran[kind] for kind in of)} of {sum(of.values())} ({kinds})"

    def ending(self, folder: str, only: list[str]) -> str:
        """Return what was explored, and how to see the first violation again."""
        took, any_ran = time.monotonic() - self._began, any(self.possible[kind] for kind in only)
        left = ", ".join(self._left(only)) or "nothing"
        lacking = sum(self.possible.values()) - sum(self.ran[kind] for kind in self.possible)
        tried = self.second + len(self.unreached) + len(self.void)
        others = "; the others did not happen, or are void" if 0 < lacking <= tried else ""
        said = f"explored {self._ran()}{others}, {took:.0f} s; not explored: {left}"
        lines = [said if any_ran else f"only checkouts without a fault were run, {took:.0f} s"]
        if any_ran and not self.found and not self.unrepeated:
            lines.insert(0, "nothing is wrong in any run")
        if self.untraced:
            lines.append(f"kills at writes are not explored: {self.untraced}")
        if self.unrepeated:
            lines.append(f"not wrong each time, so not counted: {', '.join(self.unrepeated)}")
        if self.unconfirmed:
            lines.append(f"wrong as well, and not run again: {', '.join(self.unconfirmed)}")
        if self.unreached:
            lines.append(f"did not happen in {TIMES} tries: {', '.join(self.unreached)}")
        if self.void:
            lines.append(f"void, and not counted: {', '.join(self.void)}")
        if self.second:
            lines.append(f"second faults that did not happen, because other messages followed the first: {self.second}")
        if self.overdue:
            lines.append(f"messages that were held for too long, and then delivered: {self.overdue}")
        if found := next((each for name, each in self.found.items() if name != "plain"), None):
            lines.append(f"again: python -m grader explore {shlex.quote(folder)} --case {shlex.quote(found.case)}")
        return "\n".join(lines)


def _middle_first(cases: list[Case]) -> list[Case]:
    """Return the middle one, those in the middle of each half, and so on."""
    parts, found = [cases], list[Case]()
    for part in parts:
        if part:
            middle = len(part) // 2
            found.append(part[middle])
            parts += [part[:middle], part[middle + 1 :]]
    return found


def _late(run: Run) -> int:
    """Return how many messages of a run were held for too long."""
    return sum(event.what == "overdue" for event in run.events)


def _happened(run: Run) -> bool:
    """Return whether the case of a run happened, and the run says something about the system."""
    return run.reached and not run.void and not (run.case.kind == RACE and _late(run))


def _first_races() -> list[Case]:
    return [Case(scenario, id=f"{KINDS[RACE]}{number}") for number, scenario in enumerate(RACES, 1)]


def _shape(run: Run) -> tuple[object, ...]:
    """Return what the system saw of a run: for each receiver the messages in their order, and the answers."""
    got: dict[str, list[str]] = {}
    for event, said in run.messages:
        got.setdefault(event.receiver, []).append(said)
    return run.case.scenario.name, *sorted((name, tuple(words)) for name, words in got.items()), run.statuses


def _got(status: int) -> str:
    return str(status) if status >= 100 else status_word(status)


def _check(run: Run) -> None:
    """Raise VoidError if a plain run does not say what is right."""
    scenario, (status, *_) = run.case.scenario, run.statuses
    if run.void:
        raise VoidError(f"a checkout without a fault ({scenario.name}) cannot be judged: {run.void}")
    if run.messages and run.restless >= len(run.messages):
        raise VoidError(
            "a process of the system works all the time, so the grader cannot tell when a message has had its effect; "
            "let threads wait for messages instead of asking again and again (or the machine is too busy: try again)"
        )
    due = 2 if scenario.paid else 4
    if status // 100 != due and not run.violations:
        raise VoidError(
            f"a checkout without a fault ({scenario.name}) got {_got(status)}, should be {due}xx; mend this first: "
            "python -m grader checkout FOLDER --quick"
        )


def say(text: str) -> None:
    print(text, flush=True)


def _starting(text: str) -> None:
    if text == BUILDING:
        print(text, file=sys.stderr, flush=True)
