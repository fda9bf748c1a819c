"""The wire format between processes: framed messages, and a handshake that proves who is at the other end.

    12 bytes   lengths of head (4 bytes) and body (8 bytes), little-endian
    head       JSON; if it has ``file``, one byte that carries an open file follows the message
    body       an Arrow IPC stream, or nothing

In the handshake each end draws a nonce and sends HMAC-SHA-256 over both nonces, keyed with the application's secret.
The secret itself is never sent. Later messages are not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct

import pyarrow as pa

from .resource import Head

FRAME = struct.Struct("<IQ")
NONCE = 32
"""Bytes of a nonce, and of a proof."""
LARGEST_HEAD = 1 << 24
LARGEST_BODY = 1 << 40
"""Bytes. A frame that announces more comes from a foreign program, and is refused before memory is allocated."""
HANDSHAKE_SECONDS = 20


class AuthenticationError(ConnectionError):
    """The process at the other end does not know the application's secret."""


class Disconnected(ConnectionError):
    """The other end has closed the connection."""


def pack(table: pa.Table | None) -> pa.Buffer | None:
    """Serialize a table as a body."""
    if table is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(body: bytearray) -> pa.Table | None:
    """Deserialize a body without copying it."""
    if not body:
        return None
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()


def frame(head: Head, body: pa.Buffer | None) -> bytes:
    """The lengths and the head, ready to send before the body."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), body.size if body is not None else 0) + text


def parse_lengths(start: bytes | bytearray) -> tuple[int, int]:
    """The lengths of head and body. Raises AuthenticationError if one is larger than any real message."""
    head, body = FRAME.unpack(start)
    if head > LARGEST_HEAD or body > LARGEST_BODY:
        raise AuthenticationError(f"the frame announces {head} + {body} bytes, which no message has")
    return head, body


def nonce() -> bytes:
    """A fresh random number."""
    return secrets.token_bytes(NONCE)


def proof(secret: bytes, role: str, first: bytes, second: bytes) -> bytes:
    """The HMAC that proves knowledge of ``secret``. Each end has a role of its own, so a proof cannot be echoed."""
    return hmac.digest(secret, role.encode() + first + second, hashlib.sha256)


def check_proof(received: bytes, expected: bytes) -> None:
    """Raise AuthenticationError if two proofs differ; compares in constant time."""
    if not hmac.compare_digest(received, expected):
        raise AuthenticationError("the other end does not know the application's secret")


def read(sock: socket.socket, count: int) -> bytearray:
    """Read exactly ``count`` bytes. Raises Disconnected if the connection ends before."""
    out = bytearray(count)
    view, done = memoryview(out), 0
    while done < count:
        got = sock.recv_into(view[done:])
        if not got:
            raise Disconnected("the connection has ended")
        done += got
    return out


def authenticate(sock: socket.socket, secret: bytes) -> None:
    """Do the connecting end's half of the handshake. Raises AuthenticationError, or Disconnected without an answer."""
    sock.settimeout(HANDSHAKE_SECONDS)
    try:
        theirs, ours = bytes(read(sock, NONCE)), nonce()
        sock.sendall(ours + proof(secret, "asks", theirs, ours))
        answer = bytes(read(sock, NONCE))
    except TimeoutError:
        raise Disconnected(f"no handshake within {HANDSHAKE_SECONDS} s") from None
    check_proof(answer, proof(secret, "answers", theirs, ours))
    sock.settimeout(None)


def request(sock: socket.socket, head: Head, table: pa.Table | None = None) -> tuple[Head, pa.Table | None, int | None]:
    """Send a request and wait for its answer: head, table, and the descriptor of the file that came with it."""
    body = pack(table)
    sock.sendall(frame(head, body))
    if body is not None:
        sock.sendall(memoryview(body))
    return receive(sock)


def receive(sock: socket.socket) -> tuple[Head, pa.Table | None, int | None]:
    """Read the next message: head, table, file."""
    size, more = parse_lengths(read(sock, FRAME.size))
    head: Head = json.loads(bytes(read(sock, size)))
    table = unpack(read(sock, more))
    file = None
    if head.get("file"):
        _, files, _, _ = socket.recv_fds(sock, 1, 1)
        if not files:
            raise Disconnected("the connection ended before the file arrived")
        file = files[0]
    return head, table, file
