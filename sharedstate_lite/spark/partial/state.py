"""What is at the checkpoint of a partial engine beside Spark's state store: its base tables; and which keys are filled.

The state reader shows what is in the bins, after kill -9 too: ``filled(location, "result")`` reads the sets of
filled keys there. Base tables are files beside it, or in PostgreSQL, which a checkpoint does not reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import TimeError, ViewError
from ...plan.nodes import Schema
from ...storage.encoding import Strings
from ..bins import blueprint, tables
from ..query.inbox import Inbox
from .keys import joined, order, tuples
from .placement import Placement

if TYPE_CHECKING:
    from ...engine.state_tables import StatePart
    from ..driver.store import StateReader


def state(reader: StateReader, operator: str | None) -> pd.DataFrame:
    """See :func:`..driver.store.state`. A base table that cannot be told, see :func:`base_rows`, is not in the list."""
    places = bases(reader)
    if operator in places:
        return base_rows(reader, places[operator])
    if operator is not None:
        stage, place = tables.find(reader.route, operator)
        return tables.state_rows(place, reader.blobs(stage, operator))
    table = tables.state_table(reader.route, reader.heads())
    given, epoch, untold = _given(reader), _epoch(reader, reader.batch), []
    for name, place in places.items():
        file = _folder(reader, place.relation) / "files.json"
        files = json.loads(file.read_text())["files"] if file.exists() else []
        if place.relation.lower() in given or any(f["first"] <= epoch < f["last"] for f in files):
            untold.append(name)
        mine = table.operator == name
        for column in ("rows", "bytes"):
            table.loc[mine, column] = sum(f[column] for f in files if f["last"] <= epoch)
    return table[~table.operator.isin(untold)].reset_index(drop=True)


def bases(reader: StateReader) -> dict[str, StatePart]:
    """The base tables, by what ``state()`` calls them."""
    return {h.operator: h for h in reader.route.engine.state_parts() if h.base}


def base_rows(reader: StateReader, place: StatePart, since: int | None = None) -> pd.DataFrame:
    """The rows of a base table in files, with their diff; or only what came ``since`` an earlier micro-batch.

    Raises ViewError for a table in PostgreSQL, TimeError for files that later epochs have been merged into.
    """
    from .base_parquet import ParquetTable
    from .base_rows import SparkBaseTables

    schema: Schema = reader.route.engine.catalog.schema(place.relation)
    folder, where = _folder(reader, place.relation), reader.checkpoint.parents[1]
    if place.relation.lower() in _given(reader):
        raise ViewError(
            f"{where}: the base table of {place.relation} is in PostgreSQL, so no part of a checkpoint; the state() of "
            "the engine itself shows it"
        )
    upto, after = _epoch(reader, reader.batch), -1 if since is None else _epoch(reader, since)
    table = ParquetTable(reader.session, folder, place.relation, schema, look=True)
    merged = [f for f in table.files for epoch in (upto, after) if f.first <= epoch < f.last]
    if merged:
        raise TimeError(
            f"{where}: epochs {merged[0].first} to {merged[0].last} of the base table {place.relation} were merged "
            f"since, so it is not known any more as of micro-batch {reader.batch}; leave out batch, or take a later one"
        )
    rows = SparkBaseTables(reader.session, lambda _: table, {place.relation: schema}, folder)
    return rows.shown(place, f"batch > {after} AND batch <= {upto}")


def _epoch(reader: StateReader, batch: int) -> int:
    """The epoch whose rows base tables had brought by the end of a micro-batch."""
    entries = Inbox(reader.checkpoint.parent, 0).entries[: batch + 1]
    return max((e.epoch for e in entries if not e.void), default=0)


def _given(reader: StateReader) -> set[str]:
    """The relations whose base tables are in PostgreSQL, in lower case."""
    return {name.lower() for name in blueprint.read(reader.checkpoint.parents[1])["options"]["base"]}


def filled(reader: StateReader, operator: str) -> list[tuple[Any, ...]]:
    """The filled keys, sorted, of an operator that keeps them."""
    route: Any = reader.route
    assert isinstance(route, Placement)
    stage, _, known = route.filled(operator)
    strings = Strings()
    words = joined(reader.blobs(stage, f"{operator} keys"), known.types, strings)
    return sorted(tuples(words, known.types, strings), key=order)


def _folder(reader: StateReader, relation: str) -> Path:
    relations = list(reader.route.engine.catalog.relations)
    return reader.checkpoint.parent / "base" / str(relations.index(relation))


__all__ = ["base_rows", "bases", "filled", "state"]
