"""The grader's side of the generator, which runs one job at a time while the grader does other work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..errors import VoidError
from .jobs import Job, Result, Target, Word

_PACKAGE = Path(__file__).resolve().parent.parent.parent
_START = 30.0
"""The time limit in seconds for the child to start."""


class Generator:
    """The generator's process. Not thread-safe."""

    def __init__(self, namespaces: tuple[str, ...] = ()) -> None:
        """Start the process and let it enter ``namespaces``. Raises VoidError if it does not start."""
        ours, theirs = socket.socketpair()
        # -P is needed because the current folder may be a submission that contains a numpy.py.
        command = [sys.executable, "-P", "-m", "grader.wire.child", str(theirs.fileno()), *namespaces]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_PACKAGE), "OMP_NUM_THREADS": "1"}
        # A new session, so that Ctrl-C reaches only the grader, which then stops the child.
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._pipe = Connection(ours.detach())
        self._busy = False
        if not self._pipe.poll(_START):
            self.close()
            raise VoidError("the generator's process did not start; its output is above")
        self._receive()

    @property
    def pid(self) -> int:
        """The process id of the generator."""
        return self._process.pid

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            raise VoidError(f"the generator's process has exited with {self._process.wait(5)}") from error

    def ask(self, what: object) -> Any:
        """Send a request that is answered immediately, and return the answer."""
        if self._busy:
            raise RuntimeError("a job is running; wait for its result")
        self._pipe.send(what)
        return self._receive()

    def knock(self, target: Target, seconds: float = 1.0) -> bool:
        """Return whether a target accepts a connection within ``seconds``."""
        return bool(self.ask(("knock", target, seconds)))

    def ports(self, count: int) -> list[int]:
        """Return ``count`` free ports in the network of the services."""
        return list(self.ask(("ports", count)))

    def start(self, job: Job) -> None:
        """Start a job. `poll` returns its result."""
        if self._busy:
            raise RuntimeError("a job is running; wait for its result")
        self._busy = True
        self._pipe.send(job)

    def stop(self) -> None:
        """Drop the unsent requests of the running job."""
        if self._busy:
            self._pipe.send("stop")

    def poll(self, seconds: float) -> Word | Result | None:
        """Wait up to ``seconds`` for progress or for the result. Returns None if neither arrives."""
        if not self._pipe.poll(seconds):
            return None
        message: Word | Result = self._receive()
        if isinstance(message, Result):
            self._busy = False
        return message

    def run(self, job: Job, tend: Callable[[], None] = lambda: None) -> Result:
        """Run a job and return its result. Until then, ``tend`` is called about ten times per second."""
        self.start(job)
        while True:
            message = self.poll(0.1)
            if isinstance(message, Result):
                return message
            tend()

    def close(self) -> None:
        """Kill the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()
