"""Use case 2: each id once.

The rungs: shuffle all rows by id, then a set in each task · Spark's dropDuplicates, which deduplicates in each task
before it shuffles · a set in each task, then a shuffle of the rest · one set for all tasks of the host, then a final
dropDuplicates, which is needed for several hosts and after a killed runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...worker import ConcurrentSet, metrics
from ...worker.handles.values import distinct, first
from ...worker.runtime.index import Index
from . import memory
from .ladder import Rung, RunResult, digest
from .shuffle_metrics import measure_shuffle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id BIGINT"


def shuffled(ids: DataFrame, seen: Any = None) -> DataFrame:
    """Shuffle every row to the task of its id; a set there keeps the first."""
    return _alone(ids.repartition("id"), seen)


def dropped(ids: DataFrame, seen: Any = None) -> DataFrame:
    """Spark's dropDuplicates; its memory is in the JVM."""
    return ids.dropDuplicates(["id"])


def private(ids: DataFrame, seen: Any = None) -> DataFrame:
    """A set in each task, a shuffle of the rest, and a set again."""
    return _alone(_alone(ids, seen).repartition("id"), seen)


def shared(ids: DataFrame, members: ConcurrentSet, seen: Any = None) -> DataFrame:
    """One set for all tasks of the host; then a global pass over the few remaining rows."""
    return _kept(ids, lambda: members.add_new, seen).dropDuplicates(["id"])


def rungs(session: SparkSession, ids: DataFrame) -> dict[str, Rung]:
    """The ladder over the column ``id`` of ``ids``.

    Counts records and bytes shuffled (one record of each task belongs to the check) and the PSS of Python workers and
    runtime.
    """
    ids = ids.select("id")
    many = ids.count()

    def run(make: Callable[[Any], DataFrame], owned: Callable[[], int] = lambda: 0) -> RunResult:
        seen = memory.watch(session)
        answer, went = measure_shuffle(session, lambda: digest(make(seen)))
        held = (memory.total(seen) or 0) + owned()
        return RunResult(answer, {"records shuffled": went.records, "bytes shuffled": went.bytes, "PSS": held})

    def together() -> RunResult:
        # A set belongs to one query.
        with ConcurrentSet(session) as members:
            return run(lambda seen: shared(ids, members, seen), lambda: int(metrics()["pss"].fillna(0).max()))

    return {
        "shuffle, then a set": Rung(many, lambda: run(lambda seen: shuffled(ids, seen))),
        # No row of it comes to Python, and no batch can be left out by its least and its largest id.
        "dropDuplicates": Rung(
            many, lambda: run(lambda seen: dropped(ids, seen)), empty=lambda: digest(ids.where("id % 2 > 1"))
        ),
        "a set per task, then shuffle": Rung(many, lambda: run(lambda seen: private(ids, seen))),
        "one shared set": Rung(many, together),
    }


def nothing(ids: DataFrame) -> DataFrame:
    """The same rows through the same kind of task, none of them kept."""
    return _kept(ids, lambda: lambda values: [False] * len(values))


def _alone(ids: DataFrame, seen: Any) -> DataFrame:
    """Each task has a set of its own, made as the shared one is."""

    def own() -> Callable[[Any], Any]:
        index = Index("private set")

        def add_new(values: Any) -> Any:
            codes, different = distinct(values, "private set", "ids")
            _, fresh = index.add(pa.chunked_array([different]))
            return first(codes) & fresh[codes]

        return add_new

    return _kept(ids, own, seen)


def _kept(ids: DataFrame, make: Callable[[], Callable[[Any], Any]], seen: Any = None) -> DataFrame:
    """The rows that a set, which ``make`` gives each task, calls new."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        add_new = make()
        for batch in batches:
            if batch.num_rows:
                yield batch.filter(pa.array(add_new(batch.column(0)), pa.bool_()))
        if seen is not None:
            memory.note(seen)

    return ids.mapInArrow(work, SCHEMA)
