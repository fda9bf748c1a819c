"""A base table as Parquet files in a folder: one for each epoch that brought rows, merged as they become many.

    files.json       which files there are: name, first and last epoch, rows, bytes
    NNNNNNNN.parquet

The list is written after a file and before one is removed, under another name and renamed,
so it names whole files only. A file that it names and that is not there, or is of
another size, was lost: that is noticed when the engine starts. Merged files are netted, so
rows that came and went leave nothing, and small files are merged with small ones.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from ...errors import CheckpointError
from ...plan.nodes import Schema
from ..query.query import tried
from ..session.paths import literal
from .base_rows import BaseTable, declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIST = "files.json"
MANY = 8
"""With so many files, the newest are merged."""


@dataclass
class TableFile:
    """A file: the epochs that it covers, and what is in it."""

    name: str
    first: int
    last: int
    rows: int
    bytes: int


class ParquetTable(BaseTable):
    """See the module; ``look`` changes nothing in the folder. Raises CheckpointError for files that are lost."""

    def __init__(self, session: SparkSession, folder: Path, relation: str, schema: Schema, look: bool = False) -> None:
        self.session, self.folder, self.relation, self.schema = session, folder, relation, schema
        self.files: list[TableFile] = []
        if not look:
            folder.mkdir(parents=True, exist_ok=True)
        told = folder / LIST
        self.number = 0
        if told.exists():
            found = json.loads(told.read_text())
            self.files, self.number = [TableFile(**each) for each in found["files"]], found["number"]
        for each in self.files:
            file = folder / each.name
            if not file.exists() or file.stat().st_size != each.bytes:
                how = "is not what was written" if file.exists() else "is lost"
                raise CheckpointError(
                    f"{file}: this file of the base table {relation} (epochs {each.first} to {each.last}) {how}; put "
                    "it back, or restore another checkpoint"
                )
        if not look:
            self._clear()

    def frame(self) -> DataFrame:
        if not self.files:
            return self.session.createDataFrame([], declared(self.schema))
        return self._read(self.files)

    def _read(self, some: list[TableFile]) -> DataFrame:
        """Their rows; Spark looks for the files at once."""
        paths = [literal(self.folder / each.name) for each in some]
        reader = self.session.read.schema(declared(self.schema))
        return tried(lambda: reader.parquet(*paths), f"the base table {self.relation} cannot be read")

    def append(self, rows: pa.Table, epoch: int) -> None:
        name = self._name()
        rows = rows.append_column("batch", pa.array([epoch] * rows.num_rows, pa.int64()))
        with pa.OSFile(str(self.folder / name), "wb") as sink:
            pyarrow.parquet.write_table(rows, sink)
        self.files.append(TableFile(name, epoch, epoch, rows.num_rows, (self.folder / name).stat().st_size))
        self._write()

    def take_back(self, epoch: int) -> None:
        left = [f for f in self.files if f.last <= epoch]
        if len(left) < len(self.files):
            self.files = left
            self._write()
            self._clear()

    def size(self) -> tuple[int, int]:
        return sum(f.rows for f in self.files), sum(f.bytes for f in self.files)

    def merge(self, whole: bool = False) -> None:
        if len(self.files) < (2 if whole else MANY):
            return
        count, rows = 1, self.files[-1].rows
        while count < len(self.files) and (whole or count < 2 or self.files[-1 - count].rows < 2 * rows):
            rows += self.files[-1 - count].rows
            count += 1
        self._merge(self.files[-count:])

    def _merge(self, some: list[TableFile]) -> None:
        from pyspark.sql import functions as f

        frame = self._read(some)
        by = [f"c{i}" for i in range(len(self.schema))]
        netted = frame.groupBy(*by).agg(f.sum("diff").alias("diff")).where("diff <> 0")
        work, name, last = self.folder / "merging", self._name(), some[-1].last
        written = netted.withColumn("batch", f.lit(last).cast("bigint")).coalesce(1).write.mode("overwrite")
        tried(lambda: written.parquet(str(work)), f"the files of the base table {self.relation} cannot be merged")
        made = next(work.glob("part-*.parquet"), None)
        left = [x for x in self.files if x not in some]
        if made is not None:
            made.replace(self.folder / name)
            shown = pyarrow.parquet.ParquetFile(self.folder / name).metadata
            size = (self.folder / name).stat().st_size
            left.append(TableFile(name, some[0].first, last, shown.num_rows, size))
        self.files = left
        self._write()
        self._clear()

    def _name(self) -> str:
        self.number += 1
        return f"{self.number:08d}.parquet"

    def _write(self) -> None:
        unfinished = self.folder / f".{LIST}"
        with unfinished.open("w") as file:
            json.dump({"number": self.number, "files": [asdict(f) for f in self.files]}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.folder / LIST)

    def _clear(self) -> None:
        """Remove what the list does not name: an epoch or a merge that did not come to its end."""
        there = {f.name for f in self.files}
        for file in self.folder.glob("*.parquet"):
            if file.name not in there:
                file.unlink()
        shutil.rmtree(self.folder / "merging", ignore_errors=True)


__all__ = ["ParquetTable"]
