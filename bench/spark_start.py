"""The cost of starting a session: ``python bench/spark_start.py [--rounds N]``.

Each line is a fresh process: the seconds until the session has started, until an engine has answered its first epoch,
and to install a second view (which stops a query and starts another); the CPU seconds of the JVM and the Python workers
by then; and the memory of the workers (PSS: shared pages are counted once). Sides take turns, and each adds one
optimisation to the one before: none; PySpark from its package instead of its zip; operators that load the kit lazily;
the archive of Spark's classes. Medians, and in brackets the first side's value divided by it. Linux.
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
from pyspark import cloudpickle  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench.spark_partial import RELATIONS, RESULT  # noqa: E402
from sharedstate_lite.lessons.measure import timed  # noqa: E402
from sharedstate_lite.spark.rounds import operator
from sharedstate_lite.spark.session import classes, home  # noqa: E402
from sharedstate_lite.spark.session.java import find_java  # noqa: E402

SIDES = ["without", "package", "lazy", "archive"]
"""Each with the optimisations of those before it."""
UNITS = [("s", 1), ("s", 1), ("s", 1), ("s", 1), ("MB", 0)]
"""Of the columns, and decimal places."""


def side(last: str) -> list[float]:
    """Seconds to a session, to the first epoch of the seed's view, of an install; CPU seconds; workers' MB (PSS)."""
    used = SIDES[: SIDES.index(last) + 1]
    catalog = ss.Catalog(**RELATIONS)
    view, second = (catalog.view(f"CREATE VIEW {name} AS {RESULT}") for name in ("result", "another"))
    options = classes.options(find_java()) if "archive" in used else ""
    where = home.shared() if "package" in used else home.package()
    if "lazy" not in used:
        cloudpickle.unregister_pickle_by_value(operator)  # type: ignore[no-untyped-call]
    began = time.perf_counter()
    with (
        mock.patch.object(home, "shared", lambda: where),
        mock.patch.object(classes, "options", lambda java: options),
        ss.spark.session("local[2]") as session,
    ):
        started = time.perf_counter() - began
        with ss.spark.engine("shared", [view], session, bins=2) as engine:
            engine.step({"info": [(("Apple", "Fruit"), 1)], "visit": [(("Apple", "Alice", 10), 1)]})
            answered = time.perf_counter() - began
            _, installed = timed(lambda: engine.install(second))
            children = psutil.Process().children(recursive=True)
            spent = sum(sum(child.cpu_times()[:4]) for child in children)  # with that of children that have ended
            held = [child.memory_full_info().pss for child in children if child.name().startswith("python")]
    return [started, answered, installed, spent, sum(held) / 1e6]


def main() -> None:
    """Run all sides in turn, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(side(options.side)))
        return
    home.shared()
    classes.make(find_java())
    told: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    for number in range(options.rounds):
        for name in SIDES:
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--side", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            told[name].append(json.loads(done.stdout))
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in told.items()}
    print(f"{'':10}" + "".join(f"{name:>16}" for name in ("session", "first epoch", "install", "CPU", "memory")))
    for name, row in medians.items():
        pairs = zip(row, medians["without"], UNITS, strict=True)
        cells = [f"{value:.{places}f} {unit} ({first / value:.1f})" for value, first, (unit, places) in pairs]
        print(f"{name:10}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
