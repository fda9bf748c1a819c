"""Grade a class: find out what has no result yet, let the pool judge it, and store what it has found."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from ..errors import UsageError
from ..files import as_json, write
from ..folders import remove
from ..sandbox import Tier
from .collect import Collection, Submission
from .gradebook import RUN, read_out
from .one import waited
from .pool import run
from .results import (
    AMBIGUOUS,
    FIRST,
    GRADED,
    RESULT,
    SETTLED,
    UNFINISHED,
    UNREADABLE,
    VERSION,
    VOID,
    Found,
    earlier,
    fresh,
    hash_of,
    read,
    store,
)
from .roster import Student
from .work import CHECKOUT, Task, Work, kind_of

_FEW = 5
"""With fewer results, there is no estimate, because the first ones can be those that hang."""
_EVERY = 5.0
"""Seconds between two lines of progress if the output is not a terminal."""
ALL, CHANGED = "all", "changed"
GONE = "gone"
"""The folder for results of ids that are no student's."""


def same_lab(run: Mapping[str, Any], work: Work, regrade: str, out: Path) -> None:
    """Raise UsageError if a folder has results of another lab, or of another bundle without --regrade."""
    number = work.about["number"]
    other = bool(run) and (kind_of(run["lab"]), run["lab"]["number"]) != (work.kind, number)
    if other or run and run["bundle"] != work.hash and not regrade:
        said = f"--out {out} has results of lab {run['lab']['number']} (bundle {run['bundle'][:12]})"
        mend = "" if other else "grade again with --regrade changed, or "
        said += f", and --lab is lab {number} (bundle {work.hash[:12]})"
        raise UsageError(f"{said}; {mend}give another --out")


def run_of(
    run: Mapping[str, Any], work: Work, tier: Tier, weak: bool, command: str, collection: Collection
) -> dict[str, Any]:
    """Return the content of run.json. It keeps what earlier runs knew of other submissions."""
    about = {
        one.id: {
            "entry": one.entry,
            "time": one.time.isoformat() if one.time is not None else None,
            "rule": collection.rule,
        }
        for one in collection.submissions
    }
    return {
        "version": VERSION,
        "lab": work.about,
        "lab_folder": str(work.folder or ""),
        "bundle": work.hash,
        "points": {check: str(points) for check, points in work.points.items()},
        "command": command,
        "tier": asdict(tier),
        "ungraded": weak,
        "submissions": {**run.get("submissions", {}), **about},
        "left_out": [asdict(one) for one in collection.left_out if not one.harmless],
        "lowered": run.get("lowered", {}),
        "teams": run.get("teams", {}),
        "with": run.get("with", []),
        "regrading": run.get("regrading", ""),
        "scratch": run["scratch"],
        "seconds": run.get("seconds", {}),
        "handed": run.get("handed", {}),
    }


def enrol(out: Path, run: dict[str, Any], roster: Mapping[str, Student]) -> None:
    """Put the roster into run.json. What was graded under an id of the LMS gets the id of the roster.

    In the checkout, what was graded under the id of a member gets the name of the team.
    """
    teams = kind_of(run["lab"]) == CHECKOUT
    run["roster"] = {one.id: one.lms_id for one in roster.values()}
    run["doubts"] = {one.id: one.doubt for one in roster.values() if one.doubt}
    run["names"] = {one.id: one.name for one in roster.values() if one.name}
    run["teams"] = {one.id: one.team or one.id for one in roster.values() if teams}
    for one in roster.values():
        id = run["teams"].get(one.id, one.id)
        for old in {one.lms_id, one.id} - {id}:
            if old in run["submissions"] and not (out / "submissions" / id).exists():
                about = run["submissions"].pop(old)
                run["submissions"].setdefault(id, about)
                if old in run.get("handed", {}):
                    run["handed"].setdefault(id, run["handed"].pop(old))
                for place in (out / "submissions", out / "sources"):
                    if (place / old).is_dir():
                        (place / old).rename(place / id)


