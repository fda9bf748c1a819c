"""What all commands have in common: the exit statuses, the parser, and which error ends with which status.

    OK 0 · FAILED 1 · VOID 2 · USAGE 64 · INTERRUPTED 130

FAILED: a submission fails, some have no grade, or a lab is refused. VOID: the machine or the grader failed. This module
is part of a student's copy of a lab, so it needs the standard library only.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from .errors import RecordError, UsageError, VoidError

OK, FAILED, VOID, USAGE, INTERRUPTED = 0, 1, 2, 64, 130


def positive(text: str) -> float:
    """Return a number above 0 of a command line. Raises ArgumentTypeError.

    >>> positive("2.5")
    2.5
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below 1,000,000")
    return value


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError. argparse itself would exit with 2, which is VOID here."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}\n{self.format_usage()}")


def status_of(name: str, run: Callable[[], int], interrupted: str) -> int:
    """Run a command, and return its exit status. An error is printed, and becomes a status.

    ``name``: the command, such as "python -m grader check"; ``interrupted``: what is printed after Ctrl-C.

    >>> status_of("python -m grader check", lambda: FAILED, "interrupted")
    1
    """
    try:
        return run()
    except (UsageError, RecordError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return USAGE
    except VoidError as error:
        print(f"VOID: {error}", file=sys.stderr)
        return VOID
    except KeyboardInterrupt:
        print(f"\n{interrupted}", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # an uncaught one would exit with 1, which is FAILED
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            return VOID
        traceback.print_exc()
        print("VOID: the grader itself failed (see the traceback above)", file=sys.stderr)
        return VOID


def _output_is_closed() -> bool:
    """Return whether the output is a pipe whose reader has ended, as in `check | head`. If so, drop what follows."""
    try:
        print(flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it exits
        return True
    return False
