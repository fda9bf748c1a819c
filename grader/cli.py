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
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and below a million")
    return value


def _rate(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < value < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: a whole number above 0, checkouts a second")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m grader", description="Grades checkout systems.")
    commands = parser.add_subparsers(dest="what", required=True, parser_class=_Parser)
    grade = commands.add_parser("checkout", help="grade a submission")
    grade.add_argument("submission", nargs="?", help="a folder with checkout.toml, or a .zip, .tar or .tar.gz of one")
    length = grade.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="within 2 minutes")
    length.add_argument("--full", action="store_true", help="within 12 minutes (the default)")
    grade.add_argument("--phases", help=f"some of {','.join(PHASES)}")
    grade.add_argument("--power-cut", action="store_true", help="cut the power too, in a run apart of 2 minutes or so")
    grade.add_argument("--url", help="grade a system that already runs there, instead of a folder")
    grade.add_argument("--kill", action="append", default=[], metavar="NAME=CMD")
    grade.add_argument("--restart", action="append", default=[], metavar="NAME=CMD")
    grade.add_argument("--allow-remote", action="store_true", help="the URL may be another machine's")
    grade.add_argument("--seed", type=int, help="which orders; another number each time if not given")
    grade.add_argument("--rate", type=_rate, default=0, help="checkouts a second in the load phase")
    grade.add_argument("--require", type=_rate, help="checkouts a second that the verdict asks for")
    grade.add_argument("--timeout", type=_positive, help="seconds for one request")
    grade.add_argument("--ready", type=_positive, help="seconds for a process to get ready")
    grade.add_argument("--convergence", type=_positive, help="seconds for effects to complete")
    grade.add_argument("--report", type=Path, metavar="DIR", help="where the record and the reports go")
    grade.add_argument("--explain", action="store_true", help="say what each phase does, and end")
    again = commands.add_parser("replay", help="judge a recorded run again")
    again.add_argument("folder", type=Path)
    again.add_argument("--report", type=Path, metavar="OUT", help="where the reports go; the same folder if not given")
    return parser


def _wish(given: argparse.Namespace, words: list[str], scratch: Path) -> Wish:
    if (given.submission is None) == (given.url is None):
        raise UsageError("either a submission's folder or --url, and not both")
    if given.url is None and (given.kill or given.restart):
        raise UsageError("--kill and --restart belong to --url; the processes of a folder are the grader's own")
    if given.url is not None and given.power_cut:
        raise UsageError("--power-cut needs a folder: what a system elsewhere writes to is not the grader's")
    ways = commands(given.kill, given.restart)
    phases = PHASES if given.phases is None else tuple(dict.fromkeys(given.phases.split(",")))
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise UsageError(f"--phases: {', '.join(map(repr, unknown))} is none of {','.join(PHASES)}")
    limits = Limits(
        timeout=given.timeout or Limits.timeout,
        ready=given.ready or Limits.ready,
        convergence=given.convergence or (20.0 if given.quick else Limits.convergence),
        budget=110.0 if given.quick else 700.0,
    )
    seed = given.seed if given.seed is not None else time.time_ns() % 1_000_000
    if seed < 0:
        raise UsageError("--seed is a number from 0 up")
    broken = ""
    if given.url is not None:
        submission = Submission(given.url, None, service_urls(given.url))
    else:
        path = Path(given.submission)
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is no folder and no archive")
        if path.name == FILE:
            raise UsageError(f"{path} is a file of a submission; give the folder that it is in")
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
            os.chdir(_HERE)  # children look for modules where they are started, and that may be a submission
        with _room(out), Shown(most) as shown:
            run(wish, out, shown.say)
    judgement, text = write(out, out)
    print(text)
    print(f"  report: {out / 'report.html'}")
    return _EXITS[judgement.verdict]


def _replay(given: argparse.Namespace) -> int:
    if not given.folder.is_dir():
        raise RecordError(f"{given.folder} is no folder; give the one that --report named")
    out = given.report or given.folder
    with _room(out):
        try:
            judgement, text = write(given.folder, out)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise RecordError(f"{given.folder}: the record does not fit together ({said}); it was changed") from error
    print(text)
    return _EXITS[judgement.verdict]


@contextlib.contextmanager
def _room(out: Path) -> Iterator[None]:
    """A folder to write into, known before a run of minutes; what was made for it goes again if nothing came of it.

    Raises UsageError.
    """
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise UsageError(f"--report {out}: {error.strerror}; name a folder that can be written") from error
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):  # something is in it by now
                path.rmdir()
        raise


def main(words: list[str]) -> int:
    """The exit status for a command line, without the program's name."""
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
        print("ended; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        # Python's own exit status would be that of a fail.
        traceback.print_exc()
        print("VOID: the grader itself failed, as above; this is no verdict", file=sys.stderr)
        return VOID
