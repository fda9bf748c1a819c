"""Base tables that Spark reads: upqueries answered in Spark's tasks, from Parquet files or a table of a database.

A :class:`BaseTable` is where the rows of one relation are: columns ``c0``, ``c1``, ... in the relation's
order, ``diff``, and ``batch``, the epoch that brought the row. An answer reads
``batch <= b`` and the keys that were asked for, as filters, so that Parquet and databases can
leave out the rest; its rows go from the task that read them into the next micro-batch.
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
from ...storage.encoding import Strings, Words
from ..bins.messages import BinMessage
from ..query.inbox import table as rows_of
from .base import BaseTables
from .messages import BaseUpquery, answers, heads

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from .placement import Placement

FEW = 1_000
"""As many values are written into a filter; for more all rows are read, and joined with the keys."""
SPARK = {kind: "TIMESTAMP_NTZ" if kind is Type.TIMESTAMP else kind.value for kind in Type}


class BaseTable(ABC):
    """Where the rows of one relation are."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """All rows: c0, c1, ..., diff, batch."""

    @abstractmethod
    def append(self, rows: pa.Table, epoch: int) -> None:
        """Write the rows (c0, c1, ..., diff) of an epoch."""

    @abstractmethod
    def take_back(self, epoch: int) -> None:
        """Forget the rows of later epochs."""

    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Rows and bytes."""

    def merge(self, whole: bool = False) -> None:  # noqa: B027  (a database has nothing to merge)
        """Put small pieces together; all of them if ``whole``."""


