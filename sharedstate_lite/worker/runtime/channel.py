"""Many questions at once over one connection, in both directions; on an asyncio loop.

A :class:`Channel` answers what the other end asks with a function of its owner, each
question in a task of its own, and asks questions whose answers it tells apart by their
number. When the connection ends, questions that wait for an answer fail with Disconnected,
and tasks that prepare one are cancelled: nobody would hear it.
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
from .protocol import AuthenticationError, Disconnected, Head

Reply = tuple[Head, "pa.Table | None"]
Answer = Callable[["Channel", Head, "pa.Table | None"], Awaitable[Reply]]


class Channel:
    """One connection; ``about`` is for its owner to note who is at the other end."""

    def __init__(self, sock: socket.socket, answer: Answer) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            # A head and its body are two pieces: the second would wait for the first to be acknowledged.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._answer = sock, answer
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._busy: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self.about: dict[str, Any] = {}

    async def ask(self, head: Head, table: pa.Table | None = None) -> Reply:
        """The other end's answer. Raises Error where it refuses, Disconnected where it ends before."""
        number = next(self._numbers)
        waiting = self._waiting[number] = self._loop.create_future()
        try:
            await self._send({**head, "ask": number}, table)
            reply, body = await waiting
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise Error(reply["error"])
        return reply, body

    async def run(self) -> None:
        """Take what comes, until the connection ends."""
        try:
            while True:
                size, more = protocol.parse_lengths(await self.read(protocol.FRAME.size))
                head: Head = json.loads(bytes(await self.read(size)))
                table = protocol.unpack(await self.read(more))
                if "reply" in head:
                    waiting = self._waiting.get(head["reply"])
                    if waiting is not None and not waiting.done():
                        waiting.set_result((head, table))
                    continue
                task = self._loop.create_task(self._reply(head, table))
                self._busy.add(task)
                task.add_done_callback(self._busy.discard)
        except (OSError, AuthenticationError, Disconnected):
            return
        finally:
            self.close()

    def shut_down(self) -> None:
        """End the connection; :meth:`run` notices, and clears away."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def forked(self) -> None:
        """Let go of the connection in a fork of the process that it belongs to, where it would keep it open."""
        self._sock.close()

    def close(self) -> None:
        """Let go of the connection, and of all that waits for it."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Disconnected("the connection has ended"))
        for task in self._busy | self._sending:
            task.cancel()
        self._sock.close()

    async def read(self, count: int) -> bytearray:
        """Exactly so many bytes."""
        out = bytearray(count)
        view, done = memoryview(out), 0
        while done < count:
            got = await self._loop.sock_recv_into(self._sock, view[done:])
            if not got:
                raise Disconnected("the connection has ended")
            done += got
        return out

    async def authenticate(self, secret: bytes) -> None:
        """Have who connected prove that it belongs to the application, and prove it. Raises AuthenticationError."""
        ours = protocol.nonce()
        async with asyncio.timeout(protocol.HANDSHAKE_SECONDS):
            await self._loop.sock_sendall(self._sock, ours)
            said = bytes(await self.read(2 * protocol.NONCE))
            theirs, shown = said[: protocol.NONCE], said[protocol.NONCE :]
            if not protocol.same(shown, protocol.proof(secret, "asks", ours, theirs)):
                raise AuthenticationError("it does not know the application's secret")
            await self._loop.sock_sendall(self._sock, protocol.proof(secret, "answers", ours, theirs))

    async def _reply(self, head: Head, table: pa.Table | None) -> None:
        try:
            reply, body = await self._answer(self, head, table)
        except Error as error:
            reply, body = {"error": str(error)}, None
        except Disconnected:
            reply, body = {"error": "the driver is gone"}, None
        except BaseException as error:  # of whatever kind: who asked is told, and the others' questions go on
            if is_own(error):
                raise
            reply, body = {"error": f"{type(error).__name__}: {error}"}, None
        with contextlib.suppress(OSError):
            await self._send({**reply, "reply": head.get("ask", 0)}, body)

    async def _send(self, head: Head, table: pa.Table | None) -> None:
        # To the end, also where who asked is gone meanwhile: after half a message the other end takes the next one for
        # the rest of it.
        sending = self._loop.create_task(self._write(head, table))
        self._sending.add(sending)
        sending.add_done_callback(self._sent)
        await asyncio.shield(sending)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # looked at, since whoever waited may be gone; the end of the connection tells the rest

    async def _write(self, head: Head, table: pa.Table | None) -> None:
        body = protocol.pack(table)
        file = head.get("file")
        async with self._writing:
            await self._loop.sock_sendall(self._sock, protocol.frame(head, body))
            if body is not None:
                await self._loop.sock_sendall(self._sock, memoryview(body))
            if file:
                await self._hand_over(int(file))

    async def _hand_over(self, file: int) -> None:
        while True:
            try:
                socket.send_fds(self._sock, [b"f"], [file])
                return
            except BlockingIOError:
                await self._room()

    async def _room(self) -> None:
        """Wait until the connection takes more."""
        room: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._sock, _tell, room)
        try:
            await room
        finally:
            self._loop.remove_writer(self._sock)


def _tell(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


async def listen(sock: socket.socket, secret: bytes, answer: Answer, ended: Callable[[Channel], None]) -> None:
    """Serve everyone who connects and belongs to the application, each on a line of its own."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    serving: set[asyncio.Task[None]] = set()

    async def serve(connection: socket.socket) -> None:
        line = Channel(connection, answer)
        try:
            await line.authenticate(secret)
            await line.run()
        except (OSError, AuthenticationError, Disconnected, TimeoutError):
            line.close()
        finally:
            ended(line)

    while True:
        connection, _ = await loop.sock_accept(sock)
        task = loop.create_task(serve(connection))
        serving.add(task)
        task.add_done_callback(serving.discard)
