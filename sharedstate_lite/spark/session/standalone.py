"""A standalone Spark cluster on this machine: a master and workers on the loopback device, run from the pip package.

    with ss.spark.Cluster(workers=2) as cluster:
        session = ss.spark.session(cluster.url)

Spark's ``spark-class`` starts the processes on free ports. Each is the child of a guard process (:mod:`.guard`), which
stops it when this process exits or is killed. Their files are in one folder of the cache, which is deleted when they
stop. The command ``python -m sharedstate_lite.spark.session.cluster`` starts such a cluster.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import Error, is_integer
from ...system.cache import cache_dir
from ...system.scratch import Scratch
from . import guard, home, jvm, settings
from .java import find_java

START_SECONDS = 60
HOST = "127.0.0.1"
_MASTER = "org.apache.spark.deploy.master.Master"
_LOGGING = f"""\
logger.master.name = {_MASTER}
logger.master.level = info
"""
_DEFAULTS = "spark.master.rest.enabled false\n"


class Cluster:
    """A running cluster. ``url`` is the master to pass to a session.

    The cluster has ``workers`` worker processes, each with ``cores`` cores and ``memory`` for executors, such as '1g'.
    It is a context manager. Raises Error for a wrong argument, and Error with the end of the logs if the cluster does
    not start.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        for name, value in (("workers", workers), ("cores", cores)):
            if not (is_integer(value) and value >= 1):
                raise Error(f"{name}={value!r}: pass an integer of at least 1")
        settings.check(None, memory)
        java = find_java()
        self.workers = workers
        self._scratch = Scratch(cache_dir("spark"), "cluster-")
        folder = self._scratch.path
        self._environment = jvm.environment(f"spark://{HOST}:0", java, folder, home.package(), sys.executable) | {
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": settings.java_options(),
        }
        settings.write_conf(folder / "conf")
        for name, more in ((settings.LOGGING, _LOGGING), ("spark-defaults.conf", _DEFAULTS)):
            with (folder / "conf" / name).open("a") as file:
                file.write(more)
        self._guards: list[subprocess.Popen[bytes]] = []
        try:
            address = ["--host", HOST, "--port", "0", "--webui-port", "0"]
            size = ["--cores", str(cores), "--memory", memory]
            self._run("master", _MASTER, *address)
            self.url: str = self._await(lambda log: re.findall(r"Starting Spark master at (spark://\S+:\d+)", log))[0]
            for number in range(1, workers + 1):
                self._run(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *address, *size, self.url)
            self._await(lambda log: re.findall(r"Registering worker", log)[workers - 1 :])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes and delete their files. Calling it again is harmless."""
        # Stop the workers before the master: they report to it, and they stop their own executors.
        while self._guards:
            process = self._guards.pop()
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        self._scratch.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<standalone cluster at {self.url}, {self.workers} workers>"

    def _run(self, name: str, *arguments: str) -> None:
        script = Path(self._environment["SPARK_HOME"]) / "bin" / "spark-class"
        command = [sys.executable, "-I", guard.__file__, str(script), *arguments]
        with (self._scratch.path / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        self._guards.append(process)

    def _await(self, find: Callable[[str], list[Any]]) -> list[Any]:
        """Call ``find`` with the text of the master's log until it finds something, and return that. Raises Error."""
        deadline = time.monotonic() + START_SECONDS
        log = self._scratch.path / "master.log"
        while True:
            found = find(log.read_text("utf-8", "replace"))
            if found:
                return found
            if time.monotonic() > deadline:
                logs = sorted(self._scratch.path.glob("*.log"))
                tails = [f"{file.name}: {file.read_text('utf-8', 'replace')[-600:]}" for file in logs]
                raise Error(
                    f"the standalone cluster did not start within {START_SECONDS} s; "
                    "run python -m sharedstate_lite.doctor to find the cause; the logs end with\n" + "\n".join(tails)
                )
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guards[-1].wait(timeout=0.05)
