"""The shop in four epochs, as rows for ``step`` and files for ``stream``, and the changes of an engine in process."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sharedstate_lite as ss

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
COLUMNS = {"info": ["product", "category", "diff"], "visit": ["product", "user", "length", "diff"]}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
COUNTS = "CREATE VIEW counts AS SELECT user, COUNT(*) AS n, SUM(length) AS total FROM visit GROUP BY user"
PRODUCTS = 12
EPOCHS: list[dict[str, Any]] = [
    {
        "info": [((f"p{n}", f"c{n % 4}"), 1) for n in range(PRODUCTS)],
        "visit": [((f"p{n % PRODUCTS}", f"u{n % 5}", n), 1) for n in range(60)],
    },
    {"visit": [(("p1", "u1", 500), 1), (("p1", "u1", 1), -1), (("p2", "u9", 7), 2)]},
    {"info": [(("p1", "c1"), -1), (("p1", "c2"), 1)], "visit": [(("p11", "u4", 59), -1)]},
    {"visit": [(("p1", "u1", 500), -1), (("p3", None, 8), 1)]},
]
"""Each epoch changes a maximum; the third moves a product with its visits to another category."""


def views() -> list[ss.View]:
    """The views in a catalog of their own."""
    catalog = ss.Catalog(**RELATIONS)
    return [catalog.view(RESULT), catalog.view(COUNTS)]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """A frame's rows."""
    return [tuple(row) for row in frame.astype(object).itertuples(index=False)]


def bag(changes: ss.Changes) -> Counter[Any]:
    """Changes as row -> diff, without the time."""
    out: Counter[Any] = Counter()
    for row in changes.to_arrow().to_pylist():
        values = list(row.values())
        out[tuple(values[:-2])] += values[-1]
    return out


def arrow(relation: str, pairs: list[Any]) -> pa.Table:
    """Rows with diffs as a table with a column ``diff``."""
    types: Any = [pa.string()] * (len(COLUMNS[relation]) - 1) + [pa.int64()]
    if relation == "visit":
        types[2] = pa.int32()
    lines = [(*row, diff) for row, diff in pairs]
    columns: Any = list(zip(*lines, strict=True)) if lines else [()] * len(types)
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=COLUMNS[relation])


def folders(source: Path, number: int) -> None:
    """One epoch's files, with times that keep their order."""
    for relation in RELATIONS:
        target = source / relation / f"epoch={number + 1:05d}" / "part.parquet"
        target.parent.mkdir(parents=True)
        pq.write_table(arrow(relation, EPOCHS[number].get(relation, [])), target)
        at = 1_700_000_000 + 2 * number
        os.utime(target, (at, at))


def changelog(folder: Path, view: str) -> list[Counter[Any]]:
    """The changes in a sink's folder, batch by batch."""
    out = []
    for file in sorted((folder / view).glob("batch-*.parquet")):
        counts: Counter[Any] = Counter()
        for row in pq.read_table(file).to_pylist():
            values = list(row.values())
            counts[tuple(values[:-2])] += values[-1]
        out.append(counts)
    return out


def expected(steps: int, first: int = 0) -> dict[str, list[Counter[Any]]]:
    """The changes of the in-process engine, of epochs that change something."""
    out: dict[str, list[Counter[Any]]] = {"result": [], "counts": []}
    with ss.engine("full", views()) as engine:
        for number, step in enumerate(EPOCHS[:steps]):
            for name, each in engine.step(step).items():
                if len(each) and number >= first:
                    out[name].append(bag(each))
    return out
