"""The grader's end of the generator: one job at a time, and the grader goes on with its work meanwhile."""

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
"""Seconds that the child may take to start."""


class Generator:
    """The child process, and what it is asked. Not for two threads."""

    def __init__(self, namespaces: tuple[str, ...] = ()) -> None:
        """Start the child, inside the namespaces if any are given. Raises VoidError where it does not start."""
        ours, theirs = socket.socketpair()
        # -P: the folder that the grader is called in may be a submission, with a numpy.py of its own.
        command = [sys.executable, "-P", "-m", "grader.wire.child", str(theirs.fileno()), *namespaces]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_PACKAGE), "OMP_NUM_THREADS": "1"}
        # A session of its own: Ctrl-C is for the grader, which then ends the child.
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._pipe = Connection(ours.detach())
        self._busy = False
        if not self._pipe.poll(_START):
            self.close()
            raise VoidError("the generator's process did not start; see what it printed above")
        self._receive()

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            raise VoidError(f"the generator's process ended by itself (exit {self._process.wait(5)})") from error

    def ask(self, what: object) -> Any:
        """A question that is answered at once."""
        if self._busy:
            raise RuntimeError("a job is running")
        self._pipe.send(what)
        return self._receive()

    def knock(self, target: Target, seconds: float = 1.0) -> bool:
        """Whether somebody accepts a connection there."""
        return bool(self.ask(("knock", target, seconds)))

    def ports(self, count: int) -> list[int]:
        """Free ports, where the services will run."""
        return list(self.ask(("ports", count)))

    def start(self, job: Job) -> None:
        """Hand a job over; ``result`` waits for it."""
        if self._busy:
            raise RuntimeError("a job is running")
        self._busy = True
        self._pipe.send(job)

    def stop(self) -> None:
        """Send nothing more of the job that runs; what is not sent yet is dropped."""
        if self._busy:
            self._pipe.send("stop")

    def poll(self, seconds: float) -> Word | Result | None:
        """What the child says within so many seconds: word of progress, the result, or nothing."""
        if not self._pipe.poll(seconds):
            return None
        said: Word | Result = self._receive()
        if isinstance(said, Result):
            self._busy = False
        return said

    def run(self, job: Job, tend: Callable[[], None] = lambda: None) -> Result:
        """Send a job and wait for its end; ``tend`` is called at least ten times a second meanwhile."""
        self.start(job)
        while True:
            said = self.poll(0.1)
            if isinstance(said, Result):
                return said
            tend()

    def close(self) -> None:
        """End the child, whatever it does."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()
