"""The JVM of a driver. It starts with a clean environment, logs to a file, and stops together with its children.

In the JVM, PySpark's gateway reads from standard input, which is a pipe from this process. If this process exits or is
killed, the pipe is closed, and the JVM stops its jobs and exits. The JVM runs in its own session, so Ctrl-C in a
terminal reaches only Python.
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
from .interrupt import delayed
from .java import Java

START_SECONDS = 180
"""How long to wait until the JVM listens for Python. After that, the start fails."""

STOP_SECONDS = 120
"""How long the JVM has to exit before it is killed. If it writes an archive of classes, it needs half a minute."""
ORPHAN_SECONDS = 5
"""How long executors have to exit after their driver before they are killed.

In a container without an init process, executors that have exited remain as zombies, so this time always passes.
"""


class Jvm:
    """A running JVM. The file ``answer`` contains the port on which it listens, and the secret for connecting to it.

    The JVM writes all its output to ``log``, and its temporary files to ``folder``. ``conf`` are the settings for
    Spark, and ``configuration`` is Spark's configuration folder. Raises Error if the JVM does not start.
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
        spark = _home(master, folder)
        script = spark / "bin" / "spark-submit"
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        # Other users cannot read the new folder, because the file contains the secret.
        self.answer = Path(tempfile.mkdtemp(dir=folder)) / "gateway"
        variables = environment(master, java, folder, spark, python) | {"SPARK_CONF_DIR": str(configuration)}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with log.open("ab") as sink, delayed():
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
        """Whether the JVM is running."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """Stop the JVM and its executors, by force if necessary, and wait until they have exited."""
        process = self._process
        if process is None:
            return  # Popen itself failed
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS)
        process.kill()
        process.wait()
        deadline = time.monotonic() + ORPHAN_SECONDS
        # Executors are children of the JVM, so this process cannot wait for them.
        while _signal(process.pid, 0) and time.monotonic() < deadline:
            time.sleep(0.02)
        _signal(process.pid, signal.SIGKILL)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the file with the port, which the JVM renames into place. Raises Error if it does not appear."""
        deadline = time.monotonic() + START_SECONDS
        while not self.answer.is_file():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=0.05)
                raise Error(f"the JVM exited with code {code}")
            if time.monotonic() > deadline:
                raise Error(f"the JVM did not start within {START_SECONDS} s")


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group of processes. Return False if no process is left that can receive it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _home(master: str, folder: Path) -> Path:
    """Return SPARK_HOME. Executors of local-cluster create their folders in it, so it is in ``folder``."""
    if master.startswith("local-cluster"):
        return home.linked(folder / "home")
    return home.shared() if settings.kind(master) == "local" else home.package()


def environment(master: str, java: Java, folder: Path, spark: Path, python: str) -> dict[str, str]:
    """Return the environment variables for the JVM.

    These are the user's variables, without those of other Spark installations, and the kit's own variables.
    """
    local = settings.kind(master) == "local"
    kept = () if local else ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS")
    dropped = ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if local else ()
    out = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not (name.startswith(("SPARK_", "PYSPARK_")) or name in dropped)
    }
    root = checkout()
    # Workers import the kit by name, so a checkout that is not installed must be on their path.
    paths = [part for part in (out.get("PYTHONPATH"), str(root) if root else None) if part]
    if paths:
        out["PYTHONPATH"] = os.pathsep.join(paths)
    if local:
        # Spark would otherwise look up the host name, which may not resolve.
        out["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        # The setting spark.local.dir would also apply to other machines, which do not have this folder.
        out["SPARK_LOCAL_DIRS"] = str(folder / "local")
    return out | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
