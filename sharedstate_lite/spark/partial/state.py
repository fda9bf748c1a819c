"""The state reader for partial state: it also reads base tables and filled keys from a checkpoint.

The state of the bins, including their filled keys, is in Spark's state store, even after ``kill -9``. Base tables are
either files in the checkpoint or tables in PostgreSQL, which are not part of the checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import TimeError, ViewError
from ...plan.nodes import Schema
from ...storage.encoding import Dictionary
from ..bins import tables
from ..rounds import home
from ..rounds.inbox import Inbox
from .keys import decode_keys, sorted_keys
from .placement import Placement

if TYPE_CHECKING:
    from ...engine.state_tables import StatePart
    from ..driver.store import EngineReader
    from .base_parquet import ParquetTable


def state(reader: EngineReader, operator: str | None) -> pd.DataFrame:
    """Implement `sharedstate_lite.spark.state`. The list omits base tables whose rows `base_rows` cannot show."""
    tables_of = bases(reader)
    if operator in tables_of:
        return base_rows(reader, tables_of[operator])
    if operator is not None:
        stage, part = tables.find(reader.route, operator)
        return tables.state_rows(part, reader.blobs(stage, [operator])[operator])
    table = tables.state_table(reader.route, reader.heads(), reader.blobs)
    given, epoch, unknown = _given(reader), _epoch(reader, reader.batch), []
    for row, name in enumerate(table.operator):
        if name in tables_of:
            found = _table(reader, tables_of[name])
            if tables_of[name].relation.lower() in given or any(f.first <= epoch < f.last for f in found.files):
                unknown.append(name)
            else:
                found.files = [f for f in found.files if f.last <= epoch]
                table.loc[row, ["rows", "bytes"]] = found.size()
    return table[~table.operator.isin(unknown)].reset_index(drop=True)


def bases(reader: EngineReader) -> dict[str, StatePart]:
    """Return the base tables, by the names that ``state()`` shows."""
    return {h.operator: h for h in reader.route.engine.state_parts() if h.base}


def base_rows(reader: EngineReader, part: StatePart, since: int | None = None) -> pd.DataFrame:
    """Return the rows of a base table in files, with their diffs, or only the changes after micro-batch ``since``.

    Raises ViewError if the table is in PostgreSQL, and TimeError if files of these epochs were merged with later ones.
    """
    from .base_spark import SparkBaseTables

    where = reader.checkpoint.parents[1]
    if part.relation.lower() in _given(reader):
        raise ViewError(
            f"{where}: the base table of {part.relation} is in PostgreSQL, not in the checkpoint; call state() on the "
            "running engine"
        )
    upto, after = _epoch(reader, reader.batch), -1 if since is None else _epoch(reader, since)
    table = _table(reader, part)
    merged = [f for f in table.files for epoch in (upto, after) if f.first <= epoch < f.last]
    if merged:
        raise TimeError(
            f"{where}: epochs {merged[0].first} to {merged[0].last} of the base table {part.relation} were merged, so "
            f"its rows after micro-batch {reader.batch} can no longer be read; omit batch, or pass a later one"
        )
    rows = SparkBaseTables(reader.session, lambda _: table, {part.relation: table.schema}, table.folder)
    return rows.state_rows(part, f"batch > {after} AND batch <= {upto}")


def _epoch(reader: EngineReader, batch: int) -> int:
    """Return the last epoch whose changes the base tables contained after a micro-batch."""
    entries = Inbox(reader.checkpoint.parent, 0).entries[: batch + 1]
    return max((e.epoch for e in entries if not e.void), default=0)


def _given(reader: EngineReader) -> set[str]:
    """Return the names, in lower case, of the relations whose base tables are in PostgreSQL."""
    return {name.lower() for name in home.read(reader.checkpoint.parents[1], "views")["options"]["base"]}


def filled(reader: EngineReader, operator: str) -> list[tuple[Any, ...]]:
    """Implement `sharedstate_lite.spark.filled`."""
    route: Any = reader.route
    assert isinstance(route, Placement)
    stage, known = route.find_filled(operator)
    strings = Dictionary()
    words = decode_keys(reader.blobs(stage, [part := f"{operator} keys"])[part], known.types, strings)
    return sorted_keys(words, known.types, strings)


def _table(reader: EngineReader, part: StatePart) -> ParquetTable:
    from .base_parquet import ParquetTable

    relations: dict[str, Schema] = reader.route.engine.catalog.relations
    folder = reader.checkpoint.parent / "base" / str(list(relations).index(part.relation))
    return ParquetTable(reader.session, folder, part.relation, relations[part.relation], read_only=True)
