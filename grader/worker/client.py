"""The grader's side: it starts the student's process in a sandbox, and limits its time."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import VoidError
from ..processes.logs import Logs
from ..sandbox import Command, Sandbox, Tier, Tree
from .answers import BAD, CRASH, TIMEOUT, Answer
from .protocol import MOST, Asks, LateError, ask, encode

_CHILD = (Path(__file__).resolve().parent / "child.py").read_text()
START = 60.0
"""The time limit in seconds for a process to start in the sandbox. This time is not counted as the student's."""
IDLE = 5.0
"""Seconds without an answer after which a process that does not use the CPU is stopped."""
_LOOK = 0.2
"""The CPU time is read at most this often, in seconds."""


class Worker:
    """Runs a student's module in a process, which is restarted after a crash or a timeout.

    The limits are CPU seconds, so that other programs on the machine do not change a grade.
    """

    def __init__(self, sandbox: Sandbox, tier: Tier, folder: Path, module: str, scratch: Path) -> None:
        """``folder``: the folder with the module, which the process can read; ``scratch``: where it can write."""
        self._sandbox, self.tier, self._folder, self._module = sandbox, tier, folder, module
        self._data = scratch / "worker"
        self._data.mkdir(exist_ok=True)
        self._logs = Logs()
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: Tree | None = None
        self._line: socket.socket | None = None
        self._ended = 0.0
        self._from, self._most, self._idle = 0.0, float("inf"), IDLE
        self._looked = self._moved = self._used = 0.0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *why: object) -> None:
        self.restart()
        self._logs.close()

    @property
    def printed(self) -> str:
        """What the student's code has printed. Long output is shortened."""
        return self._logs.texts().get(self._module, "")

    def cpu(self) -> float:
        """Return the CPU seconds of all processes that this worker has run."""
        return self._ended + (self._tree.cpu() if self._tree is not None else 0.0)

    def limit(self, seconds: float, idle: float = IDLE) -> None:
        """From now on, allow this many CPU seconds, and ``idle`` seconds without using the CPU in one question."""
        self._from, self._most, self._idle = self.cpu(), seconds, idle

    def call(self, function: str, *args: Any, seconds: float = 5.0) -> Answer:
        """Call a function with ``args``. Returns an Answer within ``seconds`` of CPU time, or of idle time."""
        self.limit(seconds, seconds)
        answer = self.run([["call", "", function, encode(list(args))]])
        return Answer(answer.kind, answer.value[0], "") if answer.kind == "value" else answer

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps (see `child.py`) and return an Answer. Raises VoidError if the process does not start."""
        if self._line is None:
            self._start()
        self._looked = self._moved = time.monotonic()
        self._used = -1.0
        answer = ask(self, steps, asks or {})
        if answer.kind in (BAD, CRASH, TIMEOUT):
            self.restart()  # a late answer must not be read as the answer to a later question
        return answer

    def restart(self) -> None:
        """Kill the process. The next question starts a new one."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._tree is not None and self._process is not None:
            self._ended += self._tree.cpu()
            self._tree.kill()
            self._process.wait()
            self._tree = self._process = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        output = self._logs.pipe(self._module)
        # -u: a killed process loses its buffered output. -s -S: only the standard library can be imported.
        words = ("python3", "-P", "-s", "-S", "-u", "-B", "-c", _CHILD, str(self._folder), self._module, str(MOST))
        env = {"PYTHONHASHSEED": "0"}  # so that answers do not depend on the order of a set
        command = Command(
            self._module, words, self._data, output, env, self._data, (self._data,), input=theirs.fileno()
        )
        try:
            self._process, self._tree = self._sandbox.start(command)
        finally:
            theirs.close()
            os.close(output)
        ours.setblocking(False)
        self._line = ours
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        if not poll.poll(START * 1000) or ours.recv(1) != b".":
            self.restart()
            raise VoidError(f"the process for {self._module} did not start; it printed:\n{self.printed}")

    def _wait(self, event: int) -> socket.socket:
        assert self._line is not None
        poll = select.poll()
        poll.register(self._line, event)
        while True:
            ready = poll.poll(_LOOK * 1000)
            if (now := time.monotonic()) - self._looked >= _LOOK:
                self._look(now)
            if ready:
                return self._line

    def _look(self, now: float) -> None:
        """Raise LateError if the process has used its CPU time, or has not used the CPU for too long."""
        self._looked, used = now, self.cpu()
        if used - self._from > self._most:
            raise LateError(f"more than {self._most:g} s of CPU time")
        if used > self._used:
            self._used, self._moved = used, now
        elif now - self._moved > self._idle:
            raise LateError(f"no answer, and no use of the CPU, for {self._idle:g} s")

    def write(self, data: bytes) -> None:
        """Send bytes."""
        while data:
            data = data[self._wait(select.POLLOUT).send(data) :]

    def read(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes."""
        parts = []
        while size:
            piece = self._wait(select.POLLIN).recv(min(size, 1 << 16))
            if not piece:
                raise EOFError
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)