def put_aside(out: Path, run: Mapping[str, Any], collection: Collection) -> list[str]:
    """Move what was graded under an id that is no student's to gone/, and return the ids.

    Such an id is not handed in now, and not in the roster. Without a roster, another rule has found it. If it is handed
    in again, its results come back.
    """
    now, mine = {one.id for one in collection.submissions}, {*run["roster"], *run["teams"].values()}
    for id in now:
        if (out / GONE / id).is_dir() and not (out / "submissions" / id).exists():
            _move(out / GONE / id / "sources", out / "sources" / id)
            _move(out / GONE / id, out / "submissions" / id)
    rules = {id: about.get("rule", collection.rule) for id, about in run["submissions"].items()}
    gone = [id for id, rule in rules.items() if id not in now and (id not in mine if mine else rule != collection.rule)]
    gone = sorted(id for id in gone if (out / "submissions" / id).is_dir())
    for id in gone:
        remove(out / GONE / id)
        _move(out / "submissions" / id, out / GONE / id)
        _move(out / "sources" / id, out / GONE / id / "sources")
    return gone


def _move(old: Path, new: Path) -> None:
    if old.is_dir():
        new.parent.mkdir(exist_ok=True)
        old.rename(new)


@dataclass
class Grading:
    """One run over the submissions of a class."""

    out: Path
    work: Work
    tier: Tier
    jobs: int
    run: dict[str, Any]
    scratch: Path

    def grade(self, collection: Collection, only: set[str], regrade: str) -> None:
        """Judge what has no result yet, and what --regrade asks for."""
        grader = self.work.grader()
        tasks: list[Task] = []
        again: list[Task] = []
        if regrade and self.run.get("regrading") != regrade:
            self._put_away(collection.submissions, regrade, grader)
        self.run["regrading"] = regrade
        write(self.out / RUN, as_json(self.run))
        for one in collection.submissions:
            if only and one.id not in only:
                continue
            key = {"submission": hash_of(one.files) if one.files else "", "bundle": self.work.hash, "grader": grader}
            self._remember(one, key["submission"])
            if one.why:
                store(self._place(one.id), fresh(self.work.about["number"], key, 0, one.status, one.why, one.mend))
            elif not self._has(RESULT, one.id, key):
                some = again if self._has(FIRST, one.id, key, VOID) else tasks
                same = next((ask for ask in some if ask["entry"] == one.entry), None)
                if same is None:
                    ask = self.work.task(one, key, self.tier, self.scratch, self._place(one.id))
                    some.append({**ask, "entry": one.entry, "ids": [one.id]})
                else:  # a group has handed in together
                    same["ids"].append(one.id)
        if said := self.work.announcement(len(tasks) + len(again)):
            print(said, file=sys.stderr, flush=True)
        self._judge(tasks, again, len(only or collection.submissions))
        self.run["regrading"] = ""
        write(self.out / RUN, as_json(self.run))

    def _remember(self, one: Submission, submission: str) -> None:
        """Note in run.json when a submission was handed in, and what was handed in besides."""
        handed = self.run["handed"].setdefault(one.id, {"times": {}})
        handed["others"] = [(entry, time.isoformat()) for time, entry in one.others]
        if one.time is not None:
            handed["times"][submission] = one.time.isoformat()

    def _place(self, id: str) -> Path:
        return self.out / "submissions" / id

    def _has(self, name: str, id: str, key: Mapping[str, str], *also: str) -> bool:
        """Return whether this submission has a result that is settled, or has another of these states."""
        found = read(self._place(id) / name)
        same = found is not None and found["submission"] == key["submission"] and self.work.counts(found)
        return same and found is not None and found["status"] in (*SETTLED, *also)

    def _put_away(self, submissions: Sequence[Submission], regrade: str, grader: str) -> None:
        """Make earlier results of those that are to be graded again."""
        asked = {one.id for one in submissions}
        if regrade not in (ALL, CHANGED):
            asked = chosen(regrade, asked, "--regrade")
        for id in sorted(asked):
            place, found = self._place(id), read(self._place(id) / RESULT)
            if found is None or found["status"] == VOID:
                continue
            if regrade != CHANGED or (found["bundle"], found["grader"]) != (self.work.hash, grader):
                (place / RESULT).rename(place / f"result-{len(earlier(place)) + 1}.json")

    def _judge(self, tasks: list[Task], again: list[Task], of: int) -> None:
        without = sum(found["status"] in (UNREADABLE, AMBIGUOUS) for found in read_out(self.out).newest.values())
        took, left = list(self.run["seconds"].values()), sum(len(ask["ids"]) for ask in (*tasks, *again))
        shown = Progress(of, left, without, took, min(self.jobs, max(1, len(tasks))))
        for some, jobs in ((tasks, self.jobs), (again, 1)):
            some.sort(key=lambda ask: str(ask["id"]))
            with closing(run(some, jobs)) as answers:
                for ask, answer, seconds in answers:
                    found = self._noted(ask, answer, seconds)
                    for place in map(self._place, ask["ids"]):
                        if some is tasks and found["status"] == UNFINISHED:
                            store(place, found)  # what it proves counts, also if the next run is void
                        elif some is tasks and waited(found):
                            write(place / FIRST, as_json(found))
                        else:
                            store(place, found)
                            write(self.out / RUN, as_json(self.run))
                            shown.done(found, seconds)
                    if some is tasks and (found["status"] == UNFINISHED or waited(found)):
                        again.append(ask)
        shown.end()

    def _noted(self, ask: Task, answer: Any, seconds: float) -> Found:
        """Return the result, store the source, and remember the time."""
        for id in ask["ids"]:
            self.run["seconds"][id] = round(seconds, 3)
        if answer is None:
            why, mend = "the process that graded it was killed", "run the same command again"
            return fresh(self.work.about["number"], ask["key"], self.tier.number, VOID, why, mend)
        sources = answer["sources"]
        for place in (self.out / "sources" / id for id in ask["ids"]):
            for name, text in sources.items():
                write(place / name, text)
            for old in place.glob("*") if sources else ():
                if old.name not in sources:
                    old.unlink()  # a notebook instead of a module, or the reverse
        found: Found = answer["found"]
        return found


