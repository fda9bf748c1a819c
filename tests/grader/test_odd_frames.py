"""What a worker's process can send at each limit of a frame and of JSON. It is a fault of the code, never an error."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from grader.classroom.results import RESULT, fresh, read, store
from grader.lab import Case, check
from grader.lab.judge import judging
from grader.sandbox import choose
from grader.worker import Answer, Student, Worker
from grader.worker.protocol import MOST, MOST_ASKED, Asks, LateError, ask

NUMBER = "0" * 32
Side = Callable[[socket.socket], None]
"""The other side of the channel, after it has read the question."""


def frame(raw: bytes) -> bytes:
    """A message."""
    return struct.pack("!I", len(raw)) + raw


def message(**fields: Any) -> bytes:
    """A message with the number of the question."""
    return frame(json.dumps({"number": NUMBER, **fields}).encode())


def value(text: str) -> bytes:
    """An answer whose only value has this text."""
    return frame(b'{"number": "%b", "value": [%b]}' % (NUMBER.encode(), text.encode()))


def told(sock: socket.socket) -> Any:
    """Read a message of the grader."""
    file = sock.makefile("rb")
    return json.loads(file.read(struct.unpack("!I", file.read(4))[0]))


def sends(*pieces: bytes, ends: bool = True) -> Side:
    """Send bytes, and then close the channel or be silent."""

    def side(sock: socket.socket) -> None:
        for piece in pieces:
            sock.sendall(piece)
        if not ends:
            sock.recv(1)

    return side


def endless(piece: bytes) -> Side:
    """Send a piece until the grader closes the channel."""

    def side(sock: socket.socket) -> None:
        while True:
            sock.sendall(piece)

    return side


def asks(*args: Any, name: str = "twice", times: int = 1) -> Side:
    """Ask a function of the grader. The answer is 7 if the last one of them was refused."""

    def side(sock: socket.socket) -> None:
        for _ in range(times):
            sock.sendall(message(ask=name, args=[*args]))
            said = told(sock)
        sock.sendall(value("7" if "refused" in said else "8"))

    return side


DIGITS = "9" * 4_300
"""The longest number that Python reads and writes. Twice this number is longer."""
DEEP = "[" * 100_000 + "]" * 100_000
FRAMES: dict[str, tuple[Side, str, str]] = {
    # The other side, the kind of the answer, and the outcome of a check that wants 7.
    "right": (sends(value("7")), "value", "pass"),
    "an empty frame": (sends(frame(b"")), "bad", "bad"),
    "a length of 2**32 - 1": (sends(b"\xff" * 4), "bad", "bad"),
    "one byte too many": (sends(struct.pack("!I", MOST + 1) + b" " * (MOST + 1)), "bad", "bad"),
    "as many bytes as allowed": (sends(frame(message(value=[7])[4:].ljust(MOST))), "value", "pass"),
    "half a length": (sends(b"\0\0"), "crash", "crash"),
    "half a frame": (sends(value("7")[:-5]), "crash", "crash"),
    "half a frame and silence": (sends(value("7")[:-5], ends=False), "timeout", "timeout"),
    "nothing": (sends(), "crash", "crash"),
    "silence": (sends(ends=False), "timeout", "timeout"),
    "two frames": (sends(value("7") + value("8")), "value", "pass"),
    "frames without end": (endless(frame(b"7")), "bad", "bad"),
    "asks without end that reads no answers": (endless(message(ask="twice", args=[1])), "timeout", "timeout"),
    "not UTF-8": (sends(frame(b"\xff\xfe")), "bad", "bad"),
    "UTF-16": (sends(frame(message(value=[7])[4:].decode().encode("utf-16"))), "bad", "bad"),
    "a byte order mark": (sends(frame(b"\xef\xbb\xbf" + message(value=[7])[4:])), "bad", "bad"),
    "not JSON": (sends(frame(b"Traceback (most recent call last):")), "bad", "bad"),
    "null": (sends(frame(b"null")), "bad", "bad"),
    "another number": (sends(frame(b'{"number": "1", "value": [7]}')), "bad", "bad"),
    "a number that is a list": (sends(frame(b'{"number": [], "value": [7]}')), "bad", "bad"),
    "no value": (sends(message()), "bad", "bad"),
    "another key": (sends(message(value=[7], outcome="pass")), "bad", "bad"),
    "no list of values": (sends(message(value=7)), "value", "bad"),
    "an object of values": (sends(message(value={"0": 7})), "value", "bad"),
    "no values": (sends(message(value=[])), "value", "bad"),
    "two values": (sends(message(value=[7, 7])), "value", "bad"),
    "NaN": (sends(value("NaN")), "bad", "bad"),
    "1e999": (sends(value("1e999")), "bad", "bad"),
    "100,000 levels": (sends(value(DEEP)), "bad", "bad"),
    "51 levels": (sends(value("[" * 51 + "]" * 51)), "bad", "bad"),
    "40 levels": (sends(value("[" * 40 + "]" * 40)), "value", "wrong"),
    "4,301 digits": (sends(value(f"1{DIGITS}")), "bad", "bad"),
    "4,300 digits": (sends(value(DIGITS)), "value", "wrong"),
    "half a surrogate pair": (sends(value('"\\ud800"')), "value", "wrong"),
    "a key that is half a surrogate pair": (sends(value('{"\\ud800": "\\u0000"}')), "value", "wrong"),
    "a key twice": (sends(value('{"a": 1, "a": 2}')), "value", "wrong"),
    "200,000 values": (sends(value(f"[{'7,' * 199_999}7]")), "value", "wrong"),
    "7.0": (sends(value("7.0")), "value", "wrong"),
    "-0": (sends(value("-0")), "value", "wrong"),
    "an error": (sends(message(error="KeyError: 7", types=["KeyError"])), "error", "error"),
    "an error of 1 MB": (sends(message(error="x" * 1_000_000, types=[])), "error", "error"),
    "an error that is no text": (sends(message(error={"\ud800": [None]}, types=[])), "error", "error"),
    "types that are no texts": (sends(message(error="", types=[None, [7], {"a": 1}, "\ud800"])), "error", "error"),
    "100,000 types": (sends(message(error="", types=["x"] * 100_000)), "error", "error"),
    "types that are a text": (sends(message(error="", types="KeyError")), "bad", "bad"),
    "an error and a value": (sends(message(error="", types=[], value=[7])), "bad", "bad"),
    "asks an unknown function": (asks(name="__class__"), "bad", "bad"),
    "asks with a name that is a list": (sends(message(ask=[], args=[])), "bad", "bad"),
    "asks with arguments that are an object": (sends(message(ask="twice", args={"n": 1})), "bad", "bad"),
    "asks": (asks(1), "value", "wrong"),
    "asks too often": (asks(1, times=MOST_ASKED + 1), "bad", "bad"),
    "asks and ends": (sends(message(ask="twice", args=[1])), "crash", "crash"),
    "asks without arguments": (asks(), "value", "pass"),
    "asks with too many arguments": (asks(1, 2), "value", "pass"),
    "asks with null": (asks(None), "value", "pass"),
    "asks for more than 4,300 digits": (asks(int(DIGITS)), "value", "pass"),
    "asks for infinity": (asks(1e308), "value", "pass"),
    "asks to divide by zero": (asks(0, name="share"), "value", "pass"),
    "asks to divide 4,300 digits": (asks(int(DIGITS), name="half"), "value", "pass"),
    "asks with half a surrogate pair": (asks("\ud800", name="no"), "value", "pass"),
}  # fmt: skip


def no(text: str) -> None:
    """Look a text up that is not there."""
    raise KeyError(text)


@check("seven", task=1)
def seven(student: Student) -> Iterator[Case]:
    """f() is 7."""
    functions: Asks = {"twice": lambda n: n + n, "share": lambda n: 7 / n, "half": lambda n: n / 2, "no": no}
    yield Case("f()", 7, lambda: student.together("", [], [["f"]], **functions))


@contextmanager
def late() -> Iterator[None]:
    """Make a timeout of a socket the end of the time."""
    try:
        yield
    except TimeoutError:
        raise LateError("no answer") from None


class Pipe:
    """A channel to the other side of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def write(self, data: bytes) -> None:
        """Send bytes."""
        with late():
            self._sock.sendall(data)

    def read(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes."""
        data = b""
        while len(data) < size:
            with late():
                piece = self._sock.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


class Scripted:
    """A runner for which the test sets what the process does after each question."""

    def __init__(self, side: Side, seconds: float) -> None:
        self._side, self._seconds, self.answers = side, seconds, list[Answer]()

    def limit(self, seconds: float, idle: float = 5.0) -> None:
        """There is no limit."""

    def cpu(self) -> float:
        """Return 0.0, because nothing is measured."""
        return 0.0

    def restart(self) -> None:
        """Nothing is kept."""

    def _play(self, sock: socket.socket) -> None:
        with sock, suppress(OSError, struct.error):  # the grader has heard enough
            told(sock)
            self._side(sock)

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Ask the other side."""
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=self._play, args=(theirs,))
        thread.start()
        with ours:
            ours.settimeout(self._seconds)
            self.answers.append(ask(Pipe(ours), steps, asks or {}))
        thread.join()
        return self.answers[-1]


