"""Base tables that a caller names when an engine is made, as data: nothing is opened before the engine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...postgres import Server


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


__all__ = ["Postgres"]