def chosen(words: str, known: Iterable[str], option: str) -> set[str]:
    """Return ids that are separated by commas. Raises UsageError for an unknown one."""
    ids = {word.strip() for word in words.split(",")}
    if unknown := ids - set(known):
        raise UsageError(f"{option}: there is no submission of {min(unknown)!r}; ids are separated by commas")
    return ids


class Progress:
    """Shows how many submissions are graded: one updating line in a terminal, otherwise a line now and then."""

    def __init__(
        self,
        of: int,
        left: int,
        without: int,
        took: list[float],
        jobs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``of``: all submissions; ``left``: those without a result; ``without``: those whose result is no grade.

        ``took``: the seconds of earlier results; ``jobs``: the number of processes.
        """
        self._of, self._left, self._without, self._took, self._jobs = of, left, without, took, jobs
        self._clock, self._said = clock, clock()
        self._live = sys.stderr.isatty()

    def done(self, found: Found, seconds: float) -> None:
        """Count a result that has taken some seconds."""
        self._took.append(seconds)
        self._left -= 1
        self._without += found["status"] != GRADED
        if self._live or self._clock() - self._said > _EVERY:
            self._said = self._clock()
            start, end = ("\r\x1b[K", "") if self._live else ("", "\n")
            print(f"{start}{self.text()}", end=end, file=sys.stderr, flush=True)

    def text(self) -> str:
        """Return the progress in words."""
        said = f"{self._of - self._left} of {self._of} graded, {self._without} without a grade"
        if len(self._took) < _FEW:
            return said
        seconds = mean(self._took) * self._left / self._jobs
        left = f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
        return f"{said}, {left}"

    def end(self) -> None:
        """End the line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr)