@pytest.mark.parametrize("name", FRAMES)
def test_an_odd_frame_is_an_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame is an answer of its kind, and the result of a check. The result can be stored and read again."""
    monkeypatch.setattr("grader.worker.protocol.secrets.token_hex", lambda size: NUMBER)
    side, kind, outcome = FRAMES[name]
    runner = Scripted(side, 0.05 if kind == "timeout" else 20.0)
    (judged,) = judging([seven], runner, {})
    result = judged.result
    assert (runner.answers[0].kind, result.outcome) == (kind, outcome), result
    found = {**fresh(1, {}, 3, "graded"), "checks": [result.as_json()]}
    store(tmp_path, found)
    assert read(tmp_path / RESULT) == found


@check("table", task=1)
def table(student: Student) -> Iterator[Case]:
    """f() is a key of the table."""
    yield Case("f()", "seven", lambda: {14: "seven"}[2 * student.together("", [], [["f"]])])


@pytest.mark.parametrize(
    ("text", "outcome", "got"),
    [("7", "pass", ""), ("8", "wrong", "KeyError: 16"), (DIGITS, "wrong", "KeyError: <exception str() failed>")],
)
def test_an_answer_that_a_check_cannot_use_is_wrong(
    text: str, outcome: str, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of a check is a wrong answer, even if the exception has no text."""
    monkeypatch.setattr("grader.worker.protocol.secrets.token_hex", lambda size: NUMBER)
    (judged,) = judging([table], Scripted(sends(value(text)), 20.0), {})
    assert judged.result.outcome == outcome and got in judged.result.got


