"""What explore costs: a look at the processes, and the cases a minute of each kind, on a system of labs/checkout.

python bench/explore.py [--system saga] [--minutes 2]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from grader.explore.cases import KINDS  # noqa: E402
from grader.explore.explorer import Explorer  # noqa: E402
from grader.explore.quiet import Quiet  # noqa: E402
from grader.session import Wish  # noqa: E402
from grader.submission import read_submission  # noqa: E402
from grader.terms import Limits  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PROCESSES, LOOKS = 12, 500


def look() -> float:
    """Return the median time in milliseconds of a look at 12 processes that wait."""
    waiting = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(PROCESSES)]
    try:
        quiet, took = Quiet(lambda: [each.pid for each in waiting], lambda seconds: False), []
        for _ in range(LOOKS):
            began = time.perf_counter()
            quiet._look()
            took.append(1000 * (time.perf_counter() - began))
        return statistics.median(took)
    finally:
        for each in waiting:
            each.kill()
            each.communicate()


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", default="saga", help="a folder of labs/checkout (default: saga)")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to run cases (default: 2)")
    options = parser.parse_args()
    print(f"a look at {PROCESSES} processes: {look():.2f} ms (median of {LOOKS})")
    submission = read_submission(ROOT / "labs" / "checkout" / options.system)
    with Explorer(Wish(submission, ("explore",), Limits(), 0, 0, "", "explore"), options.system) as explorer:
        explorer.plain()
        for kind in KINDS:
            before, began = explorer.ran[kind], time.monotonic()
            explorer.explore([kind], began + 60 * options.minutes / len(KINDS), lambda: False)
            took, ran = time.monotonic() - began, explorer.ran[kind] - before
            print(f"{options.system}, {kind}: {60 * ran / took:.0f} cases a minute ({ran} in {took:.0f} s)")
    print(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
