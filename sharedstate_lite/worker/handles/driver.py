"""The driver's side: the registry of shared resources, and the leases that stop the runtimes with the Spark context.

The driver has one :class:`DriverServer` per Spark application, which is created with the first handle. The server
listens on a TCP port, at the address that executors use to reach the Spark driver, and on a local socket for passing
files. It runs in a separate thread.
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
from ..runtime.channel import RpcChannel, listen
from ..runtime.protocol import Disconnected
from ..runtime.resource import Head, Reply
from . import client

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WATCH_SECONDS = 0.2
"""The interval at which the server checks whether the Spark context has been stopped."""
ASK_SECONDS = 60
"""How long the driver waits for the answer of a runtime."""
Serve = Callable[[Head, "pa.Table | None"], "Reply | Coroutine[Any, Any, Reply]"]
T = TypeVar("T")


class Registration:
    """A shared resource: its kind, its options, its file, and the function that answers its requests in the driver.

    ``file`` and ``serve`` are None for resources that do not need them.
    """

    def __init__(self, kind: str, options: dict[str, Any], file: int | None, serve: Serve | None) -> None:
        self.kind, self.options, self.file, self.serve = kind, options, file, serve


class DriverServer:
    """The server of one application, which runs in the driver. ``application`` is the application's address."""

    def __init__(
        self, here: str, reached: str, running: Callable[[], bool], jvm: tuple[str, int] | None = None
    ) -> None:
        """Listen at the address ``here``, which other hosts reach as ``reached``.

        The server stops when ``running()`` returns False, or when the process that listens at ``jvm`` exits. It does
        not need Spark. Raises Error if it cannot open a local socket.
        """
        override = os.environ.get(host.VARIABLE)
        secret, name = secrets.token_bytes(32), secrets.token_hex(8)
        self._lease = socket.create_server((here, 0), family=socket.AF_INET6 if ":" in here else socket.AF_INET)
        self._running, self._pid = running, os.getpid()
        port = self._lease.getsockname()[1]
        self.application = Application(name, secret, (reached, port), host.identity(override), override)
        home = host.listener(self.application.driver_name())
        if home is None:
            raise Error(
                "worker: this process cannot open a local socket. Check whether a sandbox or container prevents it."
            )
        self._home = home
        # The JVM never sends data over this connection. When it is closed, the JVM has exited.
        self._jvm = socket.create_connection(jvm) if jvm else socket.socket()
        self._jvm.setblocking(False)
        self._has_jvm = jvm is not None
        self.registered: dict[str, Registration] = {}
        self._closed: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._channels: set[RpcChannel] = set()
        self._ended = threading.Event()
        self.loop = asyncio.new_event_loop()
        """The event loop of the server's thread. Handlers of requests run on it."""
        self._thread = threading.Thread(target=self._serve, name="sharedstate-lite worker", daemon=True)
        self._thread.start()
        _all.add(self)

    def register(self, kind: str, options: dict[str, Any], file: int | None = None, serve: Serve | None = None) -> str:
        """Register a resource and return its name, such as ``Cache 1``."""
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        name = f"{kind} {number}"
        self.registered[name] = Registration(kind, {"name": name, **options}, file, serve)
        return name

    def unregister(self, name: str) -> None:
        """Remove a resource from the registry and from all runtimes. A second call does nothing."""
        entry = self.registered.pop(name, None)
        if entry is None:
            return
        self._closed.add(name)
        if entry.file is not None:
            os.close(entry.file)
        if self.alive:
            self.request_all({"op": "close", "resource": name})

    @property
    def alive(self) -> bool:
        """True if the application is running and this process is its driver rather than a fork of the driver."""
        return not self._ended.is_set() and self._pid == os.getpid() and self._running()

    def request_all(self, head: Head) -> list[Head]:
        """Send a request to every runtime. Return the answers, but skip runtimes that exit before they answer.

        Raises Error if a runtime answers with an error.
        """
        return self._run(self.send_all(head))

    async def send_all(self, head: Head, table: pa.Table | None = None) -> list[Head]:
        """Do the same as `request_all` for code that runs on the server's event loop."""
        runtimes = [channel for channel in self._channels if "host" in channel.peer]
        replies = await asyncio.gather(*(one.request(head, table) for one in runtimes), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, Error):
                raise reply
        return [reply[0] for reply in replies if not isinstance(reply, BaseException)]

    def runtimes(self) -> list[dict[str, Any]]:
        """Return the host and the pid of every runtime that has a lease."""

        async def look() -> list[dict[str, Any]]:
            return [dict(channel.peer) for channel in self._channels if "host" in channel.peer]

        return self._run(look())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        doing: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return doing.result(ASK_SECONDS)
        except TimeoutError:
            doing.cancel()
            raise Error(
                f"worker: a runtime of application {self.application.name} did not answer within {ASK_SECONDS} s. "
                "Kill its process; the next request starts a new runtime."
            ) from None

    def close(self) -> None:
        """Stop the runtimes and release all resources. A second call does nothing."""
        if self._pid == os.getpid() and not self._ended.is_set():
            self.loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(ASK_SECONDS)

    def close_in_fork(self) -> None:
        """Close the copies of the sockets that this process received in a fork.

        Otherwise, the runtimes would not notice that the parent process has exited.
        """
        for sock in (self._lease, self._home, self._jvm):
            sock.close()
        for channel in self._channels:
            channel.close_in_fork()

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
            client.close_idle(self.application)
            for entry in self.registered.values():
                if entry.file is not None:
                    os.close(entry.file)
            self.registered.clear()

    async def _until_end(self) -> None:
        secret = self.application.secret
        serving = [
            asyncio.create_task(listen(sock, secret, self._answer, self._channels.discard))
            for sock in (self._lease, self._home)
        ]
        never = self.loop.create_future()
        jvm = asyncio.ensure_future(self.loop.sock_recv(self._jvm, 1) if self._has_jvm else never)
        while not self._ended.is_set() and self._running() and not jvm.done():
            await asyncio.wait([jvm], timeout=WATCH_SECONDS)
        for task in (*serving, jvm):
            task.cancel()
        await asyncio.wait([*serving, jvm])
        for channel in list(self._channels):
            channel.shut_down()
        deadline = time.monotonic() + 1
        while self._channels and time.monotonic() < deadline:
            await asyncio.sleep(0.005)  # each channel removes itself from the set, but there is no event for this

    async def _answer(self, channel: RpcChannel, head: Head, table: pa.Table | None) -> Reply:
        """Answer a request from a runtime."""
        if head["op"] == "lease":
            channel.peer = {"host": head["host"], "pid": head["pid"]}
            self._channels.add(channel)
            return {}, None
        entry = self.registered.get(str(head["resource"]))
        if entry is None:
            why = "it is closed" if head["resource"] in self._closed else "it is not registered in the driver"
            raise Error(f"{head['resource']}: {why}. Create another one in the driver.")
        if head["op"] == "describe":
            return {"kind": entry.kind, "options": entry.options}, None
        if head["op"] == "file" and entry.file is not None:
            return {"file": entry.file}, None
        if head["op"] == "piece" and entry.file is not None:
            piece = await asyncio.to_thread(os.pread, entry.file, head["count"], head["start"])
            return {}, pa.table({"bytes": pa.array([piece], pa.large_binary())})
        if entry.serve is None:
            raise Error(f"{head['resource']}: the driver cannot answer the request {head['op']!r}")
        served = entry.serve(head, table)
        return await served if isinstance(served, Coroutine) else served


