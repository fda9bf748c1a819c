"""The command line ``python -m grader explore FOLDER``: finds a short run that breaks a system, and prints its steps.

| exit status | meaning |
|---|---|
| 0 | nothing was found |
| 1 | a violation: a run was wrong, and wrong again on a freshly started system |
| 2 | void: the system does not start, its runs without a fault differ, or a case did not happen |
| 64 | invalid command line, or a folder without a valid checkout.toml |
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

from ..errors import SubmissionError, UsageError, VoidError
from ..files import room
from ..report.explored import write_explored
from ..session import Wish, ended_by_signals
from ..statuses import FAILED, OK, VOID, Parser, positive, status_of
from ..submission import Submission, read_submission
from ..terms import Limits
from .cases import KILL, KINDS, LOSE, TWICE
from .explorer import TIMES, Explorer, say
from .play import Run
from .quiet import uncounted
from .shown import shown, text
from .world import PHASE
from .writes import TraceError

_HERE = Path(__file__).resolve().parent.parent.parent


def _parser() -> Parser:
    parser = Parser(prog="python -m grader explore", description="Find a short run that breaks a checkout system.")
    parser.add_argument("folder", type=Path, help="a folder with checkout.toml")
    parser.add_argument(
        "--minutes", type=positive, default=3.0, help="begin no case after so many minutes (default: 3)"
    )
    parser.add_argument("--only", default=",".join(KINDS), help=f"only these kinds of cases: {','.join(KINDS)}")
    parser.add_argument("--first", action="store_true", help="stop after the first violation")
    parser.add_argument("--case", help="run only this case, for example L5, or the text that is printed beside it")
    parser.add_argument("--slow", action="store_true", help="with --case: Enter delivers the next message; no sandbox")
    parser.add_argument("--convergence", type=positive, default=Limits.convergence, help="seconds that effects have")
    parser.add_argument("--ready", type=positive, default=Limits.ready, help="seconds to become ready")
    parser.add_argument("--report", type=Path, metavar="DIR", help="folder for explore.html and explore.json")
    return parser


def _submission(folder: Path) -> Submission:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; explore takes a folder with checkout.toml")
    try:
        return read_submission(folder)
    except SubmissionError as error:
        raise UsageError(str(error)) from error


def _explore(words: list[str]) -> int:
    options = _parser().parse_args(words)
    if sys.platform != "linux":
        raise UsageError("the grader runs only on Linux, because it needs epoll and /proc; on Windows, use WSL")
    only = options.only.split(",")
    if unknown := [kind for kind in only if kind not in KINDS]:
        raise UsageError(f"--only: no such kind: {', '.join(map(repr, unknown))}; choose from {','.join(KINDS)}")
    if TWICE in only and not {LOSE, KILL}.intersection(only):
        raise UsageError(
            "--only: twice needs lose or kill, because a second fault follows a case of these kinds; add one"
        )
    if options.slow and not options.case:
        raise UsageError("--slow needs --case, which says what to run")
    submission = _submission(options.folder)
    limits = Limits(ready=options.ready, convergence=options.convergence)
    wish = Wish(
        submission, (PHASE,), limits, 0, 0, shlex.join(["python", "-m", "grader", "explore", *words]), "explore"
    )
    out = (options.report or Path("reports") / f"explore-{time.strftime('%Y%m%d-%H%M%S')}").absolute()
    os.chdir(_HERE)  # the current folder may be a submission, and child processes would import from it
    if said := uncounted():
        say(said)
    try:
        with (
            nullcontext() if options.slow else room(out),
            ended_by_signals(),
            Explorer(wish, options.folder.name, options.slow) as explorer,
        ):
            return _run(explorer, options, only, out)
    except SubmissionError as error:
        raise VoidError(f"the system cannot be explored: {error}") from error


def _run(explorer: Explorer, options: Namespace, only: list[str], out: Path) -> int:
    """Run all cases, or the one that was chosen, and return the exit status."""
    explorer.plain()
    until, run = time.monotonic() + 60 * options.minutes, None
    if options.case is not None and not explorer.found:
        run = _one(explorer, options.case, options.slow)
    else:
        if not explorer.found:
            explorer.explore(only, until, lambda: options.first and bool(explorer.found))
        say(explorer.ending(str(options.folder), only))
    if not options.slow:
        right = run if run is not None and not run.violations else None
        say(f"  report: {write_explored(explorer.report(str(options.folder), only, right), out)}")
    if explorer.found or (options.slow and run is not None and run.violations):
        return FAILED
    return VOID if explorer.unreached else OK


def _one(explorer: Explorer, chosen: str, slow: bool) -> Run:
    """Run one case."""
    case = explorer.find(chosen)
    if case is None:
        raise UsageError(f"--case {chosen!r}: this system has no such case; explore it without --case to see some")
    try:
        run = explorer.slow(case) if slow else explorer.run(case)
    except TraceError as error:
        raise VoidError(str(error)) from error
    if run is None:
        why = "; ".join((*explorer.unreached, *explorer.void)) or f"{case.id} ({case})"
        raise VoidError(f"{why}: not in {TIMES} tries")
    say(text(shown(run)))
    if run.violations and not slow:
        explorer.suspect(run, told_already=True)
    return run


def main(words: list[str]) -> int:
    """Run the command line ``words`` (without the program's name and the command) and return the exit status."""
    stopped = "interrupted; the grader has stopped all processes that it started"
    return status_of("python -m grader explore", lambda: _explore(words), stopped)
