"""Spark in three places, for tests: in this process, on local-cluster, and on a standalone master with two workers.

A conftest imports the fixtures that it wants: ``spark`` is the shared session of one
machine, whichever is running; ``everywhere`` runs a test in each place, one after the other. There is one session at
a time, and each costs a JVM, so tests that ask for ``everywhere`` run last (``last``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

import sharedstate_lite.spark as kit
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session.settings import VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[..., "subprocess.Popen[str]"]
"""The fixture ``start``: starts a script in its own process."""

PLACES = {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]", "standalone": ""}
"""By the parameter of ``everywhere``; a test that needs only some of them uses ``indirect=True``."""
RETRYING = "local[2,3]"
"""This machine, where a failed task runs again, as on a cluster. On local[2] it fails its job."""


def session_on(master: str = "") -> SparkSession:
    """The kit's session on a master, by default the one that runs; a session on another master ends."""
    where = master or os.environ.get(VARIABLE)
    if kit.log_file() is not None:
        try:
            return kit.session(where)
        except Error:
            kit.stop()
    return kit.session(where or RETRYING)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The shared session."""
    yield session_on()
    kit.stop()


@pytest.fixture(scope="session", params=PLACES)
def everywhere(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in each of the places."""
    if PLACES[request.param]:
        yield session_on(PLACES[request.param])
        return
    with kit.Cluster(workers=2) as cluster:
        yield session_on(cluster.url)
        kit.stop()


def last(items: list[pytest.Item]) -> None:
    """Move the tests that replace the session to the end; for ``pytest_collection_modifyitems``."""
    items.sort(key=lambda item: "everywhere" in getattr(item, "fixturenames", ()))


def until(process: subprocess.Popen[str], happened: Callable[[], bool], seconds: float = 180) -> None:
    """Wait until ``happened`` is true; fails if the process ends first, or after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None and time.monotonic() < deadline, process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)


def processes(word: str, among: Iterable[psutil.Process] | None = None) -> list[psutil.Process]:
    """The processes, among these or this one's descendants, with the word in their command line; at least one."""
    found = []
    for process in psutil.Process().children(recursive=True) if among is None else among:
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if word in " ".join(process.cmdline()):
                found.append(process)
    assert found, f"no process has {word} in its command line"
    return found


def kill(word: str, most: int | None = None) -> int:
    """Kill these processes, ``most`` of them; returns how many were killed."""
    killed = 0
    for process in processes(word)[:most]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed += 1
    return killed


@pytest.fixture
def kill_workers(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Kills the Python workers of the shared session and the process that forks them; later tests meet none of them.

    Spark keeps idle workers, and a task that is given one whose starter is gone fails; on one machine its job with it.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    killed = []

    def now() -> int:
        killed.append(kill(WORKER))
        return killed[-1]

    yield now
    # Each failure removes a dead worker from the pool. The pool is a queue, so a job of more tasks than idle workers
    # meets every one of them; a stage of several Python operators leaves more idle workers than there are cores.
    failures, tasks = 0, 32
    jobs: list[Callable[[], object]] = [  # RDDs and Arrow have a pool each
        lambda: spark.sparkContext.parallelize(range(tasks), tasks).map(lambda one: one).count(),
        lambda: spark.range(tasks, numPartitions=tasks).mapInArrow(lambda batches: batches, "id LONG").count(),
    ]
    while jobs:
        try:
            jobs[0]()
            del jobs[0]
        except (Py4JJavaError, PySparkException):
            failures += 1
            assert failures <= sum(killed), "Spark gives tasks dead workers, more often than any were killed"


WORKER = "pyspark.worker"
"""The last argument of the process that forks workers, and so of the workers."""
EXECUTOR = "CoarseGrainedExecutorBackend"
