"""Keeps processes for another one, and ends them with it: a script of the standard library alone.

It reads lines from its standard input, each the JSON of one process to start
(``command``, ``environment``, ``log``), and answers each with the process's id. At the end of
its input, which comes however the other process ends, or on SIGTERM, it ends them: SIGTERM first,
SIGKILL for what stays. It leads a session of its own, so Ctrl-C in a terminal does not reach it.
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
    """Until the input ends."""
    begun: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        for line in sys.stdin:
            wanted: dict[str, Any] = json.loads(line)
            with open(wanted["log"], "ab") as log:
                process = subprocess.Popen(
                    wanted["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=wanted["environment"]
                )
            begun.append(process)
            # Whoever asked may be gone already; then the input ends too.
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(f"{process.pid}\n")
                sys.stdout.flush()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(begun)


def _end(begun: list[subprocess.Popen[bytes]]) -> None:
    # The last started first: workers tell the master, and end what they started themselves.
    for process in reversed(begun):
        process.terminate()
    deadline = time.monotonic() + END_SECONDS
    for process in begun:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
    if hasattr(os, "killpg"):
        # Everything that is left of this session, and this process too.
        os.killpg(0, signal.SIGKILL)
    for process in begun:
        process.kill()


if __name__ == "__main__":
    main()
