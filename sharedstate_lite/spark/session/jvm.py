"""The JVM of a driver: started with an environment of its own, heard in a file, ended with all that it started.

Its standard input is a pipe that it reads until the end. However this process ends,
killed included, the pipe ends, and so does the JVM: it stops what it runs, then exits.
It leads a session of its own, so Ctrl-C in a terminal reaches Python alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ...errors import Error
from ...system.cache import checkout
from . import home, settings
from .interrupt import late
from .java import Java

START_SECONDS = 180
"""A JVM that has not come up by then will not."""

STOP_SECONDS = 120
"""A JVM that has not ended by then is stuck; one that archives its classes takes half a minute."""
ORPHAN_SECONDS = 5
"""Executors end a moment after their driver. Where nobody collects orphans, their remains are not waited for longer."""


class Jvm:
    """A JVM that listens for Python; ``answer`` is the file that says where, with the secret.

    It writes to ``log`` from its first line, before its own logging is there.
    ``configuration`` is the folder on its class path for Spark's settings. Raises Error
    where it does not come up.
    """

    def __init__(
        self,
        master: str,
        java: Java,
        python: str,
        conf: Mapping[str, str],
        folder: Path,
        log: Path,
        configuration: Path,
    ) -> None:
        spark = _home(master, folder, python)
        script = spark / "bin" / ("spark-submit.cmd" if os.name == "nt" else "spark-submit")
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        # Nobody else may read the secret.
        self.answer = Path(tempfile.mkdtemp(dir=folder)) / "gateway"
        variables = environment(master, java, folder, spark, python) | {"SPARK_CONF_DIR": str(configuration)}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with log.open("ab") as sink, late():
                self._process = subprocess.Popen(
                    [str(script), *options, "pyspark-shell"],
                    stdin=subprocess.PIPE,
                    stdout=sink,
                    stderr=sink,
                    env={**variables, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.answer)},
                    start_new_session=True,
                )
            self._await(self._process)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """False once it has ended."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """End it, and wait until it and the executors that it started are gone; by force where they stay."""
        process = self._process
        if process is None:
            return  # it could not even be started
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS)
        process.kill()
        process.wait()
        if os.name != "nt":
            deadline = time.monotonic() + ORPHAN_SECONDS
            # Executors are the JVM's children, not ours: the system tells nobody else that the last of them has gone.
            while _signal(process.pid, 0) and time.monotonic() < deadline:
                time.sleep(0.02)
            _signal(process.pid, signal.SIGKILL)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it has said where it listens; it renames that file into place."""
        deadline = time.monotonic() + START_SECONDS
        while not self.answer.is_file():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=0.05)
                raise Error(f"its JVM ended at once, with exit code {code}")
            if time.monotonic() > deadline:
                raise Error(f"its JVM did not come up within {START_SECONDS} s")


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group of processes; False where there is none left that could get it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _home(master: str, folder: Path, python: str) -> Path:
    """Where its Spark is. Other Pythons than this one may have PySpark from nowhere but the package's zip."""
    ours = python == sys.executable
    if master.startswith("local-cluster"):
        return home.alike(folder / "home", zipped=not ours)
    return home.kept() if ours and settings.kind(master) == "local" else home.package()


def environment(master: str, java: Java, folder: Path, spark: Path, python: str) -> dict[str, str]:
    """Its environment: the user's, less what would configure another Spark, plus ours."""
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
    if local:
        # A host name that does not resolve, or resolves to a network that is gone, is no reason not to start.
        out["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        # The setting of this name would hold on the workers' machines too, where there is no such folder.
        out["SPARK_LOCAL_DIRS"] = str(folder / "local")
    return out | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
