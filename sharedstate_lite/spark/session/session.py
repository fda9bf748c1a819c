"""Starts, shares and stops the one Spark session of a process.

    spark = session()                            on local[2], or on the master in SHAREDSTATE_LITE_MASTER
    spark = session("local-cluster[2,1,1024]")   with two executors as separate processes
    spark = session("spark://host:7077")         on a standalone cluster
    stop()                                       stops the session and its JVM, and deletes its files

A process has at most one session at a time. A second call returns the running session if its arguments match that
session, and raises Error otherwise. PySpark would return the old session and ignore the difference. If the session's
JVM has died, the next call starts another session. A session ends with ``stop``, at the end of a ``with`` block, or
when the process exits.

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
from .settings import MASTER, VARIABLE, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .launch import SparkDriver

_lock = threading.RLock()
_current: SparkDriver | None = None

CONNECT_SECONDS = 5


def session(
    master: str | None = None,
    *,
    shuffle_partitions: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, Value] | None = None,
) -> SparkSession:
    """Return the running session, or start one, which takes 4 to 8 s.

    ``master``              where Spark runs (default: SHAREDSTATE_LITE_MASTER, or local[2] if that is not set)
    ``shuffle_partitions``  partitions after a shuffle, and therefore state stores per operator (default: 2)
    ``memory``              the size of the driver's heap, such as '2g' (default: a quarter of the memory, 1 to 4 GiB)
    ``conf``                other Spark settings, which override the kit's

    Raises Error for a wrong argument, or if the running session does not match the arguments. Also raises Error, with
    the end of the log, if Spark does not start.
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
            _check_same(running, master, asked)
            return running.spark
        where = master or os.environ.get(VARIABLE) or MASTER
        kind = settings.kind(where)
        _check_no_other()
        if kind == "cluster":
            _check_reachable(where)
        java = find_java()
        from .launch import SparkDriver

        _current = SparkDriver(where, java, asked)
        return _current.spark


def stop() -> None:
    """Stop the session and its JVM, and delete its files. Does nothing if there is no session."""
    global _current
    with _lock:
        running, _current = _current, None
        if running is not None and running.process_id == os.getpid():
            running.stop()


def log_file() -> Path | None:
    """Return the path of the log of the running session's JVM, or None if there is no session."""
    running = _current
    return running.log if running is not None else None


def _running() -> SparkDriver | None:
    """Return the driver of the running session, or None. If the driver has died, clean up after it.

    Raises Error if the session belongs to a process from which this one was forked.
    """
    if _current is not None and _current.process_id != os.getpid():
        raise Error(
            f"session: it belongs to process {_current.process_id}, from which this process was forked, and cannot be "
            "shared. Start this process with multiprocessing's method 'spawn', and call session() in it"
        )
    if _current is not None and not _current.alive:
        stop()
    return _current


def _check_same(running: SparkDriver, master: str | None, asked: Mapping[str, str]) -> None:
    """Raise Error if an argument does not match the running session."""
    wishes = {name: (running.value(name), value) for name, value in asked.items()}
    wishes["master"] = running.master, running.master if master is None else master
    differ = [f"{name} is {is_!r}, not {asked_!r}" for name, (is_, asked_) in wishes.items() if asked_ != is_]
    if differ:
        raise Error(
            f"session: the running session differs: {'; '.join(differ)}. A process has one session at a time. Call "
            "session() without arguments to use the running one, or stop it with sharedstate_lite.spark.stop() first"
        )


def _check_no_other() -> None:
    """Raise Error if this process has a Spark session that the kit did not start."""
    context = sys.modules.get("pyspark.core.context")
    if context is not None and context.SparkContext._gateway is not None:
        raise Error(
            "session: this process has the JVM of a Spark session that was started without the kit, and the settings "
            "of that JVM cannot be changed. Restart Python, and start sessions only with session()"
        )


def _check_reachable(master: str) -> None:
    """Raise Error if the master's port is not open. Spark itself gives up on a wrong address only after a minute."""
    refusals = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            refusals.append(f"{address} ({error})")
        else:
            return
    raise Error(f"master {master}: cannot connect to {', '.join(refusals)}; start the cluster, or correct the address")


atexit.register(stop)
