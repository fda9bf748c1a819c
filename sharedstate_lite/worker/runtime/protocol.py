"""The wire format between processes: framed messages, and a handshake in which both ends authenticate themselves.

    12 bytes   the lengths of the head (4 bytes) and the body (8 bytes), little-endian
    head       JSON; if it has the key ``file``, one more byte follows the body and carries an open file descriptor
    body       an Arrow IPC stream, or empty

In the handshake, each end generates a nonce and sends an HMAC-SHA-256 of both nonces, keyed with the application's
secret. The secret itself is never sent. Messages after the handshake are not encrypted.
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
"""The length in bytes of a nonce, and of a proof."""
LARGEST_HEAD = 1 << 24
LARGEST_BODY = 1 << 40
"""The maximum lengths in bytes of a head and a body. A frame that announces more must come from another program, and is
rejected before any memory is allocated for it."""
HANDSHAKE_SECONDS = 20


class AuthenticationError(ConnectionError):
    """Raised if the other end does not know the application's secret, or sends a frame that is too large."""


class Disconnected(ConnectionError):
    """Raised if the connection was closed, or if the handshake timed out."""


def pack(table: pa.Table | None) -> pa.Buffer | None:
    """Serialize a table as the body of a message. Return None if there is no table."""
    if table is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(body: bytearray) -> pa.Table | None:
    """Deserialize the body of a message without copying it. Return None if it is empty."""
    if not body:
        return None
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()


def frame(head: Head, body: pa.Buffer | None) -> bytes:
    """Return the bytes to send before the body: the two lengths and the head."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), body.size if body is not None else 0) + text


def parse_lengths(start: bytes | bytearray) -> tuple[int, int]:
    """Return the lengths of the head and the body. Raises AuthenticationError if either exceeds its maximum."""
    head, body = FRAME.unpack(start)
    if head > LARGEST_HEAD or body > LARGEST_BODY:
        raise AuthenticationError(f"the frame announces {head} + {body} bytes, which is too large")
    return head, body


def nonce() -> bytes:
    """Return a new random nonce."""
    return secrets.token_bytes(NONCE)


def proof(secret: bytes, role: str, first: bytes, second: bytes) -> bytes:
    """Return the HMAC that proves knowledge of ``secret``.

    ``first`` is the listening end's nonce and ``second`` is the connecting end's. The two ends have different values of
    ``role``, so that neither end can send the other end's proof back as its own.
    """
    return hmac.digest(secret, role.encode() + first + second, hashlib.sha256)


def check_proof(received: bytes, expected: bytes) -> None:
    """Raise AuthenticationError if the two proofs differ. The comparison takes constant time."""
    if not hmac.compare_digest(received, expected):
        raise AuthenticationError("the other end does not know the application's secret")


def read(sock: socket.socket, count: int) -> bytearray:
    """Read exactly ``count`` bytes. Raises Disconnected if the connection is closed before they arrive."""
    out = bytearray(count)
    view, done = memoryview(out), 0
    while done < count:
        got = sock.recv_into(view[done:])
        if not got:
            raise Disconnected("the connection was closed")
        done += got
    return out


def authenticate(sock: socket.socket, secret: bytes) -> None:
    """Perform the connecting end's part of the handshake.

    Raises AuthenticationError if the other end does not know the secret, and Disconnected if it does not answer within
    `HANDSHAKE_SECONDS`.
    """
    sock.settimeout(HANDSHAKE_SECONDS)
    try:
        theirs, ours = bytes(read(sock, NONCE)), nonce()
        sock.sendall(ours + proof(secret, "asks", theirs, ours))
        answer = bytes(read(sock, NONCE))
    except TimeoutError:
        raise Disconnected(f"the handshake did not complete within {HANDSHAKE_SECONDS} s") from None
    check_proof(answer, proof(secret, "answers", theirs, ours))
    sock.settimeout(None)


def request(sock: socket.socket, head: Head, table: pa.Table | None = None) -> tuple[Head, pa.Table | None, int | None]:
    """Send a request, wait for the answer, and return it as `receive` does."""
    body = pack(table)
    sock.sendall(frame(head, body))
    if body is not None:
        sock.sendall(memoryview(body))
    return receive(sock)


def receive(sock: socket.socket) -> tuple[Head, pa.Table | None, int | None]:
    """Read a message. Return its head, its table (or None), and the descriptor of the file sent with it (or None)."""
    size, more = parse_lengths(read(sock, FRAME.size))
    head: Head = json.loads(bytes(read(sock, size)))
    table = unpack(read(sock, more))
    file = None
    if head.get("file"):
        _, files, _, _ = socket.recv_fds(sock, 1, 1)
        if not files:
            raise Disconnected("the connection was closed before the file arrived")
        file = files[0]
    return head, table, file
