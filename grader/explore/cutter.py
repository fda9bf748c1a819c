"""Find where the messages of one HTTP/1.1 connection end, while their bytes pass by.

A cutter reads both directions, because an answer depends on its request: the answer to HEAD has no body. It stores at
most one head or one line, never a body, so a message can have any size. Interim answers (1xx) belong to the answer that
follows them.

A cutter never guesses. If bytes are not HTTP/1.1, or if two readers could disagree about the end of a message, the
connection is *opaque* from the beginning of this message on, in both directions: its bytes are not cut. The same is
true after 101, and for a request that waits for an interim answer before it sends its body (Expect) or that asks for a
tunnel (CONNECT).

Source: RFC 9112, sections 2 to 7 and 9.3.

>>> cutter = Cutter()
>>> cutter.feed(CALLER, b"HEAD /find/7 HTTP/1.1\\r\\n\\r\\nGET /find/7 HT")
[(25, Cut(kind='request', first='HEAD /find/7 HTTP/1.1', size=25))]
>>> cutter.feed(CALLEE, b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\n")
[(38, Cut(kind='answer', first='HTTP/1.1 200 OK', size=38))]
>>> cutter.feed(CALLER, b"TP/9\\r\\n"), cutter.opaque
([], True)
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator
from typing import NamedTuple

CALLER, CALLEE = 0, 1
"""The two ends of a connection. A direction has the name of the end that sends."""
REQUEST, ANSWER, BURST = "request", "answer", "bytes"
"""Kinds of messages. A burst is everything that cannot be cut, for example a message whose sender has closed early."""
LONGEST_HEAD, LONGEST_SIZE = 65_536, 1_024
"""The maximum number of bytes in a head or a trailer, and in the line with the size of a chunk."""
_REQUEST = re.compile(rb"([A-Z-]{1,20}) [!-\xff]+ HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_METHOD, _VERSION = re.compile(rb"[A-Z-]{1,20}(?: |\Z)"), b"HTTP/1."
_FIELD = re.compile(rb"([!-9;-~]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_LENGTH, _CHUNK = re.compile(rb"[0-9]{1,18}"), re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;.*)?\r\n", re.DOTALL)
_BARE_LF = re.compile(rb"(?<!\r)\n")


class Cut(NamedTuple):
    """A whole message: its kind, its first line (Latin-1), and its bytes, heads of interim answers included."""

    kind: str
    first: str
    size: int


class Unreadable(ValueError):
    """The bytes are not HTTP/1.1, or not unambiguous."""


_Steps = Generator[None, None, bytes]
"""Yields when it needs more bytes, and returns what it has read."""


class Cutter:
    """Cuts both directions of one connection. ``opaque``: from now on, nothing more is cut."""

    def __init__(self) -> None:
        self.opaque = False
        asked: deque[bytes] = deque()
        self._readers = _Reader(asked, answers=False), _Reader(asked, answers=True)

    def feed(self, way: int, data: bytes) -> list[tuple[int, Cut]]:
        """Read the next bytes of a direction. Returns the messages that end in them, and where each ends."""
        found: list[tuple[int, Cut]] = []
        reader = self._readers[way]
        reader.data, reader.at = data, 0
        try:
            while not self.opaque and (cut := next(reader.cuts)) is not None:
                found.append((reader.at, cut))
                self.opaque = reader.switched
        except Unreadable:
            self.opaque = True
        return found

    def end(self, way: int) -> Cut | None:
        """Return the message that ends because its sender has closed; None if there is none, or if it is incomplete."""
        reader = self._readers[way]
        return reader.cut() if reader.to_the_end and not self.opaque else None


class _Reader:
    """One direction of a connection. ``asked``: the methods of the requests that have no answer yet."""

    def __init__(self, asked: deque[bytes], answers: bool) -> None:
        self.data, self.at = b"", 0
        self.to_the_end = self.switched = False
        """Whether the current message has no other end than that of the connection; whether it was a 101."""
        self.cuts = self._messages()
        self._asked, self._answers, self._size, self._first = asked, answers, 0, b""

    def cut(self) -> Cut:
        """The current message, as it is now."""
        return Cut(ANSWER if self._answers else REQUEST, self._first.decode("latin-1"), self._size)

    def _messages(self) -> Generator[Cut | None, None, None]:
        """Yield each message when its last byte was read, and None when more bytes are needed."""
        while True:
            self._size = 0
            head = yield from self._upto(b"\r\n\r\n", LONGEST_HEAD, first=True)
            while (length := self._length_of(head)) is None:  # an interim answer
                head = yield from self._upto(b"\r\n\r\n", LONGEST_HEAD, first=True)
            if length == "chunked":
                yield from self._chunks()
            elif length == "to the end":
                self.to_the_end = True
                yield from self._skip(1 << 63)
            else:
                yield from self._skip(int(length))
            yield self.cut()

    def _length_of(self, head: bytes) -> str | None:
        """Return the length of the body: digits, "chunked" or "to the end". None: the answer is an interim one."""
        self._first, *lines = head[:-4].split(b"\r\n")
        fields: dict[bytes, set[bytes]] = {}
        for line in lines:
            if not (field := _FIELD.fullmatch(line)):
                raise Unreadable(line)
            fields.setdefault(field[1].lower(), set()).add(field[2].lower())
        lengths, codings = fields.get(b"content-length", set()), fields.get(b"transfer-encoding", set())
        if len(lengths) + len(codings) > 1 or codings - {b"chunked"} or not all(map(_LENGTH.fullmatch, lengths)):
            raise Unreadable(head)
        length = "chunked" if codings else lengths.pop().decode() if lengths else ""
        if not self._answers:
            method = self._first.partition(b" ")[0]
            if method == b"CONNECT" or b"expect" in fields:
                raise Unreadable(head)
            self._asked.append(method)
            return length or "0"
        status = self._first[9:12]
        if status.startswith(b"1") and status != b"101":
            return None
        self.switched = status == b"101"
        method = self._asked.popleft() if self._asked else b""
        return "0" if method == b"HEAD" or status in (b"101", b"204", b"304") else length or "to the end"

    def _chunks(self) -> Generator[None, None, None]:
        """Read a body in chunks, with its trailers."""
        while True:
            size = _CHUNK.fullmatch((yield from self._upto(b"\r\n", LONGEST_SIZE)))
            if not size:
                raise Unreadable("the size of a chunk")
            if not (count := int(size[1], 16)):
                break
            yield from self._skip(count)
            yield from self._upto(b"\r\n", 2)
        while (yield from self._upto(b"\r\n", LONGEST_HEAD)) != b"\r\n":
            pass

    def _upto(self, mark: bytes, most: int, first: bool = False) -> _Steps:
        """Read up to and including ``mark``, at most ``most`` bytes. ``first``: these are a head."""
        text = bytearray()
        while True:
            before = len(text)
            text += self.data[self.at : self.at + most - before]
            end = text.find(mark, max(0, before + 1 - len(mark)))
            if end >= 0:
                del text[end + len(mark) :]
            self._use(len(text) - before)
            if first and text:
                self._look(text)
            if end >= 0:
                return bytes(text)
            if len(text) == most:
                raise Unreadable("too long")
            yield

    def _look(self, text: bytearray) -> None:
        """Raise Unreadable as soon as bytes cannot become a head, because other protocols never end one."""
        line, whole, _ = text.partition(b"\r\n")
        if whole:
            fits = (_STATUS if self._answers else _REQUEST).fullmatch(line) is not None
        elif self._answers:
            fits = _VERSION[: len(line)] == line[: len(_VERSION)]
        else:
            fits = _METHOD.match(line) is not None
        if not fits or _BARE_LF.search(text):
            raise Unreadable(bytes(line))

    def _skip(self, count: int) -> Generator[None, None, None]:
        """Read ``count`` bytes of a body."""
        while count:
            used = min(count, len(self.data) - self.at)
            self._use(used)
            count -= used
            if count:
                yield

    def _use(self, count: int) -> None:
        self.at += count
        self._size += count
