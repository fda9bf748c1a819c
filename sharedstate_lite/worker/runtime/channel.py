"""Concurrent requests over one connection, in both directions, on an asyncio loop.

An :class:`RpcChannel` numbers its requests, so that the answers can arrive in any order. For each request from the
other end, it calls its owner's ``answer`` function in a separate task. When the connection is closed, pending requests
fail with Disconnected, and tasks that are computing an answer are cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa

from ...errors import Error
from . import protocol
from .cancellation import is_own
from .protocol import AuthenticationError, Disconnected
from .resource import Head, Reply

Answer = Callable[["RpcChannel", Head, "pa.Table | None"], Awaitable[Reply]]


class RpcChannel:
    """A connection for requests in both directions. The owner can store information about the other end in ``peer``."""

    def __init__(self, sock: socket.socket, answer: Answer) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            # Nagle's algorithm would delay a body until its head is acknowledged.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._answer = sock, answer
        self._loop = asyncio.get_running_loop()
        self._write_lock = asyncio.Lock()
        self._pending: dict[int, asyncio.Future[Reply]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self.peer: dict[str, Any] = {}

    async def request(self, head: Head, table: pa.Table | None = None) -> Reply:
        """Send a request to the other end, and return its answer.

        Raises Error if the other end answers with an error, and Disconnected if the connection is closed first.
        """
        number = next(self._numbers)
        pending = self._pending[number] = self._loop.create_future()
        try:
            await self._send({**head, "ask": number}, table)
            reply, body = await pending
        finally:
            self._pending.pop(number, None)
        if "error" in reply:
            raise Error(reply["error"])
        return reply, body

    async def run(self) -> None:
        """Read and process messages until the connection is closed."""
        try:
            while True:
                size, more = protocol.parse_lengths(await self.read(protocol.FRAME.size))
                head: Head = json.loads(bytes(await self.read(size)))
                table = protocol.unpack(await self.read(more))
                if "reply" in head:
                    pending = self._pending.get(head["reply"])
                    if pending is not None and not pending.done():
                        pending.set_result((head, table))
                    continue
                task = self._loop.create_task(self._reply(head, table))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        except (OSError, AuthenticationError, Disconnected):
            return
        finally:
            self.close()

    def shut_down(self) -> None:
        """Shut down the connection, so that :meth:`run` returns. Called from another coroutine."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close_in_fork(self) -> None:
        """Close this process's copy of the connection after a fork; the parent's stays open."""
        self._sock.close()

    def close(self) -> None:
        """Close the connection, fail pending requests with Disconnected, and cancel the tasks that answer requests."""
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(Disconnected("the connection was closed"))
        for task in self._answering | self._sending:
            task.cancel()
        self._sock.close()

    async def read(self, count: int) -> bytearray:
        """Read exactly ``count`` bytes. Raises Disconnected if the connection is closed before they arrive."""
        out = bytearray(count)
        view, done = memoryview(out), 0
        while done < count:
            got = await self._loop.sock_recv_into(self._sock, view[done:])
            if not got:
                raise Disconnected("the connection was closed")
            done += got
        return out

    async def authenticate(self, secret: bytes) -> None:
        """Perform the listening end's part of the handshake.

        Raises AuthenticationError if the other end does not know the secret, and TimeoutError or Disconnected if it
        does not answer.
        """
        ours = protocol.nonce()
        async with asyncio.timeout(protocol.HANDSHAKE_SECONDS):
            await self._loop.sock_sendall(self._sock, ours)
            received = bytes(await self.read(2 * protocol.NONCE))
            theirs, shown = received[: protocol.NONCE], received[protocol.NONCE :]
            protocol.check_proof(shown, protocol.proof(secret, "asks", ours, theirs))
            await self._loop.sock_sendall(self._sock, protocol.proof(secret, "answers", ours, theirs))

    async def _reply(self, head: Head, table: pa.Table | None) -> None:
        try:
            reply, body = await self._answer(self, head, table)
        except Error as error:
            reply, body = {"error": str(error)}, None
        except Disconnected:
            reply, body = {"error": "the runtime has lost its connection to the driver"}, None
        except BaseException as error:  # report any error to the caller; other requests continue
            if is_own(error):
                raise
            reply, body = {"error": f"{type(error).__name__}: {error}"}, None
        with contextlib.suppress(OSError):
            await self._send({**reply, "reply": head.get("ask", 0)}, body)

    async def _send(self, head: Head, table: pa.Table | None) -> None:
        # Send the complete message even if the caller is cancelled. After an incomplete message, the other end would
        # read the next message as the rest of it.
        sending = self._loop.create_task(self._write(head, table))
        self._sending.add(sending)
        sending.add_done_callback(self._sent)
        await asyncio.shield(sending)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # marks it as retrieved; the caller may be cancelled, and `run` detects a broken socket

    async def _write(self, head: Head, table: pa.Table | None) -> None:
        body = protocol.pack(table)
        file = head.get("file")
        async with self._write_lock:
            await self._loop.sock_sendall(self._sock, protocol.frame(head, body))
            if body is not None:
                await self._loop.sock_sendall(self._sock, memoryview(body))
            if file:
                await self._send_file(int(file))

    async def _send_file(self, file: int) -> None:
        while True:
            try:
                socket.send_fds(self._sock, [b"f"], [file])
                return
            except BlockingIOError:
                await self._writable()

    async def _writable(self) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._sock, _resolve, ready)
        try:
            await ready
        finally:
            self._loop.remove_writer(self._sock)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def listen(sock: socket.socket, secret: bytes, answer: Answer, ended: Callable[[RpcChannel], None]) -> None:
    """Accept connections on ``sock``, and serve each of them on its own channel after the handshake.

    ``answer`` is called for each request. ``ended`` is called with the channel when its connection is closed. This
    coroutine runs until it is cancelled.
    """
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    serving: set[asyncio.Task[None]] = set()

    async def serve(connection: socket.socket) -> None:
        channel = RpcChannel(connection, answer)
        try:
            await channel.authenticate(secret)
            await channel.run()
        except (OSError, AuthenticationError, Disconnected, TimeoutError):
            channel.close()
        finally:
            ended(channel)

    while True:
        connection, _ = await loop.sock_accept(sock)
        task = loop.create_task(serve(connection))
        serving.add(task)
        task.add_done_callback(serving.discard)
