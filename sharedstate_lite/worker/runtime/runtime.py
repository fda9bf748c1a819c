"""The process that owns the resources on one host. It dispatches requests, and exits when its lease is closed.

The lease is a TCP connection to the driver. It is closed when the driver or its Spark context stops, whatever the
reason. The runtime then exits immediately. It does not save anything or wait for pending requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import pyarrow as pa

from ...errors import Error
from . import host, protocol
from .address import Application
from .channel import RpcChannel, listen
from .protocol import Disconnected
from .resource import Caller, Context, Head, Reply, Resource, make

CLOSE_SECONDS = 2
"""The timeout for closing a resource, for example a pool whose database server does not answer."""


class Runtime:
    """The resources of one application on one host, and the tasks that are connected to them."""

    def __init__(self, application: Application, identity: str, lease: socket.socket) -> None:
        self._application, self._identity = application, identity
        self._lease = RpcChannel(lease, self._from_driver)
        self._resources: dict[str, asyncio.Task[Resource]] = {}
        self._callers: dict[RpcChannel, Caller] = {}
        self._connected = 0

    async def serve(self, listener: socket.socket) -> None:
        """Serve the tasks that connect to ``listener``, until the lease is closed."""
        leased = asyncio.create_task(self._lease.run())
        with contextlib.suppress(Error, Disconnected, OSError):
            await self._lease.request({"op": "lease", "host": self._identity, "pid": os.getpid()})
            serving = asyncio.create_task(listen(listener, self._application.secret, self._from_task, self._ended))
            await leased
            serving.cancel()

    async def _from_task(self, channel: RpcChannel, head: Head, table: pa.Table | None) -> Reply:
        if head["op"] == "hello":
            self._connected += 1
            self._callers[channel] = Caller(self._connected, int(head["pid"]))
            return {}, None
        resource = await self._find(str(head["resource"]))
        return await resource.answer(head, table, self._callers[channel])

    async def _from_driver(self, channel: RpcChannel, head: Head, table: pa.Table | None) -> Reply:
        if head["op"] == "close":
            making = self._resources.pop(head["resource"], None)
            if making is not None:
                with contextlib.suppress(Error, TimeoutError):
                    await asyncio.wait_for((await making).close(), CLOSE_SECONDS)
            return {}, None
        if head["op"] == "remove":
            making = self._resources.get(head["resource"])
            # A resource that has just been created has no rows yet.
            if making is not None and not _failed(making):
                return await (await making).answer(head, table, Caller(0, 0))
            return {}, None
        assert head["op"] == "metrics", head
        return await asyncio.to_thread(self._metrics), None

    async def _find(self, name: str) -> Resource:
        """Return the resource called ``name``. The first call creates it from a description that the driver sends."""
        making = self._resources.get(name)
        if making is None or _failed(making):
            making = self._resources[name] = asyncio.create_task(self._make(name))
        return await asyncio.shield(making)

    async def _make(self, name: str) -> Resource:
        async def ask(head: Head, table: pa.Table | None) -> Reply:
            return await self._lease.request({**head, "resource": name}, table)

        described, _ = await ask({"op": "describe"}, None)
        context = Context(self._application.name, name, ask, self._borrow, self._find)
        return make(described["kind"], described["options"], context)

    def _borrow(self, name: str) -> int | None:
        """Return a descriptor of the driver's own file, or None if the driver is on another host.

        The descriptor is received over a local socket.
        """
        if self._identity != self._application.identity:
            return None
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(host.address(self._application.driver_name()))
            protocol.authenticate(sock, self._application.secret)
            _, _, file = protocol.request(sock, {"op": "file", "resource": name})
        return file

    def _ended(self, channel: RpcChannel) -> None:
        caller = self._callers.pop(channel, None)
        if caller is not None:
            for resource in self._ready().values():
                resource.disconnected(caller)

    def _ready(self) -> dict[str, Resource]:
        resources = list(self._resources.items())
        return {name: making.result() for name, making in resources if making.done() and not _failed(making)}

    def _metrics(self) -> dict[str, Any]:
        counts = {name: resource.counts() for name, resource in self._ready().items()}
        pids = [os.getpid(), *sorted({caller.pid for caller in list(self._callers.values())})]
        return {"host": self._identity, "resources": counts, "pss": [[pid, host.pss(pid)] for pid in pids]}


def _failed(making: asyncio.Task[Resource]) -> bool:
    return making.done() and (making.cancelled() or making.exception() is not None)


def run(application: Application, name: str, identity: str, listener: socket.socket, lease: socket.socket) -> None:
    """Serve until the lease is closed, then exit this process."""

    async def main() -> None:
        await Runtime(application, identity, lease).serve(listener)

    try:
        asyncio.run(main())
    finally:
        host.unlisten(name)
        # Exit without joining users' coroutines and threads, which may still be waiting for a server.
        os._exit(0)
