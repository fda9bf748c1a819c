"""Statistics of a table, from one pass over its rows: what the prediction of `sharedstate price` begins with.

The rows are netted: a row that was added and removed is none, and equal rows are one row with its copies.

>>> import numpy as np
>>> from sharedstate_lite.plan.nodes import Column, Type
>>> from sharedstate_lite.storage.encoding import NULL, Dictionary
>>> visit = Statistics.of((Column("length", Type.INT),), np.array([[60, 50, NULL]]), np.array([1, 2, 1]), Dictionary())
>>> visit.rows, visit.columns[0].distinct, visit.columns[0].nulls
(3, 2, 1)

Source: Haas et al., Sampling-based estimation of the number of distinct values of an attribute, VLDB 1995 (statistics
and a sample); the most frequent values are those of PostgreSQL's pg_statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..changelog.changes import frame, value_order
from ..plan.nodes import Column, Schema
from ..storage.encoding import NULL, Dictionary, Words

SAMPLE, FREQUENT = 2_000, 100
"""How many rows a sample has, and how many of the most frequent values of a column are kept."""


@dataclass(frozen=True)
class ColumnStatistics:
    """Of one column: how many values it has, how many rows with NULL, and its most frequent values with their rows.

    ``edges`` are its least and its greatest value, int64[2], or int64[0] if all are NULL.
    """

    column: Column
    distinct: int
    nulls: int
    frequent: Words
    counts: Words
    edges: Words

    @classmethod
    def of(cls, column: Column, words: Words, strings: Dictionary) -> ColumnStatistics:
        """Return the statistics of a column int64[n]."""
        there = words[words != NULL]
        kinds, counts = np.unique(there, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:FREQUENT]
        edges = kinds[value_order([column], kinds[None], strings)][[0, -1]] if len(kinds) else kinds
        return cls(column, len(kinds), len(words) - len(there), kinds[most], counts[most], edges)

    def as_json(self, strings: Dictionary) -> dict[str, Any]:
        """Return the statistics as an object. Dates and times are texts."""
        values = [_values(self.column, words, strings) for words in (self.edges, self.frequent)]
        least, greatest = values[0] or (None, None)
        frequent = [list(pair) for pair in zip(values[1], self.counts.tolist(), strict=True)]
        return {
            "name": self.column.name,
            "type": self.column.type.value,
            "distinct": self.distinct,
            "nulls": self.nulls,
            "least": least,
            "greatest": greatest,
            "frequent": frequent,
        }


def _values(column: Column, words: Words, strings: Dictionary) -> list[Any]:
    found = frame((column,), words[None], strings).iloc[:, 0].tolist()
    return [value if isinstance(value, str | bool | int | float) else str(value) for value in found]


@dataclass(frozen=True)
class Statistics:
    """Of one table: its netted rows int64[k, n] with their copies int64[n], its columns, and the places of a sample."""

    schema: Schema
    words: Words
    copies: Words
    columns: tuple[ColumnStatistics, ...]
    sample: Words

    @classmethod
    def of(cls, schema: Schema, words: Words, copies: Words, strings: Dictionary, seed: int = 0) -> Statistics:
        """Return the statistics of netted rows. The sample is uniform, and has all rows if there are few."""
        columns = tuple(ColumnStatistics.of(c, line, strings) for c, line in zip(schema, words, strict=True))
        drawn = np.random.default_rng(seed).permutation(len(copies))[:SAMPLE]
        return cls(schema, words, copies, columns, np.sort(drawn))

    @property
    def rows(self) -> int:
        """The number of netted rows."""
        return len(self.copies)
