"""A session of Spark Connect: a client here, the driver behind an address.

No JVM of this process, and so no log of it, no jars and no scratch folder. What the
kit needs of a session at run time (two shuffle partitions, RocksDB, Arrow, UTC) is set;
what only a server can be started with is the server's. Needs packages that PySpark
does not install by itself, and says so.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import Error
from . import settings
from .ship import archive

REACH_SECONDS = 10


class Remote:
    """A running Connect session.

    Raises Error where packages are missing, nobody answers, or a setting is the server's.
    """

    log: Path | None = None

    def __init__(self, master: str, app: str, conf: Mapping[str, str]) -> None:
        self.master, self.app, self.process_id = master, app, os.getpid()
        try:
            from pyspark.sql.connect.session import SparkSession as Client
        except (ImportError, PySparkException) as error:
            raise Error(
                f"master {master}: Spark Connect needs packages that are not installed ({str(error).splitlines()[0]}); "
                "pip install 'pyspark[connect]', or use local[N] or spark://host:port"
            ) from error
        _reach(master)
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        try:
            self.spark: SparkSession = Client.builder.remote(master).appName(app).create()  # type: ignore[assignment]
            for name, value in {**settings.runtime(), **conf}.items():
                self.spark.conf.set(name, value)
            with tempfile.TemporaryDirectory() as folder:
                self.spark.addArtifacts(str(archive(Path(folder))), pyfile=True)
        except Exception as error:
            self.stop()
            raise Error(
                f"Spark on {master} did not start: {str(error).strip().splitlines()[0][:300]}; a server's own settings "
                "(memory, jars) are given where it is started"
            ) from error

    @property
    def alive(self) -> bool:
        """False once the session was stopped."""
        return not bool(getattr(self.spark, "is_stopped", False))

    def value(self, name: str) -> str | None:
        """A setting as it is now; None for one that Spark does not know."""
        try:
            return self.spark.conf.get(name)
        except PySparkException:
            return None

    def stop(self) -> None:
        """End the session; the server stays. Classic sessions can be started again."""
        spark = getattr(self, "spark", None)
        if spark is not None and self.alive:
            spark.stop()
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _reach(master: str) -> None:
    """Refuse an address where nobody answers; the client itself would try for minutes."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    grpc = importlib.import_module("grpc")
    channel = DefaultChannelBuilder(master).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=REACH_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise Error(f"master {master}: nobody answers; start the server, or correct the address") from error
    finally:
        channel.close()


def usable(session: SparkSession, what: str) -> None:
    """Raise Error for what is no session, one that has ended, and one of Connect: the driver has to be in this process.

    ``what`` is who wants it.
    """
    if _connect(session):
        raise Error(
            f"{what} takes what comes out of each micro-batch in the driver, which has to be this process, and this "
            "session is of Spark Connect; use local[N], local-cluster[...] or spark://host:port"
        )
    living(session, what)


def stateful(session: SparkSession, what: str) -> None:
    """Raise Error for a session whose queries keep their state where no operator of the kit can.

    It matters where state begins: a query that goes on keeps to where its state is.
    """
    wanted, there = settings.PROVIDER, session.conf.get(settings.PROVIDER_CLASS)
    if there != wanted:
        raise Error(
            f"{what} keeps its state in RocksDB, and this Spark session's queries keep theirs by {there}; "
            f"session.conf.set({settings.PROVIDER_CLASS!r}, {wanted!r}) first, or take ss.spark.session()"
        )


def living(session: SparkSession, what: str) -> None:
    """Raise Error for what is no session, and for one that has ended."""
    if _connect(session):
        return
    if not isinstance(session, SparkSession):
        raise Error(f"{what}: session={session!r} is no Spark session; give ss.spark.session(), or leave it out")
    if ended(session):
        raise Error(f"{what}: this Spark session has ended; ss.spark.session() gives another one")


def _connect(session: object) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def ended(session: SparkSession) -> bool:
    """Whether a session, of this process, was stopped or its JVM is gone."""
    try:
        context: Any = session._sc._jsc
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True
