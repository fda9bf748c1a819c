"""The kit's engines at scale: the same views and strategies on PySpark, with their state in Spark's state store.

Spark runs the operators of the in-process engines in *bins*. A bin is an engine for the keys of one hash bucket, and
its state is in RocksDB. Each `transformWithState` operator in Spark's plan is one *stage*, which runs the same
part of the dataflow in every bin. Each micro-batch is one epoch. `engine` returns an engine with the same methods as
one from ``ss.engine``. `stream` reads folders or streaming DataFrames and writes the changes of the views to a sink.
A checkpoint survives ``kill -9``: `state` reads it, and `restore` starts an engine from it.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> with ss.spark.engine("shared", [longest], ss.spark.session(), bins=1) as engine:
...     changes = engine.step({"visit": [(("Potato", 50), +1), (("Potato", 60), +1)]})
...     changes = engine.step({"visit": [(("Potato", 60), -1)]})
...     print(sorted(changes["longest"].to_pandas()[["top", "diff"]].values.tolist()))
[[50, 1], [60, -1]]

Rooms, from the bottom:

    session    starts and stops Spark
    rounds     the streaming query that runs bins, one round a micro-batch
    bins       a worker's part: one bin of one stage, without Spark
    driver     the driver's part: the engine, its checkpoints and the state reader
    jobs       streams: a round for each file
    partial    partial state, for one caller at a time

The module `postgres` writes DataFrames to PostgreSQL.

Importing this package does not import PySpark. The first session does.

Source: Armbrust et al., Structured Streaming, SIGMOD 2018; ``transformWithState`` in Spark 4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, ViewError, is_integer
from ..plan.view import View
from ..system.notes import continues
from .session.session import log_file, session, stop
from .session.standalone import Cluster

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from ..changelog.changes import Changes
    from .bins.engine_spec import EngineSpec
    from .driver.engine import SparkEngine
    from .driver.store import EngineReader
    from .jobs.stream import Stream


def _engine_spec(
    kind: str,
    views: Any,
    join: str,
    columns: str,
    seed: int = 0,
    without: Iterable[str] = (),
    max_rows: int | None = None,
    max_bytes: int | None = None,
) -> EngineSpec:
    """Return the specification of an engine.

    Raises ViewError if an option after ``join`` is set that ``kind`` does not have.
    """
    from .bins.engine_spec import EngineSpec

    # The views are read twice, so turn an iterator into a list.
    views = list(views) if isinstance(views, Iterable) and not isinstance(views, str) else views
    budget = [name for name, most in (("max_rows", max_rows), ("max_bytes", max_bytes)) if most is not None]
    if budget:
        raise ViewError(
            f"{' and '.join(budget)}: on Spark, no state has a budget, because no process sees all bins; evict keys "
            "with evict(), or use ss.engine('partial', views) in one process"
        )
    if kind != "full" and columns != "used":
        raise ViewError(f"columns: only full state has this option; leave it out for {kind} state")
    if kind == "partial":
        from .partial.placement import place

        rules = [without] if isinstance(without, str) or not isinstance(without, Iterable) else sorted(without, key=str)
        # Convert NumPy's integers, because the options are written as JSON.
        options = {"seed": int(seed) if is_integer(seed) else seed, "without": rules}
        return EngineSpec(kind, views, join, options, place)
    given = [name for name, value in (("seed", seed), ("without", without)) if value]
    if given:
        raise ViewError(f"{', '.join(given)}: only partial state has this option; leave it out for {kind} state")
    return EngineSpec(kind, views, join, {"columns": columns} if kind == "full" else {})


def _started(
    spec: EngineSpec, session: SparkSession | None, location: Any, bins: int | None, copy: Path | None, named: Any
) -> SparkEngine:
    """Start an engine. If it continues from the checkpoint ``named``, log that."""
    made: type[SparkEngine]
    if spec.kind == "partial":
        from .partial.engine import PartialSparkEngine as made
    else:
        from .driver.engine import SparkEngine as made
    engine = made(spec, session, location, bins, copy)
    if engine.resumed:
        engine.continued = continues(named, f"epoch {engine.epoch}")
    return engine


def engine(
    kind: str,
    views: Sequence[View],
    session: SparkSession | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    bins: int | None = None,
    join: str = "auto",
    columns: str = "used",
    seed: int = 0,
    without: Iterable[str] = (),
    max_rows: int | None = None,
    max_bytes: int | None = None,
) -> SparkEngine:
    """Start an engine that runs as a streaming query, and return it. It has the same methods as one from ``ss.engine``.

    The engine is a context manager. ``session`` is a running session (default: the one that `session` returns).
    ``checkpoint`` is the folder for the state. If the folder already contains a checkpoint, the engine continues from
    it, after it has completed an epoch that was interrupted, and a note says so. Without ``checkpoint``, the state is
    temporary. ``bins`` is the number of bins per stage (default: 4), which cannot change once the checkpoint exists.
    ``join`` has the same values as in ``ss.engine``, except that Spark does not support "delta". Full state also
    accepts ``columns``, as in ``ss.engine``.

    Partial state also accepts ``seed`` and ``without``, as ``ss.engine`` does. It serves one caller at a time, and
    keeps its views. ``max_rows`` and ``max_bytes`` are refused, because a budget is only kept in one process.

    Raises ViewError for a kind, view or option that is not supported, and CheckpointError for a checkpoint that belongs
    to another engine.
    """
    spec = _engine_spec(kind, views, join, columns, seed, without, max_rows, max_bytes)
    return _started(spec, session, checkpoint, bins, None, checkpoint)


def restore(
    path: str | os.PathLike[str],
    session: SparkSession | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
) -> SparkEngine:
    """Start an engine with the views and the state at ``path``, and return it. It continues after its last epoch.

    The engine is a context manager. ``path`` is either a copy that ``engine.checkpoint(path)`` wrote, or the
    ``checkpoint`` folder of an engine that was closed or killed. A copy is never changed. It is verified, and then
    copied to ``checkpoint`` or, without that argument, to a temporary folder.

    Raises CheckpointError if ``path`` cannot be used.
    """
    from .bins import engine_spec
    from .driver import checkpoint_copy
    from .partial.placement import place
    from .rounds import home
    from .session.paths import absolute

    source = absolute(path)
    described = home.read(source, "views")
    spec, bins = engine_spec.parse(described, source, place), described["options"]["bins"]
    copied = checkpoint_copy.is_copy(source)
    if not copied and checkpoint is not None:
        raise CheckpointError(f"{source} is not a copy, so the engine continues in that folder; leave out checkpoint=")
    location, copy = (checkpoint, source) if copied else (source, None)
    return _started(spec, session, location, bins, copy, path)


def stream(
    kind: str,
    views: Sequence[View],
    sources: Mapping[str, str | os.PathLike[str] | DataFrame],
    sink: str | os.PathLike[str] | Callable[[dict[str, Changes], int], None],
    *,
    session: SparkSession | None = None,
    checkpoint: str | os.PathLike[str],
    bins: int | None = None,
    join: str = "auto",
    columns: str = "used",
) -> Stream:
    """Start a stream that reads relations from ``sources`` and writes the changes of views to ``sink``.

    The stream is a context manager. ``kind`` is full or shared. ``sources`` maps each relation to a folder of Parquet
    files, or to a streaming DataFrame with the relation's columns and ``diff``. A micro-batch has the next file of each
    folder, in the order of the files' modification times, and the next micro-batch of each DataFrame. It is one epoch.

    ``sink`` is a folder or a function. A folder receives one Parquet file per micro-batch and view that changed, and
    each file is written exactly once. A function is called with {view: Changes} and the number of the micro-batch, at
    least once per micro-batch. If ``checkpoint`` already exists, the stream continues from it, and a note says so. A
    micro-batch that fails for a reason other than its rows is retried. The options are those of `engine`.

    Raises ViewError, RelationError, RowError or CheckpointError if an argument cannot be used.
    """
    if kind == "partial":
        raise ViewError(
            "stream('partial'): on Spark, partial state serves one caller at a time, and a stream is a caller; call "
            "step() and read() of ss.spark.engine('partial', views), or of ss.engine('partial', views) in one process"
        )
    from .jobs.stream import Stream

    return Stream(_engine_spec(kind, views, join, columns), sources, sink, session, checkpoint, bins)


def _reader(checkpoint: str | os.PathLike[str], batch: int | None, session: SparkSession | None) -> EngineReader:
    from .driver import store
    from .partial.placement import place

    return store.opened(checkpoint, batch, session, place)


def state(
    checkpoint: str | os.PathLike[str],
    operator: str | None = None,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> pd.DataFrame:
    """Return the state at ``checkpoint`` from Spark's state store. An engine or stream may still be running there.

    The table is the same as from the engine's ``state(operator)``. Without ``operator``, it has one row per piece of
    state, with its columns of the bill. With the name of a piece, it has the rows of that piece and their diff.
    ``batch`` is the number of a micro-batch that Spark retains (default: the last one); `batches` lists them.

    Raises CheckpointError, ViewError for an unknown operator, and TimeError for a micro-batch that is not retained.
    """
    from .bins import tables
    from .partial import state as partial

    reader = _reader(checkpoint, batch, session)
    if reader.kind != "partial":
        return tables.state(reader.route, reader, operator)
    return partial.state(reader.route, reader, partial.base_tables(reader, slice(reader.batch + 1)), operator)


def filled(
    checkpoint: str | os.PathLike[str],
    operator: str,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> list[tuple[Any, ...]]:
    """Return the filled keys of one operator of partial state, sorted. It works even if the engine was killed.

    ``operator`` is the name of a view, an aggregate or one side of a join, as `state` lists it. ``batch`` is the number
    of a micro-batch that Spark retains (default: the last one).

    Raises CheckpointError, ViewError for an unknown operator or another strategy, and TimeError for a micro-batch that
    is not retained.
    """
    from .partial import state as partial

    reader = _reader(checkpoint, batch, session)
    if reader.kind != "partial":
        raise ViewError(f"{checkpoint}: only partial state has filled keys, not {reader.kind} state; use state()")
    return partial.filled(reader.route, reader, operator)


def changes(
    checkpoint: str | os.PathLike[str], operator: str, batch: int, session: SparkSession | None = None
) -> pd.DataFrame:
    """Return the rows that micro-batch ``batch`` changed in one piece of state, with their diff.

    ``operator`` is the name of the piece, as `state` lists it. Spark must still retain the previous micro-batch, too.

    Raises CheckpointError, ViewError for an unknown operator, and TimeError for a micro-batch that is not retained.
    """
    from .driver import store
    from .partial import state as partial

    after = _reader(checkpoint, batch, session)
    found = partial.changes(after, operator) if after.kind == "partial" else None
    return store.changes(after, operator) if found is None else found


def partitions(
    checkpoint: str | os.PathLike[str], batch: int | None = None, session: SparkSession | None = None
) -> pd.DataFrame:
    """Return a table with the partition of each bin and the process that ran the bin last.

    There is one row per stage and bin. The columns are stage, bin, partition, of (the number of partitions), rows and
    bytes (the size of the bin's state), process (as id@machine) and found. The last one says what the process already
    had when it ran the bin: new (the bin was empty), used (the bin was in memory, and the token in the store confirmed
    that it was current), stale (the bin was in memory, but another process had changed the store), or missing (the bin
    was not in memory and was read from the store). ``batch`` is the number of a micro-batch that Spark retains
    (default: the last one).

    Raises CheckpointError, and TimeError for a micro-batch that is not retained.
    """
    from .driver import rescaling

    return rescaling.partitions(_reader(checkpoint, batch, session))


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None = None) -> None:
    """Change the number of partitions of a stopped engine or stream, and move its state accordingly.

    An engine or stream that later starts from this checkpoint uses the new number and ignores
    ``spark.sql.shuffle.partitions``. Bins are not split, so with more partitions than bins some partitions are empty.
    Spark works on a copy, which replaces the checkpoint at the end. A rescaling that fails or is killed therefore
    changes nothing.

    Raises Error if ``partitions`` is not an integer of at least 1. Raises CheckpointError if there is no checkpoint, if
    an engine or stream is running there, or if a micro-batch is incomplete.
    """
    from .driver import rescaling

    rescaling.rescale(checkpoint, partitions, session)


def stages(checkpoint: str | os.PathLike[str], session: SparkSession | None = None) -> pd.DataFrame:
    """Return Spark's plan for the engine or stream at ``checkpoint`` as a table, with one row per stage.

    The columns are stage, receives (each sender, and the columns by which its rows are partitioned), operators, holds
    (the pieces of state, by the names that `state` uses) and bins. Three more columns come from Spark's metadata: the
    number, the name and the partitions of the stage's stateful operator. Raises CheckpointError.
    """
    from .driver import explain

    return explain.stages(_reader(checkpoint, None, session))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the micro-batches of a checkpoint as a table with the columns batch, kind, epoch, refused and kept.

    ``kind`` is the operation that the engine ran: epoch, read, compaction or another one. ``refused`` is True if a row
    was refused, so that the micro-batch changed nothing. ``kept`` is True if Spark still retains the state after the
    micro-batch, so that `state` can show it. The numbers start again at 0 when a view is installed or dropped. Raises
    CheckpointError.
    """
    from .driver import store

    return store.batches(checkpoint)


__all__ = [
    "Cluster",
    "batches",
    "changes",
    "engine",
    "filled",
    "log_file",
    "partitions",
    "rescale",
    "restore",
    "session",
    "stages",
    "state",
    "stop",
    "stream",
]
