"""Base tables of partial state: where an upquery ends if no operator has its key filled.

They are outside the bins. `BaseTables` is what the driver needs of them; `base_spark` implements it with Spark jobs
over Parquet files (`base_parquet`) or a table in PostgreSQL (`base_postgres`).

Each row has the number of the epoch (``batch``) that brought it. A response must be as of one epoch: it contains the
changes that the asking operator was sent before it, and none that are sent later (rule 18).
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
from ..bins.messages import BinMessage

if TYPE_CHECKING:
    from .messages import BaseUpquery
    from .placement import Placement


class BaseTables(ABC):
    """The base tables of one engine."""

    @abstractmethod
    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Dictionary) -> None:
        """Write the net changes of an epoch, by relation."""

    @abstractmethod
    def take_back(self, epoch: int) -> None:
        """Remove the changes of all epochs after ``epoch``."""

    @abstractmethod
    def count(self, relation: str, rows: Delta, epoch: int, strings: Dictionary) -> Delta:
        """Some rows with their multiplicities after ``epoch`` as diffs; rows that are absent are left out."""

    @abstractmethod
    def answer(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage], placement: Placement
    ) -> list[BinMessage] | Path:
        """``messages`` and the responses to some upqueries as of ``epoch``: as a list, or as a file of the inbox."""

    @abstractmethod
    def size(self, relation: str) -> tuple[int, int]:
        """The stored rows and bytes of a relation."""

    @abstractmethod
    def state_rows(self, part: StatePart) -> pd.DataFrame:
        """The rows of a base table with their diff, as ``state(operator)`` shows them."""

    def compact(self) -> None:  # noqa: B027  (a database has nothing to merge)
        """Merge files."""

    def close(self) -> None:  # noqa: B027
        """Release what the tables use."""
