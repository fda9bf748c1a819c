"""The student's code in a plain process on the student's machine: Linux, macOS or Windows.

The process runs the same program as in the sandbox (`grader/worker/child.py`), with pipes in place of a socket. It is
not a sandbox: the code is the student's own.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import VoidError
from ..worker.allowance import Allowance, queued
from ..worker.process import Process
from ..worker.protocol import MOST
from .cpu import seconds

_CHILD = Path(__file__).resolve().parents[1] / "worker" / "child.py"
_START = 60.0
"""Seconds that a process may take to start."""
_TICK = 0.1
"""Seconds between two looks at the time while there is no answer."""
_SHOWN = 4000
"""At most this many bytes of output are returned, from its end."""


class Local(Process):
    """Runs a module of ``folder`` in a plain process."""

    def __init__(self, folder: Path, module: str) -> None:
        self._folder, self._module = folder.resolve(), module
        self._process: subprocess.Popen[bytes] | None = None
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._left = b""
        self._output = tempfile.TemporaryFile()
        self._ended = self._last = 0.0
        self._allowance = Allowance(self.cpu, lambda: queued([self._process.pid] if self._process is not None else []))

    def __exit__(self, *why: object) -> None:
        self.restart()
        self._output.close()

    def printed(self, start: int = 0) -> str:
        """Return what the student's code has printed after its first ``start`` bytes; of long output only the end."""
        end = self.bytes_printed()
        self._output.seek(max(start, end - _SHOWN))
        text = self._output.read(end).decode(errors="replace")
        self._output.seek(0, os.SEEK_END)  # the process shares this position, and waits for a question
        return ("[...] " if end - start > _SHOWN else "") + text

    def bytes_printed(self) -> int:
        """Return the number of bytes that the student's code has printed so far."""
        return os.fstat(self._output.fileno()).st_size

    def cpu(self) -> float:
        """Return the CPU seconds of all processes so far. A child process of the student's code is not counted."""
        if self._process is not None:
            self._last = max(self._last, seconds(self._process))
        return self._ended + self._last

    @property
    def running(self) -> bool:
        """Whether there is a process that waits for a question."""
        return self._process is not None

    def restart(self) -> None:
        """Kill the process. The next question starts a new one."""
        if self._process is None:
            return
        process, self._ended = self._process, self.cpu()
        self._process, self._last = None, 0.0
        if sys.platform == "win32":
            process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS refuses signals to a zombie
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def _start(self) -> None:
        # In a virtual environment on Windows, sys.executable starts another process, whose time cannot be read.
        python = getattr(sys, "_base_executable", sys.executable) if sys.platform == "win32" else sys.executable
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        words = [python, "-P", "-s", "-S", "-u", "-B", "-X", "utf8", str(_CHILD), str(self._folder), self._module]
        self._process = subprocess.Popen(
            [*words, str(MOST), "pipes"],
            bufsize=0,
            env={**env, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._pieces, self._left = queue.SimpleQueue(), b""
        threading.Thread(target=_pump, args=(self._process.stdout, self._pieces), daemon=True).start()
        with suppress(queue.Empty):
            self._left = self._pieces.get(timeout=_START)
        if self._left != b".":  # the child waits for a question, so there is nothing after this byte
            self.restart()
            raise VoidError(f"the process for {self._module} did not start; it printed:\n{self.printed()}")
        self._left = b""

    def write(self, data: bytes) -> None:
        """Send bytes."""
        assert self._process is not None and self._process.stdin is not None
        while data:
            data = data[self._process.stdin.write(data) or 0 :]

    def read(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes."""
        while len(self._left) < size:
            self._allowance.look()
            try:
                piece = self._pieces.get(timeout=_TICK)
            except queue.Empty:
                continue
            if not piece:
                raise EOFError
            self._left += piece
        data, self._left = self._left[:size], self._left[size:]
        return data


def _pump(pipe: IO[bytes], pieces: queue.SimpleQueue[bytes]) -> None:
    """Read a pipe to its end. A pipe cannot be read with a time limit on Windows, so a thread waits for it."""
    with pipe:
        while piece := pipe.read(1 << 16):
            pieces.put(piece)
    pieces.put(b"")
