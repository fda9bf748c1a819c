"""A command of a submission, and what every tier of the sandbox can do with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .tree import MARK, NUMBERS, Tree, keep

_ENTER = Path(__file__).resolve().parent / "enter.py"
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
Started = tuple["subprocess.Popen[bytes]", Tree]
"""The process of a command, which exits with 127 if the program is missing, and all its processes."""


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


class Sandbox(Protocol):
    """One tier of the sandbox, for the commands of one run."""

    @property
    def uid(self) -> int:
        """The uid of the commands; -1: that of the grader."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that the generator must enter to reach the services."""

    def start(self, command: Command) -> Started:
        """Start a command."""

    def renew(self) -> None:
        """End what the commands have left behind, so that the next one finds nothing of it."""

    def close(self) -> None:
        """End what the commands have left behind, and give back what the sandbox has reserved."""


def environment(command: Command, path: str, home: Path) -> dict[str, str]:
    """Return the environment variables of a command. ``path``: its PATH; ``home``: its folder for temporary files."""
    own = {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    return {**own, **command.env}


def give(folders: Iterable[Path], uid: int) -> None:
    """Make folders those of a uid, unless it is -1."""
    for path in dict.fromkeys(folders) if uid >= 0 else ():
        os.chown(path, uid, uid)


def started(command: Command, asked: Mapping[str, Any], folder: Path, owner: int, but: str = "") -> Started:
    """Start a command with enter.py. ``asked``: what its JSON object has besides the limits.

    ``folder``: where it starts; ``owner``: the uid whose shared memory is removed with the command, or -1; ``but``: the
    name of a limit that is not set.
    """
    number = next(NUMBERS)
    limits = {name: (value, name not in _AT_WILL) for name, value in command.limits.items() if name != but}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_ENTER), json.dumps({**asked, "limits": {**limits, MARK: (number, True)}})],
        cwd=folder,
        env={},
        stdin=command.input,
        stdout=command.output,
        stderr=command.output,
        start_new_session=True,
    )
    keep(process.pid)
    return process, Tree(process.pid, number, owner)
