"""The engines of the kit at scale: the same views and strategies over PySpark, with their state in Spark's state store.

Spark runs the operators of the in-process engines in *bins*. A bin is an engine for the keys of one hash bucket, and
its state is in RocksDB. Each `transformWithStateInPandas` in Spark's plan is one *stage*: in every bin it runs the
same part of the dataflow. An epoch is one micro-batch. `engine` has the protocol of ``ss.engine``; `stream` reads
folders or streaming DataFrames, and writes the changes of the views to a sink. A checkpoint survives ``kill -9``;
`state` reads it, `restore` continues it.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> with ss.spark.engine("shared", [longest], ss.spark.session(), bins=1) as engine:
...     changes = engine.step({"visit": [(("Potato", 50), +1), (("Potato", 60), +1)]})
...     changes = engine.step({"visit": [(("Potato", 60), -1)]})
...     print(sorted(changes["longest"].to_pandas()[["top", "diff"]].values.tolist()))
[[50, 1], [60, -1]]

Rooms, from the bottom: ``session`` starts and stops Spark, ``bins`` runs without Spark what a worker does with one bin,
``query`` is the streaming query, ``driver`` the engine as seen from the driver, ``jobs`` streams, ``partial`` partial
state. Importing this package imports no PySpark; the first session does.

Source: Structured Streaming, Armbrust et al., SIGMOD 2018; ``transformWithState`` of Spark 4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, ViewError, is_integer
from ..plan.view import View
from .session.java import Java, find_java
from .session.session import log_file, session, stop
from .session.standalone import Cluster

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from ..changelog.changes import Changes
    from .bins.engine_spec import EngineSpec
    from .driver.engine import SparkEngine
    from .driver.store import StateReader
    from .jobs.job import Job
    from .partial.base_postgres import Postgres

_session = session


def __getattr__(name: str) -> Any:
    if name == "Postgres":  # late, because it imports psycopg
        from .partial.base_postgres import Postgres

        return Postgres
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _on(given: SparkSession | None) -> SparkSession:
    return _session() if given is None else given


def _engine_spec(
    kind: str,
    views: Any,
    join: str,
    max_rows: int | None,
    max_bytes: int | None,
    seed: int,
    without: Iterable[str],
    base: Mapping[str, Postgres] | None,
) -> EngineSpec:
    """The specification of an engine. Raises ViewError if ``kind`` does not have the options after ``join``."""
    from .bins.engine_spec import EngineSpec

    # Read twice, so an iterator would be exhausted.
    views = list(views) if isinstance(views, Iterable) and not isinstance(views, str) else views
    rules = [without] if isinstance(without, str) or not isinstance(without, Iterable) else sorted(without, key=str)
    # Python's own numbers, because they are written as JSON.
    numbers = {"max_rows": max_rows, "max_bytes": max_bytes, "seed": seed}
    options = {name: int(n) if is_integer(n) else n for name, n in numbers.items()} | {"without": rules}
    if kind == "partial":
        from .partial.placement import place

        return EngineSpec(kind, views, join, options, place)
    defaults: dict[str, object] = {"max_rows": None, "max_bytes": None, "seed": 0, "without": [], "base": None}
    given = [name for name, value in (options | {"base": base}).items() if value != defaults[name]]
    if given:
        raise ViewError(f"{', '.join(given)}: only partial state has this option; leave it out for {kind} state")
    return EngineSpec(kind, views, join)


def engine(
    kind: str,
    views: Sequence[View],
    session: SparkSession | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    bins: int | None = None,
    join: str = "auto",
    max_rows: int | None = None,
    max_bytes: int | None = None,
    seed: int = 0,
    without: Iterable[str] = (),
    base: Mapping[str, Postgres] | None = None,
) -> SparkEngine:
    """Start an engine over a streaming query; it has the protocol of ``ss.engine``. A context manager.

    ``session`` is a running session (default: that of `session`). ``checkpoint`` is the folder of the state. If it
    exists, the engine continues from it, and completes an epoch that was cut off; without it the state is temporary.
    ``bins`` is the number of parts of each operator's state (default 4), fixed by the first start. Partial state takes
    ``max_rows``, ``max_bytes``, ``seed`` and ``without`` as in process, and ``base``, tables of PostgreSQL as base
    tables (`Postgres`) in place of Parquet files. Raises ViewError for a kind, view or option that is not supported,
    and CheckpointError for the checkpoint of another engine.
    """
    plan = _engine_spec(kind, views, join, max_rows, max_bytes, seed, without, base)
    if plan.kind == "partial":
        from .partial.engine import PartialSparkEngine

        return PartialSparkEngine(plan, _on(session), checkpoint, bins, base=base)
    from .driver.engine import SparkEngine

    return SparkEngine(plan, _on(session), checkpoint, bins)


def restore(
    path: str | os.PathLike[str],
    session: SparkSession | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    base: Mapping[str, Postgres] | None = None,
) -> SparkEngine:
    """Start the engine whose state is at ``path``, with its views, at its last epoch. A context manager.

    ``path`` is a copy that ``engine.checkpoint(path)`` wrote, or the ``checkpoint=`` of an engine that was closed or
    killed. A copy is verified and copied, to ``checkpoint`` or to a temporary folder, and never changed. ``base`` must
    be that of the original engine, because a checkpoint does not contain tables of PostgreSQL. Raises CheckpointError.
    """
    from .bins import engine_spec
    from .driver import checkpoint_copy
    from .driver.engine import SparkEngine
    from .partial.placement import place
    from .session.paths import absolute

    source = absolute(path)
    described = engine_spec.read(source)
    plan, bins = engine_spec.parse(described, source, place), described["options"]["bins"]
    if plan.kind != "partial" and base:
        raise ViewError(f"base: {plan.kind} state stores its base tables itself; leave base= out")
    copied = checkpoint_copy.is_copy(source)
    if not copied and checkpoint is not None:
        raise CheckpointError(f"{source} is not a copy, so its engine continues there; leave out checkpoint=")
    home, copy = (checkpoint, source) if copied else (source, None)
    if plan.kind == "partial":
        from .partial.engine import PartialSparkEngine

        return PartialSparkEngine(plan, _on(session), home, bins, copy, base=base)
    return SparkEngine(plan, _on(session), home, bins, copy)


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
    max_rows: int | None = None,
    max_bytes: int | None = None,
    seed: int = 0,
    without: Iterable[str] = (),
    base: Mapping[str, Postgres] | None = None,
) -> Job:
    """Start a streaming job: rows of relations from ``sources``, changes of views to ``sink``. A context manager.

    A source is a folder of Parquet files, read one file a micro-batch in the order of their modification times, or a
    streaming DataFrame with the relation's columns and ``diff``. A micro-batch is an epoch. ``sink`` is a folder, which
    gets one Parquet file for each view and micro-batch, each written once; or a function of ({view: Changes}, number of
    the micro-batch), called at least once for each. If ``checkpoint`` exists, the job continues from it. A micro-batch
    that fails for a reason other than its rows is tried again.

    A job of partial state also has ``read``, ``lookup``, ``evict``, ``filled``, ``state`` and ``epoch``, to look up
    keys while it runs. Its sink receives the changes of filled keys. It takes the options that `engine` has for partial
    state. Raises ViewError, RelationError, RowError and CheckpointError.
    """
    plan = _engine_spec(kind, views, join, max_rows, max_bytes, seed, without, base)
    if plan.kind == "partial":
        from .partial.job import PartialJob

        return PartialJob(base, plan, sources, sink, _on(session), checkpoint, bins)
    from .jobs.job import Job

    return Job(plan, sources, sink, _on(session), checkpoint, bins)


def _reader(checkpoint: str | os.PathLike[str], batch: int | None, session: SparkSession | None) -> StateReader:
    from .driver import store
    from .partial.placement import place

    return store.opened(checkpoint, batch, session, place)


def state(
    checkpoint: str | os.PathLike[str],
    operator: str | None = None,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> pd.DataFrame:
    """The state at ``checkpoint``, read from Spark's state store, while an engine or stream runs there or after it
    ended.

    The table is that of the engine's ``state(operator)``: one row for each piece of state, or the rows of ``operator``
    with their diff. ``batch`` is a micro-batch that Spark retains (default: the last one); see `batches`. Raises
    CheckpointError, ViewError and TimeError.
    """
    from .driver import store
    from .partial import state as partial

    reader = _reader(checkpoint, batch, session)
    return partial.state(reader, operator) if reader.kind == "partial" else store.state(reader, operator)


def filled(
    checkpoint: str | os.PathLike[str],
    operator: str,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> list[tuple[Any, ...]]:
    """The filled keys, sorted, of an operator of partial state at ``checkpoint``, also after kill -9.

    ``operator`` is a view, or an aggregate or a join's side as `state` lists them. ``batch`` is a micro-batch that
    Spark retains (default: the last one). Raises CheckpointError, ViewError and TimeError.
    """
    from .partial import state as partial

    reader = _reader(checkpoint, batch, session)
    if reader.kind != "partial":
        raise ViewError(f"{checkpoint}: {reader.kind} state has no holes, so every key is filled")
    return partial.filled(reader, operator)


def changes(
    checkpoint: str | os.PathLike[str], operator: str, batch: int, session: SparkSession | None = None
) -> pd.DataFrame:
    """The rows that micro-batch ``batch`` changed in one piece of state, with their diff.

    Spark must retain the micro-batch before it, too. Raises CheckpointError, ViewError and TimeError.
    """
    from .driver import store
    from .partial import state as partial

    after = _reader(checkpoint, batch, session)
    if after.kind == "partial" and (base := partial.bases(after).get(operator)) is not None:
        return partial.base_rows(after, base, since=after.batch - 1)
    return store.changes(after, operator)


def partitions(
    checkpoint: str | os.PathLike[str], batch: int | None = None, session: SparkSession | None = None
) -> pd.DataFrame:
    """The partition of each bin of a checkpoint, and the process that ran it last; one row for each stage and bin.

    Columns: stage; bin; partition; of, the number of partitions; rows and bytes that are stored; process, as
    id@machine; and found, what that process had of the bin before: new, used (in memory, confirmed by the store's
    token), stale (in memory, but another process had written since) or missing. ``batch`` is a micro-batch that Spark
    retains (default: the last one). Raises CheckpointError and TimeError.
    """
    from .driver import rescaling

    return rescaling.partitions(_reader(checkpoint, batch, session))


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None = None) -> None:
    """Move the state of a stopped engine or stream to another number of partitions.

    An engine or stream that starts there later has this number, whatever ``spark.sql.shuffle.partitions`` says. Bins
    are not split, so partitions beyond the number of bins are empty. Spark works on a copy, which replaces the
    checkpoint at the end: a rescaling that fails or is killed changes nothing. Raises Error for a number below 1, and
    CheckpointError if there is no checkpoint, if an engine or stream runs there, or if a micro-batch is not complete.
    """
    from .driver import rescaling

    rescaling.rescale(checkpoint, partitions, session)


def stages(checkpoint: str | os.PathLike[str], session: SparkSession | None = None) -> pd.DataFrame:
    """Spark's plan of the engine or stream at ``checkpoint``, one row for each stateful operator.

    Columns: stage; receives (each sender, and the columns by which its rows are partitioned); operators; holds, as
    `state` names it; bins; and from Spark's metadata the operator's number, its name and its partitions. Raises
    CheckpointError.
    """
    from .driver import explain

    return explain.stages(_reader(checkpoint, None, session))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """The micro-batches of a checkpoint: columns batch, kind (epoch, read, ...), epoch, refused, kept.

    ``refused``: its rows were refused, and nothing changed. ``kept``: Spark retains its state, so `state` can show it.
    The numbers start again at 0 when a view is installed or dropped. Raises CheckpointError.
    """
    from .driver import store

    return store.batches(checkpoint)


__all__ = [
    "Cluster",
    "Java",
    "Postgres",
    "batches",
    "changes",
    "engine",
    "filled",
    "find_java",
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
