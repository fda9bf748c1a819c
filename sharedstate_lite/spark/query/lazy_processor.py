"""A stateful operator that loads the kit only where it processes rows, so that queries start fast.

When a query starts, Spark runs a new Python for each stateful operator, one after the other, only to ask for the
operator's state variables. If the operator's class belonged to the kit, each of these processes would import the kit,
pandas and Arrow. `LazyProcessor` travels by value in the query's own bytes and needs only PySpark. Its work is
unpickled in the process that has rows.
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
        """Process the rows of one key in one micro-batch; ``states`` are Spark's state variables by name."""

    def close(self) -> None:
        """Called after the last rows of a micro-batch."""


class LazyProcessor(StatefulProcessor):
    """An operator with state variables: ``values`` name -> schema, ``maps`` name -> schemas of key and value."""

    def __init__(self, work: Work, values: Mapping[str, StructType], maps: Mapping[str, tuple[StructType, StructType]]):
        self._pickled: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._work: Any = None
        self._values, self._maps = values, maps

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self._states: dict[str, Any] = {name: handle.getValueState(name, of) for name, of in self._values.items()}
        self._states |= {name: handle.getMapState(name, key, of) for name, (key, of) in self._maps.items()}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """See `Work.rows`."""
        if self._work is None:
            self._work = pickle.loads(self._pickled)
        yield from self._work.rows(self._states, key, rows)

    def close(self) -> None:
        """See `Work.close`."""
        if self._work is not None:
            self._work.close()