class SparkBaseTables(BaseTables):
    """See the module. ``label`` gives for a bin's number what Spark groups it by."""

    def __init__(
        self, session: SparkSession, opened: Callable[[str], BaseTable], schemas: Mapping[str, Schema], folder: Path
    ) -> None:
        self.session, self._opened, self.schemas, self.folder = session, opened, schemas, folder
        self.tables: dict[str, BaseTable] = {}
        for relation in schemas:
            self.table(relation)
        self.label: Mapping[int, int] = {}
        self.make: Callable[[], Any] = lambda: None

    def table(self, relation: str) -> BaseTable:
        """Where a relation's rows are; one that was declared late has a table from now on."""
        if relation not in self.tables:
            self.tables[relation] = self._opened(relation)
        return self.tables[relation]

    # --- writing ------------------------------------------------------------------

    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Strings) -> None:
        for relation, delta in deltas.items():
            if len(delta.diffs):
                self.table(relation).merge()
                self.table(relation).append(_arrow(self.schemas[relation], delta, strings), epoch)

    def take_back(self, epoch: int) -> None:
        for each in self.tables.values():
            each.take_back(epoch)

    def compact(self) -> None:
        for each in self.tables.values():
            each.merge(whole=True)

    # --- reading ------------------------------------------------------------------

    def rows(self, relation: str, by: tuple[int, ...], keys: Words, upto: int, strings: Strings) -> DataFrame:
        """The rows of some keys (words int64[len(by), q]) as of an epoch; exactly.

        Values are written into filters, which files and databases understand; where that is not exact, or
        they are too many, the keys are joined as well.
        """
        from pyspark.sql import functions as f

        frame = self.table(relation).frame().where(f.col("batch") <= upto)
        if not by:
            return frame
        types = [self.schemas[relation][i].type for i in by]
        lines = [convert.to_arrow(w, kind, strings) for w, kind in zip(keys, types, strict=True)]
        exact = len(by) == 1
        for i, line, kind in zip(by, lines, types, strict=True):
            values = line.unique().to_pylist()
            if len(values) <= FEW:
                frame = frame.where(_any_of(f.col(f"c{i}"), values, kind))
            else:
                exact = False
        if exact:
            return frame
        declared_ = ", ".join(f"k{i} {SPARK[t]}" for i, t in zip(by, types, strict=True))
        wanted = self.session.createDataFrame(pa.table(lines, names=[f"k{i}" for i in by]), declared_)
        same = [frame[f"c{i}"].eqNullSafe(wanted[f"k{i}"]) for i in by]
        return frame.join(f.broadcast(wanted), reduce(lambda a, b: a & b, same), "left_semi")

    def there(self, relation: str, rows: Delta, upto: int, strings: Strings) -> Delta:
        from pyspark.sql import functions as f

        every = tuple(range(len(self.schemas[relation])))
        found = self.rows(relation, every, rows.rows, upto, strings)
        netted = found.groupBy(*(f"c{i}" for i in every)).agg(f.sum("diff").alias("diff"))
        return _delta(self._tried(netted.toArrow), self.schemas[relation], relation, strings)

    def answers(
        self, asked: list[BaseUpquery], upto: int, rest: list[BinMessage], places: Placement
    ) -> list[BinMessage] | Path:
        ahead = [*rest, *heads(asked, places, self._strings(asked), 0)]
        frames = self.session.createDataFrame(rows_of(m._replace(bin=self.label[m.bin]) for m in ahead))
        groups: dict[tuple[str, tuple[int, ...]], list[BaseUpquery]] = {}
        for each in asked:
            edge = places.edges[each.edge]
            groups.setdefault((edge.source.name, edge.ask), []).append(each)
        for (relation, by), mine in groups.items():
            keys = _together(mine)
            found = self.rows(relation, by, keys, upto, self._strings(asked))
            frames = frames.union(found.drop("batch").mapInArrow(self._sender(relation, mine, places), _wire()))
        target = self.folder / "answers"
        self._tried(lambda: frames.coalesce(1).write.mode("overwrite").parquet(str(target)))
        return next(target.glob("part-*.parquet"))

    @staticmethod
    def _tried(read: Callable[[], Any]) -> Any:
        """A job that reads base tables, again where a worker was killed. Raises Error for what fails each time."""
        from ..query.query import tried

        return tried(read, "a base table cannot be read")

    @staticmethod
    def _strings(asked: list[BaseUpquery]) -> Strings:
        return asked[0].strings

    def _sender(
        self, relation: str, asked: list[BaseUpquery], places: Placement
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What runs in the tasks: rows of a base table to the letters of those who asked for them."""
        make, label, schema = self.make, dict(self.label), self.schemas[relation]
        told = [_packed(each, places) for each in asked]
        bins = len(label)

        def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = list(batches)
            if parts:
                strings = Strings()
                rows = _delta(pa.Table.from_batches(parts), schema, relation, strings)
                mine = [_unpacked(each, strings) for each in told]
                out = answers(mine, rows, make(), bins, strings)
                yield from rows_of(m._replace(bin=label[m.bin]) for m in out).to_batches()

        return send

    # --- showing ------------------------------------------------------------------

    def size(self, relation: str) -> tuple[int, int]:
        return self.table(relation).size()

    def shown(self, place: StatePart, which: str = "true") -> pd.DataFrame:
        strings, frame = Strings(), self.table(place.relation).frame().where(which).drop("batch")
        rows = _delta(self._tried(frame.toArrow), self.schemas[place.relation], place.relation, strings)
        shown = Arrangement(place.arrangement.name, place.arrangement.layout)
        shown.insert(rows.rows, rows.diffs, strings)
        of = StatePart(place.operator, place.relation, place.kind, shown, place.schema, base=True)
        return state_tables.state_rows(place.operator, [of], strings)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder / "answers")


def declared(schema: Schema) -> str:
    """The columns of a table as Spark declares them."""
    return ", ".join([*(f"c{i} {SPARK[c.type]}" for i, c in enumerate(schema)), "diff BIGINT", "batch BIGINT"])


def _wire() -> str:
    from ..query.processor import WIRE

    return WIRE


def _any_of(column: Column, values: list[Any], kind: Type) -> Column:
    """Whether a column has one of some values, NULL among them perhaps."""
    from pyspark.sql import functions as f

    some = [v for v in values if v is not None]
    if kind in (Type.DATE, Type.TIMESTAMP):
        # As texts: PySpark writes a year before 1000 with too few digits.
        literals: list[Any] = [f.lit(str(v)).cast(SPARK[kind]) for v in some]
    else:
        literals = [f.lit(v) for v in some]
    if len(some) == len(values):
        return column.isin(literals)
    return column.isNull() | column.isin(literals) if some else column.isNull()


def _arrow(schema: Schema, delta: Delta, strings: Strings) -> pa.Table:
    lines = [convert.to_arrow(w, c.type, strings) for w, c in zip(delta.rows, schema, strict=True)]
    return pa.table([*lines, pa.array(delta.diffs)], names=[*(f"c{i}" for i in range(len(lines))), "diff"])


def _delta(rows: pa.Table, schema: Schema, relation: str, strings: Strings) -> Delta:
    if not rows.num_rows:
        return Delta.empty(len(schema))
    return read_tables.table(rows.rename_columns([*(c.name for c in schema), "diff"]), schema, relation, strings)[0]


def _together(asked: list[BaseUpquery]) -> Words:
    keys = np.concatenate([a.keys for a in asked], axis=1)
    return np.unique(keys, axis=1) if len(keys) else keys[:, :1]


def _packed(asked: BaseUpquery, places: Placement) -> tuple[Any, ...]:
    edge = places.edges[asked.edge]
    types = [edge.source.plan.schema[i].type for i in edge.ask]
    blob = wire.encode(list(asked.keys), types, asked.strings)
    return asked.edge, asked.bin, asked.tag, asked.asked, asked.clock, asked.keys.shape, blob


def _unpacked(told: tuple[Any, ...], strings: Strings) -> BaseUpquery:
    *head, shape, blob = told
    keys = wire.decode(blob, strings) if shape[0] else np.empty(shape, dtype=np.int64)
    edge, where, tag, asked, clock = head
    return BaseUpquery(edge, where, tag, asked, clock, keys, strings)


__all__ = ["SparkBaseTables", "BaseTable", "declared"]
