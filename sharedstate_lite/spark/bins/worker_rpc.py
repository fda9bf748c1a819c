"""A bin is worked on where it is: a worker asks the one that has it in memory, instead of reading it anew.

Spark hands a partition to whichever of its Python workers is free, so from one
micro-batch to the next two workers of a machine often change places. A bin's head
says at which port the process listens that wrote it last. Whoever gets the bin's
messages and has not got the bin sends them there, with the token that the store gives; the
other works on them if its bin has that token, and sends back what follows and what is
to be written. It is the asker who writes: the store is open to Spark's task only.

The token makes this safe, and says who may ask: it is drawn at random and stands in the
store. Where nobody answers (the process is gone, or on another machine) or it has something
else, the asker reads the store. What travels is JSON and blobs, nothing that could be executed.

    frame    8 bytes: the size of the head; head: JSON, with the sizes of the blobs; the blobs
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

from ... import errors
from .bins import answer
from .messages import Done, Message, Place, Written

PATIENCE = 2.0
"""Seconds until a port must have answered that it is there."""

Frame = tuple[dict[str, Any], list[bytes]]


class Neighbours:
    """Where this process can be asked, and how it asks: :class:`~.messages.Near`. Listens until the process ends."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="neighbours", daemon=True).start()

    def ask(self, port: int, place: Place, token: str, messages: list[Message]) -> Done | None:
        """See :class:`~.messages.Near`. Raises the kit's error if a kernel refuses."""
        told = {"place": place, "token": token, "messages": [m[:4] for m in messages]}
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
                line.settimeout(None)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _send(line, told, [m.blob for m in messages])
                head, blobs = _receive(line)
        except (OSError, ValueError):
            return None
        if "refused" in head:
            name, text = head["refused"]
            made: Any = getattr(errors, name, errors.Error)
            raise made(text)
        if "out" not in head:
            return None
        more = iter(blobs)
        out = [Message(m[0], m[1], m[2], m[3], next(more)) for m in head["out"]]
        written: list[Written] = [
            (text, [(part, name, next(more)) for part, name in fresh], [(part, name) for part, name in gone])
            for text, fresh, gone in head["written"]
        ]
        return out, written

    def answer(self, asked: Frame) -> Frame:
        """What another process is told."""
        head, blobs = asked
        generation, stage, number = head["place"]
        messages = [Message(m[0], m[1], m[2], m[3], blob) for m, blob in zip(head["messages"], blobs, strict=True)]
        try:
            done = answer((generation, stage, number), head["token"], messages, self.port)
        except errors.Error as error:
            return {"refused": [type(error).__name__, str(error)]}, []
        if done is None:
            return {}, []
        out, written = done
        told = [[text, [run[:2] for run in fresh], gone] for text, fresh, gone in written]
        more = [run[2] for _, fresh, _ in written for run in fresh]
        return {"out": [m[:4] for m in out], "written": told}, [*(m.blob for m in out), *more]

    def _serve(self) -> None:
        while True:
            caller, _ = self._socket.accept()
            # Whoever hangs up has gone to the store. What else fails in a bin fails again there, and is told by Spark.
            with caller, contextlib.suppress(Exception):
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _send(caller, *self.answer(_receive(caller)))


def _send(line: socket.socket, head: dict[str, Any], blobs: Sequence[bytes]) -> None:
    told = json.dumps([head, [len(b) for b in blobs]]).encode()
    line.sendall(struct.pack("<Q", len(told)) + told)
    for blob in blobs:
        line.sendall(blob)


def _receive(line: socket.socket) -> Frame:
    size = struct.unpack("<Q", _exactly(line, 8))[0]
    head, sizes = json.loads(_exactly(line, size))
    return head, [_exactly(line, n) for n in sizes]


def _exactly(line: socket.socket, size: int) -> bytes:
    out = bytearray(size)
    view = memoryview(out)
    while len(view):
        got = line.recv_into(view)
        if not got:
            raise ConnectionError("the other side has hung up")
        view = view[got:]
    return bytes(out)
