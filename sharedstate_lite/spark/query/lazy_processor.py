"""A stateful operator that is quickly declared, for queries that are to start quickly.

Whenever a query starts, Spark runs a new Python for each of its stateful operators, one after the other, that
only asks the operator which state it has. An operator whose class is the kit's would have each of them import the
kit, pandas and Arrow, which takes longer than all the rest. So it is two here. :class:`Declared` travels with its
class in the query's own bytes, and needs nothing but PySpark; the work is unpickled where rows are.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pandas as pd

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Work(Protocol):
    """What an operator does with rows."""

    def rows(self, states: Mapping[str, Any], key: Any, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """One key's rows of one micro-batch. ``states``: Spark's state variables by name."""

    def close(self) -> None:
        """After a micro-batch's last rows."""


class Declared(StatefulProcessor):
    """An operator with these state variables: a schema for a value, schemas of key and value for a map."""

    def __init__(self, work: Work, values: Mapping[str, StructType], maps: Mapping[str, tuple[StructType, StructType]]):
        self._pickled: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._work: Any = None
        self._values, self._maps = values, maps

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self._states: dict[str, Any] = {name: handle.getValueState(name, of) for name, of in self._values.items()}
        self._states |= {name: handle.getMapState(name, key, of) for name, (key, of) in self._maps.items()}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """One key's rows of one micro-batch."""
        if self._work is None:
            self._work = pickle.loads(self._pickled)
        yield from self._work.rows(self._states, key, rows)

    def close(self) -> None:
        """After a micro-batch's last rows."""
        if self._work is not None:
            self._work.close()
