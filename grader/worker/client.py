"""The parent's side: it starts the worker in a sandbox, sends questions, and waits a limited time for the answers."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from ..errors import VoidError
from ..processes import Logs
from ..sandbox import Command, Sandbox, Tier, Tree
from .answers import BAD, CRASH, TIMEOUT, Answer, read

_CHILD = (Path(__file__).resolve().parent / "child.py").read_text()
MOST = 1 << 20
"""The maximum number of bytes in an answer."""
START = 60.0
"""The time limit in seconds for a process to start in the sandbox. This time is not counted as the student's."""


class Worker:
    """Runs a student's module in a process, which is restarted after a crash or a timeout."""

    def __init__(self, sandbox: Sandbox, tier: Tier, folder: Path, module: str, scratch: Path) -> None:
        """``folder``: the folder with the module, which the process can read; ``scratch``: where it can write."""
        self._sandbox, self.tier, self._folder, self._module = sandbox, tier, folder, module
        self._data = scratch / "worker"
        self._data.mkdir(exist_ok=True)
        self._logs = Logs()
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: Tree | None = None
        self._line: socket.socket | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *why: object) -> None:
        self._end()
        self._logs.close()

    @property
    def printed(self) -> str:
        """What the student's code has printed. Long output is shortened."""
        return self._logs.texts().get(self._module, "")

    def call(self, function: str, *args: Any, seconds: float = 5.0) -> Answer:
        """Call a function with JSON values. Returns an Answer within ``seconds``, whatever the function does.

        The time begins when the process has started. Raises VoidError if the process does not start.
        """
        if self._line is None:
            self._start()
        number = secrets.token_hex(16)
        question = json.dumps({"number": number, "function": function, "args": args}, allow_nan=False).encode()
        until = time.monotonic() + seconds
        try:
            self._send(struct.pack("!I", len(question)) + question, until)
            (size,) = struct.unpack("!I", self._take(4, until))
            answer = Answer(BAD, why=f"the answer has {size:,} bytes; the limit is {MOST:,}")
            if size <= MOST:
                answer = read(self._take(size, until), number)
        except TimeoutError:
            answer = Answer(TIMEOUT, why=f"no answer within {seconds:g} s")
        except (EOFError, OSError):
            answer = Answer(CRASH, why="the process exited")
        if answer.kind in (BAD, CRASH, TIMEOUT):
            self._end()  # a late answer must not be read as the answer to a later question
        return answer

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        output = self._logs.pipe(self._module)
        # -u is needed because a killed process loses its buffered output, and -I ignores PYTHONUNBUFFERED.
        words = ("python3", "-I", "-u", "-c", _CHILD, str(self._folder), self._module, str(MOST))
        command = Command(self._module, words, self._data, output, {}, self._data, (self._data,), input=theirs.fileno())
        try:
            self._process, self._tree = self._sandbox.start(command)
        finally:
            theirs.close()
            os.close(output)
        ours.setblocking(False)
        self._line = ours
        try:
            self._take(1, time.monotonic() + START)
        except (TimeoutError, EOFError, OSError) as error:
            self._end()
            raise VoidError(f"the process for {self._module} did not start; it printed:\n{self.printed}") from error

    def _ready(self, until: float, event: int) -> socket.socket:
        assert self._line is not None
        poll = select.poll()
        poll.register(self._line, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError
        return self._line

    def _send(self, data: bytes, until: float) -> None:
        while data:
            data = data[self._ready(until, select.POLLOUT).send(data) :]

    def _take(self, size: int, until: float) -> bytes:
        parts = []
        while size:
            piece = self._ready(until, select.POLLIN).recv(min(size, 1 << 16))
            if not piece:
                raise EOFError
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._tree is not None and self._process is not None:
            self._tree.kill()
            self._process.wait()
