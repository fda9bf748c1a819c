"""The application's side: what there is to share, the lease, and the end of both with the Spark context.

One :class:`DriverServer` for each Spark application of this process, made with its first
handle. It listens on a port of the address that executors reach the Spark driver by
and, for files, under a name on this host. A thread of its own serves both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from ...errors import Error
from ..runtime import host
from ..runtime.address import Application
from ..runtime.channel import Channel, Reply, listen
from ..runtime.protocol import Disconnected, Head
from . import connection

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WATCH_SECONDS = 0.2
"""How long a context that was stopped in a driver that goes on may be unnoticed."""
ASK_SECONDS = 60
"""How long a runtime may take to answer the driver, before it counts as stopped."""
Serve = Callable[[Head, "pa.Table | None"], "Reply | Coroutine[Any, Any, Reply]"]
T = TypeVar("T")


class Registration:
    """One thing: its kind and options, its file, and who answers what its runtimes ask of the driver."""

    def __init__(self, kind: str, options: dict[str, Any], file: int | None, serve: Serve | None) -> None:
        self.kind, self.options, self.file, self.serve = kind, options, file, serve


class DriverServer:
    """What one application shares; ``application`` is its address."""

    def __init__(
        self, here: str, reached: str, running: Callable[[], bool], jvm: tuple[str, int] | None = None
    ) -> None:
        """Listen at ``here``, which others reach as ``reached``, while ``running`` says so and ``jvm`` has not ended.

        Needs no Spark itself.
        """
        override = os.environ.get(host.VARIABLE)
        secret, name = secrets.token_bytes(32), secrets.token_hex(8)
        self._lease = socket.create_server((here, 0), family=socket.AF_INET6 if ":" in here else socket.AF_INET)
        self._running, self._pid = running, os.getpid()
        port = self._lease.getsockname()[1]
        self.application = Application(name, secret, (reached, port), host.identity(override), override)
        home = host.listener(self.application.driver_name())
        if home is None:
            raise Error("worker: this driver cannot listen for its own host; look whether sockets are allowed here")
        self._home = home
        # It says nothing; that it ends tells that the JVM has ended.
        self._jvm = socket.create_connection(jvm) if jvm else socket.socket()
        self._jvm.setblocking(False)
        self._has_jvm = jvm is not None
        self.entries: dict[str, Registration] = {}
        self._closed: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._lines: set[Channel] = set()
        self._ended = threading.Event()
        self.loop = asyncio.new_event_loop()
        """Where what runtimes ask is answered, in a thread of its own."""
        self._thread = threading.Thread(target=self._serve, name="sharedstate-lite worker", daemon=True)
        self._thread.start()
        _all.add(self)

    def add(self, kind: str, options: dict[str, Any], file: int | None = None, serve: Serve | None = None) -> str:
        """Note a thing; returns its name."""
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        name = f"{kind} {number}"
        self.entries[name] = Registration(kind, {"name": name, **options}, file, serve)
        return name

    def remove(self, name: str) -> None:
        """Forget a thing, here and in the runtimes."""
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self._closed.add(name)
        if entry.file is not None:
            os.close(entry.file)
        if self.alive:
            self.request_all({"op": "close", "thing": name})

    @property
    def alive(self) -> bool:
        """Whether its application is running, and this is no fork of its process."""
        return not self._ended.is_set() and self._pid == os.getpid() and self._running()

    def request_all(self, head: Head) -> list[Head]:
        """What every runtime answers; one that ends meanwhile is left out."""

        async def ask() -> list[Head]:
            runtimes = [line for line in self._lines if "host" in line.about]
            said = await asyncio.gather(*(line.ask(head) for line in runtimes), return_exceptions=True)
            return [one[0] for one in said if not isinstance(one, BaseException)]

        return self.wait(ask())

    def runtimes(self) -> list[dict[str, Any]]:
        """Host and process id of every runtime that has its lease."""

        async def look() -> list[dict[str, Any]]:
            return [dict(line.about) for line in self._lines if "host" in line.about]

        return self.wait(look())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the driver's loop do something, and wait for it."""
        doing: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return doing.result(ASK_SECONDS)
        except TimeoutError:
            doing.cancel()
            raise Error(
                f"worker: a runtime of application {self.application.name} has not answered within {ASK_SECONDS} s; "
                "look whether it is stopped, or kill it: a fresh one is started"
            ) from None

    def close(self) -> None:
        """End the runtimes, and let go of everything. Harmless when repeated."""
        if self._pid == os.getpid() and not self._ended.is_set():
            self.loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(ASK_SECONDS)

    def forked(self) -> None:
        """In a fork: let go of the connections whose end shall be the end of the process that it was forked from."""
        for sock in (self._lease, self._home, self._jvm):
            sock.close()
        for line in self._lines:
            line.forked()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._until_end())
        finally:
            self._ended.set()
            self.loop.close()
            for sock in (self._lease, self._home, self._jvm):
                sock.close()
            host.unlisten(self.application.driver_name())
            connection.drop(self.application)
            for entry in self.entries.values():
                if entry.file is not None:
                    os.close(entry.file)
            self.entries.clear()

    async def _until_end(self) -> None:
        secret = self.application.secret
        serving = [
            asyncio.create_task(listen(sock, secret, self._answer, self._lines.discard))
            for sock in (self._lease, self._home)
        ]
        never = self.loop.create_future()
        jvm = asyncio.ensure_future(self.loop.sock_recv(self._jvm, 1) if self._has_jvm else never)
        while not self._ended.is_set() and self._running() and not jvm.done():
            await asyncio.wait([jvm], timeout=WATCH_SECONDS)
        for task in (*serving, jvm):
            task.cancel()
        await asyncio.wait([*serving, jvm])
        lines = list(self._lines)
        for line in lines:
            line.shut_down()
        deadline = time.monotonic() + 1
        while self._lines and time.monotonic() < deadline:
            await asyncio.sleep(0.005)  # each line takes itself out when its connection has ended; that rings no bell

    async def _answer(self, line: Channel, head: Head, table: pa.Table | None) -> Reply:
        """What a runtime asks."""
        if head["op"] == "lease":
            line.about = {"host": head["host"], "pid": head["pid"]}
            self._lines.add(line)
            return {}, None
        entry = self.entries.get(str(head["thing"]))
        if entry is None:
            gone = "it is closed" if head["thing"] in self._closed else "there is no such thing"
            raise Error(f"{head['thing']}: {gone}; make another one in the driver")
        if head["op"] == "describe":
            return {"kind": entry.kind, "options": entry.options}, None
        if head["op"] == "file" and entry.file is not None:
            return {"file": entry.file}, None
        if head["op"] == "piece" and entry.file is not None:
            piece = await asyncio.to_thread(os.pread, entry.file, head["count"], head["start"])
            return {}, pa.table({"bytes": pa.array([piece], pa.large_binary())})
        if entry.serve is None:
            raise Error(f"{head['thing']}: nobody in the driver answers {head['op']!r}")
        served = entry.serve(head, table)
        return await served if isinstance(served, Coroutine) else served


