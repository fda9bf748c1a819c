"""Where the time of a small epoch goes: ``python bench/epoch.py [--rows 100] [--held 50000] [--kit FOLDER]``.

The shopping view of `views.py` under shared state. Each part of an epoch is timed without the parts inside it, and the
calls of Python functions are counted in epochs that are not timed. With --kit, another checkout of the kit takes the
same epochs in turn, so that the two columns are of the same minutes. Prints a table in Markdown: microseconds of an
epoch, the medians of the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":  # a script finds its own folder first, and is to find a checkout
    sys.path[0] = sys.argv[sys.argv.index("--child") + 1] if "--child" in sys.argv else str(ROOT)

from bench import measure  # noqa: E402

PARTS = {
    "Arrow in": ["changelog.validate:epoch"],
    "base table: sort, check, insert": ["engine.engine:Engine.insert_bases"],
    "arrangements": ["dataflow.operators:Arrange.step"],
    "join": ["dataflow.operators:JoinCore.step"],
    "map": ["dataflow.operators:Linear.step"],
    "MAX": ["dataflow.operators:ReduceCore.step"],
    "commit and merges": ["engine.engine:Engine._commit"],
    "Arrow out": ["changelog.changes:Changes.to_arrow"],
}
"""Each part, and the functions of the kit whose time it is."""
REST, CALLS = "messages, snapshot, rest", "calls of Python functions"
ROUNDS, WARM, COUNTED = 5, 20, 20


class Parts:
    """The time of each part of the epoch that runs, without that of the parts inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time added to a part."""

        def run(*arguments: Any, **options: Any) -> Any:
            self._inside.append(0.0)
            start = measure.clock()
            try:
                return function(*arguments, **options)
            finally:
                took = measure.clock() - start
                self.seconds[part] += took - self._inside.pop()
                self._inside[-1] += took

        return run

    def watch(self) -> None:
        """Replace the functions of all parts in the kit."""
        for part, names in PARTS.items():
            for name in names:
                module, _, path = name.partition(":")
                *owners, last = path.split(".")
                owner: Any = importlib.import_module(f"sharedstate_lite.{module}")
                for each in owners:
                    owner = getattr(owner, each)
                setattr(owner, last, self.timed(part, getattr(owner, last)))


def calls(action: Callable[[], object]) -> int:
    """How many Python functions are called, functions in C left out."""
    count = 0

    def hear(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(hear)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def measured(rows: int, held: int, epochs: int) -> dict[str, float]:
    """Medians over the epochs: microseconds of each part, and calls."""
    import sharedstate_lite as ss
    from bench.shopping import VIEW
    from bench.shopping.ours import Tables
    from bench.shopping.stream import Shop, Window, draw, schedule

    shop = Shop()
    windows = {rows: Window(WARM, epochs, COUNTED)}
    stretches, counts = schedule([held], windows, deletes=shop.deletes, fill=min(held, 10_000))
    tables, parts = Tables(draw(shop, stretches, counts)), Parts()
    parts.watch()
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    found: dict[str, list[float]] = defaultdict(list)
    with ss.engine("shared", [catalog.view(f"CREATE VIEW result AS {VIEW}")]) as engine:
        engine.step({"info": tables.info()})
        for stretch in stretches:
            for number in range(stretch.first, stretch.last):
                given = tables.epoch(number)
                if stretch.kind == "pipelined":
                    found[CALLS].append(calls(lambda given=given: engine.step(given)["result"].to_arrow()))  # type: ignore[misc]
                    continue
                parts.seconds.clear()
                start = measure.clock()
                engine.step(given)["result"].to_arrow()
                whole = measure.clock() - start
                if stretch.kind == "timed":
                    parts.seconds[REST] = whole - sum(parts.seconds.values())
                    for part in (*PARTS, REST):
                        found[part].append(parts.seconds[part] * 1e6)
    return {part: statistics.median(values) for part, values in found.items()}


def table(columns: dict[str, dict[str, float]]) -> str:
    """The table in Markdown: a line for each part, and their sum."""
    lines = [["microseconds of an epoch", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[part, *(f"{column[part]:.0f}" for column in columns.values())] for part in (*PARTS, REST)]
    lines += [["sum", *(f"{sum(c[part] for part in (*PARTS, REST)):.0f}" for c in columns.values())]]
    lines += [[CALLS, *(f"{column[CALLS]:.0f}" for column in columns.values())]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run each checkout in a process of its own, in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="rows of an epoch")
    parser.add_argument("--held", type=int, default=50_000, help="visits that are live")
    parser.add_argument("--epochs", type=int, default=400, help="epochs that are timed in each round")
    parser.add_argument("--kit", metavar="FOLDER", type=Path, help="another checkout, which is the column before")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child is not None:
        print(json.dumps(measured(chosen.rows, chosen.held, chosen.epochs)))
        return 0
    kits = {"before": chosen.kit.resolve(), "now": ROOT} if chosen.kit else {"now": ROOT}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in kits}
    size = ["--rows", str(chosen.rows), "--held", str(chosen.held), "--epochs", str(chosen.epochs)]
    for number in range(ROUNDS):
        for name in list(kits)[:: 1 if number % 2 else -1]:
            command = [sys.executable, __file__, "--child", str(kits[name]), *size]
            rounds[name].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    medians = {
        name: {part: statistics.median(one[part] for one in told) for part in told[0]} for name, told in rounds.items()
    }
    print(table(medians))
    return 0


if __name__ == "__main__":
    measure.command(main)
