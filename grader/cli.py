"""The command line: ``python -m grader checkout FOLDER ...``, ``... replay DIR`` and ``... draft FOLDER``."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .draft import draft
from .errors import RecordError, SubmissionError, UsageError
from .explain import explanation
from .files import room
from .folders import temporary
from .outcomes import Verdict
from .phases.powercut import MOST
from .processes import commands
from .progress import Shown
from .record import recorded
from .report import compare, write, write_void
from .session import Wish, run
from .statuses import FAILED, OK, VOID, Parser, positive, status_of
from .submission import Submission, read_submission
from .submission.archive import unpack
from .submission.model import service_urls
from .submission.reading import FILE
from .table import PHASES, TABLE
from .terms import BUDGETS, QUICK_STILL, WAITS, Limits

_HERE = Path(__file__).resolve().parent.parent
_EXITS = {Verdict.PASS: OK, Verdict.FAIL: FAILED, Verdict.VOID: VOID}


def _rate(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < value < 1_000_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a rate: give a whole number of checkouts per second, from 1 to 999,999"
        )
    return value


def _parser() -> Parser:
    parser = Parser(
        prog="python -m grader",
        description="Grade checkout systems.",
        epilog="The command explore finds a short run that breaks a system. The labs have these commands, each with "
        "--help: check, lab build, class, one, grades.",
    )
    commands = parser.add_subparsers(dest="what", required=True)
    grade = commands.add_parser("checkout", help="grade a submission")
    grade.add_argument(
        "submission", nargs="?", help="a folder with checkout.toml, or its .zip, .tar or .tar.gz archive"
    )
    length = grade.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="take about 2 to 4 minutes, and skip some faults")
    length.add_argument("--full", action="store_true", help="take about 12 minutes (the default)")
    grade.add_argument("--phases", help=f"run only these phases, separated by commas: {','.join(PHASES)}")
    grade.add_argument("--power-cut", action="store_true", help="also test power cuts, which takes up to 150 s")
    grade.add_argument("--url", help="grade a system that is already running at this address")
    grade.add_argument(
        "--kill", action="append", default=[], metavar="NAME=CMD", help="with --url: the command to kill NAME"
    )
    grade.add_argument(
        "--restart", action="append", default=[], metavar="NAME=CMD", help="with --url: the command to restart NAME"
    )
    grade.add_argument("--allow-remote", action="store_true", help="with --url: allow an address on another machine")
    grade.add_argument("--seed", type=int, help="the seed that selects the orders; random by default")
    grade.add_argument("--rate", type=_rate, default=0, help="rate of the load phase, in checkouts per second")
    grade.add_argument("--require", type=_rate, help="fail a system that sustains fewer checkouts per second")
    grade.add_argument("--timeout", type=positive, help="seconds after which a request without an answer times out")
    grade.add_argument("--ready", type=positive, help="seconds that a process has to become ready")
    grade.add_argument("--convergence", type=positive, help="seconds that effects have to complete after a phase")
    grade.add_argument("--report", type=Path, metavar="DIR", help="folder for the record and the reports")
    grade.add_argument("--explain", action="store_true", help="print a description of each phase, and exit")
    again = commands.add_parser("replay", help="judge a recorded run again")
    again.add_argument("folder", type=Path, nargs="+", metavar="DIR", help="the report folder of a run")
    again.add_argument(
        "--compare",
        action="store_true",
        help="write nothing; show what changes in the report.json of all runs below DIR",
    )
    again.add_argument(
        "--report", type=Path, metavar="OUT", help="folder for the new reports (default: the same folder)"
    )
    drafted = commands.add_parser("draft", help="write a checkout.toml from a docker-compose.yml")
    drafted.add_argument("folder", type=Path, help="the folder of the repository, which contains the compose file")
    return parser


def _wish(options: argparse.Namespace, words: list[str], scratch: Path) -> Wish:
    if (options.submission is None) == (options.url is None):
        raise UsageError("give either a submission or --url")
    if options.url is None and (options.kill or options.restart):
        raise UsageError(
            "--kill and --restart need --url; the grader itself kills and restarts the processes of a submission folder"
        )
    if options.url is not None and options.power_cut:
        raise UsageError(
            "--power-cut needs a submission folder; the grader does not control the disk of a system at --url"
        )
    ways = commands(options.kill, options.restart)
    phases = PHASES if options.phases is None else tuple(dict.fromkeys(options.phases.split(",")))
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise UsageError(f"--phases: no such phase: {', '.join(map(repr, unknown))}; choose from {','.join(PHASES)}")
    mode = "quick" if options.quick else "full"
    limits = Limits(
        timeout=options.timeout or Limits.timeout,
        ready=options.ready or Limits.ready,
        convergence=options.convergence or Limits.convergence,
        still=options.convergence or (QUICK_STILL if options.quick else Limits.still),
        budget=BUDGETS[mode],
    )
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    if seed < 0:
        raise UsageError("--seed must be 0 or more")
    broken = ""
    if options.url is not None:
        submission = Submission(options.url, None, service_urls(options.url))
    else:
        path = Path(options.submission)
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is neither a folder nor an archive; check the path")
        if path.name == FILE:
            raise UsageError(f"{path} is one file of a submission; give the folder that contains it")
        try:
            submission = read_submission(path if path.is_dir() else unpack(path, scratch))
        except SubmissionError as error:
            submission, broken = Submission(path.resolve().name, None, {}), str(error)
    command = shlex.join(["python", "-m", "grader", *words])
    return Wish(
        submission,
        phases,
        limits,
        seed,
        options.rate,
        command,
        mode,
        options.allow_remote,
        options.require or 0,
        broken,
        ways,
        options.power_cut,
    )


def _checkout(options: argparse.Namespace, words: list[str]) -> int:
    if options.explain:
        print(explanation())
        return OK
    if sys.platform != "linux":
        raise UsageError("the grader runs only on Linux, because it needs epoll and /proc; on Windows, use WSL")
    with temporary("checkout-unpacked-") as scratch:
        wish = _wish(options, words, scratch)
        share = sum(TABLE[phase].share for phase in wish.phases)
        usual = (wish.limits.budget + WAITS) * share + MOST * wish.powercut
        out = (options.report or Path("reports") / f"checkout-{time.strftime('%Y%m%d-%H%M%S')}").absolute()
        can_explore = options.submission is not None and Path(options.submission).is_dir()
        if wish.submission.folder is not None:
            os.chdir(_HERE)  # the current folder may be a submission, and child processes would import from it
        with room(out), _told(out):
            with Shown(usual) as shown:
                run(wish, out, shown.say)
            judgement, text = write(out, out)
    print(text)
    print(f"  report: {out / 'report.html'}")
    if judgement.violations and can_explore:
        print(f"  find the shortest run: python -m grader explore {shlex.quote(str(options.submission))}")
    return _EXITS[judgement.verdict]


def _replay(options: argparse.Namespace) -> int:
    for folder in options.folder:
        if not folder.is_dir():
            raise RecordError(f"{folder} is not a folder; give the report folder of a run")
    if options.compare:
        return _compare(options.folder)
    if len(options.folder) > 1:
        raise UsageError(f"replay takes one folder, not {len(options.folder)}; with --compare it takes several")
    (folder,) = options.folder
    out = options.report or folder
    with room(out), _consistent(folder):
        judgement, text = write(folder, out)
    print(text)
    return _EXITS[judgement.verdict]


def _compare(folders: list[Path]) -> int:
    """Print what this grader would change in the reports of all records below some folders."""
    records = [path for top in folders for path in recorded(top)]
    if not records:
        raise RecordError(f"{folders[0]} contains no record; give the report folder of a run, or a folder of `class`")
    counts = Counter[str]()
    for path in records:
        with _consistent(path):
            changes = compare(path)
        state = "not graded before" if changes is None else "changed" if changes else "unchanged"
        counts[state] += 1
        print(f"{path}: {state}", *(f"  {line}" for line in changes or ()), sep="\n")
    print(", ".join(f"{counts[state]} {state}" for state in sorted(counts)))
    return FAILED if counts["changed"] else OK


@contextlib.contextmanager
def _consistent(folder: Path) -> Iterator[None]:
    """Turn an error that only a changed record can cause into a RecordError."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise RecordError(f"{folder}: the record is inconsistent ({said}); replay an unmodified record") from error


