"""What explore costs: a look at the processes, and the cases a minute of each kind, on a system of labs/checkout.

python bench/explore.py [--system saga] [--minutes 2] [--whole]

``--whole``: each loss, each kill, and each race with one swap, however long this takes. Without it, these kinds and
second faults share the minutes.
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

from grader.explore.cases import KILL, KINDS, LOSE, RACE  # noqa: E402
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


def whole(explorer: Explorer, system: str) -> None:
    """Run all losses, kills and races of one swap, and print the seconds of each kind and of all."""
    took, began = dict.fromkeys((LOSE, KILL, RACE), 0.0), time.monotonic()
    for _, kind, cases in explorer.queues([*took]):
        since = time.monotonic()
        for case in cases:
            if case is None or len(case.swaps) > 1:
                break
            if (run := explorer.run(case)) is not None and run.violations:
                explorer.suspect(run)
        took[kind] += time.monotonic() - since
    kinds = ", ".join(f"{kind} {explorer.ran[kind]} cases in {seconds:.0f} s" for kind, seconds in took.items())
    wrong = [*explorer.found, *explorer.unrepeated, *explorer.unreached, *explorer.void]
    print(f"{system} whole: {time.monotonic() - began:.0f} s ({kinds}); wrong, not reached or void: {wrong or 'none'}")


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", default="saga", help="a folder of labs/checkout (default: saga)")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to run cases (default: 2)")
    parser.add_argument("--whole", action="store_true", help="run all cases but second faults and second swaps")
    options = parser.parse_args()
    print(f"a look at {PROCESSES} processes: {look():.2f} ms (median of {LOOKS})")
    submission = read_submission(ROOT / "labs" / "checkout" / options.system)
    with Explorer(Wish(submission, ("explore",), Limits(), 0, 0, "", "explore"), options.system) as explorer:
        explorer.plain()
        if options.whole:
            whole(explorer, options.system)
        for kind in () if options.whole else KINDS:
            before, began = explorer.ran[kind], time.monotonic()
            explorer.explore([kind], began + 60 * options.minutes / len(KINDS), lambda: False)
            took, ran = time.monotonic() - began, explorer.ran[kind] - before
            print(f"{options.system}, {kind}: {60 * ran / took:.0f} cases a minute ({ran} in {took:.0f} s)")
    print(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
