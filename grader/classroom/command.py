"""The commands `class` and `grades`."""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from .. import statuses
from ..errors import UsageError
from ..files import as_json, write
from ..lab.bundle import read_bundle
from ..report.words import counted
from ..statuses import Parser, positive, status_of
from .breaking import Breaking
from .collect import RULES, collect
from .explored import explore
from .fill import feedback_zip, fill
from .gradebook import RUN, Out, Row, read_out, states
from .late import read_course
from .points import read_adjust, read_rubric
from .results import UNFINISHED, VOID, read
from .roster import Student, known_ids, read_roster
from .run import ALL, GONE, Grading, chosen, enrol, put_aside, run_of, same_lab
from .shops import Shops
from .single import how, only_on_linux, scratch_folder
from .tables import EXPLORED, left_out, write_all
from .teams import FULL, LAB, QUICK, Checkout, seed_of
from .times import Times, read_times
from .work import CHECKOUT, Lab, Work


def _parser() -> Parser:
    parser = Parser(prog="python -m grader", description="Grade submissions to a lab.")
    commands = parser.add_subparsers(dest="what", required=True)
    grade = commands.add_parser("class", help="grade all submissions of a class")
    grade.add_argument("submissions", type=Path, help="a folder of submissions, or the LMS's .zip")
    told = "what `lab build` has written, or 6 for the checkout"
    grade.add_argument("--lab", type=Path, required=True, metavar="BUNDLE", help=told)
    grade.add_argument("--break", dest="breaks", action="store_true", help="grade histories, not solutions")
    length = grade.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="lab 6: up to 3 minutes a team (the default)")
    length.add_argument("--full", action="store_true", help="lab 6: up to 13 minutes a team, with all faults")
    told = "lab 6: then explore each system for so many minutes, for a page without points"
    grade.add_argument("--explore", type=positive, metavar="MINUTES", help=told)
    grade.add_argument("--out", type=Path, required=True, help="the folder for results, gradebook and feedback")
    grade.add_argument("--roster", type=Path, help="the students: id, name, team, lms_id")
    grade.add_argument("--jobs", type=_jobs, help="processes (default: one for each core)")
    grade.add_argument("--names", default="", help=f"{', '.join(RULES)} or a regular expression")
    grade.add_argument("--take", choices=["newest"], default="", help="of several submissions of one id")
    grade.add_argument("--only", metavar="IDS", help="grade only these, separated by commas")
    grade.add_argument("--regrade", metavar="IDS|changed|all", help="grade again what has a result")
    grade.add_argument("--ungraded", action="store_true", help="run even in a weak sandbox, without a gradebook")
    grades = commands.add_parser("grades", help="compute the grades again, without running any submission")
    grades.add_argument("out", type=Path, nargs="+", help="folders that `class` has written")
    grades.add_argument("--fill", type=Path, metavar="EXPORT.csv", help="fill the scores of the last folder's lab in")
    grades.add_argument("--column", help='the column to fill, such as "Lab 1 (123)" (default: Grade)', default="Grade")
    grades.add_argument("--feedback-zip", type=Path, metavar="F.zip", help="pack the pages of the last folder")
    grades.add_argument("--roster", type=Path, help="the students, if they have changed")
    for each in (grade, grades):
        each.add_argument("--course", type=Path, help="course.toml: due dates, penalties, extensions")
        each.add_argument("--rubric", type=Path, help="rubric.toml: other points, policies")
        each.add_argument("--adjust", type=Path, help="adjust.csv: id, lab, points, reason, over")
        each.add_argument("--times", type=Path, help="times.csv: id, lab, time; or the grading worksheet of Moodle")
        each.add_argument("--allow-lower", action="store_true", help="let a regrade give fewer points than before")
    return parser


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes from 1 to 256")
    return int(text)


def main(words: list[str]) -> int:
    """Run a command line that begins with class or grades, and return the exit status."""
    stopped = "interrupted; the same command continues where this one has stopped"
    return status_of(f"python -m grader {words[0]}", lambda: _run(words), stopped)


