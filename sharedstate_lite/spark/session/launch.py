"""One Spark driver: its JVM, its context and its session, started and stopped together.

A JVM that PySpark starts keeps running after its session is stopped, writes to Python's standard streams, reads a dozen
environment variables, and turns Ctrl-C into two tracebacks. Here, :mod:`.jvm` starts the JVM, and PySpark connects to
it. Stopping the session also stops the JVM and everything that runs in it.
"""

from __future__ import annotations

import contextlib
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
from .failure import explain
from .interrupt import Interrupts
from .java import Java
from .jvm import Jvm
from .quiet import silence
from .ship import archive


class DriverSession(SparkSession):
    """A SparkSession whose ``stop`` also stops its JVM."""

    def stop(self) -> None:
        """Stop the session, and wait until its JVM and all processes that the JVM started have exited."""
        driver = SparkDriver.running
        if driver is not None and driver.spark._sc is self._sc:
            driver.stop()


class SparkDriver:
    """A running driver. A process has at most one, in the class attribute ``running``.

    Raises Error, with the end of the log, if the driver does not start.
    """

    running: SparkDriver | None = None

    def __init__(self, master: str, java: Java, conf: Mapping[str, str]) -> None:
        self.master, self.process_id = master, os.getpid()
        self.log = new_log("spark")
        self._asked = dict(conf)
        self._jvm: Jvm | None = None
        self._interrupts = Interrupts(self._cancel)
        self._scratch = Scratch(cache_dir("spark"), "run-")
        try:
            self.spark = self._start(java)
        except Exception as error:
            # The text of a Java exception comes from the JVM, so read it before the JVM stops.
            text = str(error)
            self.stop()
            raise Error(explain(text, master, self.log)) from None
        except BaseException:
            self.stop()
            raise
        SparkDriver.running = self

    @property
    def alive(self) -> bool:
        """Whether the driver can be used: its JVM is running, and its context was not stopped."""
        return self._jvm is not None and self._jvm.alive and self.spark._sc._jsc is not None

    def value(self, name: str) -> str | None:
        """Return the current value of a setting, or None for an unknown one.

        For Java options and jars, return only the caller's part of the value.
        """
        if name in settings.ADDED:
            return self._asked.get(name)
        try:
            return self.spark.conf.get(name)
        except PySparkException:
            return None

    def stop(self) -> None:
        """Stop the JVM and delete its files. Calling it again is harmless."""
        if SparkDriver.running is self:
            SparkDriver.running = None
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            # PySpark's stop() would wait for the JVM forever if the JVM is stuck or its connection is in use. When its
            # standard input is closed, the JVM stops the context by itself.
            jvm.end()
        _forget()
        self._interrupts.remove()
        # PySpark has added a folder for the files of jobs to the module path.
        sys.path[:] = [path for path in sys.path if not path.startswith(str(self._scratch.path))]
        self._scratch.close()

    def _start(self, java: Java) -> DriverSession:
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
        wanted["spark.master"] = self.master
        python = wanted.get("spark.pyspark.python", sys.executable)
        self._jvm = Jvm(self.master, java, python, wanted, folder, self.log, configuration)
        with self._jvm.answer.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        silence()
        before = signal.getsignal(signal.SIGINT)
        with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=python):
            conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        # When the JVM exits, the connection for accumulators breaks, and PySpark would print a traceback.
        context._accumulatorServer.__dict__["handle_error"] = lambda *_: None
        if signal.getsignal(signal.SIGINT) != before:
            self._interrupts.install(before, gateway._gateway_client)
        if settings.kind(self.master) == "cluster":
            context.addPyFile(str(archive(folder)))
        if settings.one_jvm(self.master):
            jvm: Any = context._jvm
            # Turn off checksum files on local disks, because Hadoop starts two processes for each one.
            jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)
        return DriverSession(context)

    def _cancel(self) -> None:
        with contextlib.suppress(py4j.protocol.Py4JError, OSError, AttributeError):
            self.spark._sc.cancelAllJobs()


def _forget() -> None:
    """Clear PySpark's global state after its JVM has stopped, so that PySpark can connect to another JVM."""
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


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set environment variables for the duration of the block, and then restore their earlier values."""
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
