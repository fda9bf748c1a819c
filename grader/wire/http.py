"""Parse HTTP/1.1 answers incrementally: heads, lengths and chunks.

The parser accepts everything that common clients accept: any reason phrase, header names in any case, bodies in chunks
or up to the end of the connection, and interim 1xx answers. It raises ``Malformed`` for anything else.

Source: RFC 9112, sections 2 to 7.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CHUNKED, TO_EOF = -1, -2
LONGEST_HEAD, LONGEST_BODY = 65_536, 262_144
"""The maximum number of bytes in a head and in a body. Answers in the assignment have a few hundred bytes, but a
thousand connections may be receiving an answer at the same time."""
BODYLESS = (204, 304)
_LENGTH, _SIZE = re.compile(rb"[0-9]{1,20}"), re.compile(rb"[0-9a-fA-F]{1,16}")
"""A length and the size of a chunk. `int` also takes signs, underscores and 0x, and refuses more than 4,300 digits."""


class Malformed(ValueError):
    """The bytes are not an HTTP answer."""


class Head(NamedTuple):
    """The head of an answer.

    It contains the status, the length of the body (or CHUNKED or TO_EOF), and whether the connection is kept open.
    """

    status: int
    length: int
    keep: bool


def read_head(raw: bytes) -> Head:
    """Parse a head, given without its final empty line. Raises Malformed if it is invalid."""
    lines = raw.split(b"\r\n")
    parts = lines[0].split(b" ", 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit() or len(parts[1]) != 3:
        raise Malformed(f"{lines[0][:60]!r} is not a status line")
    status = int(parts[1])
    if status < 100:
        raise Malformed(f"{lines[0][:60]!r} has no status")
    length, keep = TO_EOF, parts[0] != b"HTTP/1.0"
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon:
            raise Malformed(f"{line[:60]!r} is not a header")
        name, value = name.strip().lower(), value.strip().lower()
        if name == b"transfer-encoding":
            length = CHUNKED if b"chunked" in value else TO_EOF
        elif name == b"content-length" and length != CHUNKED:
            if not _LENGTH.fullmatch(value) or int(value) > LONGEST_BODY or length not in (TO_EOF, int(value)):
                raise Malformed(f"the content-length {value[:60]!r} is invalid")
            length = int(value)
        elif name == b"connection":
            keep = b"close" not in value and (keep or b"keep-alive" in value)
    if status in BODYLESS or status < 200:
        length = 0
    return Head(status, length, keep and length != TO_EOF and status != 101)


class Answer(NamedTuple):
    """A complete answer: its status, its body, and whether the connection is kept open."""

    status: int
    body: bytes
    keep: bool


def read_chunks(raw: bytes) -> tuple[bytes, int] | None:
    """Return the body of a chunked answer and where it ends in ``raw``; None while it is incomplete.

    Raises Malformed if it is invalid.
    """
    body: list[bytes] = []
    at = 0
    while True:
        end = raw.find(b"\r\n", at)
        if end < 0:
            if len(raw) - at > 1024:
                raise Malformed("a chunk has no size")
            return None
        digits = raw[at:end].partition(b";")[0].strip()
        size = int(digits, 16) if _SIZE.fullmatch(digits) else -1
        if not 0 <= size <= LONGEST_BODY:
            raise Malformed(f"the chunk size {digits[:30]!r} is invalid")
        if size == 0:
            # Trailers, if there are any, end with an empty line. Without any, it follows the size.
            done = raw.find(b"\r\n\r\n", end)
            return None if done < 0 else (b"".join(body), done + 4)
        at = end + 2 + size
        if len(raw) < at + 2:
            return None
        if raw[at : at + 2] != b"\r\n":
            raise Malformed("a chunk is longer than its size")
        body.append(raw[end + 2 : at])
        at += 2


def read_answer(raw: bytes, closed: bool) -> Answer | None:
    """Return the first final answer in the bytes; None while it is incomplete. ``closed``: no more bytes will arrive.

    Raises Malformed if they are not an HTTP answer. If more bytes follow the answer, its connection is not kept.
    """
    size = len(raw)
    while True:
        head, found, rest = raw.partition(b"\r\n\r\n")
        # Interim answers count as part of the head. Otherwise, thousands of them could keep the generator busy.
        if size - len(rest) > LONGEST_HEAD or not b"HTTP/1."[: len(raw)] == raw[:7]:
            raise Malformed(f"{raw[:60]!r} is not an HTTP answer, or its head is too long")
        if not found:
            return None
        said = read_head(head)
        if said.status >= 200 or said.status == 101:
            break
        raw = rest
    if len(rest) > LONGEST_BODY:
        raise Malformed("the body is too long")
    if said.length == TO_EOF:
        return Answer(said.status, rest, False) if closed else None
    if said.length == CHUNKED:
        chunks = read_chunks(rest)
        return chunks and Answer(said.status, chunks[0], said.keep and chunks[1] == len(rest))
    if len(rest) < said.length:
        return None
    return Answer(said.status, rest[: said.length], said.keep and len(rest) == said.length)
