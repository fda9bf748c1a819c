"""A base table in PostgreSQL, read over JDBC: the filters of an upquery run there, and only the rows asked for come.

    ss.spark.engine("partial", views, session, base={"visit": ss.spark.Postgres(server, "visit")})

The table has the relation's columns, ``batch``, the epoch that brought the row, and
``diff`` (+1 for a row that came, -1 for one that went). The engine makes it if it is not
there, and appends each epoch. Rows that were there before have batch 0.

With ``append=False`` others write the table, and ``step`` is told the same rows: those of
epoch e have to be in the table, under ``batch`` e, before ``step`` is called for it. A table
without such a column is refused. Its answers could not be told to be before or after a
change that is on its way, so the change would be counted twice or not at all (rule 18).

The rows stay in PostgreSQL when the engine is checkpointed, and are the same table when
it is restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...changelog.convert import ARROW
from ...errors import RelationError
from ...plan.nodes import Schema
from ...postgres.rows import connected, identifier, write
from .base_given import Postgres
from .base_rows import SPARK, BaseTable
from .jdbc import jdbc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PostgresTable(BaseTable):
    """See the module."""

    def __init__(self, place: Postgres, session: SparkSession, relation: str, schema: Schema, new: bool) -> None:
        self.place, self.session, self.schema = place, session, schema
        names = [*(c.name for c in schema), place.diff, place.batch]
        # Spark compares names without case.
        columns = {c.name.lower() for c in schema}
        twice = {name for name in (place.diff, place.batch) if name.lower() in columns}
        if twice or place.diff.lower() == place.batch.lower():
            raise RelationError(
                f"{relation}: {', '.join(sorted(twice or {place.diff}))} would be two columns of table {place.table}; "
                "name others with Postgres(..., batch=, diff=)"
            )
        with connected(place.where) as connection:
            there = connection.execute("SELECT to_regclass(%s)", (self._name(connection),)).fetchall()[0][0]
        if there is None:
            if not place.append:
                raise RelationError(
                    f"{relation}: there is no table {place.table}, and append=False leaves it to others"
                )
            types = [*(ARROW[c.type] for c in schema), pa.int64(), pa.int64()]
            write(place.where, place.table, pa.table([pa.array([], t) for t in types], names=names))
        found = set(jdbc(session, place.where, place.table).columns)
        missing = [n for n in names if n not in found]
        if place.batch in missing:
            raise RelationError(
                f"{relation}: table {place.table} has no column {place.batch}; it needs the epoch of each row, or an "
                f"answer could not be told to be before or after a change that is on its way (rule 18)"
            )
        if missing:
            raise RelationError(f"{relation}: table {place.table} lacks {', '.join(missing)}")
        if new and place.append and (last := self._last()) > 0:
            # Whose epochs these are goes on with them; this engine would take them back.
            raise RelationError(
                f"{relation}: table {place.table} has rows of epochs up to {last}, and this engine is new; restore the "
                "engine that wrote them, name another table, or set their batch to 0 to begin with these rows"
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
                # Both names are quoted by the driver.
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
            query = f"SELECT count(*), pg_total_relation_size(%s::regclass) FROM {name}"
            rows, size = connection.execute(query.encode(), (name,)).fetchall()[0]
            return int(rows), int(size)

    def _name(self, connection: object) -> str:
        return identifier(self.place.table).as_string(connection)  # type: ignore[arg-type]


__all__ = ["PostgresTable"]
