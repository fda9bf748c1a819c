"""The process that owns what the tasks of one host share: who connects, what they ask, and when it all ends.

It ends with the lease: the connection to the driver whose end means that the driver, or
its Spark context, is no more. Then nothing is written down and nobody is waited for.
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
from .channel import Channel, Reply, listen
from .protocol import Disconnected, Head
from .resource import Caller, Context, Resource, make

CLOSE_SECONDS = 2
"""For a thing to let go of what it holds, such as connections to a server that does not answer."""


class Runtime:
    """The things of one application on one host."""

    def __init__(self, application: Application, identity: str, lease: socket.socket) -> None:
        self._application, self._identity = application, identity
        self._lease = Channel(lease, self._order)
        self._things: dict[str, asyncio.Task[Resource]] = {}
        self._lines: dict[Channel, Caller] = {}
        self._seen = 0

    async def serve(self, listener: socket.socket) -> None:
        """Until the lease ends."""
        leased = asyncio.create_task(self._lease.run())
        with contextlib.suppress(Error, Disconnected, OSError):
            await self._lease.ask({"op": "lease", "host": self._identity, "pid": os.getpid()})
            serving = asyncio.create_task(listen(listener, self._application.secret, self._question, self._left))
            await leased
            serving.cancel()

    async def _question(self, line: Channel, head: Head, table: pa.Table | None) -> Reply:
        """What a task asks."""
        if head["op"] == "hello":
            self._seen += 1
            self._lines[line] = Caller(self._seen, int(head["pid"]))
            return {}, None
        thing = await self._thing(str(head["thing"]))
        return await thing.answer(head, table, self._lines[line])

    async def _order(self, line: Channel, head: Head, table: pa.Table | None) -> Reply:
        """What the driver asks."""
        if head["op"] == "close":
            making = self._things.pop(head["thing"], None)
            if making is not None:
                with contextlib.suppress(Error, TimeoutError):
                    await asyncio.wait_for((await making).close(), CLOSE_SECONDS)
            return {}, None
        if head["op"] == "metrics":
            return await asyncio.to_thread(self._metrics), None
        raise Error(f"a runtime does not know {head['op']!r}")

    async def _thing(self, name: str) -> Resource:
        """A thing, made when it is first asked for, from what the driver says that it is."""
        making = self._things.get(name)
        if making is None or (making.done() and (making.cancelled() or making.exception())):
            making = self._things[name] = asyncio.create_task(self._make(name))
        return await asyncio.shield(making)

    async def _make(self, name: str) -> Resource:
        async def ask(head: Head, table: pa.Table | None) -> Reply:
            return await self._lease.ask({**head, "thing": name}, table)

        described, _ = await ask({"op": "describe"}, None)
        context = Context(self._application.name, name, ask, self._borrow, self._thing)
        return make(described["kind"], described["options"], context)

    def _borrow(self, name: str) -> int | None:
        """A file of the driver, handed over on this host; None where the driver is on another one."""
        if self._identity != self._application.identity:
            return None
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(host.address(self._application.driver_name()))
            protocol.authenticate(sock, self._application.secret)
            _, _, file = protocol.request(sock, {"op": "file", "thing": name})
        return file

    def _left(self, line: Channel) -> None:
        caller = self._lines.pop(line, None)
        for making in self._things.values():
            if caller is not None and making.done() and not making.cancelled() and not making.exception():
                making.result().left(caller)

    def _metrics(self) -> dict[str, Any]:
        things = {
            name: making.result().counts()
            for name, making in list(self._things.items())
            if making.done() and not making.cancelled() and not making.exception()
        }
        pids = [os.getpid(), *sorted({caller.pid for caller in list(self._lines.values())})]
        return {"host": self._identity, "things": things, "pss": [[pid, host.pss(pid)] for pid in pids]}


def run(application: Application, name: str, identity: str, listener: socket.socket, lease: socket.socket) -> None:
    """Serve until the lease ends, then end this process."""

    async def main() -> None:
        await Runtime(application, identity, lease).serve(listener)

    try:
        asyncio.run(main())
    finally:
        host.unlisten(name)
        # AsyncRuntimeState of users, threads that wait for a server: nothing of it is waited for.
        os._exit(0)
