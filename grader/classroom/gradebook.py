"""Scores of a class, and the tables gradebook.csv, problems.csv and changes.csv; pure functions of stored results."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..outcomes import Outcome
from .late import Course
from .points import Adjust, ByHand, Rubric, applied, cents, earned, number
from .results import GRADED, MISSING, RESULT, UNFINISHED, UNREADABLE, VOID, Found, earlier, fresh, read, reason
from .work import CHECKOUT, kind_of

RUN = "run.json"
_COLUMNS = (
    *("id", "lab", "status", "points", "of", "late_days", "penalty", "score", "tier", "submission", "bundle"),
    "by_hand",
)
_MEND = {
    "unreadable": "ask for the file, put it in place, and run `class` again",
    "ambiguous": "remove all but one, and run `class` again",
    "void": "run `class` again",
    "missing": "nothing was handed in, or under another id",
}
MEND_OVER = "correct the line, or write yes into a column 'over'"
_KEY = ("submission", "bundle", "grader", "status", "mode")
"""Results that are equal in these should be equal."""
_MANY = 10
"""If the times of more submissions are not known, one line says so."""
_FORMULA = re.compile(r"[=+@]|-(?!\d+(\.\d+)?\Z)", re.A)
_EARLIER = {"quick": "The quick run", "full": "The full run"}


@dataclass(frozen=True)
class Out:
    """A folder that `class` has written."""

    folder: Path
    run: dict[str, Any]
    """run.json: the lab, its points, the submissions' times, the ids of the roster."""
    newest: dict[str, Found]
    earlier: dict[str, list[Found]]
    times: Mapping[str, datetime] = field(default_factory=dict)
    """When the newest submissions were handed in, by the student, if a table says so."""

    @property
    def lab(self) -> int:
        """The number of the lab."""
        return int(self.run["lab"]["number"])

    @property
    def points(self) -> dict[str, Decimal]:
        """The points of the bundle."""
        return {check: Decimal(points) for check, points in self.run["points"].items()}

    @property
    def ids(self) -> list[str]:
        """The students, sorted: those of the roster, and others who have handed in."""
        return sorted({*self.newest} - {*self.run.get("teams", {}).values()} | {*self.run["roster"]})

    def place(self, id: str) -> str:
        """Return the name of the folder in submissions/ that has a student's result: the id or, in lab 6, the team."""
        return str(self.run.get("teams", {}).get(id, id))

    def handed(self, place: str) -> Mapping[str, Any]:
        """Return the times of the submissions in a place by their hashes, and what was handed in besides the newest."""
        found: Mapping[str, Any] = self.run.get("handed", {}).get(place, {"times": {}, "others": []})
        return found

    def page(self, id: str) -> Path:
        """Return the feedback page of a student. Each member of a team has one."""
        place = self.place(id)
        return self.folder / "submissions" / place / ("feedback.html" if place == id else f"feedback-{id}.html")

    def feedback(self) -> tuple[dict[str, dict[str, Path]], dict[str, str]]:
        """Return the files that each student gets back, by their names, and the student's folder in the LMS.

        The LMS knows the folder of the student who has handed in. That of another member differs in the number.
        """
        about, files, entries = self.run["submissions"], {}, {}
        for id in {*self.run.get("teams", {}), *self.newest}:
            place, page = self.place(id), self.page(id)
            if page.is_file():
                report = self.newest[place].get("report")
                files[id] = {"feedback.html": page} | ({report: page.parent / report} if report else {})
                entry, own = about.get(place, {}).get("entry", ""), self.run["roster"].get(id, "")
                entries[id] = re.sub(r"_\d+(?=_assignsubmission_file)", f"_{own}", entry) if own else entry
        return files, entries

    def earned(self, found: Found, rubric: Rubric) -> Decimal | None:
        """Return the points of a result. A checkout that breaks a safety rule has at most those of the lab's cap."""
        got = earned(found, rubric.of(self.points), rubric)
        return got if got is None or not found.get("unsafe") else min(got, Decimal(self.run["lab"]["cap"]))

    def at_most(self, found: Found, rubric: Rubric) -> Decimal | None:
        """Return the points that an unfinished result has if all that was not judged turns out right; else None."""
        if found["status"] != UNFINISHED:
            return None
        better = {Outcome.UNREACHED: Outcome.PASS}
        checks = [{**one, "outcome": better.get(one["outcome"], one["outcome"])} for one in found["checks"]]
        return self.earned({**found, "status": GRADED, "checks": checks}, rubric)

    def limit(self, place: str, found: Found, rubric: Rubric) -> Decimal | None:
        """Return the most points that the unfinished results of the same submission leave; None if there are none.

        What they have proven also limits a later result by the same grader.
        """
        said = [*self.earlier.get(place, [])[self.run["lowered"].get(place, 0) :], found]
        mine = (one for one in said if (one["submission"], one["grader"]) == (found["submission"], found["grader"]))
        return min((most for one in mine if (most := self.at_most(one, rubric)) is not None), default=None)


