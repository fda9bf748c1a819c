"""One Spark driver: its JVM, its context and its session, started and ended together.

PySpark starts a JVM that outlives the session, writes to whatever streams Python has,
and is configured by a dozen environment variables. Here the JVM is started by hand the
way :mod:`pyspark.java_gateway` does it, with three differences: its environment is
made, not inherited; its output goes to a log file from the first line (it writes
before log4j is there); and it is ended, and waited for, with the session.

Its standard input is a pipe that it reads until the end. However this process ends,
killed included, the pipe ends, and so does the JVM. It leads a session of its own, so
Ctrl-C in a terminal reaches Python alone, which decides.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import py4j.protocol  # type: ignore[import-untyped]
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

from ..cache import cache_dir, checkout
from ..errors import Error
from . import settings
from .failure import why
from .java import Java
from .scratch import Scratch
from .ship import archive

START_SECONDS = 180
"""A JVM that has not come up by then will not."""

STOP_SECONDS = 30
KEPT_LOGS = 10

_HOME = Path(pyspark.__file__).parent


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
        self.log = _new_log()
        self._scratch = Scratch(cache_dir("spark"), "run-")
        folder = self._scratch.path
        for name in ("local", "warehouse", "tmp"):
            (folder / name).mkdir()
        settings.write_conf(folder / "conf")
        self._jvm: subprocess.Popen[bytes] | None = None
        self._asked = dict(conf)
        wanted = settings.merged(settings.settings(master, folder), conf)
        wanted |= {"spark.master": master, "spark.app.name": app}
        try:
            python = wanted.get("spark.pyspark.python", sys.executable)
            home = _spark_home(master, folder)
            self.spark = self._start(wanted, python, _environment(master, java, folder, home, python))
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
        return self._jvm is not None and self._jvm.poll() is None and self.spark._sc._jsc is not None

    def value(self, name: str) -> str | None:
        """A setting as it is now; None for one that Spark does not know."""
        if name in settings.ADDED:
            return self._asked.get(name)
        try:
            return self.spark.conf.get(name)
        except PySparkException:
            return None

    def stop(self) -> None:
        """End the session, then the JVM, then remove their files. Harmless when repeated."""
        if Driver.running is self:
            Driver.running = None
        jvm, self._jvm = self._jvm, None
        up = jvm is not None and jvm.poll() is None
        context, gateway = SparkContext._active_spark_context, SparkContext._gateway
        with warnings.catch_warnings(), contextlib.suppress(py4j.protocol.Py4JError, OSError):
            # Of a JVM that has died on its own, all that is left to do is to forget it.
            warnings.simplefilter("ignore")
            if context is not None:
                context.stop() if up else _abandon(context)
        with contextlib.suppress(py4j.protocol.Py4JError, OSError):
            if gateway is not None:
                gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = SQLContext._instantiatedContext = None
        if jvm is not None:
            _end(jvm)
        self._scratch.close()

    def _start(self, wanted: dict[str, str], python: str, environment: dict[str, str]) -> Session:
        with tempfile.TemporaryDirectory(dir=self._scratch.path) as name, self.log.open("ab") as log:
            # The JVM writes where it listens, and the secret, to a file that it renames into place.
            answer = Path(name) / "gateway"
            options = [part for key, value in wanted.items() for part in ("--conf", f"{key}={value}")]
            script = _HOME / "bin" / ("spark-submit.cmd" if os.name == "nt" else "spark-submit")
            self._jvm = subprocess.Popen(
                [str(script), *options, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)},
                start_new_session=True,
            )
            _await(self._jvm, answer)
            with answer.open("rb") as file:
                port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        with _variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=python):
            _hush()
            conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        if settings.kind(wanted["spark.master"]) == "cluster":
            context.addPyFile(str(archive(self._scratch.path)))
        return Session(context)


def _spark_home(master: str, folder: Path) -> Path:
    """Where Spark is: the package, or for local-cluster a look-alike, since its executors write into their home."""
    if not master.startswith("local-cluster"):
        return _HOME
    home = folder / "home"
    home.mkdir()
    for part in _HOME.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home


def _environment(master: str, java: Java, folder: Path, home: Path, python: str) -> dict[str, str]:
    """The JVM's environment: the user's, less what would configure another Spark, plus ours."""
    local = settings.kind(master) == "local"
    kept = () if local else ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS")
    dropped = ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if local else ()
    out = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not (name.startswith(("SPARK_", "PYSPARK_")) or name in dropped)
    }
    root = checkout()
    # Workers import what the driver sent by name; a checkout is on their path only where they start in it.
    paths = [part for part in (out.get("PYTHONPATH"), str(root) if root else None) if part]
    if paths:
        out["PYTHONPATH"] = os.pathsep.join(paths)
    if not local:
        # The setting of this name would hold on the workers' machines too, where there is no such folder.
        out["SPARK_LOCAL_DIRS"] = str(folder / "local")
    else:
        # A host name that does not resolve, or resolves to a network that is gone, is no reason not to start.
        out["SPARK_LOCAL_IP"] = "127.0.0.1"
    return out | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _await(jvm: subprocess.Popen[bytes], answer: Path) -> None:
    """Wait until the JVM has said where it listens."""
    deadline = time.monotonic() + START_SECONDS
    while not answer.is_file():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = jvm.wait(timeout=0.05)
            raise Error(f"its JVM ended at once, with exit code {code}")
        if time.monotonic() > deadline:
            raise Error(f"its JVM did not come up within {START_SECONDS} s")


def _end(jvm: subprocess.Popen[bytes]) -> None:
    """End the JVM by ending its standard input; by force where that is not enough."""
    assert jvm.stdin is not None
    with contextlib.suppress(OSError):
        jvm.stdin.close()
    try:
        jvm.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # Executors of local-cluster are in the JVM's group; workers end with their pipes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(jvm.pid, signal.SIGKILL) if hasattr(os, "killpg") else jvm.kill()
        jvm.wait()


def _abandon(context: Any) -> None:
    context._jsc = None
    if context._accumulatorServer is not None:
        context._accumulatorServer.shutdown()
        context._accumulatorServer = None


def _hush() -> None:
    """Python's side of quiet: these two print each failed query as JSON, beside the exception that tells it."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


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


def _new_log() -> Path:
    """A new log file; of those of earlier days, the latest few stay."""
    folder = cache_dir("logs")
    for old in sorted(folder.glob("spark-*.log"))[: 1 - KEPT_LOGS]:
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                old.unlink()
    handle, name = tempfile.mkstemp(dir=folder, prefix=f"spark-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".log")
    os.close(handle)
    return Path(name)
