"""Base tables that a caller names when an engine is made, as data: nothing is opened before the engine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plan.view import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...postgres import Server
    from .base_postgres import PostgresTable


@dataclass(frozen=True)
class Postgres:
    """A table of PostgreSQL as a relation's base table; ``where`` is a Server of the kit or a DSN.

    It has the relation's columns, ``diff``, and ``batch``, the epoch of each row. The engine
    makes it if it is not there, and writes each epoch to it; with ``append=False`` others do,
    before ``step`` is told of it. See :mod:`.base_postgres`, also for what goes wrong without ``batch``.
    """

    where: Server | str
    table: str
    batch: str = "batch"
    diff: str = "diff"
    append: bool = True

    def opened(self, session: SparkSession, relation: str, schema: Schema, new: bool = False) -> PostgresTable:
        """The table, made if it is not there; ``new`` says that the engine is.

        Raises RelationError for one that lacks a column, and for one that has another engine's epochs.
        """
        from .base_postgres import PostgresTable

        return PostgresTable(self, session, relation, schema, new)


__all__ = ["Postgres"]