@dataclass(frozen=True)
class Row:
    """A line of the gradebook, and the result that it is computed from."""

    id: str
    lab: int
    found: Found
    points: Decimal | None
    of: Decimal
    late_days: int | None = None
    free_days: int = 0
    penalty: Decimal = Decimal(0)
    adjusted: Sequence[ByHand] = ()
    refused: Sequence[str] = ()
    """The points by hand that are not applied, each in words that begin with the place in the file."""
    at_most: Decimal | None = None
    """The most points that unfinished results leave."""
    kept: bool = False
    """Whether an earlier result counts, because the newest one has fewer points, or is no grade."""
    most_days: int = 0
    """After how many late days a submission has no points."""
    beyond: bool = False
    """Whether free days are left that would have helped, but the submission is later than most_days."""
    before: Sequence[Row] = ()
    """What the row was, or would be by the present rules, after each earlier result."""

    @property
    def status(self) -> str:
        """The status of the submission."""
        return str(self.found["status"])

    @property
    def net(self) -> Decimal | None:
        """The points less the penalty; None if there are no points."""
        return None if self.points is None else self.points - self.penalty

    @property
    def too_late(self) -> bool:
        """Whether the submission is later than most_days."""
        return (self.late_days or 0) > self.most_days

    @property
    def by_hand(self) -> Decimal:
        """The sum of the points by hand."""
        return sum((one.points for one in self.adjusted), Decimal(0))

    @property
    def graded_by_hand(self) -> bool:
        """Whether the score consists of points by hand."""
        return self.status != GRADED and self.by_hand > 0

    @property
    def score(self) -> Decimal | None:
        """The points less the penalty, plus the points by hand, but at least 0; None if there is no grade."""
        if self.net is None and not self.graded_by_hand:
            return None
        return max(Decimal(0), cents((self.net or Decimal(0)) + self.by_hand))


def read_out(folder: Path) -> Out:
    """Read what `class` has written. Raises UsageError if it has written nothing there."""
    run = read(folder / RUN)
    if run is None:
        raise UsageError(f"{folder} has no {RUN}; give the folder that `python -m grader class ... --out` has written")
    places = sorted(path for path in (folder / "submissions").glob("*") if path.is_dir())
    before = {path.name: earlier(path) for path in places}
    newest = {path.name: read(path / RESULT) or next(reversed(before[path.name]), None) for path in places}
    return Out(folder, run, {id: found for id, found in newest.items() if found is not None}, before)


def rows_of(outs: Sequence[Out], course: Course, rubric: Rubric, adjust: Adjust) -> dict[int, list[Row]]:
    """Return the rows of each lab, sorted by id. Raises UsageError if a lab that decides about free days is missing."""
    labs = {out.lab: out for out in outs}
    if len(labs) < len(outs):
        raise UsageError("two of the folders are of the same lab; give one folder for each lab")
    course.check(labs)
    left: dict[str, int] = {}
    rows = {}
    for lab in sorted(labs, key=lambda lab: (course.due[lab].timestamp() if lab in course.due else 0, lab)):
        out = labs[lab]
        rows[lab] = [_row(id, out, course, rubric, adjust, left) for id in out.ids]
    return rows


