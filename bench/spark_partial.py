"""Partial state on Spark, one call at a time, beside shared state on Spark and partial state in one process.

Rows:
    reads    of holes, of filled keys, of many holes at once, of what was evicted
    steps    that meet holes and filled keys, that take a maximum away, of many rows

The shopping view over 200,000 visits to 5,000 products in 500 categories (with --quick 20,000 visits). Medians in
seconds; in brackets how many micro-batches one call takes. The ratio is shared state on Spark to partial: below one
is what a question costs that state would have answered.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402

ROWS = ["reads", "steps"]
PACKAGES = ["pyspark", "numpy", "pandas", "pyarrow"]
PRODUCTS, CATEGORIES, VISITS, QUICK = 5_000, 500, 200_000, 20_000
SIDES = ["partial on Spark", "shared on Spark", "partial in one process"]
RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = "SELECT category, MAX(length) AS longest FROM info JOIN visit USING (product) GROUP BY category"


class Course:
    """The same calls on one engine: their seconds and micro-batches by name, and what the reads answered."""

    def __init__(self, engine: Any, told: Callable[[], None]) -> None:
        self.engine, self._told = engine, told
        self.seconds: dict[str, list[float]] = {}
        self.rounds: dict[str, int] = {}
        self.answers: list[list[tuple[Any, ...]]] = []

    def call(self, name: str, action: Callable[[], Any]) -> None:
        """Time a call; what a read gives is kept."""
        before = getattr(self.engine, "rounds", 0)
        out: list[Any] = []
        self.seconds.setdefault(name, []).extend(measure.times(lambda: out.append(action()), runs=1, warm=0))
        self.rounds[name] = getattr(self.engine, "rounds", 0) - before
        if isinstance(out[0], pd.DataFrame):
            self.answers.append(sorted(out[0].itertuples(index=False, name=None)))
        self._told()

    def run(self, count: int) -> None:
        """All calls, in an order that says what is a hole and what is filled."""
        draw, engine, read = np.random.default_rng(1), self.engine, partial(self.engine.read, "result")
        products = [f"p{n}" for n in range(PRODUCTS)]
        categories = [f"c{n % CATEGORIES}" for n in range(PRODUCTS)]
        info = pd.DataFrame({"product": products, "category": categories, "diff": 1})
        engine.step({"info": info, "visit": visits(draw, count)})
        for n in range(5):
            self.call("read of a hole", partial(read, f"c{n}"))
        for _ in range(7):
            self.call("read of a filled key", partial(read, "c1"))
        self.call("read of 100 holes at once", partial(self.many, [f"c{n}" for n in range(100, 200)]))
        for n in range(5):
            self.call("step of one row, of a hole", partial(engine.step, one("p499", n)))
            self.call("step of one row, of a filled key", partial(engine.step, one("p1", n)))
        for n in range(3):
            engine.step(one("p1", 2_000_000 + n))
            self.call("step that deletes a maximum", partial(engine.step, one("p1", 2_000_000 + n, -1)))
        for _ in range(3):
            more = visits(draw, 20_000)
            self.call("step of 20,000 rows", partial(engine.step, {"visit": more}))
        if engine.kind == "partial":
            engine.evict("result", key="c1")
        self.call("read of an evicted key, which the join still has", partial(read, "c1"))

    def many(self, keys: list[str]) -> pd.DataFrame:
        """What the engine's user would write: a lookup, or all of a view that is there anyway, or key by key."""
        answers: pd.DataFrame
        if self.engine.kind != "partial":
            answers = self.engine.read("result").query("category in @keys")
        elif hasattr(self.engine, "lookup"):
            answers = self.engine.lookup("result", keys)
        else:
            answers = pd.concat([self.engine.read("result", key=key) for key in keys])
        return answers


def visits(draw: np.random.Generator, count: int) -> pd.DataFrame:
    """So many visits, with lengths below a million."""
    products = [f"p{n}" for n in draw.integers(0, PRODUCTS, count)]
    users = [f"u{n}" for n in draw.integers(0, 1_000, count)]
    length = draw.integers(0, 10**6, count).astype("int32")
    return pd.DataFrame({"product": products, "user": users, "length": length, "diff": 1})


def one(product: str, length: int, diff: int = 1) -> dict[str, Any]:
    """An epoch of one visit."""
    return {"visit": [((product, "x", length), diff)]}


def row(what: str, courses: dict[str, Course]) -> measure.Row:
    """A call's median beside the peers'."""
    ours, *others = (statistics.median(course.seconds[what]) for course in courses.values())
    rounds = courses[SIDES[0]].rounds[what]
    equal = all(course.answers == courses[SIDES[0]].answers for course in courses.values())
    told = measure.compared(
        f"{what} ({rounds})", ours, "s", dict(zip(SIDES[1:], others, strict=True)), against=SIDES[1], less=True
    )
    return measure.Row(**{**vars(told), "equal": equal})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    progress = measure.Progress([(SIDES[0], 6), (SIDES[1], 4), (SIDES[2], 1)])
    courses: dict[str, Course] = {}
    with ss.spark.session() as session:
        for at, side in enumerate(SIDES):
            view = ss.Catalog(**RELATIONS).view(f"CREATE VIEW result AS {RESULT}")
            kind = side.split()[0]
            progress.at(at, 0)
            with ss.spark.engine(kind, [view], session) if "Spark" in side else ss.engine(kind, [view]) as engine:
                calls = iter(range(1, 100))
                courses[side] = Course(engine, lambda at=at, calls=calls: progress.at(at, next(calls) / 31))  # type: ignore[misc]
                courses[side].run(QUICK if chosen.quick else VISITS)
    progress.clear()
    wanted = [name[:-1] for name in chosen.only or ROWS]
    names = [name for name in courses[SIDES[0]].seconds if name.split()[0] in wanted]
    return measure.finish([row(name, courses) for name in names], chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
