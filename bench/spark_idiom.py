"""The shopping view as the manual's examples would write it: state a row at a time.

Two stateful operators in a chain. The first groups by product and keeps its category and,
in a MapState, how often each visit is there; the second groups by category and keeps
how often each length is there, and the greatest. Every change is one look-up and one update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGE = "category STRING, length INT, diff BIGINT"


class ByProduct(StatefulProcessor):
    """Visits and the category of one product, joined."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self.categories = handle.getMapState("categories", "category STRING", "count BIGINT")
        self.visits = handle.getMapState("visits", "user STRING, length INT", "count BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Each change of one side with what is there on the other."""
        out: list[tuple[Any, ...]] = []
        for frame in rows:
            for category, user, length, diff in zip(
                frame["category"], frame["user"], frame["length"], frame["diff"], strict=True
            ):
                if isinstance(category, str):
                    _add(self.categories, (category,), int(diff))
                    out += [(category, v[1], int(diff) * n[0]) for v, n in self.visits.iterator()]
                else:
                    _add(self.visits, (user, int(length)), int(diff))
                    out += [(c[0], int(length), int(diff) * n[0]) for c, n in self.categories.iterator()]
        yield pd.DataFrame(out, columns=["category", "length", "diff"])

    def close(self) -> None:
        """Nothing is held."""


class ByCategory(StatefulProcessor):
    """The longest visit of one category."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self.lengths = handle.getMapState("lengths", "length INT", "count BIGINT")
        self.longest = handle.getValueState("longest", "length INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Count each length; where the greatest went, look for the next."""
        found = self.longest.get()
        best: int | None = None if found is None else found[0]
        for frame in rows:
            for length, diff in zip(frame["length"], frame["diff"], strict=True):
                left = _add(self.lengths, (int(length),), int(diff))
                if left and (best is None or length > best):
                    best = int(length)
                elif not left and length == best:
                    best = max((k[0] for k in self.lengths.keys()), default=None)
        if best is not None:
            self.longest.update((best,))
        elif found is not None:
            self.longest.clear()
        yield pd.DataFrame({"category": [key[0]], "longest": pd.array([best], dtype="Int32")})

    def close(self) -> None:
        """Nothing is held."""


def _add(state: Any, key: tuple[Any, ...], diff: int) -> int:
    there = state.getValue(key)
    count = (0 if there is None else int(there[0])) + diff
    if count:
        state.updateValue(key, (count,))
    else:
        state.removeKey(key)
    return count


def longest(info: DataFrame, visit: DataFrame) -> DataFrame:
    """The view's changes: category and its longest visit now, NULL where there is none."""
    empty = "CAST(NULL AS {}) AS {}"
    left = info.selectExpr("product", "category", empty.format("STRING", "user"), empty.format("INT", "length"), "diff")
    right = visit.selectExpr("product", empty.format("STRING", "category"), "user", "length", "diff")
    joined = (
        left.union(right)
        .groupBy("product")
        .transformWithStateInPandas(
            statefulProcessor=ByProduct(), outputStructType=CHANGE, outputMode="Update", timeMode="None"
        )
    )
    return joined.groupBy("category").transformWithStateInPandas(
        statefulProcessor=ByCategory(),
        outputStructType="category STRING, longest INT",
        outputMode="Update",
        timeMode="None",
    )


class ByRow(StatefulProcessor):
    """The count, sum and maximum of one key: a lookup and an update of a ValueState for each row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variable."""
        self.total = handle.getValueState("total", "n BIGINT, s BIGINT, most BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        """Update the state with each row, and emit it once."""
        n, s, most = 0, 0, 0
        for row in rows:
            n, s, most = self.total.get() or (0, 0, row.x)
            n, s, most = n + 1, s + row.x, max(most, row.x)
            self.total.update((n, s, most))
        yield Row(key=key[0], n=n, s=s, most=most)

    def close(self) -> None:
        """Nothing is held."""
