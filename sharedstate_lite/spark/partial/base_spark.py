"""Base tables that Spark reads. Spark's tasks answer the upqueries, so the rows do not pass through the driver.

A `BaseTable` has one row per change. Its columns are ``c0``, ``c1``, ... in the relation's order, ``diff``, and
``batch``, which is the epoch. A response filters by ``batch <= epoch`` and by the keys. The Parquet reader or the
database evaluates these filters, so Spark reads few other rows. Each task writes its rows as messages into the input
file of the next micro-batch.
"""

from __future__ import annotations

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...changelog import convert, read_tables
from ...engine import state_tables
from ...engine.state_tables import StatePart
from ...plan.nodes import Schema, Type
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ..rounds.inbox import to_table as message_table
from ..rounds.message import BinMessage
from .base import BaseTables
from .messages import BaseUpquery, response_heads, response_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from .placement import Placement

FILTER_VALUES = 1_000
"""A filter lists at most this many values. If there are more, Spark reads all rows and joins them with the keys."""
SPARK = {kind: "TIMESTAMP_NTZ" if kind is Type.TIMESTAMP else kind.value for kind in Type}
"""The name of each type in Spark SQL."""


class BaseTable(ABC):
    """The stored changes of one relation."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return all changes, with the columns c0, c1, ..., diff and batch."""

    @abstractmethod
    def append(self, rows: pa.Table, epoch: int) -> None:
        """Write the changes of an epoch, with the columns c0, c1, ... and diff."""

    @abstractmethod
    def take_back(self, epoch: int) -> None:
        """Remove the changes of all epochs after ``epoch``."""

    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Return the number of distinct rows, and the size in bytes of all changes."""

    def merge(self, whole: bool = False) -> None:  # noqa: B027  (tables in a database do not need this)
        """Merge small files, or all files if ``whole``."""


class SparkBaseTables(BaseTables):
    """The base tables of one engine, read by Spark's tasks; see the module's docstring.

    ``open_table`` opens the table of a relation.
    """

    def __init__(
        self, session: SparkSession, open_table: Callable[[str], BaseTable], schemas: Mapping[str, Schema], folder: Path
    ) -> None:
        self.session, self._open_table, self.schemas, self.folder = session, open_table, schemas, folder
        self.tables = {relation: open_table(relation) for relation in schemas}
        self.bins = 0
        self.make: Callable[[], Any] = lambda: None

    def table(self, relation: str) -> BaseTable:
        """Return the table of a relation. If the relation was declared later, open the table first."""
        if relation not in self.tables:
            self.tables[relation] = self._open_table(relation)
        return self.tables[relation]

    # --- writing ------------------------------------------------------------------

    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Dictionary) -> None:
        for relation, delta in deltas.items():
            if len(delta.diffs):
                self.table(relation).merge()
                self.table(relation).append(_to_table(self.schemas[relation], delta, strings), epoch)

    def take_back(self, epoch: int) -> None:
        for table in self.tables.values():
            table.take_back(epoch)

    def compact(self) -> None:
        for table in self.tables.values():
            table.merge(whole=True)

    # --- reading ------------------------------------------------------------------

    def rows(self, relation: str, columns: tuple[int, ...], keys: Words, epoch: int, strings: Dictionary) -> DataFrame:
        """Return the changes up to ``epoch`` to rows whose ``columns`` have one of ``keys``, words int64[k, q]."""
        from pyspark.sql import functions as f

        frame = self.table(relation).frame().where(f.col("batch") <= epoch)
        if not columns:
            return frame
        types = [self.schemas[relation][i].type for i in columns]
        lines = [convert.to_arrow(w, kind, strings) for w, kind in zip(keys, types, strict=True)]
        # Filters on two columns also match a row whose values come from two different keys.
        exact = len(columns) == 1
        for i, line, kind in zip(columns, lines, types, strict=True):
            values = line.unique().to_pylist()
            if len(values) <= FILTER_VALUES:
                frame = frame.where(_is_in(f.col(f"c{i}"), values, kind))
            else:
                exact = False
        if exact:
            return frame
        schema = ", ".join(f"k{i} {SPARK[t]}" for i, t in zip(columns, types, strict=True))
        wanted = self.session.createDataFrame(pa.table(lines, names=[f"k{i}" for i in columns]), schema)
        same = [frame[f"c{i}"].eqNullSafe(wanted[f"k{i}"]) for i in columns]
        return frame.join(f.broadcast(wanted), reduce(lambda a, b: a & b, same), "left_semi")

    def count(self, relation: str, rows: Delta, epoch: int, strings: Dictionary) -> Delta:
        columns = tuple(range(len(self.schemas[relation])))
        found = self.rows(relation, columns, rows.rows, epoch, strings)
        return _to_delta(_run(netted(found, len(columns)).toArrow), self.schemas[relation], relation, strings)

    def answer(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage], placement: Placement
    ) -> list[BinMessage] | Path:
        from ..rounds.operator import WIRE  # imported late, because tasks import this module but do not need WIRE

        strings = upqueries[0].strings
        known = [*messages, *response_heads(upqueries, placement, strings)]
        frames = self.session.createDataFrame(message_table(known))
        groups: dict[tuple[str, tuple[int, ...]], list[BaseUpquery]] = {}
        for upquery in upqueries:
            edge = placement.edges[upquery.edge]
            groups.setdefault((edge.source.name, edge.ask), []).append(upquery)
        for (relation, columns), group in groups.items():
            keys = np.concatenate([upquery.keys for upquery in group], axis=1)
            keys = np.unique(keys, axis=1) if len(keys) else keys[:, :1]
            found = self.rows(relation, columns, keys, epoch, strings)
            frames = frames.union(found.drop("batch").mapInArrow(self._task(relation, group, placement), WIRE))
        target = self.folder / "answers"
        _run(lambda: frames.coalesce(1).write.mode("overwrite").parquet(str(target)))
        return next(target.glob("part-*.parquet"))

    def _task(
        self, relation: str, upqueries: list[BaseUpquery], placement: Placement
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function that tasks run to turn rows of a base table into messages to the bins that need them."""
        make, bins, schema = self.make, self.bins, self.schemas[relation]
        encoded = [_encode(upquery, placement) for upquery in upqueries]

        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = list(batches)
            if parts:
                strings = Dictionary()
                rows = _to_delta(pa.Table.from_batches(parts), schema, relation, strings)
                asked = [_decode(each, strings) for each in encoded]
                yield from message_table(response_rows(asked, rows, make(), bins, strings)).to_batches()

        return answer

    # --- showing ------------------------------------------------------------------

    def size(self, relation: str) -> tuple[int, int]:
        return self.table(relation).size()

    def state_rows(self, part: StatePart, condition: str = "true") -> pd.DataFrame:
        strings, frame = Dictionary(), self.table(part.relation).frame().where(condition).drop("batch")
        rows = _to_delta(_run(frame.toArrow), self.schemas[part.relation], part.relation, strings)
        shown = Arrangement(part.arrangement.name, part.arrangement.layout)
        shown.insert(rows.rows, rows.diffs, strings)
        filled = StatePart(part.operator, part.relation, part.kind, shown, part.schema, part.bill)
        return state_tables.state_rows(part.operator, [filled], strings)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder / "answers")


