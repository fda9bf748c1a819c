"""Use case 2: deduplicating ids.

The rungs are:

- shuffle all rows by id, and then use a set in each task;
- Spark's dropDuplicates, which deduplicates in each task before it shuffles;
- use a set in each task, and then shuffle the remaining rows;
- use one set for all tasks on the host, and then call dropDuplicates.

The final dropDuplicates is needed if there are several hosts, or if the runtime that owns the set was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharedstate_lite.lessons.usecases import memory
from sharedstate_lite.lessons.usecases.ladder import Rung, RunResult, digest
from sharedstate_lite.lessons.usecases.shuffle_metrics import measure_shuffle
from sharedstate_lite.worker import ConcurrentSet, metrics
from sharedstate_lite.worker.handles.values import distinct, first
from sharedstate_lite.worker.runtime.index import Index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id BIGINT"


def shuffled(ids: DataFrame, seen: Any = None) -> DataFrame:
    """Deduplicate ids by shuffling every row to the task for its id, where a set keeps only the first row.

    As in the functions below, tasks note their memory in ``seen``, an accumulator from ``memory.watch``.
    """
    return _alone(ids.repartition("id"), seen)


def dropped(ids: DataFrame, seen: Any = None) -> DataFrame:
    """Deduplicate ids with Spark's dropDuplicates. ``seen`` is not used, because the memory is in the JVM."""
    return ids.dropDuplicates(["id"])


def private(ids: DataFrame, seen: Any = None) -> DataFrame:
    """Deduplicate ids with a set in each task, then shuffle the remaining rows, and use a set in each task again."""
    return _alone(_alone(ids, seen).repartition("id"), seen)


def shared(ids: DataFrame, members: ConcurrentSet, seen: Any = None) -> DataFrame:
    """Deduplicate ids with one set for all tasks on the host, and then globally over the few remaining rows."""
    return _kept(ids, lambda: members.add_new, seen).dropDuplicates(["id"])


def rungs(session: SparkSession, ids: DataFrame) -> dict[str, Rung]:
    """Return the rungs of the ladder, which deduplicate the column ``id`` of ``ids``.

    Each rung counts the records and bytes shuffled, and the memory (PSS) of the Python workers and the runtime. One
    record per task comes from computing the digest of the answer.
    """
    ids = ids.select("id")
    many = ids.count()

    def run(make: Callable[[Any], DataFrame], owned: Callable[[], int] = lambda: 0) -> RunResult:
        seen = memory.watch(session)
        answer, went = measure_shuffle(session, lambda: digest(make(seen)))
        held = (memory.total(seen) or 0) + owned()
        return RunResult(answer, {"records shuffled": went.records, "bytes shuffled": went.bytes, "PSS": held})

    def together() -> RunResult:
        # Each run needs a new set.
        with ConcurrentSet(session) as members:
            return run(lambda seen: shared(ids, members, seen), lambda: int(metrics()["pss"].fillna(0).max()))

    return {
        "shuffle, then a set": Rung(many, lambda: run(lambda seen: shuffled(ids, seen))),
        # The empty run does not send any rows to Python. Spark cannot skip batches by their smallest and largest id.
        "dropDuplicates": Rung(
            many, lambda: run(lambda seen: dropped(ids, seen)), empty=lambda: digest(ids.where("id % 2 > 1"))
        ),
        "a set per task, then shuffle": Rung(many, lambda: run(lambda seen: private(ids, seen))),
        "one shared set": Rung(many, together),
    }


def nothing(ids: DataFrame) -> DataFrame:
    """Process the same rows in the same kind of task, but do not keep any of them. This is the empty run."""
    return _kept(ids, lambda: lambda values: [False] * len(values))


def _alone(ids: DataFrame, seen: Any) -> DataFrame:
    """Deduplicate the ids within each task, with a private set that is implemented like the shared one."""

    def own() -> Callable[[Any], Any]:
        index = Index("private set")

        def add_new(values: Any) -> Any:
            codes, different = distinct(values, "private set", "ids")
            _, fresh = index.add(pa.chunked_array([different]))
            return first(codes) & fresh[codes]

        return add_new

    return _kept(ids, own, seen)


def _kept(ids: DataFrame, make: Callable[[], Callable[[Any], Any]], seen: Any = None) -> DataFrame:
    """Keep only the rows whose id is new to the task's set.

    ``make`` is called once per task. The function that it returns adds ids to the set, and returns True for new ones.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        add_new = make()
        for batch in batches:
            if batch.num_rows:
                yield batch.filter(pa.array(add_new(batch.column(0)), pa.bool_()))
        if seen is not None:
            memory.note(seen)

    return ids.mapInArrow(work, SCHEMA)
