"""A base table in PostgreSQL, read over JDBC. PostgreSQL evaluates an upquery's filters and sends only matching rows.

    ss.spark.engine("partial", views, session, base={"visit": ss.spark.Postgres(server, "visit")})

The table has the relation's columns, ``diff`` (+1 for an inserted row, -1 for a deleted one), and ``batch``, the epoch
of the change. The engine creates the table if it does not exist, and appends each epoch. Rows that exist before the
engine's first epoch must have batch 0.

With ``append=False``, other programs write to the table. They first write the changes of epoch e with ``batch`` set
to e, and then call ``step`` with the same changes. A table without the column ``batch`` is rejected. Without this
column, a response could include changes that the operator that sent the upquery has not received yet, or omit changes
that it has received. Such changes would be applied twice or not at all (rule 18).

A checkpoint does not contain the rows. A restored engine uses the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...changelog.convert import ARROW
from ...errors import RelationError
from ...plan.nodes import Schema
from ...postgres.rows import connected, identifier, write
from .base_spark import SPARK, BaseTable
from .jdbc import jdbc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...postgres import Server


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL table that is the base table of a relation. A connection is opened only when an engine uses it.

    ``where`` is one of the kit's Servers or a DSN. ``batch`` and ``diff`` are the names of the columns with the epoch
    and the diff. With ``append=False``, other programs write to the table; see the module's docstring.
    """

    where: Server | str
    table: str
    batch: str = "batch"
    diff: str = "diff"
    append: bool = True


class PostgresTable(BaseTable):
    """A base table in PostgreSQL; see the module's docstring. Raises RelationError if it does not fit the relation."""

    def __init__(self, place: Postgres, session: SparkSession, relation: str, schema: Schema, new: bool) -> None:
        self.place, self.session, self.schema = place, session, schema
        names = [*(c.name for c in schema), place.diff, place.batch]
        # Spark's column names are case-insensitive.
        columns = {c.name.lower() for c in schema}
        twice = {name for name in (place.diff, place.batch) if name.lower() in columns}
        if twice:
            raise RelationError(
                f"{relation}: table {place.table} would have two columns named {', '.join(sorted(twice))}; choose "
                "different names with Postgres(..., batch=, diff=)"
            )
        with connected(place.where) as connection:
            there = connection.execute("SELECT to_regclass(%s)", (self._name(connection),)).fetchall()[0][0]
        if there is None:
            if not place.append:
                raise RelationError(f"{relation}: table {place.table} does not exist; create it, or omit append=False")
            types = [*(ARROW[c.type] for c in schema), pa.int64(), pa.int64()]
            write(place.where, place.table, pa.table([pa.array([], t) for t in types], names=names))
        found = set(jdbc(session, place.where, place.table).columns)
        missing = [n for n in names if n not in found]
        if place.batch in missing:
            raise RelationError(
                f"{relation}: table {place.table} has no column {place.batch}; add this column, with the epoch of each "
                f"row, because an upquery must not see changes of later epochs (rule 18)"
            )
        if missing:
            raise RelationError(
                f"{relation}: table {place.table} does not have {', '.join(missing)}; add the missing columns"
            )
        if new and place.append and (last := self._last()) > 0:
            # The rows belong to another engine. A new engine would delete them, because their epochs are after its own.
            raise RelationError(
                f"{relation}: table {place.table} has rows of epochs up to {last}, but this engine is new; restore the "
                "engine that wrote them, use another table, or set their batch to 0 to start with these rows"
            )

    def frame(self) -> DataFrame:
        from pyspark.sql import functions as f

        rows = jdbc(self.session, self.place.where, self.place.table)
        named = [f.col(f"`{c.name}`").cast(SPARK[c.type]).alias(f"c{i}") for i, c in enumerate(self.schema)]
        more = ((self.place.diff, "diff"), (self.place.batch, "batch"))
        return rows.select(*named, *(f.col(f"`{n}`").cast("bigint").alias(new) for n, new in more))

    def append(self, rows: pa.Table, epoch: int) -> None:
        if self.place.append:
            rows = rows.append_column("batch", pa.array([epoch] * rows.num_rows, pa.int64()))
            names = [*(c.name for c in self.schema), self.place.diff, self.place.batch]
            write(self.place.where, self.place.table, rows.rename_columns(names), append=True)

    def take_back(self, epoch: int) -> None:
        if self.place.append:
            with connected(self.place.where) as connection:
                batch = identifier(self.place.batch).as_string(connection)
                # psycopg has quoted both names.
                query = f"DELETE FROM {self._name(connection)} WHERE {batch} > %s"
                connection.execute(query.encode(), (epoch,))

    def _last(self) -> int:
        with connected(self.place.where) as connection:
            batch = identifier(self.place.batch).as_string(connection)
            query = f"SELECT coalesce(max({batch}), 0) FROM {self._name(connection)}"
            return int(connection.execute(query.encode()).fetchall()[0][0])

    def size(self) -> tuple[int, int]:
        with connected(self.place.where) as connection:
            name = self._name(connection)
            *by, diff = (identifier(n).as_string(connection) for n in (*(c.name for c in self.schema), self.place.diff))
            net = f"SELECT 1 FROM {name} GROUP BY {', '.join(by)} HAVING sum({diff}) <> 0"
            query = f"SELECT count(*), pg_total_relation_size(%s::regclass) FROM ({net}) AS net"
            rows, size = connection.execute(query.encode(), (name,)).fetchall()[0]
            return int(rows), int(size)

    def _name(self, connection: object) -> str:
        return identifier(self.place.table).as_string(connection)  # type: ignore[arg-type]