SparkLike: TypeAlias = "SparkSession | SparkContext | DriverServer | None"
"""Which application a handle is for: that of a session, by default the active one."""

_drivers: dict[str, DriverServer] = {}
_all: weakref.WeakSet[DriverServer] = weakref.WeakSet()
_one_at_a_time = threading.RLock()


def driver(spark: SparkLike = None) -> DriverServer:
    """The driver of a session's application, or of the session that is active. Raises Error where there is none."""
    if isinstance(spark, DriverServer):
        return spark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = spark if spark is not None else SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkContext._active_spark_context
    if found is None:
        raise Error("worker: no Spark session is running here; start one, such as ss.spark.session(), and share in it")
    context = found if isinstance(found, SparkContext) else getattr(found, "_sc", None)
    if not isinstance(context, SparkContext):
        raise Error(
            f"worker: {type(found).__module__}.{type(found).__name__} is no session of Spark Classic; tasks share "
            "under local[N], local-cluster and spark://, where the driver is in this process"
        )
    if context._jsc is None:
        raise Error("worker: this Spark session has been stopped; start another one, and share in it")
    with _one_at_a_time:
        for name in [name for name, one in _drivers.items() if not one.alive]:
            _drivers.pop(name).close()
        name = str(context.applicationId)
        if name not in _drivers:
            _drivers[name] = _of(context)
        return _drivers[name]


def _of(context: SparkContext) -> DriverServer:
    conf, gateway = context.getConf(), context._gateway
    assert gateway is not None
    here = conf.get("spark.driver.bindAddress") or conf.get("spark.driver.host") or "127.0.0.1"
    jvm = (gateway.gateway_parameters.address, gateway.gateway_parameters.port)
    return DriverServer(here, conf.get("spark.driver.host") or here, lambda: context._jsc is not None, jvm)


def drivers() -> list[DriverServer]:
    """Those of all applications that run."""
    return [one for one in list(_all) if one.alive]


def _forked() -> None:
    for one in _all:
        with contextlib.suppress(OSError, Disconnected):
            one.forked()
    _all.clear()
    _drivers.clear()


with contextlib.suppress(AttributeError):
    os.register_at_fork(after_in_child=_forked)
