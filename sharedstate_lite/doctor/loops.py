"""Compiles the loops of `sharedstate_lite.loops` once, with progress: ``python -m sharedstate_lite.doctor.loops``.

The doctor runs this command as one of its checks, so a lesson starts with compiled loops.
"""

from __future__ import annotations

import sys

import psutil

from sharedstate_lite.loops import compiled


def main() -> int:
    """Compile all loops, or load them from the cache. Prints how many there are, and progress in a terminal.

    Also prints by how much the process has grown, which is what compiled loops cost every process that uses them.
    """
    process = psutil.Process()
    before = process.memory_info().rss
    count = len(compiled.functions())
    for number, _ in enumerate(compiled.compile_loops(), 1):
        if sys.stderr.isatty():
            print(f"\rcompiling loops: {number} of {count}", end="\r" * (number == count), file=sys.stderr, flush=True)
    grown = process.memory_info().rss - before
    print(f"{count} loops are compiled and take {grown / 2**20:.0f} MiB of a process's memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