CODE = """
import __main__, json, os, struct

def send(**fields):
    raw = json.dumps({"number": __main__.NUMBER, **fields}).encode()
    os.write(__main__.LINE_OUT, struct.pack("!I", len(raw)) + raw)

def right(): return 7
def half():
    os.write(__main__.LINE_OUT, struct.pack("!I", 100) + b"{")
    os._exit(0)
def closes():
    os.close(__main__.LINE_OUT)
    os.close(__main__.LINE_IN)
def other(): send(value={"0": 7})
def asks(): send(ask="right", args=[])
def digits(): return 9 * 10**4299
def more(): return 90 * 10**4299
def pair(): return "\\ud800"
def long(): raise ValueError("\\ud800" * 1_000_000)
def silent(): raise type("Silent", (Exception,), {"__str__": lambda self: 1 / 0})
"""
KINDS = {
    "half": "crash", "closes": "crash", "other": "bad", "asks": "bad", "digits": "value", "more": "error",
    "pair": "value", "long": "error", "silent": "crash",
}  # fmt: skip


def test_odd_answers_of_a_process_in_the_sandbox(tmp_path: Path) -> None:
    """Odd answers of a real process are answers, too, and the next question is answered right."""
    folder, scratch = tmp_path / "submission", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    (folder / "solution.py").write_text(CODE)
    tier, sandbox = choose(scratch, folder)
    try:
        with Worker(sandbox, tier, folder, "solution", scratch) as worker:
            for name, kind in KINDS.items():
                assert worker.call(name, seconds=20).kind == kind, name
                assert worker.call("right", seconds=20).same(7), name
    finally:
        sandbox.close()
