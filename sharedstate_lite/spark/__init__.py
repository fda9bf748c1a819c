"""Spark, quiet and of the right size, for everything in the kit that runs beyond one process.

    session.py    session(), stop(), log_file(): the one session, and its end
    java.py       find_java(): which Java it runs on, with one for machines that have none
    settings.py   what a session is started with, and what a master may be
    launch.py     a driver: JVM, context and session, started and ended together
    jvm.py        its JVM: environment, log, end
    connect.py    a session of Spark Connect
    ship.py       the kit's modules, for workers on other machines
    interrupt.py  Ctrl-C
    scratch.py    folders that go with the process that made them
    failure.py    why a session did not start, in one message

And the engines of the core, over bins of keys; see docs/spark.md:

    live.py       engine(): the protocol of the in-process engines over a streaming query
    blueprint.py  what an engine is made from, as text and without rows
    route.py      which operator lives in which stage, and what travels between them
    bins.py       one bin of one stage: an in-process engine for its keys
    wire.py       rows between processes and in the state store, as blobs
    processor.py  the stateful operator that Spark runs
    inbox.py      the folder that a query reads, one file a micro-batch
    query.py      the query: started, run, refused, stopped

Importing this imports no pyspark; the first session does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..plan import View
from .java import Java, find_java
from .session import log_file, session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .live import SparkEngine

_session = session


def engine(
    kind: str,
    views: Sequence[View],
    session: SparkSession | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    bins: int | None = None,
    join: str = "auto",
) -> SparkEngine:
    """An engine over a streaming query on ``session`` (default: the kit's), with the protocol of ``ss.engine``.

    ``checkpoint`` names the folder of its state: a new one is made, an existing one is
    gone on with, an epoch that was under way completed. Without it the state goes with
    the engine. ``bins`` is how many parts each operator's state has (default 4); it
    stays what it was. Raises ViewError for a kind, view or option that cannot be, and
    CheckpointError for the checkpoint of another engine.
    """
    from .blueprint import Blueprint
    from .live import SparkEngine

    return SparkEngine(Blueprint(kind, views, join), session or _session(), checkpoint, bins)


__all__ = ["Java", "engine", "find_java", "log_file", "session", "stop"]
