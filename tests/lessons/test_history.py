"""A record is opened as views: its version is looked at first, and the views have what the tables have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from grader.record import load, save
from sharedstate_lite.errors import Error
from sharedstate_lite.lessons import history

PASSES = Path(__file__).resolve().parents[2] / "labs" / "checkout" / "records" / "passes"
NONE = cast(SparkSession, None)
"""A folder that is refused needs no session."""


def changed(tmp_path: Path, **values: Any) -> Path:
    """A copy of the record with other values in run.json."""
    folder = tmp_path / "copy"
    shutil.copytree(PASSES, folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | values))
    return folder


@pytest.mark.parametrize("version", [3, None, "1"])
def test_another_version_is_refused_by_name(tmp_path: Path, version: Any) -> None:
    """The version is checked before any table, and the error has both versions."""
    folder = changed(tmp_path, record=version)
    (folder / "history.parquet").unlink()
    with pytest.raises(Error, match=f"version {version}, and this kit reads versions 1 and 2"):
        history.views(NONE, folder)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    """A folder without run.json, one with a damaged run.json, and one without a table are named."""
    with pytest.raises(Error, match="has no record"):
        history.views(NONE, tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(Error, match="has no record"):
        history.views(NONE, tmp_path)
    folder = changed(tmp_path)
    (folder / "funds.parquet").unlink()
    with pytest.raises(Error, match=r"funds\.parquet is missing"):
        history.views(NONE, folder)


@pytest.mark.parametrize("version", history.PHASE)
def test_the_views_have_what_the_tables_have(spark: SparkSession, tmp_path: Path, version: int) -> None:
    """Rows of a view are counted and added up by Arrow from the files; a label names the row of its order."""
    folder = PASSES if version == 1 else tmp_path
    if version == 2:
        save(load(PASSES), tmp_path)
    run = history.views(spark, folder)
    assert run["record"] == version
    assert {row.phase for row in spark.table("orders").collect()} == {"duplicates", "faults"}
    table = {name: pq.read_table(folder / f"{name}.parquet") for name in history.TABLES}
    tried = table["history"].filter((pc.field("kind") == 0) & (pc.field("subject") >= 0))
    (sent,) = spark.sql("SELECT count(sent), count(done), sum(status), sum(order) FROM checkouts").collect()
    expected = [
        pc.sum(pc.greater(tried["sent"], 0)).as_py(),
        pc.sum(pc.greater(tried["done"], 0)).as_py(),
        pc.sum(tried["status"]).as_py(),
        pc.sum(tried["subject"]).as_py(),
    ]
    assert list(sent) == expected
    labels = {row.number: row.label for row in spark.table("orders").collect()}
    numbers = table["orders"]["number"].to_pylist()
    assert [int(labels[row].rpartition("-")[2]) for row in range(len(numbers))] == numbers
    (funds,) = spark.sql("SELECT count(DISTINCT kind), sum(amount) FROM funds").collect()
    assert list(funds) == [2, pc.sum(table["funds"]["amount"]).as_py()]
    assert spark.table("waves").count() == len(run["waves"])
    read = pc.sum(pc.equal(table["snapshots"]["state"], 0)).as_py()
    assert spark.table("snapshots").count() == read