SparkLike: TypeAlias = "SparkSession | SparkContext | DriverServer | None"
"""Identifies the application that a handle belongs to. None means the active session."""

_drivers: dict[str, DriverServer] = {}
_all: weakref.WeakSet[DriverServer] = weakref.WeakSet()
_lock = threading.RLock()


def driver(spark: SparkLike = None) -> DriverServer:
    """Return the server of the application that ``spark`` belongs to. Create it if it does not exist.

    Raises Error if no session is running, or if ``spark`` is not a session of Spark Classic.
    """
    if isinstance(spark, DriverServer):
        return spark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = spark if spark is not None else SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkContext._active_spark_context
    if found is None:
        raise Error("worker: no Spark session is running. Start one with ss.spark.session() before you create handles.")
    context = found if isinstance(found, SparkContext) else getattr(found, "_sc", None)
    if not isinstance(context, SparkContext):
        raise Error(
            f"worker: {type(found).__module__}.{type(found).__name__} is not a session of Spark Classic. Handles need "
            "the master local[N], local-cluster or spark://, so that the driver is in this process."
        )
    if context._jsc is None:
        raise Error("worker: this Spark session has been stopped. Start another one before you create handles.")
    with _lock:
        for name in [name for name, one in _drivers.items() if not one.alive]:
            _drivers.pop(name).close()
        name = str(context.applicationId)
        if name not in _drivers:
            _drivers[name] = _serve(context)
        return _drivers[name]


def _serve(context: SparkContext) -> DriverServer:
    conf, gateway = context.getConf(), context._gateway
    assert gateway is not None
    here = conf.get("spark.driver.bindAddress") or conf.get("spark.driver.host") or "127.0.0.1"
    jvm = (gateway.gateway_parameters.address, gateway.gateway_parameters.port)
    return DriverServer(here, conf.get("spark.driver.host") or here, lambda: context._jsc is not None, jvm)


def running() -> list[DriverServer]:
    """Return the servers of all running applications in this process."""
    return [one for one in list(_all) if one.alive]


def _after_fork() -> None:
    for one in _all:
        with contextlib.suppress(OSError, Disconnected):
            one.close_in_fork()
    _all.clear()
    _drivers.clear()


with contextlib.suppress(AttributeError):
    os.register_at_fork(after_in_child=_after_fork)
