"""A base table in Parquet files. Each epoch that changes the table adds a file, and files are merged from time to time.

    files.json          the list of files: name, first and last epoch, rows, bytes
    NNNNNNNN.parquet    the changes of one or more epochs

The list is replaced after a new file is written and before an old file is removed, so all files in the list are
complete. When an engine starts, it raises an error if a file in the list is missing or has a different size. A merge
combines files of similar size, as a log-structured merge-tree does, and adds up the diffs of equal rows.
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
from ..rounds.errors import retry
from ..session.paths import readable
from .base_spark import BaseTable, columns_of, netted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIST = "files.json"
MAX_FILES = 8
"""If there are this many files, the newest ones are merged before the next file is written."""


@dataclass
class TableFile:
    """An entry in the list of files: the changes of the epochs from ``first`` to ``last``."""

    name: str
    first: int
    last: int
    rows: int
    bytes: int


class ParquetTable(BaseTable):
    """A base table in Parquet files; see the module's docstring.

    If ``read_only``, the folder is not changed. Raises CheckpointError if a file is missing or was changed.
    """

    def __init__(
        self, session: SparkSession, folder: Path, relation: str, schema: Schema, read_only: bool = False
    ) -> None:
        self.session, self.folder, self.relation, self.schema = session, folder, relation, schema
        self.files: list[TableFile] = []
        if not read_only:
            folder.mkdir(parents=True, exist_ok=True)
        self.number = 0
        if (folder / LIST).exists():
            found = json.loads((folder / LIST).read_text())
            self.files, self.number = [TableFile(**each) for each in found["files"]], found["number"]
        for each in self.files:
            file = folder / each.name
            if not file.exists() or file.stat().st_size != each.bytes:
                how = "was changed" if file.exists() else "is lost"
                raise CheckpointError(
                    f"{file}: this file of the base table {relation} (epochs {each.first} to {each.last}) {how}; put "
                    "the original back, or restore another checkpoint"
                )
        if not read_only:
            self._clear()

    def frame(self) -> DataFrame:
        if not self.files:
            return self.session.createDataFrame([], columns_of(self.schema))
        return self._read(self.files)

    def _read(self, some: list[TableFile]) -> DataFrame:
        """Return the rows of some files as a DataFrame. Raises Error if Spark cannot find the files."""
        paths = [readable(self.folder / each.name) for each in some]
        reader = self.session.read.schema(columns_of(self.schema))
        return retry(lambda: reader.parquet(*paths), f"the base table {self.relation} cannot be read")

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
        rows, size = sum(f.rows for f in self.files), sum(f.bytes for f in self.files)
        if len(self.files) > 1:  # the rows of a single file are distinct
            # Another thread may merge the files. Each attempt reads those that are there.
            what = f"the base table {self.relation} cannot be read"
            rows = retry(lambda: netted(self.frame(), len(self.schema)).count(), what)
        return rows, size

    def merge(self, whole: bool = False) -> None:
        if len(self.files) < (2 if whole else MAX_FILES):
            return
        count, rows = 1, self.files[-1].rows
        while count < len(self.files) and (whole or count < 2 or self.files[-1 - count].rows < 2 * rows):
            rows += self.files[-1 - count].rows
            count += 1
        self._merge(self.files[-count:])

    def _merge(self, some: list[TableFile]) -> None:
        from pyspark.sql import functions as f

        rows = netted(self._read(some), len(self.schema))
        work, name, last = self.folder / "merging", self._name(), some[-1].last
        written = rows.withColumn("batch", f.lit(last).cast("bigint")).coalesce(1).write.mode("overwrite")
        retry(lambda: written.parquet(str(work)), f"the files of the base table {self.relation} cannot be merged")
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
        """Remove files that are not in the list. They are left over from an epoch or a merge that did not finish."""
        there = {f.name for f in self.files}
        for file in self.folder.glob("*.parquet"):
            if file.name not in there:
                file.unlink()
        shutil.rmtree(self.folder / "merging", ignore_errors=True)
