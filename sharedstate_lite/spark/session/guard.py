"""A script that runs a command for another process, and stops it when that process exits.

    python -I guard.py COMMAND ARGUMENT ...

The script's input is a pipe that ends when the other process closes it, exits or is killed. The script then stops the
command, first with SIGTERM, and after ``END_SECONDS`` with SIGKILL. It does the same if it receives SIGTERM itself. It
runs in its own session, so Ctrl-C in a terminal does not reach it. It uses only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

END_SECONDS = 10


def main() -> None:
    """Run the command until the input ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    try:
        sys.stdin.read()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=END_SECONDS)
        # Kill whatever is left in this process group, including this process.
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
