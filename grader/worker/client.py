"""The grader's side: it starts the student's process in a sandbox, and limits its time."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import VoidError
from ..folders import measure, remove
from ..processes.bounds import memory
from ..processes.logs import Logs
from ..sandbox import Command, Sandbox, Tier, Tree, adopt_orphans
from ..sandbox.command import LIMITS
from .allowance import MOST_CPU, Allowance, queued
from .answers import VALUE, Answer
from .objects import NoValueError, Student
from .process import Process
from .protocol import MOST, OverError

_PYTHON = f"python3.{sys.version_info.minor}"
"""The grader's version: `python3` can be an older one."""
_CHILD = (Path(__file__).resolve().parent / "child.py").read_text()
START = 60.0
"""The time limit in seconds for a process to start in the sandbox. This time is not counted as the student's."""
_TICK, _RECENT = 200, 0.2
"""Milliseconds between two looks at time and memory while there is no answer, and the maximum age in seconds of a list
of processes."""
MEMORY = 512 << 20
"""The memory of a submission in bytes, unless the lab says otherwise."""
_DISK, _FILES = 64 << 20, 500
"""The maximum size and number of the files that a submission may write until it is restarted."""
_LIMITS = {"FSIZE": _DISK, "NOFILE": 256, "STACK": 8 << 20, "CORE": 0, "CPU": MOST_CPU + 10, "MSGQUEUE": 0}
"""The limits of each process. A message queue would survive a restart. The grader stops a process at MOST_CPU."""
_PROCESSES = 64
"""The maximum number of processes and threads, if the grader is root. Otherwise, all processes of the user count."""


class Worker(Process):
    """Runs a student's module in a process in the sandbox.

    The limits are CPU seconds, so that other programs on the machine do not change a grade.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        tier: Tier,
        folder: Path,
        module: str,
        scratch: Path,
        memory: int = MEMORY,
        after: Worker | None = None,
    ) -> None:
        """``folder``: the folder with the module, which the process can read; ``scratch``: where it can write.

        ``memory``: the most bytes that all its processes may use together. ``after``: a worker whose time counts, too.
        """
        adopt_orphans()
        self._sandbox, self.tier, self._folder, self._module = sandbox, tier, folder, module
        self._data, self._scratch, self._starts, self._memory = scratch, scratch, 0, memory
        self._limits = {**LIMITS, **_LIMITS, "DATA": memory}
        if os.geteuid() == 0:
            self._limits["NPROC"] = _PROCESSES
        self._logs = Logs()
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: Tree | None = None
        self._line: socket.socket | None = None
        self._ended = self._ended_queued = 0.0
        before, idled = (0.0, 0.0) if after is None else (after.cpu(), after._allowance.idled())
        self._allowance: Allowance = Allowance(lambda: before + self.cpu(), self._queued, idled)

    def __exit__(self, kind: object, *why: object) -> None:
        try:
            self.restart()
        except OSError as error:
            if kind is None:
                raise
            print(f"note: {error}", file=sys.stderr)  # the first error counts
        finally:
            self._logs.close()

    @property
    def printed(self) -> str:
        """What the student's code has printed. Long output is shortened."""
        return self._logs.texts().get(self._module, "")

    def cpu(self) -> float:
        """Return the CPU seconds of all processes that this worker has run."""
        return self._ended + (self._tree.cpu() if self._tree is not None else 0.0)

    def _queued(self) -> float | None:
        """Return the seconds that all processes of this worker have waited for a core; None if that is not known."""
        found = 0.0 if self._tree is None else queued(self._tree.pids(_RECENT))
        return None if found is None else self._ended_queued + found

    def call(self, function: str, *args: Any, seconds: float = 5.0) -> Answer:
        """Call a function with ``args``. Returns an Answer within ``seconds`` of CPU time, or of idle time."""
        self.limit(seconds, seconds)
        try:
            return Answer(VALUE, Student(self).call(function, *args))
        except NoValueError as failed:
            return failed.answer

    @property
    def running(self) -> bool:
        """Whether there is a process that waits for a question."""
        return self._line is not None

    def restart(self) -> None:
        """Kill the process, and remove what it has written. The next question starts a new one."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._tree is not None and self._process is not None:
            self._ended, self._ended_queued = self.cpu(), self._queued() or self._ended_queued
            self._tree.kill()
            self._process.wait()
            self._tree = self._process = None
            self._sandbox.renew()
            remove(self._data)  # the next process has another folder

    def _start(self) -> None:
        self._starts += 1
        self._data = self._scratch / f"worker-{self._starts}"
        self._data.mkdir()
        ours, theirs = socket.socketpair()
        output = self._logs.pipe(self._module)
        # -u: a killed process loses its buffered output. -s -S: only the standard library can be imported.
        words = (_PYTHON, "-P", "-s", "-S", "-u", "-B", "-c", _CHILD, str(self._folder), self._module, str(MOST))
        env = {"PYTHONHASHSEED": "0"}  # so that answers do not depend on the order of a set
        command = Command(
            self._module, words, self._data, output, env, self._data, (self._data,), (), theirs.fileno(), self._limits
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
            if self._allowance.look():
                self._measure()
            if poll.poll(_TICK):
                return self._line

    def _measure(self) -> None:
        """Raise OverError if the process uses too much memory or has written too much."""
        assert self._tree is not None
        if memory(self._tree.pids(_RECENT)) > self._memory:
            raise OverError(f"more than {self._memory >> 20} MiB of memory")
        size, files = measure(self._data)
        if size > _DISK or files > _FILES:
            raise OverError(f"more than {_DISK >> 20} MiB or {_FILES} files written")

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
