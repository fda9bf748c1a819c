"""Calls between the Python workers on one host, to run a bin where it is in memory instead of reading it again.

Spark gives a partition to any free Python worker, so two workers often swap partitions between two micro-batches. A
bin's head in the store contains the port of the worker that wrote it last. A worker that receives messages for a bin
that it does not have sends them to that port, together with the token from the store. The other worker runs the bin if
its token is the same, and returns the resulting messages and the writes. The caller performs the writes, because only
its task has the store open.

The token cannot be guessed and is stored only in the state store, so it also authenticates the caller. The payload is
JSON and blobs, and is never executed as code. If a call fails for any reason, for example because the process has
exited or runs on another host, the caller reads the bin from the store.

A frame starts with the size of its head, in 8 bytes. The head follows as JSON. It contains the sizes of the blobs,
which are last in the frame.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ... import errors
from .message import BinId, BinMessage, BinResult, StoreWrite

CONNECT_SECONDS = 2.0
"""The time limit for opening a connection. If it is exceeded, the port is treated as closed."""

Frame = tuple[dict[str, Any], list[bytes]]
Run = Callable[[BinId, str, list[BinMessage], int], BinResult | None]
"""Runs a bin of this worker; see `.worker.run_for_peer`."""


class SocketRpc:
    """A `WorkerRpc` over TCP on the loopback interface. It listens on ``port`` until the process exits."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="worker-rpc", daemon=True).start()

    def call(self, port: int, bin_id: BinId, token: str, messages: list[BinMessage]) -> BinResult | None:
        """See `WorkerRpc.call`. If a kernel in the other worker rejects a message, raise its error."""
        request = {"bin": bin_id, "token": token, "messages": [m[:4] for m in messages]}
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS) as connection:
                connection.settimeout(None)
                _send(connection, request, [m.blob for m in messages])
                head, blobs = _receive(connection)
        except (OSError, ValueError):
            return None
        if "refused" in head:
            name, text = head["refused"]
            error: Any = getattr(errors, name, errors.Error)
            raise error(text)
        if "out" not in head:
            return None
        more = iter(blobs)
        out = [BinMessage(m[0], m[1], m[2], m[3], next(more)) for m in head["out"]]
        writes: list[StoreWrite] = [
            (text, [(part, name, next(more)) for part, name in added], [(part, name) for part, name in removed])
            for text, added, removed in head["writes"]
        ]
        return out, writes

    def answer(self, request: Frame) -> Frame:
        """Return the response to a request from another worker."""
        head, blobs = request
        generation, stage, number = head["bin"]
        messages = [BinMessage(m[0], m[1], m[2], m[3], blob) for m, blob in zip(head["messages"], blobs, strict=True)]
        try:
            result = self._run((generation, stage, number), head["token"], messages, self.port)
        except errors.Error as error:
            return {"refused": [type(error).__name__, str(error)]}, []
        if result is None:
            return {}, []
        out, writes = result
        listed = [[text, [run[:2] for run in added], removed] for text, added, removed in writes]
        more = [run[2] for _, added, _ in writes for run in added]
        return {"out": [m[:4] for m in out], "writes": listed}, [*(m.blob for m in out), *more]

    def _serve(self) -> None:
        while True:
            caller, _ = self._socket.accept()
            # A caller that does not get a response reads the bin from the store and runs it. An error in the bin then
            # occurs again, in Spark's task, which reports it.
            with caller, contextlib.suppress(Exception):
                _send(caller, *self.answer(_receive(caller)))


def _send(connection: socket.socket, head: dict[str, Any], blobs: Sequence[bytes]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    text = json.dumps([head, [len(blob) for blob in blobs]]).encode()
    connection.sendall(struct.pack("<Q", len(text)) + text)
    for blob in blobs:
        connection.sendall(blob)


def _receive(connection: socket.socket) -> Frame:
    with connection.makefile("rb") as stream:

        def exactly(size: int) -> bytes:
            data = stream.read(size)
            if len(data) < size:
                raise ConnectionError("the other worker closed the connection in the middle of a frame")
            return data

        head, sizes = json.loads(exactly(struct.unpack("<Q", exactly(8))[0]))
        return head, [exactly(size) for size in sizes]