def _row(id: str, out: Out, course: Course, rubric: Rubric, adjust: Adjust, left: dict[str, int]) -> Row:
    """Return a row, and spend the free days of the student that it takes."""
    place = out.place(id)
    past, now, before = out.earlier.get(place, []), out.newest.get(place), []
    for at, found in enumerate(past):
        same = now is not None and found["submission"] == now["submission"]
        known = out if same else replace(out, run={**out.run, "submissions": {}}, times={})  # those of the newest
        then = replace(known, newest={place: found}, earlier={place: past[:at]})
        before.append(_now(id, then, course, rubric, adjust, dict(left)))
    return replace(_now(id, out, course, rubric, adjust, left), before=before)


def _now(id: str, out: Out, course: Course, rubric: Rubric, adjust: Adjust, left: dict[str, int]) -> Row:
    found, kept = _counted(out.place(id), out, rubric)
    got, of = out.earned(found, rubric), sum(rubric.of(out.points).values(), Decimal(0))
    most = out.limit(out.place(id), found, rubric)
    got = got if got is None or most is None else min(got, most)
    row = Row(id, out.lab, found, got, of, at_most=most, kept=kept)
    if got is None or found["status"] != GRADED:
        return _adjusted(row, adjust)
    days = course.days(id, out.lab, time_of(out, id, found["submission"]))
    late = days or 0
    free, beyond = min(late, left.setdefault(id, course.free_days)), False
    if late > course.most_days:
        beyond = late - free <= course.most_days and course.penalty(got, late - free) < got
        free = 0
    left[id] -= free
    penalty = course.penalty(got, late, free)
    return _adjusted(
        replace(row, late_days=days, free_days=free, penalty=penalty, most_days=course.most_days, beyond=beyond), adjust
    )


def _adjusted(row: Row, adjust: Adjust) -> Row:
    """Return a row with its points by hand."""
    asked = adjust.rows.get((row.id, row.lab), ())
    base = row.net or Decimal(0)
    taken = applied(asked, base, row.of)
    now = replace(row, adjusted=taken)
    about = f"points are not applied to {row.id!r} in lab {row.lab}: the total would be"
    refused = [
        f"{adjust.name}, line {one.line}: {one.points:+} {about} {number(base + now.by_hand + one.points)} of "
        f"{number(row.of)}"
        for one in asked
        if one not in taken
    ]
    return replace(now, refused=refused)


def _counted(id: str, out: Out, rubric: Rubric) -> tuple[Found, bool]:
    """Return the result that counts: the newest one, or an earlier one of the same submission with more points.

    A fail that is not judged to the end counts more than a void run, because it is proven.
    """
    newest = out.newest.get(id) or fresh(out.lab, {"submission": "", "bundle": "", "grader": ""}, 0, MISSING)
    best, kept = newest, False
    for found in out.earlier.get(id, [])[out.run["lowered"].get(id, 0) :]:
        same = found["status"] == GRADED and found["submission"] == newest["submission"]
        had = out.earned(best, rubric)
        if same and (had is None or (out.earned(found, rubric) or 0) > had):
            best, kept = found, True
        elif found["status"] == UNFINISHED and best["status"] == VOID and found["submission"] == newest["submission"]:
            best, kept = found, True
    return best, kept


def time_of(out: Out, id: str, submission: str) -> datetime | None:
    """Return when a submission, by its hash, was handed in; None if that is not known."""
    place = out.place(id)
    if id in out.times:
        return out.times[id]
    time = out.handed(place)["times"].get(submission) or out.run["submissions"].get(place, {}).get("time")
    return None if time is None else datetime.fromisoformat(time)


def states(rows: Sequence[Row]) -> str:
    """Return in words how many rows have which status."""
    found = Counter(row.status for row in rows)
    said = ", ".join(f"{found[state]} {state}" for state in sorted(found, key=lambda state: (state != GRADED, state)))
    by_hand = sum(row.graded_by_hand for row in rows)
    return said + (f"; {by_hand} of them graded by hand" if by_hand else "")


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV. A spreadsheet would evaluate text that starts with =, +, - or @, so it gets a quote.

    A number gets none.

    >>> table([["-2.5", "-2+3"]])
    "-2.5,'-2+3\\n"
    """
    out = io.StringIO()
    guarded = [[f"'{cell}" if _FORMULA.match(str(cell)) else cell for cell in row] for row in rows]
    csv.writer(out, lineterminator="\n").writerows(guarded)
    return out.getvalue()


def gradebook(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Return gradebook.csv. ``names``: those of the roster, by id; without any, there is no column for them."""
    lines = [
        (
            *(row.id, row.lab, row.status, number(row.points), number(row.of)),
            *(("", "") if row.late_days is None else (row.late_days, number(row.penalty))),
            number(row.score),
            *(row.found["tier"] or "", row.found["submission"][:12], row.found["bundle"][:12]),
            number(row.by_hand) if row.adjusted else "",
        )
        for row in rows
    ]
    if names:
        told = ["name", *(names.get(row.id, "") for row in rows)]
        return table([(id, name, *rest) for name, (id, *rest) in zip(told, (_COLUMNS, *lines), strict=True)])
    return table([_COLUMNS, *lines])


