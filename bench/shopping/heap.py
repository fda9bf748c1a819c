"""The heap that a strategy needs, beside its bill: ``python -m bench.shopping.heap full 500000``.

A fresh process takes the stream up to that number of visits and lets go of all but the engine. The heap is what Python
and NumPy have allocated since (``tracemalloc``) and what Arrow has. Nothing is timed. Prints one JSON object: the bytes
of each line of ``engine.bill()``, and of the heap.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

import sharedstate_lite as ss
from bench import child
from bench.shopping import VIEW
from bench.shopping.ours import READ_SHARE, Tables
from bench.shopping.sides import OURS
from bench.shopping.stream import Shop, draw, reads, schedule

FILL = 10_000
"""Visits of an epoch."""


def measured(strategy: str, visits: int) -> dict[str, int]:
    """The bytes of each line of the bill, and of the heap."""
    stream = draw(Shop(), *schedule([visits], {}, deletes=Shop().deletes, fill=FILL))
    tables = Tables(stream)
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(f"CREATE VIEW result AS {VIEW}")
    asked = [f"category-{key}" for key in reads(stream.shop, stream.category, READ_SHARE).tolist()]
    with ss.engine(strategy, [view]) as engine:  # what is made once in a process, caches too, is not the engine's
        engine.step(tables.epoch(0) | {"info": tables.info()})
        engine.read("result", key=asked[0])
    gc.collect()
    tracemalloc.start()
    with ss.engine(strategy, [view]) as engine:
        engine.step({"info": tables.info()})
        for epoch in range(stream.epochs):
            engine.step(tables.epoch(epoch))
            child.tell((epoch + 1) / stream.epochs)
        for key in asked if strategy == "partial" else ():
            engine.read("result", key=key)
        engine.trace.clear()
        gc.collect()
        heap = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
        return {str(line): int(count) for line, count in engine.bill()["bytes"].items()} | {"heap": heap}


def gathered(visits: int, log: Path, hear: Callable[[float], None]) -> dict[str, dict[str, int]]:
    """Measure every strategy, each in a fresh process. ``hear`` is given the fraction that is done."""
    found: dict[str, dict[str, int]] = {}
    for number, side in enumerate(OURS):
        lines: list[str] = []

        def take(line: str, number: int = number, lines: list[str] = lines) -> None:
            lines.append(line)
            if not line.startswith("{"):
                hear((number + float(line)) / len(OURS))

        child.run([sys.executable, "-m", "bench.shopping.heap", side, str(visits)], log / f"heap-{side}.log", take)
        found[side] = json.loads(lines[-1])
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure one strategy, and print it."""
    print(json.dumps(measured(arguments[0], int(arguments[1]))))


if __name__ == "__main__":
    child.side(lambda: main(sys.argv[1:]))
