"""Checkpoints of an earlier version are refused with both formats, before anything is opened.

``before.tar.xz`` has one of each kind, as commit 5c38e5e wrote them: full, partial and stream (formats 2), managed
(format 1) and entities (format 2); and a stream as commit d2ba2b1b wrote it (format 5), which was no run in rounds.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import managed as m
from sharedstate_lite.entities import Program, entity
from sharedstate_lite.entities.on_spark import SparkEntities

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = ss.Catalog(visit="product STRING, length INT")
LONGEST = CATALOG.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")


class Longest(m.Operator):
    """The operator of the checkpoint."""

    out = "product STRING, now INT"
    top = m.Value("INT", default=0)

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Keep the last length."""
        self.top.set(row["length"])
        out(key, row["length"])


@entity
class Item:
    """The entity of the checkpoint."""

    def __init__(self, name: str, stock: int):
        self.name, self.stock = name, stock

    def __key__(self) -> str:
        return self.name


def start_managed(spark: SparkSession, folder: Path) -> Any:
    """The operator, as it was started."""
    visits = m.source("visit", "product STRING, length INT", key="product")
    given = folder.parent / "given"
    given.mkdir(exist_ok=True)
    return m.spark.run(Longest(), visits, {"visit": given}, folder.parent / "out", checkpoint=folder, session=spark)


def start_stream(spark: SparkSession, folder: Path) -> Any:
    """The stream, as it was started."""
    given = folder.parent / "given"
    given.mkdir(exist_ok=True)
    out = folder.parent / "out"
    return ss.spark.stream("full", [LONGEST], {"visit": given}, out, session=spark, checkpoint=folder)


STARTS: list[tuple[str, str, Callable[[Any, Path], Any]]] = [
    ("full", "engine.json has format 2", lambda spark, at: ss.spark.engine("full", [LONGEST], spark, checkpoint=at)),
    ("full", "engine.json has format 2", lambda spark, at: ss.spark.restore(at, spark)),
    ("full", "engine.json has format 2", lambda spark, at: ss.spark.state(at, session=spark)),
    ("full", "engine.json has format 2", lambda spark, at: ss.spark.batches(at)),
    ("full", "engine.json has format 2", lambda spark, at: ss.spark.rescale(at, 2, spark)),
    ("partial", "engine.json has format 2", lambda s, at: ss.spark.engine("partial", [LONGEST], s, checkpoint=at)),
    ("partial", "engine.json has format 2", lambda spark, at: ss.spark.filled(at, "longest", session=spark)),
    ("stream", "engine.json has format 2", start_stream),
    ("stream5", "run.json has format 5", start_stream),
    ("stream5", "run.json has format 5", lambda spark, at: ss.spark.state(at, session=spark)),
    ("managed", "managed.json has format 1", start_managed),
    ("entities", "entities.json has format 2", lambda spark, at: SparkEntities(Program(Item), at, 1, spark)),
    ("managed", "managed.json has format 1", lambda spark, at: SparkEntities(Program(Item), at, 1, spark)),
]


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder, with its digest."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the archive. No test changes it."""
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(Path(__file__).with_name("before.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(("kind", "found", "start"), STARTS)
def test_a_checkpoint_of_before_is_refused(
    spark: SparkSession, folder: Path, kind: str, found: str, start: Callable[[Any, Path], Any]
) -> None:
    """The error names the file, its format and the format that is read, and no file of the checkpoint has changed."""
    before = content(folder / kind)
    assert len(before) > 5
    with pytest.raises(ss.CheckpointError, match=f"{found}, but this version of the kit reads format 7"):
        start(spark, folder / kind)
    assert content(folder / kind) == before
