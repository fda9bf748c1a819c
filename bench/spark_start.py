"""What a session costs before it does anything: ``python bench/spark_start.py [--rounds N]``.

Each line is a fresh process: the seconds until there is a session, until an engine on
Spark has answered its first epoch, the CPU seconds of JVM and Python workers by then,
and the memory of those workers (PSS: what they share is counted once). Sides take
turns: without help; with the archive of Spark's classes; with that and workers forked
from a process that has imported what they need. Medians, and the first side's as a
multiple of each. Linux.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import psutil  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench.spark_partial import RELATIONS, RESULT  # noqa: E402
from sharedstate_lite.spark import classes  # noqa: E402
from sharedstate_lite.spark.java import find_java  # noqa: E402

SIDES = {"without": (False, False), "archive": (True, False), "archive, workers": (True, True)}
"""Name -> whether the archive is used, whether workers have the kit's parent."""
UNITS = [("s", 1), ("s", 1), ("s", 1), ("MB", 0)]
"""Of the columns, and decimal places."""


def side(archive: bool, workers: bool) -> list[float]:
    """Seconds to a session, seconds to the first epoch of the seed's view, CPU seconds, workers' MB (PSS)."""
    view = ss.Catalog(**RELATIONS).view(f"CREATE VIEW result AS {RESULT}")
    options = classes.options(find_java()) if archive else ""
    conf = {} if workers else {"spark.python.daemon.module": "pyspark.daemon"}
    began = time.perf_counter()
    with (
        mock.patch.object(classes, "options", lambda java: options),
        ss.spark.session("local[2]", conf=conf) as session,
    ):
        started = time.perf_counter() - began
        with ss.spark.engine("shared", [view], session, bins=2) as engine:
            engine.step({"info": [(("Apple", "Fruit"), 1)], "visit": [(("Apple", "Alice", 10), 1)]})
            answered = time.perf_counter() - began
            children = psutil.Process().children(recursive=True)
            spent = [child.cpu_times() for child in children]
            held = [child.memory_full_info().pss for child in children if child.name().startswith("python")]
    return [started, answered, sum(each.user + each.system for each in spent), sum(held) / 1e6]


def main() -> None:
    """Run all sides in turn, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(side(*SIDES[options.side])))
        return
    classes.make(find_java())
    told: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    for number in range(options.rounds):
        for name in SIDES:
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--side", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            told[name].append(json.loads(done.stdout))
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in told.items()}
    print(f"{'':18}{'session':>16}{'first epoch':>16}{'CPU':>16}{'workers':>16}")
    for name, row in medians.items():
        pairs = zip(row, medians["without"], UNITS, strict=True)
        cells = [f"{value:.{places}f} {unit} ({first / value:.1f})" for value, first, (unit, places) in pairs]
        print(f"{name:18}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