def _run(words: list[str]) -> int:
    given = _parser().parse_args(words)
    run: Callable[..., int] = {"class": _class, "grades": _grades}[given.what]
    return run(given, words)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Let only one command at a time write to a folder. Raises UsageError with the pid of the other one."""
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(out / ".lock", "a+")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}; give a folder that you can write to") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            said = f"{out} is in use by process {lock.read().strip() or 'unknown'}"
            raise UsageError(f"{said}; wait until it has ended, or give another --out") from None
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        yield
        lock.truncate(0)


def _class(given: argparse.Namespace, words: list[str]) -> int:
    only_on_linux()
    work = _work(given)
    course, adjust = read_course(given.course), read_adjust(given.adjust)
    number = int(work.about["number"])
    times, rubric = read_times(given.times, number), read_rubric(given.rubric, work.points)
    roster, unlisted = read_roster(given.roster) if given.roster else (None, [])
    course.check([number])
    if given.submissions.resolve() in given.out.resolve().parents:
        rule = f"--out {given.out} is inside {given.submissions}, so it would be a submission"
        raise UsageError(f"{rule}; give a folder outside")
    with _locked(given.out):
        run = read(given.out / RUN) or {}
        same_lab(run, work, given.regrade or "", given.out)
        with scratch_folder(run) as scratch:
            command = shlex.join(["python", "-m", "grader", *words])
            _grade(given, work, run, roster if roster is not None else _enrolled(run), command, scratch)
        outs = _timed([_noted(read_out(given.out), given)], times)
        rows = write_all(outs, course, rubric, adjust)
    wrong = [*unlisted, *left_out(adjust, rows), *_wrong_times(times, outs)]
    status = max(_summary(rows[number], outs[0]), _wrong(adjust.repeated, wrong))
    now = {"bundle": work.hash, "grader": work.grader()}
    if old := sum({name: found[name] for name in now} != now for found in outs[0].newest.values()):
        print(f"results from an earlier version of the grader or the lab: {old}; --regrade changed runs them again")
    return status


def _work(given: argparse.Namespace) -> Work:
    """Return what --lab names. Raises UsageError if the other options do not fit it."""
    if given.explore and (given.breaks or str(given.lab) != LAB):
        raise UsageError(f"--explore is for the checkout: --lab {LAB}, without --break")
    if str(given.lab) != LAB:
        if given.quick or given.full:
            raise UsageError(f"--quick and --full are for the checkout: --lab {LAB}")
        bundle = read_bundle(given.lab.absolute())
        return Breaking(bundle) if given.breaks else Lab(bundle)
    if given.jobs not in (None, 1):
        rule = "systems are graded one at a time, because they would slow each other down"
        raise UsageError(f"--jobs {given.jobs}: {rule}; leave it out")
    given.jobs = 1
    if given.breaks and (given.quick or given.full):
        raise UsageError("--quick and --full are for systems of teams, and --break is for histories; leave one out")
    if given.breaks:
        return Shops()
    return Checkout(seed_of(given.out), FULL if given.full else QUICK)


def _enrolled(run: Mapping[str, Any]) -> dict[str, Student]:
    """Return the roster of an earlier run, so that ids stay the same."""
    names, teams, doubts = (run.get(name, {}) for name in ("names", "teams", "doubts"))
    ids = run.get("roster", {}).items()
    return {id: Student(id, names.get(id, ""), teams.get(id, ""), lms_id, doubts.get(id, "")) for id, lms_id in ids}


def _grade(
    given: argparse.Namespace,
    work: Work,
    run: dict[str, Any],
    roster: Mapping[str, Student],
    command: str,
    scratch: Path,
) -> None:
    """Find the submissions, say which files are no student's, and judge what has no result."""
    unpacked = scratch / "given"
    unpacked.mkdir(mode=0o700)
    ids = known_ids(roster, teams=work.kind == CHECKOUT)
    found = collect(given.submissions, given.names, given.take, ids, work.about["hand_in"], unpacked)
    only = chosen(given.only, (one.id for one in found.submissions), "--only") if given.only else set()
    tier, weak = work.tier(scratch, given.ungraded, (given.lab, given.submissions, given.out))
    print(f"names: {found.rule}; sandbox: tier {tier.number}, {how(tier, weak)}", file=sys.stderr)
    for one in found.left_out:
        print(f"left out: {one.name!r} ({one.why})", file=sys.stderr)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    about = run_of(run, work, tier, weak, command, found)
    enrol(given.out, about, roster)
    if gone := put_aside(given.out, about, found):
        why = "not in the roster" if roster else "found by another rule for names"
        print(f"not handed in, and {why}, so moved to {given.out / GONE}: {', '.join(gone)}", file=sys.stderr)
    regrade = given.regrade or ""
    if run.get("ungraded") and not weak:
        about["regrading"], regrade = "", ALL
    Grading(given.out, work, tier, given.jobs or os.cpu_count() or 1, about, scratch).grade(found, only, regrade)
    if given.explore:
        explore(given.out, [one for one in found.submissions if one.id in (only or {one.id})], given.explore, scratch)


