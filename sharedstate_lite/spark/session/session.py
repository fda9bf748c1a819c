"""The kit's one way to a Spark session.

    spark = session()                            local[2], or what SHAREDSTATE_LITE_MASTER names
    spark = session("local-cluster[2,1,1024]")   two executors beside the driver
    spark = session("spark://host:7077")         a standalone cluster
    spark = session("sc://host:15002")           Spark Connect, where its packages are installed
    stop()                                       and nothing of it is left running

There is one session at a time. A second call returns the first one's if it asks for
nothing else, and raises if it does: PySpark would hand out the old session and drop
the difference without a word. A session that has died is replaced. One that ends with
``with``, with its own ``stop()`` or with Python is gone, JVM and files included.

pyspark is imported only when a session is started.
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

    from .connect import Remote
    from .launch import Driver

_one_at_a_time = threading.RLock()
_current: Driver | Remote | None = None

REACH_SECONDS = 5


def session(
    master: str | None = None,
    *,
    app: str | None = None,
    shuffle_partitions: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, Value] | None = None,
) -> SparkSession:
    """The running session, or a new one (4 to 8 s).

    ``master``              where it runs; default SHAREDSTATE_LITE_MASTER, else local[2]
    ``app``                 its name; default sharedstate_lite
    ``shuffle_partitions``  partitions, and so state stores, after a shuffle; default 2
    ``memory``              the driver's heap, such as '2g'; default a quarter of the machine's, 1 to 4 GiB
    ``conf``                further Spark settings, which go before the kit's own

    Raises :class:`~sharedstate_lite.errors.Error` where an argument is wrong, where a
    session runs that differs from what is asked, and where Spark does not start: then
    with the last lines of its log.
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
    with _one_at_a_time:
        running = _running()
        if running is not None:
            _same(running, master, app, asked)
            return running.spark
        where = master or os.environ.get(VARIABLE) or MASTER
        found = settings.kind(where)
        _alone()
        if found == "connect":
            from .connect import Remote

            _current = Remote(where, app or APP, asked)
        else:
            if found == "cluster":
                _reachable(where)
            java = find_java()
            from .launch import Driver

            _current = Driver(where, app or APP, java, asked)
        return _current.spark


def stop() -> None:
    """End the session, its JVM and its files. Harmless where there is none."""
    global _current
    with _one_at_a_time:
        running, _current = _current, None
        if running is not None and running.process_id == os.getpid():
            running.stop()


def log_file() -> Path | None:
    """Where the running session's JVM writes; None where there is no session, or its JVM is elsewhere."""
    running = _current
    return running.log if running is not None else None


def _running() -> Driver | Remote | None:
    """The session that can still be used; one that died is cleared away."""
    if _current is not None and _current.process_id != os.getpid():
        raise Error(
            f"session: it belongs to process {_current.process_id}, from which this one was forked, "
            "and cannot be shared; start the process anew (multiprocessing's method 'spawn') and call session() there"
        )
    if _current is not None and not _current.alive:
        stop()
    return _current


def _same(running: Driver | Remote, master: str | None, app: str | None, asked: Mapping[str, str]) -> None:
    """Refuse what the running session is not."""
    wishes: dict[str, tuple[str | None, str | None]] = {"master": (running.master, master), "app": (running.app, app)}
    wishes |= {name: (running.value(name), value) for name, value in asked.items()}
    differ = [
        f"{name} is {is_!r}, not {asked_!r}" for name, (is_, asked_) in wishes.items() if asked_ not in (None, is_)
    ]
    if differ:
        raise Error(
            f"session: one is running and differs: {'; '.join(differ)}; there is one session at a time: "
            "call session() without arguments to use it, or sharedstate_lite.spark.stop() first"
        )


def _alone() -> None:
    """Refuse to start beside a session that something else started."""
    context = sys.modules.get("pyspark.core.context")
    if context is not None and context.SparkContext._active_spark_context is not None:
        raise Error(
            "session: this process has a Spark session that was started without the kit, with other settings; "
            "stop it (spark.stop()), then call session()"
        )
    if context is not None and context.SparkContext._gateway is not None:
        raise Error(
            "session: this process holds a JVM of an earlier Spark session that was started without the kit, and its "
            "settings cannot be changed any more; restart Python, and start sessions with session() only"
        )


def _reachable(master: str) -> None:
    """Ask the cluster's port first: Spark itself gives up on a wrong address after a minute."""
    refusals = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
        except (OSError, OverflowError) as error:
            refusals.append(f"{address} ({error})")
        else:
            return
    raise Error(f"master {master}: nobody answers at {', '.join(refusals)}; start the cluster, or correct the address")


atexit.register(stop)
