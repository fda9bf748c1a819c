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
from pathlib import Path

from ..errors import SubmissionError, UsageError, VoidError
from ..session import Wish, ended_by_signals
from ..statuses import FAILED, OK, VOID, Parser, positive, status_of
from ..submission import Submission, read_submission
from ..terms import Limits
from .cases import KINDS
from .explorer import TIMES, Explorer, say
from .quiet import uncounted
from .system import PHASE

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
    parser.add_argument("--convergence", type=positive, default=Limits.convergence, help="seconds that effects have")
    parser.add_argument("--ready", type=positive, default=Limits.ready, help="seconds to become ready")
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
    submission = _submission(options.folder)
    limits = Limits(ready=options.ready, convergence=options.convergence)
    wish = Wish(
        submission, (PHASE,), limits, 0, 0, shlex.join(["python", "-m", "grader", "explore", *words]), "explore"
    )
    os.chdir(_HERE)  # the current folder may be a submission, and child processes would import from it
    if said := uncounted():
        say(said)
    try:
        with ended_by_signals(), Explorer(wish, options.folder.name) as explorer:
            return _run(explorer, options.case, only, options.first, options.minutes, str(options.folder))
    except SubmissionError as error:
        raise VoidError(f"the system cannot be explored: {error}") from error


def _run(explorer: Explorer, chosen: str | None, only: list[str], first: bool, minutes: float, folder: str) -> int:
    """Run all cases, or the one that was chosen, and return the exit status."""
    found = explorer.plain()
    until = time.monotonic() + 60 * minutes
    if chosen is not None and not explorer.found:
        one = next((case for case in found if chosen in (case.id, str(case))), None)
        if one is None:
            raise UsageError(
                f"--case {chosen!r}: there is no such case; the ids are {found[0].id} to {found[-1].id}"
                if found
                else f"--case {chosen!r}: there is no case at all"
            )
        run = explorer.run(one)
        if run is None:
            raise VoidError(f"{one.id} ({one}) did not happen in {TIMES} tries: the messages before it were others")
        if not run.violations or not explorer.suspect(run):
            say(explorer.text(run))
        return FAILED if explorer.found else OK
    for case in found:
        if time.monotonic() > until or (first and explorer.found):
            break
        run = explorer.run(case)
        if run is not None and run.violations:
            explorer.suspect(run)
    say(explorer.ending(folder))
    if explorer.found:
        return FAILED
    return VOID if explorer.unreached else OK


def main(words: list[str]) -> int:
    """Run the command line ``words`` (without the program's name and the command) and return the exit status."""
    stopped = "interrupted; the grader has stopped all processes that it started"
    return status_of("python -m grader explore", lambda: _explore(words), stopped)
