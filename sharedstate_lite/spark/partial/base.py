"""Base tables of partial state: a Parquet file for each relation and epoch, which the driver reads with DuckDB.

    base/N/EEEEEEEE.parquet    the net changes of epoch E to relation N of the catalog: columns c0, c1, ... and diff

Base tables have all rows. They answer an upquery if no operator on its way has filled the keys. The files of an epoch
are written before its first micro-batch and removed if the epoch is undone. The log of the inbox has the size of each
file (``about``), so a file that was lost or changed is found before its rows are missing in an answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ...changelog import convert, read_tables
from ...engine import state_tables
from ...engine.state_tables import StatePart
from ...errors import CheckpointError, Error
from ...plan.nodes import Schema
from ...storage.arrangement import Arrangement
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ..rounds.inbox import InboxEntry, RoundKind


class BaseTables:
    """The base tables in ``folder`` after the epochs in ``entries``, the log of an inbox.

    ``relations`` are those of the catalog. Raises CheckpointError if a file of these epochs is lost or was changed.
    """

    def __init__(self, folder: Path, relations: Mapping[str, Schema], entries: Iterable[InboxEntry] = ()) -> None:
        self.folder, self.relations = folder, relations
        self.files: dict[str, list[int]] = {}
        """Relation -> the epochs that changed it."""
        for entry in entries:
            if entry.kind is RoundKind.EPOCH and not entry.void:
                for relation, size in entry.about["base"].items():
                    self._check(relation, entry.epoch, size)
                    self.files.setdefault(relation, []).append(entry.epoch)

    def _check(self, relation: str, epoch: int, size: int) -> None:
        file = self._file(relation, epoch)
        if not file.exists() or file.stat().st_size != size:
            how = "was changed" if file.exists() else "is lost"
            raise CheckpointError(
                f"{file}: this file of the base table {relation} (epoch {epoch}) {how}; put the original back, or "
                "restore another checkpoint"
            )

    def _file(self, relation: str, epoch: int) -> Path:
        return self.folder / str(list(self.relations).index(relation)) / f"{epoch:08d}.parquet"

    # --- writing ------------------------------------------------------------------

    def append(self, epoch: int, deltas: Mapping[str, Delta], strings: Dictionary) -> dict[str, int]:
        """Write the net changes of an epoch by relation. Returns the size of each file in bytes, for the log."""
        sizes = {}
        for relation, delta in deltas.items():
            if len(delta.diffs):
                kinds = [c.type for c in self.relations[relation]]
                lines = [convert.to_arrow(w, kind, strings) for w, kind in zip(delta.rows, kinds, strict=True)]
                rows = pa.table([*lines, pa.array(delta.diffs)], names=[*_names(len(lines)), "diff"])
                file = self._file(relation, epoch)
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb") as sink:
                    pyarrow.parquet.write_table(rows, sink)
                    sink.flush()
                    os.fsync(sink.fileno())
                self.files.setdefault(relation, []).append(epoch)
                sizes[relation] = file.stat().st_size
        return sizes

    def take_back(self, epoch: int) -> None:
        """Remove the changes of all epochs after ``epoch``, and the files that do not belong to any epoch."""
        self.files = {relation: [e for e in epochs if e <= epoch] for relation, epochs in self.files.items()}
        known = {self._file(relation, e) for relation, epochs in self.files.items() for e in epochs}
        for file in self.folder.glob("*/*.parquet"):
            if file not in known:
                file.unlink()

    # --- reading ------------------------------------------------------------------

    def rows(
        self,
        relation: str,
        strings: Dictionary,
        columns: tuple[int, ...] = (),
        keys: Words | None = None,
        upto: int | None = None,
    ) -> Delta:
        """Return the net rows of a relation, after epoch ``upto`` (None: after the last one).

        With ``columns``, return only the rows that have one of ``keys``, words int64[len(columns), q], in them.
        """
        schema, semi, wanted = self.relations[relation], "", None
        if columns:
            assert keys is not None
            lines = [convert.to_arrow(w, schema[i].type, strings) for i, w in zip(columns, keys, strict=True)]
            wanted = pa.table(lines, names=[f"k{i}" for i in columns])
            semi = "SEMI JOIN wanted ON " + " AND ".join(f"c{i} IS NOT DISTINCT FROM k{i}" for i in columns)
        found = self._query("FROM net", relation, semi, wanted, upto)
        if found is None or not found.num_rows:
            return Delta.empty(len(schema))
        names = [*(c.name for c in schema), "diff"]
        return read_tables.table(found.rename_columns(names), schema, relation, strings)[0]

    def size(self, relation: str) -> tuple[int, int]:
        """Return the number of distinct rows of a relation, and the size of its files in bytes."""
        found = self._query("SELECT count(*) AS n FROM net", relation)
        size = sum(self._file(relation, epoch).stat().st_size for epoch in self.files.get(relation, []))
        return (0 if found is None else found["n"][0].as_py()), size

    def state_rows(self, part: StatePart) -> pd.DataFrame:
        """Return the rows of a base table with their diffs, as ``state(operator)`` shows them."""
        strings, shown = Dictionary(), Arrangement(part.arrangement.name, part.arrangement.layout)
        rows = self.rows(part.relation, strings)
        shown.insert(rows.rows, rows.diffs, strings)
        return state_tables.state_rows(part.operator, [replace(part, arrangement=shown)], strings)

    def _query(
        self, query: str, relation: str, semi: str = "", wanted: pa.Table | None = None, upto: int | None = None
    ) -> pa.Table | None:
        """Run ``query`` over ``net``, the net rows of a relation that ``semi`` keeps. Returns None if it has no files.

        Raises Error if a file cannot be read.
        """
        epochs = [epoch for epoch in self.files.get(relation, []) if upto is None or epoch <= upto]
        if not epochs:
            return None
        names, given = ", ".join(_names(len(self.relations[relation]))), dict[str, Any]()
        given["files"] = [str(self._file(relation, epoch)) for epoch in epochs]
        rows = f"SELECT {names}, sum(diff)::BIGINT AS diff FROM read_parquet($files) {semi}"
        net = f"WITH net AS ({rows} GROUP BY ALL HAVING sum(diff) <> 0)"
        with _database().cursor() as connection:
            try:
                if wanted is not None:
                    connection.register("wanted", wanted)
                found: pa.Table = connection.sql(f"{net} {query}", params=given).to_arrow_table()
                return found
            except duckdb.Error as error:
                why = str(error).partition("\n")[0]
                raise Error(f"the base table {relation} cannot be read: {why}") from error


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return a database without tables. It caches no files, because an epoch that was undone can be written again."""
    return duckdb.connect(config={"enable_external_file_cache": False})


def _names(columns: int) -> list[str]:
    return [f"c{i}" for i in range(columns)]
