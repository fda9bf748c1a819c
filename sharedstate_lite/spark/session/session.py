"""Start, share and stop the one Spark session of a process.

    spark = session()                            local[2], or the master in SHAREDSTATE_LITE_MASTER
    spark = session("local-cluster[2,1,1024]")   two executors beside the driver
    spark = session("spark://host:7077")         a standalone cluster
    stop()                                       ends the session, its JVM and its files

A process has one session at a time. A second call returns it if it asks for nothing else, and raises Error otherwise:
PySpark would return the old session and ignore the difference. A session that died is replaced. A session ends with
``stop``, at the end of a ``with`` block, or with the process.

PySpark is imported when the first session starts.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Error
from . import settings
from .java import find_java
from .settings import APP, MASTER, VARIABLE, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .launch import SparkDriver

_lock = threading.RLock()
_current: SparkDriver | None = None

CONNECT_SECONDS = 5


def session(
    master: str | None = None,
    *,
    app: str | None = None,
    shuffle_partitions: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, Value] | None = None,
) -> SparkSession:
    """The running session, or a new one, which takes 4 to 8 s.

    ``master``              where it runs; default SHAREDSTATE_LITE_MASTER, or else local[2]
    ``app``                 its name; default sharedstate_lite
    ``shuffle_partitions``  partitions, and so state stores, after a shuffle; default 2
    ``memory``              the driver's heap, such as '2g'; default a quarter of the machine's memory, 1 to 4 GiB
    ``conf``                further Spark settings, which override the kit's

    Raises Error for a wrong argument, if a session runs that differs from the arguments, and if Spark does not start:
    then with the end of its log.
    """
    global _current
    settings.check(shuffle_partitions, memory)
    asked = settings.plain(conf or {})
    if shuffle_partitions is not None:
        asked.setdefault("spark.sql.shuffle.partitions", str(shuffle_partitions))
    if memory is not None:
        asked.setdefault("spark.driver.memory", memory.lower())
    if master is not None:
        settings.kind(master)
    with _lock:
        running = _running()
        if running is not None:
            _check_same(running, master, app, asked)
            return running.spark
        where = master or os.environ.get(VARIABLE) or MASTER
        kind = settings.kind(where)
        _check_no_other()
        if kind == "cluster":
            _check_reachable(where)
        java = find_java()
        from .launch import SparkDriver

        _current = SparkDriver(where, app or APP, java, asked)
        return _current.spark


def stop() -> None:
    """End the session, its JVM and its files. Does nothing without a session."""
    global _current
    with _lock:
        running, _current = _current, None
        if running is not None and running.process_id == os.getpid():
            running.stop()


def log_file() -> Path | None:
    """The log of the running session's JVM; None without a session."""
    running = _current
    return running.log if running is not None else None


def _running() -> SparkDriver | None:
    """The session that can be used; one that died is cleaned up."""
    if _current is not None and _current.process_id != os.getpid():
        raise Error(
            f"session: it belongs to process {_current.process_id}, from which this process was forked, and cannot be "
            "shared; start this process with multiprocessing's method 'spawn', and call session() in it"
        )
    if _current is not None and not _current.alive:
        stop()
    return _current


def _check_same(running: SparkDriver, master: str | None, app: str | None, asked: Mapping[str, str]) -> None:
    """Raise Error for arguments that the running session does not have."""
    wishes: dict[str, tuple[str | None, str | None]] = {"master": (running.master, master), "app": (running.app, app)}
    wishes |= {name: (running.value(name), value) for name, value in asked.items()}
    differ = [
        f"{name} is {is_!r}, not {asked_!r}" for name, (is_, asked_) in wishes.items() if asked_ not in (None, is_)
    ]
    if differ:
        raise Error(
            f"session: the running session differs: {'; '.join(differ)}; a process has one session at a time: "
            "call session() without arguments to use it, or sharedstate_lite.spark.stop() first"
        )


def _check_no_other() -> None:
    """Raise Error if PySpark has a session that the kit did not start."""
    context = sys.modules.get("pyspark.core.context")
    if context is not None and context.SparkContext._active_spark_context is not None:
        raise Error(
            "session: this process has a Spark session that was started without the kit, with other settings; "
            "stop it with spark.stop(), then call session()"
        )
    if context is not None and context.SparkContext._gateway is not None:
        raise Error(
            "session: this process still has the JVM of a Spark session that was started without the kit, and its "
            "settings cannot change; restart Python, and start sessions with session() only"
        )


def _check_reachable(master: str) -> None:
    """Connect to the master's port first: Spark gives up on a wrong address only after a minute."""
    refusals = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            refusals.append(f"{address} ({error})")
        else:
            return
    raise Error(f"master {master}: no answer from {', '.join(refusals)}; start the cluster, or correct the address")


atexit.register(stop)
