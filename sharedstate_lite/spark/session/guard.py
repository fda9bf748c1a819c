"""Starts processes for another process and ends them with it: a script that uses only the standard library.

It reads one JSON line per process to start (``command``, ``environment``, ``log``) from standard input and answers with
the process id. At the end of the input, however the other process ended, or on SIGTERM, it ends all of them: SIGTERM
first, SIGKILL after ``END_SECONDS``. It leads a session of its own, so Ctrl-C in a terminal does not reach it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

END_SECONDS = 10


def main() -> None:
    """Run until the input ends."""
    started: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        for line in sys.stdin:
            wanted: dict[str, Any] = json.loads(line)
            with open(wanted["log"], "ab") as log:
                process = subprocess.Popen(
                    wanted["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=wanted["environment"]
                )
            started.append(process)
            # If the reader has ended, so does the input.
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(f"{process.pid}\n")
                sys.stdout.flush()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(started)


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    # Workers first: they report to the master, and end their own executors.
    for process in reversed(started):
        process.terminate()
    deadline = time.monotonic() + END_SECONDS
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
    # The rest of this session, this process included.
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
