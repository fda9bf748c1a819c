"""The command line: ``python -m grader checkout FOLDER ...`` and ``python -m grader replay DIR``."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from .errors import RecordError, SubmissionError, UsageError, VoidError
from .explain import explanation
from .phases.powercut import MOST
from .processes import commands
from .progress import Shown
from .report import write
from .session import SHARES, Wish, run
from .submission import Submission, read_submission
from .submission.archive import unpack
from .submission.model import service_urls
from .submission.reading import FILE
from .terms import PHASES, Limits

PASS, FAIL, VOID, USAGE, INTERRUPTED = 0, 1, 2, 64, 130
_HERE = Path(__file__).resolve().parent.parent
_EXITS = {"pass": PASS, "fail": FAIL, "void": VOID}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(USAGE)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and below 1,000,000")
    return value


def _rate(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < value < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: give whole checkouts a second, from 1 to 999,999")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m grader", description="Grade checkout systems.")
    commands = parser.add_subparsers(dest="what", required=True, parser_class=_Parser)
    grade = commands.add_parser("checkout", help="grade a submission")
    grade.add_argument("submission", nargs="?", help="a folder with checkout.toml, or a .zip, .tar or .tar.gz of one")
    length = grade.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="within 2 minutes")
    length.add_argument("--full", action="store_true", help="within 12 minutes (the default)")
    grade.add_argument("--phases", help=f"run only these phases, of {','.join(PHASES)}")
    grade.add_argument("--power-cut", action="store_true", help="test power cuts as well, for up to 150 s more")
    grade.add_argument("--url", help="grade a system that already runs at this address")
    grade.add_argument("--kill", action="append", default=[], metavar="NAME=CMD", help="with --url: how to kill NAME")
    grade.add_argument(
        "--restart", action="append", default=[], metavar="NAME=CMD", help="with --url: how to restart it"
    )
    grade.add_argument("--allow-remote", action="store_true", help="with --url: allow another machine")
    grade.add_argument("--seed", type=int, help="selects the orders; random by default")
    grade.add_argument("--rate", type=_rate, default=0, help="checkouts a second of the load phase")
    grade.add_argument("--require", type=_rate, help="fail a system that sustains fewer checkouts a second")
    grade.add_argument("--timeout", type=_positive, help="seconds until a request counts as unanswered")
    grade.add_argument("--ready", type=_positive, help="seconds within which a process must be ready")
    grade.add_argument("--convergence", type=_positive, help="seconds within which effects must complete")
    grade.add_argument("--report", type=Path, metavar="DIR", help="folder for the record and the reports")
    grade.add_argument("--explain", action="store_true", help="print what each phase does")
    again = commands.add_parser("replay", help="judge a recorded run again")
    again.add_argument("folder", type=Path)
    again.add_argument("--report", type=Path, metavar="OUT", help="folder for the reports; DIR by default")
    return parser


def _wish(given: argparse.Namespace, words: list[str], scratch: Path) -> Wish:
    if (given.submission is None) == (given.url is None):
        raise UsageError("give either a submission or --url")
    if given.url is None and (given.kill or given.restart):
        raise UsageError(
            "--kill and --restart need --url; the grader itself kills and restarts the processes of a folder"
        )
    if given.url is not None and given.power_cut:
        raise UsageError("--power-cut needs a folder; the grader does not control the disk of a system at --url")
    ways = commands(given.kill, given.restart)
    phases = PHASES if given.phases is None else tuple(dict.fromkeys(given.phases.split(",")))
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise UsageError(f"--phases: {', '.join(map(repr, unknown))}: unknown; the phases are {','.join(PHASES)}")
    limits = Limits(
        timeout=given.timeout or Limits.timeout,
        ready=given.ready or Limits.ready,
        convergence=given.convergence or (20.0 if given.quick else Limits.convergence),
        budget=110.0 if given.quick else 700.0,
    )
    seed = given.seed if given.seed is not None else time.time_ns() % 1_000_000
    if seed < 0:
        raise UsageError("--seed must be 0 or more")
    broken = ""
    if given.url is not None:
        submission = Submission(given.url, None, service_urls(given.url))
    else:
        path = Path(given.submission)
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is neither a folder nor an archive; check the path")
        if path.name == FILE:
            raise UsageError(f"{path} is one file of a submission; give its folder")
        try:
            submission = read_submission(path if path.is_dir() else unpack(path, scratch))
        except SubmissionError as error:
            submission, broken = Submission(path.resolve().name, None, {}), str(error)
    command = shlex.join(["python", "-m", "grader", *words])
    mode = "quick" if given.quick else "full"
    return Wish(
        submission,
        phases,
        limits,
        seed,
        given.rate,
        command,
        mode,
        given.allow_remote,
        given.require or 0,
        broken,
        ways,
        given.power_cut,
    )


def _checkout(given: argparse.Namespace, words: list[str]) -> int:
    if given.explain:
        print(explanation())
        return PASS
    if sys.platform != "linux":
        raise UsageError("the grader runs on Linux (on Windows: in WSL); it needs epoll and /proc")
    with tempfile.TemporaryDirectory(prefix="checkout-unpacked-") as scratch:
        wish = _wish(given, words, Path(scratch))
        most = wish.limits.budget * sum(SHARES[phase] for phase in wish.phases) + MOST * wish.powercut
        out = (given.report or Path("reports") / f"checkout-{time.strftime('%Y%m%d-%H%M%S')}").absolute()
        if wish.submission.folder is not None:
            os.chdir(_HERE)  # Python children import from their current folder, which may be a submission
        with _room(out), Shown(most) as shown:
            run(wish, out, shown.say)
    judgement, text = write(out, out)
    print(text)
    print(f"  report: {out / 'report.html'}")
    return _EXITS[judgement.verdict]


def _replay(given: argparse.Namespace) -> int:
    if not given.folder.is_dir():
        raise RecordError(f"{given.folder} is not a folder; give the folder that --report named")
    out = given.report or given.folder
    with _room(out):
        try:
            judgement, text = write(given.folder, out)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise RecordError(
                f"{given.folder}: the record is inconsistent ({said}); replay an unmodified one"
            ) from error
    print(text)
    return _EXITS[judgement.verdict]


@contextlib.contextmanager
def _room(out: Path) -> Iterator[None]:
    """Create the report folder before the run, and remove it after an error if it is empty.

    Raises UsageError if the folder cannot be written.
    """
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise UsageError(f"--report {out}: {error.strerror}; choose a folder that you can write to") from error
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
        raise


def main(words: list[str]) -> int:
    """Run a command line (without the program's name), and return its exit status."""
    given = _parser().parse_args(words)
    try:
        return _checkout(given, words) if given.what == "checkout" else _replay(given)
    except (UsageError, RecordError) as error:
        print(f"python -m grader: {error}", file=sys.stderr)
        return USAGE
    except VoidError as error:
        print(f"VOID: {error}", file=sys.stderr)
        return VOID
    except KeyboardInterrupt:
        print("interrupted; no process is left running", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        # Python would exit with 1, the status of a fail.
        traceback.print_exc()
        print("VOID: the grader itself failed (traceback above), so there is no verdict", file=sys.stderr)
        return VOID
