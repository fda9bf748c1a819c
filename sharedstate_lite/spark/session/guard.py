"""A script that starts processes for another process, and stops them when that process exits.

For each process to start, it reads one line of JSON with ``command``, ``environment`` and ``log`` from standard input,
and writes the process id to standard output. The input ends when the other process exits or is killed. The script then
stops all processes that it started, first with SIGTERM, and after ``END_SECONDS`` with SIGKILL. It does the same if it
receives SIGTERM itself. It runs in its own session, so Ctrl-C in a terminal does not reach it. It uses only the
standard library.
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
    """Start processes until the input ends, and then stop them."""
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
            # If the other process has exited, this write fails, and the next read ends the loop.
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(f"{process.pid}\n")
                sys.stdout.flush()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(started)


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    # Stop the workers before the master: they report to it, and they stop their own executors.
    for process in reversed(started):
        process.terminate()
    deadline = time.monotonic() + END_SECONDS
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
    # Kill whatever is left in this process group, including this process.
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
