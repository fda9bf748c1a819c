"""One Spark driver: its JVM, its context and its session, started and ended together.

PySpark's own way leaves a JVM behind a stopped session, lets it write to Python's
streams, reads a dozen environment variables, and turns Ctrl-C into two tracebacks. So
the JVM is started beside it (:mod:`.jvm`) and PySpark is told to use that one; the end
of a session is the end of its JVM, which stops whatever still runs in it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import py4j.protocol  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

from ...errors import Error
from ...system.cache import cache_dir, new_log
from ...system.scratch import Scratch
from . import classes, jars, settings
from .failure import why
from .interrupt import Interrupts
from .java import Java
from .jvm import Jvm
from .ship import archive


class Session(SparkSession):
    """A SparkSession whose end is the end of its JVM."""

    def stop(self) -> None:
        """Stop the session and end its JVM; nothing of it is left running when this returns."""
        driver = Driver.running
        if driver is not None and driver.spark._sc is self._sc:
            driver.stop()


class Driver:
    """A running driver; at most one, :attr:`running`.

    Raises Error where it does not start, with the last lines of its log.
    """

    running: Driver | None = None

    def __init__(self, master: str, app: str, java: Java, conf: Mapping[str, str]) -> None:
        self.master, self.app, self.process_id = master, app, os.getpid()
        self.log = new_log("spark")
        self._asked = dict(conf)
        self._jvm: Jvm | None = None
        self._interrupts = Interrupts(self._cancel)
        self._scratch = Scratch(cache_dir("spark"), "run-")
        try:
            self.spark = self._start(java)
        except Exception as error:
            # A Java exception is read through the JVM, so before that ends.
            said = str(error)
            self.stop()
            raise Error(why(said, master, self.log)) from None
        except BaseException:
            self.stop()
            raise
        Driver.running = self

    @property
    def alive(self) -> bool:
        """False once its JVM has ended or its context was stopped by other means."""
        return self._jvm is not None and self._jvm.alive and self.spark._sc._jsc is not None

    def value(self, name: str) -> str | None:
        """A setting as it is now; None for one that Spark does not know."""
        if name in settings.ADDED:
            return self._asked.get(name)
        try:
            return self.spark.conf.get(name)
        except PySparkException:
            return None

    def stop(self) -> None:
        """End the JVM, forget it, and remove its files. Harmless when repeated."""
        if Driver.running is self:
            Driver.running = None
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            # PySpark would ask the JVM to stop its context, and wait: for ever, where it is stuck or its line is
            # in use. The end of its input has the JVM do the same by itself.
            jvm.end()
        _forget()
        self._interrupts.remove()
        # PySpark put a folder for files of jobs there.
        sys.path[:] = [path for path in sys.path if not path.startswith(str(self._scratch.path))]
        self._scratch.close()

    def _start(self, java: Java) -> Session:
        folder = self._scratch.path
        for name in ("local", "warehouse", "tmp"):
            (folder / name).mkdir()
        configuration = folder / "conf"
        settings.write_conf(configuration)
        ours = settings.settings(self.master, folder) | jars.setting()
        if settings.one_jvm(self.master):
            ours = settings.merged(ours, {"spark.driver.extraJavaOptions": classes.options(java)})
            configuration = classes.conf()
        wanted = settings.merged(ours, self._asked)
        wanted |= {"spark.master": self.master, "spark.app.name": self.app}
        python = wanted.get("spark.pyspark.python", sys.executable)
        self._jvm = Jvm(self.master, java, python, wanted, folder, self.log, configuration)
        with self._jvm.answer.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        _hush()
        before = signal.getsignal(signal.SIGINT)
        with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=python):
            conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        # The line on which workers' counts come ends with the JVM, and no traceback need tell.
        context._accumulatorServer.__dict__["handle_error"] = lambda *_: None
        if signal.getsignal(signal.SIGINT) != before:
            self._interrupts.install(before, gateway._gateway_client)
        if settings.kind(self.master) == "cluster":
            context.addPyFile(str(archive(folder)))
        if settings.one_jvm(self.master):
            jvm: Any = context._jvm
            # No checksum files beside files on local disks: each costs two processes.
            jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)
        return Session(context)

    def _cancel(self) -> None:
        with contextlib.suppress(py4j.protocol.Py4JError, OSError, AttributeError):
            self.spark._sc.cancelAllJobs()


def _forget() -> None:
    """Have PySpark forget a JVM that has ended, so that it can have another."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context._jsc = None
        if context._accumulatorServer is not None:
            context._accumulatorServer.shutdown()
            context._accumulatorServer.server_close()
    if gateway is not None:
        with contextlib.suppress(py4j.protocol.Py4JError, OSError):
            gateway.shutdown_callback_server()
            gateway.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = SQLContext._instantiatedContext = None


def _hush() -> None:
    """Python's side of quiet: what PySpark prints beside the exception that says the same."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    """False for what py4j says on the root logger: that a call was interrupted or lost its JVM, with tracebacks."""
    return os.path.join("py4j", "java_gateway") not in record.pathname


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Environment variables that PySpark reads while it starts, and that nobody else shall see."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
