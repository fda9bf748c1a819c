"""Checks of a Spark session that a caller passes in, before anything is started on it."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from ...errors import Error
from . import settings


def usable(session: SparkSession, what: str) -> None:
    """Raise Error unless ``session`` is a running session whose driver is in this process; ``what`` needs it."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise Error(f"{what}: {settings.NO_CONNECT}")
    if not isinstance(session, SparkSession):
        raise Error(f"{what}: session={session!r} is not a Spark session; pass ss.spark.session(), or leave it out")
    if ended(session):
        raise Error(f"{what}: this Spark session has ended; ss.spark.session() starts another one")


def stateful(session: SparkSession, what: str) -> None:
    """Raise Error unless new queries of the session keep their state in RocksDB, which the stateful operators need.

    An existing query continues with the state store that its checkpoint names, whatever the session says.
    """
    wanted, there = settings.PROVIDER, session.conf.get(settings.PROVIDER_CLASS)
    if there != wanted:
        raise Error(
            f"{what} keeps its state in RocksDB, but this Spark session uses {there}; "
            f"call session.conf.set({settings.PROVIDER_CLASS!r}, {wanted!r}) first, or use ss.spark.session()"
        )


def ended(session: SparkSession) -> bool:
    """Whether the session was stopped, or its JVM has ended."""
    try:
        context: Any = session._sc._jsc
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True
