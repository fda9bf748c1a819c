"""Base tables of partial state. They answer an upquery if its key is not filled in any operator on the way.

They are outside the bins. `BaseTables` is the interface that the driver uses. `base_spark` implements it with Spark
jobs that read Parquet files (`base_parquet`) or a table in PostgreSQL (`base_postgres`).

Each row has the number of its epoch (``batch``). A response must be as of one epoch. It contains exactly the changes
that were sent to the asking operator before the response, and no later ones (rule 18).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ...engine.state_tables import StatePart
from ...storage.batch import Delta
from ...storage.encoding import Dictionary
from ..rounds.message import BinMessage

if TYPE_CHECKING:
    from .messages import BaseUpquery
    from .placement import Placement


class BaseTables(ABC):
    """The base tables of one engine."""

    @abstractmethod
    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Dictionary) -> None:
        """Write the net changes of an epoch, which are given by relation."""

    @abstractmethod
    def take_back(self, epoch: int) -> None:
        """Remove the changes of all epochs after ``epoch``."""

    @abstractmethod
    def count(self, relation: str, rows: Delta, epoch: int, strings: Dictionary) -> Delta:
        """Return those of ``rows`` that are in the table after ``epoch``, with their multiplicities as diffs."""

    @abstractmethod
    def answer(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage], placement: Placement
    ) -> list[BinMessage] | Path:
        """Answer upqueries as of ``epoch``.

        Returns ``messages`` and the responses as the input of the next micro-batch: a list, or a file for the inbox.
        """

    @abstractmethod
    def size(self, relation: str) -> tuple[int, int]:
        """Return the number of distinct rows of a relation, and the size in bytes of all that is stored."""

    @abstractmethod
    def state_rows(self, part: StatePart) -> pd.DataFrame:
        """Return the rows of a base table with their diffs, as ``state(operator)`` shows them."""

    def compact(self) -> None:  # noqa: B027  (tables in a database do not need this)
        """Merge the files of each table."""

    def close(self) -> None:  # noqa: B027
        """Release the resources of the tables."""
