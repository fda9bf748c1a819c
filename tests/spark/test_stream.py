"""A streaming job of its own: folders and DataFrames in, a changelog out, stopped, restarted, and given bad files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
COLUMNS = {"info": ["product", "category", "diff"], "visit": ["product", "user", "length", "diff"]}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
COUNT = "CREATE VIEW count AS SELECT COUNT(*) AS n FROM visit"
EPOCHS: list[dict[str, list[tuple[Any, ...]]]] = [
    {"info": [("a", "F", 1), ("b", "G", 1)], "visit": [("a", "x", 1, 1), ("b", "y", 5, 2)]},
    {"info": [], "visit": [("a", "z", 9, 1), ("b", "y", 5, -2)]},
    {"info": [("b", "G", -1), ("b", "F", 1)], "visit": [("b", "y", 30, 1)]},
]


def views() -> list[ss.View]:
    """The views in a catalog of their own."""
    catalog = ss.Catalog(**RELATIONS)
    return [catalog.view(RESULT), catalog.view(COUNT)]


def put(folder: Path, number: int) -> None:
    """One epoch's files, with times that keep their order."""
    for relation, rows in EPOCHS[number].items():
        target = folder / relation / f"epoch={number + 1:05d}" / "part.parquet"
        target.parent.mkdir(parents=True)
        columns: Any = list(zip(*rows, strict=True)) if rows else [[] for _ in COLUMNS[relation]]
        types: Any = [pa.string()] * (len(columns) - 1) + [pa.int64()]
        if relation == "visit":
            types[2] = pa.int32()
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        pq.write_table(pa.table(arrays, names=COLUMNS[relation]), target)
        at = 1_700_000_000 + 2 * number
        os.utime(target, (at, at))


def changelog(folder: Path, view: str) -> list[Counter[Any]]:
    """What a changelog folder says, batch by batch."""
    out = []
    for file in sorted((folder / view).glob("batch-*.parquet")):
        rows = [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
        out.append(Counter({row[:-2]: row[-1] for row in rows}))
    return out


def expected(steps: int) -> dict[str, list[Counter[Any]]]:
    """The changes of the in-process engine."""
    out: dict[str, list[Counter[Any]]] = {"result": [], "count": []}
    with ss.engine("full", views()) as engine:
        for step in EPOCHS[:steps]:
            for name, each in engine.step(
                {r: [(row[:-1], row[-1]) for row in rows] for r, rows in step.items()}
            ).items():
                if len(each):
                    rows = [tuple(row.values()) for row in each.to_arrow().to_pylist()]
                    out[name].append(Counter({row[:-2]: row[-1] for row in rows}))
    return out


def test_a_job_keeps_epochs_goes_on_and_names_bad_files(spark: SparkSession, tmp_path: Path) -> None:
    """Folders keep their epochs; a restart goes on; a corrupt and a lost file are named; nothing comes twice."""
    source, sink = tmp_path / "shop", tmp_path / "out"
    put(source, 0)
    put(source, 1)
    folders = {relation: source / relation for relation in RELATIONS}

    def job() -> Any:
        return ss.spark.stream(
            "shared", views(), folders, sink, session=spark, checkpoint=tmp_path / "checkpoint", bins=2
        )

    told: list[str] = []
    with job() as running:
        running.finish(told.append)
    assert len(told) >= 2
    assert {name: changelog(sink, name) for name in ("result", "count")} == expected(2)
    put(source, 2)
    good = source / "visit" / "epoch=00003" / "part.parquet"
    data = good.read_bytes()
    good.write_bytes(b"no parquet at all, of whatever size")
    with job() as running, pytest.raises(ss.Error, match="epoch=00003/part.parquet"):
        running.finish()
    good.write_bytes(data)
    other = source / "info" / "epoch=00003" / "part.parquet"
    kept = other.rename(tmp_path / "kept")
    with pytest.raises(ss.CheckpointError, match="info/epoch=00003/part.parquet.*lost"):
        job()
    kept.rename(other)
    with job() as running:
        running.finish()
    assert {name: changelog(sink, name) for name in ("result", "count")} == expected(3)
    with pytest.raises(ss.CheckpointError, match="view count"):
        ss.spark.stream("shared", views()[:1], folders, sink, session=spark, checkpoint=tmp_path / "checkpoint")
