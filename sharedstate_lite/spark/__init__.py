"""Spark, quiet and of the right size, for everything in the kit that runs beyond one process.

    session.py    session(), stop(), log_file(): the one session, and its end
    java.py       find_java(): which Java it runs on, with one for machines that have none
    settings.py   what a session is started with, and what a master may be
    launch.py     a driver: JVM, context and session, started and ended together
    jvm.py        its JVM: environment, log, end (home.py: where it finds Spark)
    classes.py    an archive of Spark's classes, with which a JVM starts sooner
    workers.py    the process that Python workers are forked from
    connect.py    a session of Spark Connect
    ship.py       the kit's modules, for workers on other machines
    interrupt.py  Ctrl-C
    scratch.py    folders that go with the process that made them
    standalone.py Cluster: a standalone cluster on this machine (guard.py ends it, cluster.py is its command)
    failure.py    why a session did not start, in one message
    jars.py       jars that PySpark does not bring: fetched at set-up (ivy.py), named where they are there
    jdbc.py       tables of PostgreSQL as DataFrames, and back

And the engines of the core, over bins of keys; see docs/spark.md:

    live.py       engine(): the protocol of the in-process engines over a streaming query
    blueprint.py  what an engine is made from, as text and without rows
    route.py      which operator lives in which stage, and what travels between them
    bins.py       one bin of one stage: an in-process engine for its keys
    messages.py   what bins take and give, and what they need around them
    neighbours.py a bin that another worker has in memory is worked on there
    wire.py       rows between processes and in the state store, as blobs
    processor.py  the stateful operator that Spark runs (declared.py: and asks for its state variables)
    inbox.py      the folder that a query reads, one file a micro-batch
    query.py      the query: started, run, refused, stopped
    front.py      the driver's half of the protocol; live.py puts it on a query
    staged.py     shared state whose arrangements can be placed in stages
    store.py      state(), changes(), batches(): what the state store holds, as tables (tables.py)
    planned.py    stages(): Spark's plan, a line a stateful operator
    course.py     the same stream, late view, restart and reads, in process and on Spark, timed
    job.py        stream(): the same over folders or DataFrames that Spark reads itself, to a sink
    feed.py       what comes into it                outlet.py     what comes out
    files.py      a file of a relation, read by each task that has bins for its rows
    paths.py      paths: as callers name them, and as Spark is told them
    spread.py     which number Spark groups a bin by, so that bins lie evenly
    rescaling.py  rescale(), partitions(): a stopped query on another number of partitions
    rebuild.py    other views on the same rows: a new checkpoint from the base tables
    copies.py     checkpoint(path) and restore(): a copy, checked before it is used

Partial state has the same outside and another inside; see docs/spark.md, Partial state:

    upnodes.py    the operators that the core lacks for a graph that is spread over bins
    upplaces.py   which operator lives in which stage, and what stays in its bin
    upletters.py  messages of the graph as rows of the stream
    upbin.py      one bin; upkept.py and upmemo.py: what it stores
    base.py       base tables: baserows.py answers from them in Spark's tasks, basefiles.py,
                  basepostgres.py (basegiven.py names one)
    updesk.py     who turns the rounds, for several callers at once
    upjob.py      stream(): epochs from sources, lookups from whoever has the job
    upfront.py    the driver's half of the protocol; uplive.py puts it on a query
    upstate.py    what a checkpoint shows

Importing this imports no pyspark; the first session does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, ViewError, is_integer
from ..plan.view import View
from .partial.base_given import Postgres
from .session.java import Java, find_java
from .session.session import log_file, session, stop
from .session.standalone import Cluster

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from ..changelog.changes import Changes
    from .bins.blueprint import Blueprint
    from .driver.engine import SparkEngine
    from .driver.store import StateReader
    from .jobs.job import Job

_session = session


def _listed(views: Any) -> Any:
    # They are gone through more than once.
    return list(views) if isinstance(views, Iterable) and not isinstance(views, str) else views


def _on(given: SparkSession | None) -> SparkSession:
    return _session() if given is None else given


def _asked(
    kind: str,
    views: Any,
    join: str,
    max_rows: int | None,
    max_bytes: int | None,
    seed: int,
    without: Iterable[str],
    base: Mapping[str, Postgres] | None,
) -> Blueprint:
    """What is to be made; only partial state has the options after ``join``."""
    from .bins.blueprint import Blueprint

    fixes = [without] if isinstance(without, str) or not isinstance(without, Iterable) else sorted(without, key=str)
    # Python's own numbers, whatever was given: they are written as JSON.
    numbers = {"max_rows": max_rows, "max_bytes": max_bytes, "seed": seed}
    options = {name: int(n) if is_integer(n) else n for name, n in numbers.items()} | {"without": fixes}
    if kind == "partial":
        from .partial.placement import place

        return Blueprint(kind, _listed(views), join, options, place)
    plain: dict[str, object] = {"max_rows": None, "max_bytes": None, "seed": 0, "without": [], "base": None}
    given = [name for name, value in (options | {"base": base}).items() if value != plain[name]]
    if given:
        raise ViewError(f"{', '.join(given)}: {kind} state has no such option, only partial state has")
    return Blueprint(kind, _listed(views), join)


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
    """An engine over a streaming query on ``session`` (default: the kit's), with the protocol of ``ss.engine``.

    ``checkpoint`` names the folder of its state: a new one is made, an existing one is
    gone on with, an epoch that was under way completed. Without it the state goes with
    the engine. ``bins`` is how many parts each operator's state has (default 4); it
    stays what it was. Partial state takes ``max_rows``, ``max_bytes``, ``seed`` and ``without``
    as in process, and ``base``: a relation's base table is a folder of Parquet files, or
    what is given here (see :class:`Postgres`). Raises ViewError for a kind, view or
    option that cannot be, and CheckpointError for the checkpoint of another engine.
    """
    plan = _asked(kind, views, join, max_rows, max_bytes, seed, without, base)
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
    """The engine whose state is at ``path``, at its epoch; its views are those that were installed.

    What ``engine.checkpoint(path)`` wrote is checked and copied, to ``checkpoint`` or to a folder
    that goes with the engine, and stays as it is. A location of an engine that was closed
    or killed is gone on with where it is. ``base`` gives the base tables that the engine had been
    given; they are no part of a checkpoint. Raises CheckpointError.
    """
    from .bins import blueprint
    from .driver import checkpoint_copy
    from .driver.engine import SparkEngine
    from .partial.placement import place
    from .session.paths import absolute

    source = absolute(path)
    told = blueprint.read(source)
    plan, bins = blueprint.built(told, source, place), told["options"]["bins"]
    if plan.kind != "partial" and base:
        raise ViewError(f"base: {plan.kind} state keeps its base tables itself; leave it out")
    copied = checkpoint_copy.is_copy(source)
    if not copied and checkpoint is not None:
        raise CheckpointError(f"{source} is where an engine lives, and goes on there; leave out checkpoint=")
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
    """Start a streaming job: relations from folders of Parquet or streaming DataFrames, changes of views to a sink.

    Folders are read a file a micro-batch, in the order of their times; a DataFrame has the
    relation's columns and ``diff``. A micro-batch is an epoch. ``sink`` is a folder (a
    Parquet file a view and batch, each written once) or a function of {view: Changes} and
    the batch's number (called at least once a batch). A checkpoint that is there is gone on
    with. A micro-batch that fails for a reason outside its rows is tried again.

    Of partial state keys are looked up through the job, while it runs (``read``, ``lookup``, ``evict``,
    ``filled``, ``state``; ``epoch`` says as of when), and the sink gets what ``step`` would return: the changes of
    keys that are filled. It takes the options that :func:`engine` has for it.
    Raises ViewError, RelationError, RowError and CheckpointError.
    """
    plan = _asked(kind, views, join, max_rows, max_bytes, seed, without, base)
    if plan.kind == "partial":
        from .partial.job import PartialJob

        return PartialJob(base, plan, sources, sink, _on(session), checkpoint, bins)
    from .jobs.job import Job

    return Job(plan, sources, sink, _on(session), checkpoint, bins)


def _opened(checkpoint: str | os.PathLike[str], batch: int | None, session: SparkSession | None) -> StateReader:
    from .driver import store
    from .partial.placement import place

    return store.opened(checkpoint, batch, session, place)


def state(
    checkpoint: str | os.PathLike[str],
    operator: str | None = None,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> pd.DataFrame:
    """What Spark's state store holds at ``checkpoint``: as the engine's ``state()`` tells it; see :mod:`.driver.store`."""
    from .driver import store
    from .partial import state as partial

    reader = _opened(checkpoint, batch, session)
    return partial.state(reader, operator) if reader.kind == "partial" else store.state(reader, operator)


def filled(
    checkpoint: str | os.PathLike[str],
    operator: str,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> list[tuple[Any, ...]]:
    """Which keys of an operator were filled at the checkpoint of a partial engine, sorted; after kill -9 too.

    ``operator`` is a view, or what ``state()`` lists of aggregates and of joins' sides; ``batch`` a
    micro-batch that Spark still keeps. Raises CheckpointError, ViewError, TimeError.
    """
    from .partial import state as partial

    reader = _opened(checkpoint, batch, session)
    if reader.kind != "partial":
        raise ViewError(f"{checkpoint}: {reader.kind} state has no holes, so every key is there")
    return partial.filled(reader, operator)


def changes(
    checkpoint: str | os.PathLike[str], operator: str, batch: int, session: SparkSession | None = None
) -> pd.DataFrame:
    """What one micro-batch changed in one piece of state, as rows with their diff; see :mod:`.driver.store`."""
    from .driver import store
    from .partial import state as partial

    after = _opened(checkpoint, batch, session)
    if after.kind == "partial" and (base := partial.bases(after).get(operator)) is not None:
        return partial.base_rows(after, base, since=after.batch - 1)
    return store.changes(after, operator)


def partitions(
    checkpoint: str | os.PathLike[str], batch: int | None = None, session: SparkSession | None = None
) -> pd.DataFrame:
    """Where the bins of a checkpoint lie, one row a bin, and who wrote each last.

    stage, bin, partition, of (how many partitions there are), rows and bytes that are stored;
    process (id@machine), and what that had of the bin before: new, used (in memory, confirmed
    by the store's token), stale (in memory, but another had written since) or missing. A
    stage is one stateful operator; ``batch`` is a micro-batch that Spark still keeps (default: the
    last one that is done). Raises CheckpointError and TimeError.
    """
    from .driver import rescaling

    return rescaling.partitions(checkpoint, batch, session)


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None = None) -> None:
    """Move the state of a stopped engine or stream to another number of partitions; its views stay as they are.

    The engine or stream that is then started there runs on so many, whatever
    ``spark.sql.shuffle.partitions`` says. Bins stay whole: more partitions than bins
    have nothing to do. Works on a copy that takes the place of the checkpoint at the end, so
    that a rescaling that fails or is killed changes nothing. Raises Error for a number
    below 1 and on Spark Connect, CheckpointError where an engine or stream is
    running, where a micro-batch is not done, or where there is no checkpoint.

    Source: Spark's ``_streamingCheckpointManager.repartition``, a private name of Spark Classic.
    """
    from .driver import rescaling

    rescaling.rescale(checkpoint, partitions, session)


def stages(checkpoint: str | os.PathLike[str], session: SparkSession | None = None) -> pd.DataFrame:
    """Spark's plan of the engine or stream at ``checkpoint``, a line a stateful operator; see :mod:`.driver.explain`.

    stage, receives, operators, holds, bins, and what Spark's own metadata say: the operator's
    number, its name, its partitions. Raises CheckpointError.
    """
    from .driver import explain

    return explain.stages(checkpoint, session)


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """The micro-batches of a checkpoint: number, kind, epoch, whether it was refused, whether its state is kept."""
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