def columns_of(schema: Schema) -> str:
    """Return the columns of a base table as a schema in Spark SQL."""
    return ", ".join([*(f"c{i} {SPARK[c.type]}" for i, c in enumerate(schema)), "diff BIGINT", "batch BIGINT"])


def netted(frame: DataFrame, columns: int) -> DataFrame:
    """Return the distinct rows of a base table with ``columns`` columns, each with the sum of its diffs, if not 0."""
    from pyspark.sql import functions as f

    return frame.groupBy(*(f"c{i}" for i in range(columns))).agg(f.sum("diff").alias("diff")).where("diff <> 0")


def _run(job: Callable[[], Any]) -> Any:
    """Run a job that reads base tables, and retry it if it fails. Raises Error if all attempts fail."""
    from ..rounds.errors import retry

    return retry(job, "a base table cannot be read")


def _is_in(column: Column, values: list[Any], kind: Type) -> Column:
    """Return the condition that a column has one of some values. None stands for NULL."""
    from pyspark.sql import functions as f

    some = [v for v in values if v is not None]
    if kind in (Type.DATE, Type.TIMESTAMP):
        # Pass the values as strings, because PySpark formats years before 1000 with too few digits.
        literals: list[Any] = [f.lit(str(v)).cast(SPARK[kind]) for v in some]
    else:
        literals = [f.lit(v) for v in some]
    if len(some) == len(values):
        return column.isin(literals)
    return column.isNull() | column.isin(literals) if some else column.isNull()


def _to_table(schema: Schema, delta: Delta, strings: Dictionary) -> pa.Table:
    lines = [convert.to_arrow(w, c.type, strings) for w, c in zip(delta.rows, schema, strict=True)]
    return pa.table([*lines, pa.array(delta.diffs)], names=[*(f"c{i}" for i in range(len(lines))), "diff"])


def _to_delta(rows: pa.Table, schema: Schema, relation: str, strings: Dictionary) -> Delta:
    if not rows.num_rows:
        return Delta.empty(len(schema))
    return read_tables.table(rows.rename_columns([*(c.name for c in schema), "diff"]), schema, relation, strings)[0]


def _encode(upquery: BaseUpquery, placement: Placement) -> tuple[Any, ...]:
    """Encode an upquery for another process, in which the codes of strings are different."""
    edge = placement.edges[upquery.edge]
    types = [edge.source.plan.schema[i].type for i in edge.ask]
    blob = wire.encode(list(upquery.keys), types, upquery.strings)
    return upquery.edge, upquery.bin, upquery.tag, upquery.asked, upquery.clock, upquery.keys.shape, blob


def _decode(encoded: tuple[Any, ...], strings: Dictionary) -> BaseUpquery:
    *head, shape, blob = encoded
    keys = wire.decode(blob, strings) if shape[0] else np.empty(shape, dtype=np.int64)
    edge, number, tag, asked, clock = head
    return BaseUpquery(edge, number, tag, asked, clock, keys, strings)
