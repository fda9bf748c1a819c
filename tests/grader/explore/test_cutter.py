"""The cutter finds the same messages however their bytes arrive, and never guesses where one ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_odd_answers import AGAIN, ANSWERS, CLOSE

from grader.explore.cutter import ANSWER, CALLEE, CALLER, LONGEST_HEAD, REQUEST, Cut, Cutter

GET = b"GET /find/7 HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
ODD = {name: b"".join(step for step in steps if isinstance(step, bytes)) for name, (steps, _) in ANSWERS.items()}
"""The bytes of each odd answer; those that are repeated without an end, once."""


def cuts(cutter: Cutter, way: int, pieces: list[bytes]) -> tuple[list[Cut], bytes]:
    """Feed pieces. Returns the messages, and the bytes behind the last one; checks that each size is the bytes used."""
    found, part = [], b""
    for piece in pieces:
        at = 0
        for end, cut in cutter.feed(way, piece):
            assert len(part) + end - at == cut.size
            found.append(cut)
            part, at = b"", end
        part += piece[at:]
    return found, part


def split(raw: bytes, at: set[int]) -> list[bytes]:
    """The bytes in pieces."""
    return [raw[begin:end] for begin, end in pairwise([0, *sorted(n for n in at if 0 < n < len(raw)), len(raw)])]


def answered(pieces: list[bytes], asked: bytes) -> tuple[list[Cut], bytes, bool, Cut | None]:
    """What a cutter says of answers to requests."""
    cutter = Cutter()
    cutter.feed(CALLER, asked)
    found, rest = cuts(cutter, CALLEE, pieces)
    return found, rest, cutter.opaque, cutter.end(CALLEE)


WHOLE: dict[str, tuple[bytes, bytes, list[int]]] = {
    # Requests, answers, and the size of each answer.
    "a length": (GET, OK, [len(OK)]),
    "two answers on one connection": (GET * 2, OK * 2, [len(OK)] * 2),
    "a body of 1 MB": (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000, [1_000_044]),
    "HEAD, then GET": (b"HEAD / HTTP/1.1\r\n\r\n" + GET, OK[:-2] + OK, [len(OK) - 2, len(OK)]),
    "204, then 200": (GET * 2, b"HTTP/1.1 204 No\r\n\r\n" + OK, [19, len(OK)]),
    "304 with a length, then 200": (GET * 2, b"HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n" + OK, [36, len(OK)]),
    "chunks and trailers": (
        GET * 2,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\n\r\n\r\r\n"
        b"0a ;x=1\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\n" + OK,
        [47 + 8 + 21 + 17, len(OK)],
    ),
    "interim answers": (
        GET * 2,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 103 \r\nLink: x\r\n\r\n" + OK * 2,
        [75 + 26 + len(OK), len(OK)],
    ),
    "an answer without a request": (b"", OK, [len(OK)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_message_ends_with_its_last_byte(name: str) -> None:
    """In one piece and byte by byte, the same messages are found, each with its size."""
    asked, raw, sizes = WHOLE[name]
    found, rest, opaque, _ = answered([raw], asked)
    assert ([cut.size for cut in found], rest, opaque) == (sizes, b"", False)
    assert sum(sizes) == len(raw) and {cut.kind for cut in found} == {ANSWER}
    if len(raw) < 10_000:
        assert answered([raw[n : n + 1] for n in range(len(raw))], asked) == (found, b"", False, None)


def test_requests_have_lengths_and_chunks_too() -> None:
    """Requests that follow one another without waiting are cut, with their bodies."""
    bodies = (
        b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        b"PUT /b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    )
    found, rest = cuts(Cutter(), CALLER, [b"".join((*bodies, GET, GET[:9]))])
    assert found == [
        (REQUEST, "POST /a HTTP/1.1", len(bodies[0])),
        (REQUEST, "PUT /b HTTP/1.0", len(bodies[1])),
        (REQUEST, "GET /find/7 HTTP/1.1", len(GET)),
    ]
    assert rest == GET[:9]


def test_a_body_may_end_with_its_connection() -> None:
    """Without a length, an answer ends when its sender closes; a request has no body then."""
    raw = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nall of it"
    assert answered([raw], GET) == ([], raw, False, Cut(ANSWER, "HTTP/1.1 200 OK", len(raw)))
    assert answered([OK[:-1]], GET) == ([], OK[:-1], False, None)


@pytest.mark.parametrize("name", ODD)
@given(at=st.sets(st.integers(1, 200)))
def test_an_odd_answer_is_cut_the_same_in_any_pieces(name: str, at: set[int]) -> None:
    """The messages, the bytes that are none, and whether the connection is opaque do not depend on the pieces."""
    raw = ODD[name]
    found, rest, opaque, last = answered([raw], GET)
    assert answered(split(raw, at), GET) == (found, rest, opaque, last)
    assert sum(cut.size for cut in found) + len(rest) == len(raw)
    if last:
        assert last.size == len(rest)


PARTS = st.sampled_from(
    [b"GET / HTTP/1.1", b"POST /a/b HTTP/1.0", b"HEAD / HTTP/1.1", b"HTTP/1.1 200 OK", b"HTTP/1.1 204 No"]
)
FIELDS = st.sampled_from(
    [b"Host: h", b"Content-Length: 2", b"Content-Length: 0", b"Transfer-Encoding: chunked", b"no field"]
)
BODY = st.sampled_from([b"", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"\n", b"x"])
DRAWN = st.lists(
    st.builds(lambda a, f, b: b"\r\n".join((a, *f, b"", b)), PARTS, st.lists(FIELDS, max_size=2), BODY), max_size=4
)


@given(
    messages=DRAWN, rest=st.binary(max_size=9), at=st.sets(st.integers(1, 300)), way=st.sampled_from([CALLER, CALLEE])
)
def test_any_bytes_are_cut_the_same_in_any_pieces(messages: list[bytes], rest: bytes, at: set[int], way: int) -> None:
    """The same for drawn messages, right and wrong ones, in both directions."""
    raw = b"".join((*messages, rest))
    one, two = Cutter(), Cutter()
    assert cuts(one, way, [raw]) == cuts(two, way, split(raw, at))
    assert (one.opaque, one.end(way)) == (two.opaque, two.end(way))


OPAQUE: dict[str, tuple[int, bytes]] = {
    "PostgreSQL": (CALLER, b"\x00\x00\x00\x08\x04\xd2\x16\x2f"),
    "Redis": (CALLER, b"*1\r\n$4\r\nPING\r\n"),
    "TLS": (CALLER, b"\x16\x03\x01"),
    "HTTP/2": (CALLER, b"PRI * HTTP/2.0\r\n"),
    "a chunk without its end": (CALLEE, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{xx0\r\n\r\n"),
    "a greeting": (CALLEE, b"+OK\r\n"),
    "a mail": (CALLER, b"EHLO h\r\n"),
    "Expect": (CALLER, b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"),
    "CONNECT": (CALLER, b"CONNECT h:1 HTTP/1.1\r\n\r\n"),
    "lines with LF alone": (CALLER, b"GET / HTTP/1.1\r\nHost: h\n"),
    "a length and chunks": (CALLER, b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "two lengths": (CALLER, b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n"),
    "another coding": (CALLER, b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    "a space before the colon": (CALLER, b"POST / HTTP/1.1\r\nContent-Length : 2\r\n\r\n"),
    "a head that is too long": (CALLER, b"GET / HTTP/1.1\r\nA: " + b"b" * LONGEST_HEAD),
}  # fmt: skip


@pytest.mark.parametrize("name", OPAQUE)
def test_what_cannot_be_read_for_certain_is_not_cut(name: str) -> None:
    """A connection is opaque from the first byte that says so, in both directions; messages before it are cut."""
    way, raw = OPAQUE[name]
    cutter, before = Cutter(), GET if way == CALLER else OK
    assert [cut.size for _, cut in cutter.feed(way, before + raw)] == [len(before)]
    assert cutter.opaque
    assert (cutter.feed(CALLER, GET), cutter.feed(CALLEE, OK), cutter.end(CALLEE)) == ([], [], None)


def test_after_101_nothing_is_cut() -> None:
    """The answer 101 is a message; what follows is another protocol, even if it looks like HTTP."""
    cutter = Cutter()
    cutter.feed(CALLER, GET)
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    assert cutter.feed(CALLEE, head + OK) == [(len(head), Cut(ANSWER, "HTTP/1.1 101 Switching Protocols", len(head)))]
    assert cutter.opaque and cutter.feed(CALLER, GET) == []


def test_the_table_has_steps_besides_bytes() -> None:
    """The table of odd answers still has the two steps that ODD leaves out."""
    assert {step for steps, _ in ANSWERS.values() for step in steps if isinstance(step, str)} == {AGAIN, CLOSE}