def _noted(out: Out, given: argparse.Namespace) -> Out:
    """Note in run.json what the gradebook is computed with, and say what has been left out this time.

    With --allow-lower, the newest results count, now and later.
    """
    now = [name for name in ("course", "rubric", "adjust", "times") if getattr(given, name)]
    for name in out.run.get("with", []):
        if name not in now:
            print(f"note: the last gradebook in {out.folder} was computed with --{name}, and this one is not")
    out.run["with"] = now
    if given.allow_lower:
        out.run["lowered"] = {id: len(found) for id, found in out.earlier.items() if found}
    return out


def _summary(rows: Sequence[Row], out: Out) -> int:
    """Print a summary and return the exit status."""
    print(f"Lab {out.lab}: {states(rows)}.")
    for name in ("gradebook.csv", "problems.csv", "class.html", EXPLORED):
        if (out.folder / name).exists():
            print(f"  {out.folder / name}")
    newest = {out.place(row.id): out.newest[out.place(row.id)]["status"] for row in rows if row.kept}
    if void := sorted(place for place, status in newest.items() if status == VOID):
        print(f"  void, so an earlier result counts: {', '.join(void)} (see problems.csv)")
    if out.run["ungraded"]:
        print("  no gradebook, because the sandbox is not good enough for grades")
    if void or any(row.status in (VOID, UNFINISHED) for row in rows):
        return statuses.VOID
    return statuses.FAILED if any(row.score is None for row in rows) or out.run.get("left_out") else statuses.OK


def _grades(given: argparse.Namespace, words: list[str]) -> int:
    course, adjust = read_course(given.course), read_adjust(given.adjust)
    roster, unlisted = read_roster(given.roster) if given.roster else (None, [])
    with ExitStack() as stack:
        for folder in given.out:
            if not (folder / RUN).exists():
                read_out(folder)
            stack.enter_context(_locked(folder))
            if roster is not None:
                run = read(folder / RUN) or {}
                enrol(folder, run, roster)
                write(folder / RUN, as_json(run))
        outs = [read_out(folder) for folder in given.out]
        rubric = read_rubric(given.rubric, [check for out in outs for check in out.points])
        times = read_times(given.times, outs[-1].lab)
        outs = _timed([_noted(out, given) for out in outs], times)
        rows = write_all(outs, course, rubric, adjust)
        filled = _fill(given, rows[outs[-1].lab], outs[-1]) if given.fill else statuses.OK
        if given.feedback_zip:
            write(given.feedback_zip, feedback_zip(*outs[-1].feedback()), private=True)
    statuses_ = [_summary(rows[out.lab], out) for out in outs]
    wrong = [*unlisted, *left_out(adjust, rows), *_wrong_times(times, outs)]
    return max(filled, *statuses_, _wrong(adjust.repeated, wrong))


def _wrong(notes: Sequence[str], wrong: Sequence[str]) -> int:
    """Print what is wrong with the teacher's tables, and return the exit status."""
    for said in (*notes, *wrong):
        print(said)
    return statuses.FAILED if wrong else statuses.OK


def _timed(outs: Sequence[Out], times: Times) -> list[Out]:
    """Return the folders with the times of the teacher's table."""
    return [replace(out, times=times.of(out.lab, out.ids, out.run["roster"])) for out in outs]


def _wrong_times(times: Times, outs: Sequence[Out]) -> list[str]:
    return [*times.wrong, *(said for out in outs for said in times.unknown(out.lab, out.ids, out.run["roster"]))]


def _fill(given: argparse.Namespace, rows: Sequence[Row], out: Out) -> int:
    if out.run["ungraded"]:
        raise UsageError(f"{out.folder} was run with --ungraded, so it has no grades; run `class` without it")
    scores = {row.id: row.score for row in rows}
    try:
        content = given.fill.read_bytes()
    except OSError as error:
        raise UsageError(f"--fill {given.fill}: {error.strerror}") from error
    filled = fill(content, given.column, scores, rows[0].of if rows else Decimal(0), out.run["roster"])
    new = given.fill.with_name(f"{given.fill.stem}-filled{given.fill.suffix}")
    write(new, filled.content, private=True)
    print(f"{new}: {counted(filled.filled, 'score')} filled in")
    told = {
        "without a row in it": filled.no_row,
        "overwritten values": filled.overwritten,
        "no grade, so the old value stays": filled.kept,
        "above the maximum, which the LMS may refuse": filled.above,
        "in two rows or more, which stay as they are": filled.twice,
        "rows of unknown students": filled.unknown,
    }
    for said, names in told.items():
        if names:
            print(f"  {said}: {', '.join(names)}")
    return statuses.FAILED if filled.twice or filled.unknown else statuses.OK
