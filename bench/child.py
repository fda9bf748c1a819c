"""A side of a comparison in a fresh process, which cannot outlive the command that started it.

Each side runs by itself so that its memory is its own and nothing of another side is
warm. The child prints its progress, a fraction to a line, on standard output; its
standard error goes to a log, whose end is told where it fails. A child ends with its
parent in both ways that there are: the parent kills the child's whole process group
on its way out, and the child leaves when the pipe that is its standard input closes,
which is what remains of a parent that was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
"""The checkout; children run there, with it on their path."""

CHILD = "BENCH_CHILD"
"""The environment variable that a side has which was started by `run`."""
TOLD = 600
"""Characters of a log that are told where a side fails."""


class Failed(Exception):
    """A side ended with an error; the message has the end of its log."""


def run(
    command: Sequence[str | Path],
    log: Path,
    hear: Callable[[str], None],
    settings: dict[str, str] | None = None,
) -> None:
    """Run a side to its end; ``hear`` is given each line that it prints.

    Raises Failed where it ends with an error; leaves no process behind, whatever happens.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", CHILD: "1", **(settings or {})}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                hear(line.decode(errors="replace").rstrip())
            status = process.wait()
        finally:
            end(process)
    if status:
        words = log.read_text(errors="replace").strip()
        raise Failed(f"ended with status {status}: {words[-TOLD:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it started, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):  # gone already, which is what is wanted
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def side(work: Callable[[], None]) -> NoReturn:
    """In a child: do the work and leave, at once if the parent is gone, with status 1 and a traceback if it fails.

    The interpreter is not wound up: freeing millions of rows one by one takes time, and
    what libraries say then would stand after the traceback in the log. A side that was started by
    hand has no parent to watch, and its standard input may be at its end.
    """

    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    if CHILD in os.environ:
        threading.Thread(target=watch, daemon=True).start()
    status = 0
    try:
        work()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def tell(fraction: float) -> None:
    """In a child: say how far it is."""
    print(f"{fraction:.4f}", flush=True)
