"""A message: a head (JSON) and a body (an Arrow table), and proof that its sender belongs to the application.

    8 bytes   how long the head is, and the body (little-endian, 4 and 8 bytes: 12 in all)
    head      JSON; with ``file`` set, one byte with an open file follows the message
    body      an Arrow IPC stream, or nothing

Before the first message each end draws a nonce and proves with it that it knows the
application's secret, so that nothing of the secret travels. It refuses heads and
bodies larger than any that is ever sent, before it makes room for them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
from typing import Any

import pyarrow as pa

FRAME = struct.Struct("<IQ")
NONCE = 32
"""Bytes, as many as the proof has: SHA-256's."""
LARGEST_HEAD = 1 << 24
LARGEST_BODY = 1 << 40
"""Bytes: a frame that announces more is none of ours, and is refused before there is memory for it."""
HANDSHAKE_SECONDS = 20
"""For both sides to prove themselves; who connects and says nothing is let go."""

Head = dict[str, Any]


class AuthenticationError(ConnectionError):
    """Who is at the other end does not know the application's secret."""


class Disconnected(ConnectionError):
    """The other end is no more."""


def pack(table: pa.Table | None) -> pa.Buffer | None:
    """A table as a body."""
    if table is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(body: Any) -> pa.Table | None:
    """A body as a table, without a copy."""
    if body is None or len(body) == 0:
        return None
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()


def frame(head: Head, body: pa.Buffer | None) -> bytes:
    """What goes before the body."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), body.size if body is not None else 0) + text


def parse_lengths(start: bytes | bytearray) -> tuple[int, int]:
    """How long head and body are. Raises AuthenticationError for numbers that no message has."""
    head, body = FRAME.unpack(start)
    if head > LARGEST_HEAD or body > LARGEST_BODY:
        raise AuthenticationError("what came is no message")
    return head, body


def proof(secret: bytes, role: str, first: bytes, second: bytes) -> bytes:
    """What only who knows the secret can say about two nonces."""
    return hmac.digest(secret, role.encode() + first + second, hashlib.sha256)


def nonce() -> bytes:
    """A number that is drawn once."""
    return secrets.token_bytes(NONCE)


def same(one: bytes, other: bytes) -> bool:
    """Whether two proofs are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def read(sock: socket.socket, count: int) -> bytearray:
    """Exactly so many bytes. Raises Disconnected at the end."""
    out = bytearray(count)
    view, done = memoryview(out), 0
    while done < count:
        got = sock.recv_into(view[done:])
        if not got:
            raise Disconnected("the connection has ended")
        done += got
    return out


def authenticate(sock: socket.socket, secret: bytes) -> None:
    """Prove to whom we connected that we belong to the application, and have it proven. Raises AuthenticationError."""
    sock.settimeout(HANDSHAKE_SECONDS)
    try:
        theirs, ours = bytes(read(sock, NONCE)), nonce()
        sock.sendall(ours + proof(secret, "asks", theirs, ours))
        answer = bytes(read(sock, NONCE))
    except TimeoutError:
        raise Disconnected("nobody answered in time") from None
    if not same(answer, proof(secret, "answers", theirs, ours)):
        raise AuthenticationError("it does not know the application's secret")
    sock.settimeout(None)


def request(sock: socket.socket, head: Head, table: pa.Table | None = None) -> tuple[Head, pa.Table | None, int | None]:
    """Ask and wait for the answer: its head, its table, and the open file that came along."""
    body = pack(table)
    sock.sendall(frame(head, body))
    if body is not None:
        sock.sendall(memoryview(body))
    return receive(sock)


def receive(sock: socket.socket) -> tuple[Head, pa.Table | None, int | None]:
    """The next message."""
    size, more = parse_lengths(read(sock, FRAME.size))
    head: Head = json.loads(bytes(read(sock, size)))
    table = unpack(read(sock, more))
    file = None
    if head.get("file"):
        _, files, _, _ = socket.recv_fds(sock, 1, 1)
        if not files:
            raise Disconnected("the connection ended before the file came")
        file = files[0]
    return head, table, file
