"""How well `sharedstate price` predicts: the views of tests/shop.py over three data sets of 100,000 visits.

Rows:
    uniform      every value is equally likely, and no column depends on another one
    zipf         the n-th product is visited in proportion to 1/n, as in bench/shopping
    correlated   a user visits three products, a product decides about the length, and a category about the price

Each view is priced alone. A row has the median or the 95th percentile of q = max(predicted / measured, measured /
predicted), both plus one, over the rows and the bytes that each strategy stores in all. The ten worst are printed. The
peers say how many parts the state had, and how many of them were named before the run: "answers equal" if these are
all. A view of which an operator has more than 10 million rows is not run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from bench import measure  # noqa: E402
from bench.shopping.stream import Shop  # noqa: E402
from sharedstate_lite.own.price import MOST, Price, q_error  # noqa: E402
from sharedstate_lite.sql.catalog import Catalog  # noqa: E402
from tests.shop import CATALOG, RELATIONS  # noqa: E402

ROWS = ["uniform", "zipf", "correlated"]
VISITS, QUICK = 100_000, 10_000
MEDIAN, WORST = 1.3, 3.0
"""The goals."""


def tables(kind: str, visits: int) -> dict[str, pd.DataFrame]:
    """Return the tables of tests/shop.py, drawn from a seed: so many visits, and a fifth as many persons."""
    random = np.random.default_rng(ROWS.index(kind))
    products, users = visits // 10, visits // 5
    shop = Shop(products=products)
    product = random.choice(products, visits, p=shop.popularity() if kind == "zipf" else None)
    user = random.integers(0, users, visits)
    length = random.exponential(60, visits).astype(int) if kind == "zipf" else random.integers(0, 300, visits)
    category = random.integers(0, products // 10, products)
    price: Any = random.integers(1, 10_000, products) / 100
    if kind == "correlated":
        product = (user * 7 + random.integers(0, 3, visits)) % products
        length = product % 97 + random.integers(0, 3, visits)
        price = category % 89 + 0.99
    kinds, bosses = max(products // 10, 1), visits // 200
    names: dict[str, dict[str, Any]] = {
        "visit": {"product": product, "user": user, "length": pd.array(length, "Int64")},
        "info": {"product": range(products), "category": category, "price": price},
        "cat": {
            "category": range(kinds),
            "boss": random.integers(0, bosses, kinds),
            "rank": random.integers(1, 300, kinds),
        },
        "person": {
            "user": range(users),
            "boss": random.integers(0, bosses, users),
            "age": random.integers(18, 90, users),
        },
    }
    letters = {"product": "p", "user": "u", "category": "c", "boss": "u"}
    found = {name: pd.DataFrame(columns) for name, columns in names.items()}
    for table in found.values():
        for column in letters.keys() & set(table):
            table[column] = letters[column] + table[column].astype(str)
    found["visit"].loc[random.random(visits) < 0.02, "length"] = pd.NA
    found["info"] = found["info"].drop(index=random.choice(products, products // 50, replace=False).tolist())
    return {name: table.assign(diff=1) for name, table in found.items()}


def prices(kind: str, visits: int, only: Sequence[str] = ()) -> Iterator[tuple[str, Price]]:
    """Price each view alone, and measure it unless it is too large."""
    given = tables(kind, visits)
    names = [name for name in CATALOG.views if not only or name in only]
    progress = measure.Progress([(f"{kind} {name}", 1.0) for name in names])
    for number, name in enumerate(names):
        progress.at(number, 0)
        made = Catalog(**RELATIONS)
        for below in CATALOG.views.values():  # a view comes after those that it reads
            if below.name == name or name in _above(below.name):
                made.view(below.sql)
        alone = Price.of(made, given)
        if alone.largest <= MOST:
            alone.measure()
        yield name, alone
    progress.clear()


def _above(name: str) -> set[str]:
    """The views that read a view, directly or through others."""
    found = {v.name for v in CATALOG.views.values() if any(u.name == name for u in v.uses)}
    return found.union(*(_above(each) for each in found))


def rows(kind: str, found: Sequence[tuple[str, Price]]) -> list[measure.Row]:
    """The rows of a data set; prints the ten worst totals and the views that were not run."""
    totals, parts, named = [], 0, 0
    for name, price in found:
        for strategy in price.strategies.values():
            if strategy.measured is None:
                continue
            parts += len(strategy.measured_parts)
            named += len(strategy.measured_parts & {p.part.operator for p in strategy.parts})
            for unit in ("rows", "bytes"):
                predicted, measured = strategy.amounts("stored in all", unit)
                assert measured is not None
                what = f"{name}, {strategy.kind}: {predicted:,} {unit}, not {measured:,}"
                totals.append((q_error(predicted, measured), what))
    for q, what in sorted(totals, reverse=True)[:10]:
        print(f"{kind:11}{q:6.2f}  {what}")
    skipped = [name for name, price in found if price.largest > MOST]
    if skipped:
        print(f"{kind:11}not run, too large: {', '.join(skipped)}")
    peers = {"parts": float(parts), "parts named": float(named), "views not run": float(len(skipped))}
    errors, exact = np.array([q for q, _ in totals]), parts == named
    told = []
    for what, share, goal in (("the median", 0.5, MEDIAN), ("the 95th percentile", 0.95, WORST)):
        q = float(np.quantile(errors, share))
        told.append(measure.Row(f"{kind}: totals, {what}", q, "q", peers, goal / q, 1.0, q <= goal, exact))
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Price, measure, print, write. Returns the exit status: 1 if a part was not named before the run."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    found = []
    for kind in chosen.only or ROWS:
        found += rows(kind, [*prices(kind, QUICK if chosen.quick else VISITS)])
    return measure.finish(found, chosen.json, ["numpy", "pandas"])


if __name__ == "__main__":
    measure.command(main)
