"""Base tables beside the bins of partial state: what an upquery that finds nothing filled reads at last.

:class:`BaseTables` is all that the engine needs of them; :class:`SparkBaseTables` answers upqueries out
of rows that Spark reads, in Spark's own tasks, so that no row of a base table comes to the
driver. Where the rows are is said by :meth:`SparkBaseTables.frame`: :mod:`.base_parquet` keeps them as Parquet
files, :mod:`.basejdbc` reads a table of a database.

Whatever it is has for each row the number of the epoch (``batch``) that brought it, because an
answer has to be as of an epoch: it holds the changes that the asker was sent before it,
and none of those that come after (rule 18).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ...engine.state_tables import StatePart
from ...storage.batch import Delta
from ...storage.encoding import Strings
from ..bins.messages import BinMessage

if TYPE_CHECKING:
    from .messages import BaseUpquery
    from .placement import Placement


class BaseTables(ABC):
    """The base tables of one engine."""

    @abstractmethod
    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Strings) -> None:
        """Write an epoch's net changes."""

    @abstractmethod
    def take_back(self, epoch: int) -> None:
        """Forget all that is later than ``epoch``."""

    @abstractmethod
    def there(self, relation: str, rows: Delta, upto: int, strings: Strings) -> Delta:
        """How often each of some rows is there after epoch ``upto``: the rows, with their multiplicities as diffs."""

    @abstractmethod
    def answers(
        self, asked: list[BaseUpquery], upto: int, rest: list[BinMessage], places: Placement
    ) -> list[BinMessage] | Path:
        """``rest``, and what is there after epoch ``upto`` for those who asked: messages, or a file of them."""

    @abstractmethod
    def size(self, relation: str) -> tuple[int, int]:
        """Rows and bytes stored."""

    @abstractmethod
    def shown(self, place: StatePart) -> pd.DataFrame:
        """The rows of a base table with their diff, as ``state(operator)`` shows them."""

    def compact(self) -> None:  # noqa: B027  (not every store has something to merge)
        """Merge what can be merged."""

    def close(self) -> None:  # noqa: B027
        """Let go."""


__all__ = ["BaseTables"]
