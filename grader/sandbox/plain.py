"""Tier 3: resource limits, a new session, an empty environment and an empty home. All processes are killed at the end.

If the grader is root, the code of a lab also runs under a uid of its own.

This tier stops accidents such as endless output, a fork bomb or a memory leak. It does not hide any files, ports or
processes of the same user. Its verdicts are therefore for self-checks only, and no gradebook is written.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .programs import ONLY_THE_GRADERS, Programs
from .tree import MARK, NUMBERS, Tree, keep
from .uids import clear, reserve

_LOCK = Path(__file__).resolve().parent / "lock.py"
_GIB = 1 << 30
LIMITS = {
    "NPROC": 8192,
    "DATA": 4 * _GIB,
    "FSIZE": 4 * _GIB,
    "STACK": 2 << 20,
    "NOFILE": 65_536,
    "CORE": 0,
    "CPU": 1800 * (os.cpu_count() or 1),
}
"""The limits of each process, except that NPROC counts all processes and threads together. A gateway and three services
that have one thread per connection of the grader use half of NPROC. A run of twelve minutes cannot reach the CPU limit.
STACK applies to each thread and is part of DATA: with the usual 8 MiB, a process could have at most 508 threads, which
is half the number of the grader's connections."""
_AT_WILL = {"STACK"}
"""Limits that a program can raise again. A compiler, for example, needs a larger stack."""


def as_asked(limits: Mapping[str, int]) -> dict[str, tuple[int, bool]]:
    """Return for each name of a limit its value, and whether it is also the hard limit."""
    return {name: (value, name not in _AT_WILL) for name, value in limits.items()}


@dataclass(frozen=True)
class Command:
    """A command to start: its words, working folder, environment variables, permissions and descriptors."""

    name: str
    words: tuple[str, ...]
    folder: Path
    output: int
    """A descriptor for standard output and error."""
    env: dict[str, str] = field(default_factory=dict)
    home: Path = Path("/tmp")
    writable: tuple[Path, ...] = ()
    """The folders that the command can write to."""
    ports: tuple[int, ...] = ()
    """The ports that the command can connect to."""
    input: int = subprocess.DEVNULL
    """A descriptor for standard input."""
    limits: Mapping[str, int] = field(default_factory=lambda: LIMITS)
    """The limits of each process. FSIZE also limits /tmp and /dev/shm in tier 1."""


class Plain:
    """Starts commands with resource limits only."""

    namespaces: tuple[str, ...] = ()
    """The namespaces that the generator must enter to reach the services."""

    def __init__(self, programs: Programs = ONLY_THE_GRADERS) -> None:
        """``programs``: what commands can use."""
        self._programs = programs
        self.uid = -1
        """The uid of the commands; -1: the uid of the grader."""
        self._lock: socket.socket | None = None
        if programs.lab and os.geteuid() == 0:
            self.uid, self._lock = reserve()

    def renew(self) -> None:
        """For a lab, if the grader is root: end what the commands have left behind, and take another uid."""
        self.close()
        if self.uid >= 0 and self._programs.lab:
            self.uid, self._lock = reserve()

    def close(self) -> None:
        """For a lab, if the grader is root: end what the commands have left behind, and give the uid back."""
        if self._lock is not None:
            clear(self.uid)
            self._lock.close()
            self._lock = None

    def _rules(self, command: Command) -> dict[str, object]:
        """Return what Landlock allows, for lock.py."""
        return {"abi": 0}

    def start(self, command: Command) -> tuple[subprocess.Popen[bytes], Tree]:
        """Start a command. Returns its process and its process tree.

        The process exits with 127 if the program is missing.
        """
        if self.uid >= 0:
            for path in dict.fromkeys((*command.writable, command.home)):
                os.chown(path, self.uid, self.uid)
        number = next(NUMBERS)
        limits = {**as_asked(command.limits), MARK: (number, True)}
        if self.uid < 0 and os.geteuid() == 0:
            del limits["NPROC"]  # all processes of root count
        env = {
            "PATH": self._programs.path,
            "HOME": str(command.home),
            "TMPDIR": str(command.home),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            **command.env,
        }
        asked = {"uid": self.uid, "limits": limits, "env": env, "command": command.words, **self._rules(command)}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LOCK), json.dumps(asked)],
            cwd=command.folder,
            env={},
            stdin=command.input,
            stdout=command.output,
            stderr=command.output,
            start_new_session=True,
        )
        keep(process.pid)
        return process, Tree(process.pid, number, self.uid)