def problems(rows: Sequence[Row], out: Out, course: Course, rubric: Rubric) -> list[tuple[str, int, str, str, str]]:
    """Return who has no grade or needs a look: id, lab, status, problem, what to do."""
    found = [
        (row.id, row.lab, row.status if status is None else status, text, mend)
        for row in rows
        for text, mend, status in _of_row(row, out, course, rubric)
    ]
    timeless = [(row, why) for row in rows if (why := _no_time(row, out, course))]
    if len(timeless) > _MANY:
        for (text, mend), many in Counter(why for _, why in timeless).items():
            found.append(("", out.lab, "", f"{many} submissions: {text}", mend))
    else:
        found += [(row.id, row.lab, row.status, text, mend) for row, (text, mend) in timeless]
    for one in out.run.get("left_out", []):
        for id in one["ids"] or [""]:
            found.append((id, out.lab, "left out", f"{one['name']}: {one['why']}", "rename or remove it"))
    return found


def _of_row(row: Row, out: Out, course: Course, rubric: Rubric) -> Iterator[tuple[str, str, str | None]]:
    """Yield the problems of a row, what to do, and the status if it is that of a newer result, which does not count."""
    place, look = out.place(row.id), "look at the file, and ask the student"
    newest = out.newest[place] if row.kept else row.found
    if row.status == MISSING:
        yield "no submission", _MEND[MISSING], None
    elif newest["status"] != GRADED:
        yield *_without_a_grade(row, newest, place), newest["status"]
    texts: list[tuple[str, str]] = []
    if row.graded_by_hand:
        text = f"graded by hand: {number(row.by_hand)}"
        texts.append((text, "if it gets another grade, take the points out again"))
    elif row.adjusted and row.score is None:
        text = f"points by hand without a grade: {number(row.by_hand)}"
        texts.append((text, "write the score that the student gets"))
    texts += [(text, MEND_OVER) for text in row.refused]
    texts += [(text, "look at the code; another run may give other points") for text in _unsure(row, out, rubric)]
    if not_run := sorted({check["got"] for check in row.found["checks"] if check["outcome"] == Outcome.NOT_RUN}):
        texts.append((f"{Outcome.NOT_RUN}: {'; '.join(not_run)}", "look at the code"))
    if row.status == GRADED and row.found["why"]:
        texts.append((row.found["why"], look))
    texts += [(lost, "ask the student for one file") for lost in row.found.get("left_out", [])]
    if doubt := out.run.get("doubts", {}).get(row.id):
        texts.append((doubt, "correct the roster: give the column the format Text"))
    texts += [(odd, look) for odd in row.found.get("look", [])]
    if out.run["roster"] and row.id not in out.run["roster"]:
        texts.append(("not in the roster", "correct the roster, or the name"))
    yield from ((text, mend, None) for text, mend in (*texts, *_by_time(row, out, course)))


def _without_a_grade(row: Row, newest: Found, place: str) -> tuple[str, str]:
    """Return why the newest result is no grade, and what to do."""
    status, (why, mend) = newest["status"], reason(newest)
    why = f"{place}: {why}" if place != row.id and why else why
    counts = f". {_EARLIER.get(row.found.get('mode', ''), 'An earlier run')} counts" if row.kept else ""
    most = f"fail, at most {number(row.at_most)} points: " if status == UNFINISHED else ""
    return f"{most}{why or mend}{counts}", (mend if why else "") or _MEND[status]


