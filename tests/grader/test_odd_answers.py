"""Answers of services at each limit of HTTP and JSON. They are faults of the submission, never of the grader."""

from __future__ import annotations

import itertools
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_system import Change, FakeSystem, http, in_memory, over_sockets
from test_grader_wire import OK, Server, job

from grader.record import Record, save
from grader.report import write
from grader.table import PHASES
from grader.terms import Kind, Status, status_word
from grader.verdict import judge
from grader.wire.client import Generator
from grader.wire.http import LONGEST_BODY, LONGEST_HEAD, read_answer

TIMEOUT, RESET, GARBAGE = Status.TIMEOUT, Status.RESET, Status.GARBAGE
CLOSE, AGAIN = "close", "again"
"""Steps besides bytes: close the connection, and repeat the step before until the other side closes."""
Script = tuple[bytes | str, ...]


def said(line: bytes, *headers: bytes, body: bytes = b"") -> Script:
    """One answer in one piece."""
    return (b"\r\n".join((line, *headers, b"", body)),)


def chunked(*pieces: bytes) -> Script:
    """An answer with a body in chunks."""
    return said(b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", body=b"".join(pieces))


def sized(length: bytes, body: bytes = b"{}") -> Script:
    """An answer with this Content-Length."""
    return said(b"HTTP/1.1 200 OK", b"Content-Length: " + length, body=body)


ONE = b"HTTP/1.1 100 Continue\r\n\r\n"
EMPTY = b"Content-Length: 0"
ANSWERS: dict[str, tuple[Script, int]] = {
    # Status lines.
    "no reason": (said(b"HTTP/1.1 200", EMPTY), 200),
    "no reason, but its space": (said(b"HTTP/1.1 200 ", EMPTY), 200),
    "a reason that is not ASCII": (said(b"HTTP/1.1 200 \xff\x00\xfc", EMPTY), 200),
    "HTTP/1.0": ((*said(b"HTTP/1.0 200 OK", EMPTY), CLOSE), 200),
    "HTTP/1.9": (said(b"HTTP/1.9 200 OK", EMPTY), 200),
    "HTTP/2": (said(b"HTTP/2 200", EMPTY), GARBAGE),
    "lower case": (said(b"http/1.1 200 ok", EMPTY), GARBAGE),
    "digits that are not ASCII": (said(b"HTTP/1.1 \xb2\xb2\xb2 OK", EMPTY), GARBAGE),
    "status 000": (said(b"HTTP/1.1 000 OK", EMPTY), GARBAGE),
    "status 99": (said(b"HTTP/1.1 99 OK", EMPTY), GARBAGE),
    "status 099": (said(b"HTTP/1.1 099 OK", EMPTY), GARBAGE),
    "status 299": (said(b"HTTP/1.1 299 OK", EMPTY), 299),
    "status 600": (said(b"HTTP/1.1 600 OK", EMPTY), 600),
    "status 999": (said(b"HTTP/1.1 999 OK", EMPTY), 999),
    "status 1000": (said(b"HTTP/1.1 1000 OK", EMPTY), GARBAGE),
    "status -20": (said(b"HTTP/1.1 -20 OK", EMPTY), GARBAGE),
    "two spaces": (said(b"HTTP/1.1  200 OK", EMPTY), GARBAGE),
    "a header without a colon": (said(b"HTTP/1.1 200 OK", b"Server", EMPTY), GARBAGE),
    # Lengths.
    "5,000 digits": (sized(b"1" * 5_000), GARBAGE),
    "4,999 zeros": (sized(b"0" * 4_999 + b"2"), GARBAGE),
    "18 zeros": (sized(b"0" * 18 + b"2"), 200),
    "a negative length": (sized(b"-2"), GARBAGE),
    "a plus sign": (sized(b"+2"), GARBAGE),
    "a length in hex": (sized(b"0x2"), GARBAGE),
    "no length": (sized(b""), GARBAGE),
    "digits of a length that are not ASCII": (sized(b"\xb2"), GARBAGE),
    "two lengths": (said(b"HTTP/1.1 200 OK", b"Content-Length: 2", b"Content-Length: 9", body=b"{}"), GARBAGE),
    "twice the same length": (said(b"HTTP/1.1 200 OK", b"Content-Length: 2", b"Content-Length: 2", body=b"{}"), 200),
    "a list of lengths": (sized(b"2, 2"), GARBAGE),
    "the longest body": (sized(b"%d" % LONGEST_BODY, b" " * LONGEST_BODY), 200),
    "a longer body": (sized(b"%d" % (LONGEST_BODY + 1), b" " * (LONGEST_BODY + 1)), GARBAGE),
    "a body that is too short": (sized(b"3"), TIMEOUT),
    "a body that is too short, and the end": ((*sized(b"3"), CLOSE), RESET),
    "a body that is too long": (sized(b"1"), 200),
    "a length and chunks": (
        said(b"HTTP/1.1 200 OK", b"Content-Length: 9", b"Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
        200,
    ),
    # Chunks.
    "an extension": (chunked(b"2;a=b\r\n{}\r\n0;c\r\n\r\n"), 200),
    "a trailer": (chunked(b"2\r\n{}\r\n0\r\nA: b\r\n\r\n"), 200),
    "no number": (chunked(b"two\r\n{}\r\n0\r\n\r\n"), GARBAGE),
    "a size with an underscore": (chunked(b"1_0\r\n%b\r\n0\r\n\r\n" % (b" " * 16)), GARBAGE),
    "a size with 0x": (chunked(b"0x2\r\n{}\r\n0\r\n\r\n"), GARBAGE),
    "a negative size": (chunked(b"-2\r\n{}\r\n0\r\n\r\n"), GARBAGE),
    "an empty size": (chunked(b"\r\n{}\r\n0\r\n\r\n"), GARBAGE),
    "a size of 900 digits": (chunked(b"f" * 900 + b"\r\n{}"), GARBAGE),
    "a size without an end": (chunked(b"f" * 2_000), GARBAGE),
    "a chunk longer than its size": (chunked(b"1\r\n{}\r\n0\r\n\r\n"), GARBAGE),
    "no last chunk": (chunked(b"2\r\n{}\r\n"), TIMEOUT),
    "no last chunk, and the end": ((*chunked(b"2\r\n{}\r\n"), CLOSE), RESET),
    "endless chunks": ((*chunked(b""), b"3e8\r\n%b\r\n" % (b"x" * 1_000) * 50, AGAIN), GARBAGE),
    "endless trailers": ((*chunked(b"0\r\n"), b"A: b\r\n" * 5_000, AGAIN), GARBAGE),
    # Interim answers, and answers without a body.
    "100 before the answer": ((ONE + OK,), 200),
    "103 with headers": ((b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK,), 200),
    "30 interim answers": ((ONE * 30 + OK,), 200),
    "endless interim answers": ((ONE * 1_000, AGAIN), GARBAGE),
    "an interim answer alone": ((ONE,), TIMEOUT),
    "an interim answer, and the end": ((ONE, CLOSE), RESET),
    "101": (said(b"HTTP/1.1 101 Switching Protocols", b"Upgrade: x"), 101),
    "204 with a body": (said(b"HTTP/1.1 204 No Content", b"Content-Length: 2", body=b"{}"), 204),
    "304 with a body": (said(b"HTTP/1.1 304 Not Modified", body=b"{}"), 304),
    # Beginnings and ends.
    "nothing": ((b"",), TIMEOUT),
    "only the end": ((CLOSE,), RESET),
    "half a status line": ((b"HTTP/1.1 20", CLOSE), RESET),
    "a body up to the end": ((b"HTTP/1.1 200 OK\r\n\r\n", b"{", b"}", CLOSE), 200),
    "an endless body": ((b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65_536, AGAIN), GARBAGE),
    "an endless head": ((b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 5_000, AGAIN), GARBAGE),
    "the longest head": (said(b"HTTP/1.1 200 OK", b"A: " + b"b" * (LONGEST_HEAD - 60), EMPTY), 200),
    "an endless line": ((b"HTTP/1.1 200 " + b"x" * 65_536, AGAIN), GARBAGE),
    "NUL bytes": ((b"\0" * 100,), GARBAGE),
    "NUL in a header": (said(b"HTTP/1.1 200 OK", b"A\0: \0", EMPTY), 200),
    "bare LF": ((OK.replace(b"\r\n", b"\n"),), TIMEOUT),
    "an empty line first": ((b"\r\n" + OK,), GARBAGE),
    "a page without a head": ((b"<!DOCTYPE html>",), GARBAGE),
    "TLS": ((b"\x15\x03\x01\x00\x02\x02\x46",), GARBAGE),
    # Two answers to one request. The second one is not the answer to the next request.
    "two answers": ((OK + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",), 200),
    "two answers in chunks": (chunked(b"0\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), 200),
    "an answer and half of another": (chunked(b"0\r\n\r\nHTTP/1.1 5"), 200),
}  # fmt: skip


def scripted(script: Script) -> Callable[[socket.socket, int], None]:
    """A server that answers each request by a script."""

    def serve(connection: socket.socket, number: int) -> None:
        while connection.recv(65_536):
            before = b""
            for step in script:
                if step == CLOSE:
                    return connection.shutdown(socket.SHUT_RDWR)
                while step == AGAIN:
                    connection.sendall(before)
                assert isinstance(step, bytes)
                before = step
                connection.sendall(step)

    return serve


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    """One generator for all answers: it must survive each of them."""
    child = Generator()
    yield child
    child.close()


@pytest.mark.parametrize("name", ["two answers", "two answers in chunks", "an answer and half of another", "101"])
def test_a_connection_is_not_kept_if_more_may_follow(name: str) -> None:
    """Bytes after an answer may arrive later, when the next request is already on its way."""
    (raw,), status = ANSWERS[name]
    assert isinstance(raw, bytes)
    answer = read_answer(raw, closed=False)
    assert answer is not None and (answer.status, answer.keep) == (status, False)


def judged(record: Record, folder: Path) -> str:
    """Save a record, write its reports, and return the verdict."""
    save(record, folder / "record")
    judgement, _ = write(folder / "record", folder)
    assert json.loads((folder / "report.json").read_text())["verdict"] == judgement.verdict
    return judgement.verdict


@pytest.mark.parametrize("name", ANSWERS)
def test_an_odd_answer_has_a_status(name: str, generator: Generator) -> None:
    """Each answer has its status, for the first and for the next request; and a system that gives no other fails."""
    script, status = ANSWERS[name]
    server = Server(scripted(script))
    timeout = 0.05 if status == TIMEOUT else 20.0
    try:
        result = generator.run(job(server.target, 2, connections=1, timeout=int(timeout * 1e9)))
        record = over_sockets(generator, server.target.port, timeout)
    finally:
        server.sock.close()
    assert result.status.tolist() == [status] * 2
    assert record.exchanges[0].got.startswith(status_word(status))
    assert judge(record).verdict == "fail"


READS = {"credit": Kind.FIND_USER, "items": Kind.FIND_ORDER, "total_cost": Kind.FIND_ORDER, "paid": Kind.FIND_ORDER}
LARGE = "9" * 4_300
"""The longest number that Python reads and writes. A sum of two is longer."""
VALUES: dict[str, tuple[str, str | Callable[[Any], str], bool]] = {
    # A field, its text, in which ? is the right one, and whether it is right.
    "2**62 - 1": ("credit", str((1 << 62) - 1), False),
    "2**62": ("credit", str(1 << 62), False),
    "-2**63": ("credit", str(-1 << 63), False),
    "4,300 digits": ("credit", LARGE, False),
    "4,301 digits": ("credit", f"1{LARGE}", False),
    "100,000 digits": ("credit", "1" * 100_000, False),
    "1e999": ("credit", "1e999", False),
    "-1e999": ("credit", "-1e999", False),
    "NaN": ("credit", "NaN", False),
    "Infinity": ("credit", "Infinity", False),
    "-0": ("credit", "-0", False),
    "a float": ("credit", "?.0", False),
    "an exponent": ("credit", "?e0", False),
    "a text": ("credit", '"?"', False),
    "a list": ("credit", "[?]", False),
    "an object": ("credit", '{"credit": ?}', False),
    "null": ("credit", "null", False),
    "true": ("credit", "true", False),
    "paid as 1": ("paid", "1", False),
    "paid as 1.0": ("paid", "1.0", False),
    "paid as a text": ("paid", '"?"', False),
    "paid as 4,300 digits": ("paid", LARGE, False),
    "a cost of 4,300 digits": ("total_cost", LARGE, False),
    "lines as objects": ("items", lambda had: json.dumps([{"item_id": i, "quantity": n} for i, n in had]), True),
    "lines twice": ("items", lambda had: json.dumps([*had, *((i, 0) for i, n in had)]), True),
    "items as an object": ("items", lambda had: json.dumps(dict(had)), False),
    "items nested": ("items", "[?]", False),
    "items as a text": ("items", '"n5"', False),
    "items as null": ("items", "null", False),
    "a line of one": ("items", '[["0"]]', False),
    "a line of three": ("items", '[["0", 1, 7]]', False),
    "a quantity of 4,300 digits": ("items", f'[["0", {LARGE}]]', False),
    "two quantities of 4,300 digits": ("items", f'[["0", {LARGE}], ["0", {LARGE}]]', False),
    "a quantity of 2**62": ("items", f'[["0", {1 << 62}]]', False),
    "a negative quantity": ("items", '[["0", -1]]', False),
    "a quantity of zero": ("items", '[["0", 0]]', False),
    "a quantity as a float": ("items", '[["0", 1.0]]', False),
    "a quantity as true": ("items", '[["0", true]]', False),
    "an item that is half a surrogate pair": ("items", '[["\\ud800", 1]]', False),
    "an item of 201 characters": ("items", f'[["{"x" * 201}", 1]]', False),
    "an item with a NUL": ("items", '[["\\u0000", 1]]', False),
    "an item that is null": ("items", "[[null, 1]]", False),
    "an item that is a list": ("items", f"[[{'[' * 400}{']' * 400}, 1]]", False),
    "an item of 4,300 digits": ("items", f"[[{LARGE}, 1]]", False),
    "25,000 lines": ("items", f"[{','.join(f'[{n}, 0]' for n in range(25_000))}]", False),
    "100,000 lines": ("items", f"[{','.join(['[1, 0]'] * 100_000)}]", False),
    "a list 400 deep": ("items", f"{'[' * 400}{']' * 400}", False),
    "a list 100,000 deep": ("items", f"{'[' * 100_000}{']' * 100_000}", False),
}  # fmt: skip


def valued(field: str, text: str | Callable[[Any], str]) -> Change:
    """Write one field of the reads as another text."""

    def change(kind: Kind, raw: bytes) -> bytes:
        body = json.loads(raw.partition(b"\r\n\r\n")[2])
        right = body.get(field)
        if kind != READS[field] or right in (None, []):
            return raw
        odd = text.replace("?", json.dumps(right)) if isinstance(text, str) else text(right)
        return http(200, json.dumps({**body, field: "@"}).replace('"@"', odd).encode())

    return change


IDS: dict[str, tuple[Callable[[str], Any], bool]] = {
    "200 characters": (lambda real: real.ljust(200, "x"), True),
    "201 characters": (lambda real: real.ljust(201, "x"), False),
    "a number": (lambda real: 10**9 + int(real.strip("n")), True),
    "a negative number": (lambda real: -1 - int(real.strip("n")), True),
    "a number of 4,300 digits": (lambda real: int(LARGE), False),
    "a float": (lambda real: 0.5 + int(real.strip("n")), False),
    "true": (lambda real: True, False),
    "null": (lambda real: None, False),
    "an empty text": (lambda real: "", False),
    "a list": (lambda real: [real], False),
    "slash, percent, question mark and hash": (lambda real: f"/%2F?#{real}&a=b;c\\", True),
    "quotes and tags": (lambda real: f"<b>'{real}\"</b>", True),
    "letters of other scripts": (lambda real: f"é漢🛒{real}", True),
    "half a surrogate pair": (lambda real: f"\ud800{real}", False),
    "a NUL": (lambda real: f"\0{real}", False),
    "a line break": (lambda real: f"{real}\r\nHost: x", False),
    "a mark that turns the text around": (lambda real: f"\u202e{real}", False),
    "one id for everything": (lambda real: "n1", False),
}

BODIES: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "spaces around it": (lambda body: b" \r\n\t" + body + b"\n", True),
    "a byte order mark": (lambda body: b"\xef\xbb\xbf" + body, True),
    "UTF-16": (lambda body: body.decode().encode("utf-16"), True),
    "a key twice, the right one last": (lambda body: b'{"credit": "x", ' + body[1:], True),
    "a key twice, the right one first": (lambda body: body[:-1] + b', "credit": null, "stock": null}', False),
    "another field of bytes that are not UTF-8": (lambda body: body[:-1] + b', "a": "\xff"}', False),
    "another field 100,000 deep": (lambda body: body[:-1] + b', "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", False),
    "another field of 4,301 digits": (lambda body: body[:-1] + b', "a": 1%b}' % LARGE.encode(), False),
    "another field that is NaN": (lambda body: body[:-1] + b', "a": NaN}', True),
    "text behind it": (lambda body: body + b"}", False),
    "a NUL behind it": (lambda body: body + b"\0", False),
    "single quotes": (lambda body: body.replace(b'"', b"'"), False),
    "a list": (lambda body: b"[" + body + b"]", False),
    "a text": (lambda body: json.dumps(body.decode()).encode(), False),
    "null": (lambda body: b"null", False),
    "nothing": (lambda body: b"", False),
}


def bodied(form: Callable[[bytes], bytes]) -> Change:
    """Change the body of the reads."""

    def change(kind: Kind, raw: bytes) -> bytes:
        reads = kind in (Kind.FIND_USER, Kind.FIND_ITEM, Kind.FIND_ORDER) and raw.startswith(b"HTTP/1.1 200")
        return http(200, form(raw.partition(b"\r\n\r\n")[2])) if reads else raw

    return change


SYSTEMS: dict[str, tuple[Callable[[], FakeSystem], bool]] = {
    "right": (FakeSystem, True),
    **{
        f"value: {name}": (lambda f=f, t=t: FakeSystem(change=valued(f, t)), fits)
        for name, (f, t, fits) in VALUES.items()
    },  # type: ignore[misc]
    **{f"id: {name}": (lambda of=of: FakeSystem(name=of), fits) for name, (of, fits) in IDS.items()},  # type: ignore[misc]
    **{f"body: {name}": (lambda of=of: FakeSystem(change=bodied(of)), fits) for name, (of, fits) in BODIES.items()},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_odd_json_is_right_or_wrong(name: str, generator: Generator, tmp_path: Path) -> None:
    """A system whose answers have an odd value, id or body passes the contract phase or fails, and has a report."""
    make, fits = SYSTEMS[name]
    server = Server(make().serve)
    try:
        record = over_sockets(generator, server.target.port)
    finally:
        server.sock.close()
    wrong = [one for one in record.exchanges if not one.agreed]
    assert judged(record, tmp_path) == ("pass" if fits else "fail"), wrong[:1]


READ = (Kind.FIND_USER, Kind.FIND_ITEM, Kind.FIND_ORDER)


def sometimes(answer: bytes, kinds: tuple[Kind, ...], every: int = 1) -> Change:
    """Give this answer to every n-th request of these kinds."""
    asked = itertools.count(1)
    return lambda kind, raw: answer if kind in kinds and next(asked) % every == 0 else raw


def amounts(text: str) -> Change:
    """Write the credit and the stock in all reads as this text."""
    return bodied(lambda body: re.sub(rb'("credit"|"stock"): \d+', rb"\1: " + text.encode(), body))


KINDS: dict[str, tuple[Callable[[], FakeSystem], str]] = {
    "right": (FakeSystem, "pass"),
    "ids of 200 odd characters": (lambda: FakeSystem(name=lambda real: f"/<b>'%2F?#é{real}".ljust(200, "x")), "pass"),
    "half a surrogate pair in every id": (lambda: FakeSystem(name=lambda real: f"\ud800{real}"), "fail"),
    "half a surrogate pair in some ids": (lambda: FakeSystem(name=lambda real: real.replace("99", "\ud800")), "pass"),
    "one id for everything": (lambda: FakeSystem(name=lambda real: "n1"), "fail"),
    "amounts of 2**62 - 1": (lambda: FakeSystem(change=amounts(str((1 << 62) - 1))), "fail"),
    "amounts of 4,300 digits": (lambda: FakeSystem(change=amounts(LARGE)), "fail"),
    "reads of other statuses": (lambda: FakeSystem(change=sometimes(http(999, b"{}"), READ, 3)), "fail"),
    "checkouts with a length of 5,000 digits": (
        lambda: FakeSystem(change=sometimes(http(200, b"").replace(b": 0", b": " + b"1" * 5_000), (Kind.CHECKOUT,))),
        "fail",
    ),
    "some checkouts without an answer": (lambda: FakeSystem(change=sometimes(b"", (Kind.CHECKOUT,), 5)), "fail"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_odd_answers_in_the_other_phases(name: str, tmp_path: Path) -> None:
    """No odd answer ends a phase with an error. The run has a verdict and a report."""
    make, verdict = KINDS[name]
    record = in_memory(make(), ("duplicates", "load", "scarcity", "faults", "speed"))
    assert judged(record, tmp_path) == verdict


def test_of_a_system_that_hangs_no_other_phase_asks_anything() -> None:
    """A system that never answers fails the contract after a few requests. No other phase runs, and it has 0 points."""
    record = in_memory(FakeSystem(change=lambda kind, raw: b""), PHASES)
    judgement = judge(record)
    verdicts = {name: phase.verdict for name, phase in judgement.phases.items()}
    assert verdicts == {**dict.fromkeys(PHASES, "not_tested"), "contract": "fail"}
    assert "did not answer" in judgement.why and judgement.score is not None and judgement.score.points == 0
    assert sum(wave.phase != "" and wave.requests for wave in record.waves) < 20
