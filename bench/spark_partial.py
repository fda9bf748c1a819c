"""Lookups and epochs of partial state on Spark, one call at a time: ``python bench/spark_partial.py``.

The shopping view over 200,000 visits to 5,000 products in 500 categories. Prints, for each kind
of call, the median of its seconds and the micro-batches that one of them takes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import sharedstate_lite as ss

PRODUCTS, CATEGORIES, VISITS = 5_000, 500, 200_000
RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = "SELECT category, MAX(length) AS longest FROM info JOIN visit USING (product) GROUP BY category"


def visits(draw: np.random.Generator, count: int) -> pd.DataFrame:
    """So many visits, with lengths below a million."""
    products = [f"p{n}" for n in draw.integers(0, PRODUCTS, count)]
    users = [f"u{n}" for n in draw.integers(0, 1_000, count)]
    length = draw.integers(0, 10**6, count).astype("int32")
    return pd.DataFrame({"product": products, "user": users, "length": length, "diff": 1})


def one(product: str, length: int, diff: int = 1) -> dict[str, Any]:
    """An epoch of one visit."""
    return {"visit": [((product, "x", length), diff)]}


def main() -> None:
    """Run all, and print."""
    draw = np.random.default_rng(1)
    products = [f"p{n}" for n in range(PRODUCTS)]
    info = pd.DataFrame({"product": products, "category": [f"c{n % CATEGORIES}" for n in range(PRODUCTS)], "diff": 1})
    view = ss.Catalog(**RELATIONS).view(f"CREATE VIEW result AS {RESULT}")
    seconds: dict[str, list[float]] = {}
    batches: dict[str, int] = {}
    with ss.spark.session() as session, ss.spark.engine("partial", [view], session) as engine:

        def timed(name: str, call: Callable[[], Any]) -> Any:
            start, before = time.perf_counter(), engine.rounds
            out = call()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
            batches[name] = engine.rounds - before
            return out

        timed("step of all", lambda: engine.step({"info": info, "visit": visits(draw, VISITS)}))
        for n in range(5):
            timed("read of a hole", partial(engine.read, "result", f"c{n}"))
        for _ in range(7):
            timed("read of a filled key", lambda: engine.read("result", key="c1"))
        timed("lookup of 100 holes at once", lambda: engine.lookup("result", [f"c{n}" for n in range(100, 200)]))
        for n in range(5):
            timed("step of one row, of a hole", partial(engine.step, one("p499", n)))
            timed("step of one row, of a filled key", partial(engine.step, one("p1", n)))
        for n in range(3):
            engine.step(one("p1", 2_000_000 + n))
            timed("step that deletes a maximum", partial(engine.step, one("p1", 2_000_000 + n, -1)))
        for _ in range(3):
            timed("step of 20,000 rows", lambda: engine.step({"visit": visits(draw, 20_000)}))
        timed("evict of a key", lambda: engine.evict("result", key="c1"))
        timed("read of it, which the join still has", lambda: engine.read("result", key="c1"))
    for name, spent in seconds.items():
        print(f"{name:40} {statistics.median(spent):8.2f} s {batches[name]:3} micro-batches")


if __name__ == "__main__":
    main()