def _draft(options: argparse.Namespace) -> int:
    path = options.folder / FILE
    if path.exists():
        raise UsageError(f"{path} exists already; rename it, and draft again")
    drafted = draft(options.folder)
    try:
        path.write_text(drafted.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); draft a copy of the folder") from error
    print(f"{path} starts {', '.join(drafted.processes)}.")
    notes = list(drafted.notes)
    try:
        read_submission(options.folder)
    except SubmissionError as error:
        notes.append(f"the draft is not complete: {error}")
    if notes:
        print("\n  - ".join(("Check:", *notes)))
    print(f"Next: python -m grader checkout {options.folder} --quick --phases contract")
    return OK


@contextlib.contextmanager
def _told(out: Path) -> Iterator[None]:
    """If the block fails, write a results.json that says so, because Gradescope would otherwise show nothing."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        write_void(f"There is no verdict and no score, because the grader itself failed: {error}", out)
        raise


def main(words: list[str]) -> int:
    """Run the command line ``words`` (without the program name) and return the exit status."""
    stopped = "interrupted; the grader has stopped all processes that it started"
    return status_of("python -m grader", lambda: _run(words), stopped)


def _run(words: list[str]) -> int:
    options = _parser().parse_args(words)
    if options.what == "checkout":
        return _checkout(options, words)
    return _replay(options) if options.what == "replay" else _draft(options)
