"""Checks a Spark session that a caller passes in, before the kit uses it."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from ...errors import Error
from . import settings
from .session import session as started


def usable(session: SparkSession | None, what: str) -> SparkSession:
    """Return ``session`` or, for None, that of this process, which is started if necessary.

    ``what`` names the caller in messages, such as "a stream". Raises Error unless it is a running session whose driver
    is in this process.
    """
    if session is None:
        return started()
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise Error(f"{what}: {settings.NO_CONNECT}")
    if not isinstance(session, SparkSession):
        raise Error(f"{what}: session={session!r} is not a Spark session; pass ss.spark.session(), or leave it out")
    if ended(session):
        raise Error(f"{what}: this Spark session has ended; start another one with ss.spark.session()")
    return session


def stateful(session: SparkSession, what: str) -> None:
    """Raise Error unless new queries on the session keep their state in RocksDB, which the stateful operators need.

    An existing query is not affected by the setting, because it uses the state store that its checkpoint names.
    """
    wanted, there = settings.PROVIDER, session.conf.get(settings.PROVIDER_CLASS)
    if there != wanted:
        raise Error(
            f"{what} keeps its state in RocksDB, but this Spark session uses {there}; "
            f"call session.conf.set({settings.PROVIDER_CLASS!r}, {wanted!r}) first, or use ss.spark.session()"
        )


def ended(session: SparkSession) -> bool:
    """Return whether the session was stopped or its JVM has exited."""
    try:
        context: Any = session._sc._jsc
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True