def _unsure(row: Row, out: Out, rubric: Rubric) -> Iterator[str]:
    """Yield why another run may give other points."""
    for one in row.found["checks"]:
        if one["outcome"] == Outcome.DIFFER:
            yield f"{one['check']}:{one['case']}: answers differ: {one['got']}, then {one['other']}"
    yield from (f"{check['check']}: {flag}" for check in row.found["checks"] for flag in check["flags"])
    place = out.place(row.id)
    if len(points := _points(out.newest.get(place), out.earlier.get(place, []), out, rubric)) > 1:
        yield f"graded twice by the same grader: {' and '.join(points)}"
    if row.at_most is not None and row.status == GRADED:
        yield f"at most {number(row.at_most)} points, which a run that could not be finished has proven"


def _no_time(row: Row, out: Out, course: Course) -> tuple[str, str] | None:
    """Return why it is not known whether a submission is late, and what to do; None if it is, or has no due date."""
    time = time_of(out, row.id, row.found["submission"])
    if row.status not in (GRADED, UNREADABLE) or row.lab not in course.due or course.known(time) is not None:
        return None
    if time is None:
        return "the time is not known: not late", "look at the LMS, or give --times"
    return "the time has no zone: not late", "name a zone in course.toml"


def _by_time(row: Row, out: Out, course: Course) -> list[tuple[str, str]]:
    """Return what needs a look because of times, or because of other submissions of the student, and what to do."""
    said = []
    if row.beyond:
        many = f"{row.late_days} late days are more than most_days = {course.most_days}"
        said.append((f"{many}, so free days do not help", "give an extension, or points in adjust.csv"))
    mine = row.found["submission"]
    others = [one.net for one in row.before if one.net is not None and one.found["submission"] != mine]
    if others and max(others) > (Decimal(-1) if row.net is None else row.net):
        said.append((f"an earlier submission had {number(max(others))} points", "decide which of them counts"))
    besides, time = out.handed(out.place(row.id))["others"], time_of(out, row.id, mine)
    command = "checkout" if kind_of(out.run["lab"]) == CHECKOUT else "one"
    for entry, when in besides:
        old, new = (f"{day:%-d %b %H:%M}" if day else "" for day in (datetime.fromisoformat(when), time))
        text = f"{len(besides) + 1} hand-ins, took the one of {new}; the one of {old} was not judged"
        said.append((text, f"judge {entry!r} with python -m grader {command} PATH"))
    return said


def _points(newest: Found | None, before: Sequence[Found], out: Out, rubric: Rubric) -> list[str]:
    """Return the different points that the same submission has had from the same grader and lab, oldest first."""
    if newest is None:
        return []
    alike = [one for one in (*before, newest) if all(one.get(name) == newest.get(name) for name in _KEY)]
    return list(dict.fromkeys(number(out.earned(one, rubric)) for one in alike))


def changes(rows: Sequence[Row], out: Out, course: Course, rubric: Rubric) -> str:
    """Return changes.csv: how the newest result of a submission differs from the one before.

    Both scores are by the present rules. The one before is empty if only the time of that submission is not known.
    """
    lines = []
    for row in rows:
        place = out.place(row.id)
        if not out.earlier.get(place):
            continue
        before, newest = out.earlier[place][-1], out.newest[place]
        if all(before[name] == newest[name] for name in ("submission", "status", "checks")):
            continue
        had, has = ({check["check"]: check["outcome"] for check in one["checks"]} for one in (before, newest))
        said = [
            f"{id}: {had.get(id, 'none')} -> {has.get(id, 'none')}"
            for id in {**had, **has}
            if had.get(id) != has.get(id)
        ]
        why = "another submission" if before["submission"] != newest["submission"] else "graded again"
        counts = "earlier" if row.kept else "newest"
        was, now = (number(out.earned(one, rubric)) for one in (before, newest))
        then = row.before[-1]
        timed = time_of(out, row.id, row.found["submission"]) is not None
        unknown = timed and row.lab in course.due and then.status == GRADED and then.late_days is None
        scores = ("" if unknown else number(then.score), number(row.score))
        lines.append((row.id, row.lab, why, was, now, *scores, counts, ", ".join(said)))
    scored = ("points_before", "points_now", "score_before", "score_now")
    return table([("id", "lab", "why", *scored, "counts", "checks"), *lines])
