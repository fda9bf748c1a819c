"""Tier 3: limits on resources, a new session, an empty environment and home, and an end for all processes.

It stops accidents such as endless output, a fork bomb, or a full memory. It hides no file, port or process of the same
user, so its verdicts are for self-checks only, and no gradebook is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .programs import search_path
from .tree import MARK, Tree, keep

_LAUNCH = Path(__file__).resolve().parent / "launch.py"
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
"""Limits of one process; NPROC counts all processes and threads together. A gateway and three services with a thread
for each of the grader's connections use half of NPROC. CPU is more than a run of twelve minutes can use. STACK applies
to each
thread and counts as DATA: with the usual 8 MiB, 508 threads would be the most, half of the grader's connections."""
_AT_WILL = {"STACK"}
"""Limits that a program may raise: a compiler needs a larger stack."""


def limits(*without: str) -> dict[str, tuple[int, bool]]:
    """The limits for the starting program: value, and whether it is the hard limit too."""
    return {name: (value, name not in _AT_WILL) for name, value in LIMITS.items() if name not in without}


@dataclass(frozen=True)
class Command:
    """A command to start: words, folder, variables, descriptors."""

    name: str
    words: tuple[str, ...]
    folder: Path
    output: int
    """A descriptor for standard output and error."""
    env: dict[str, str] = field(default_factory=dict)
    home: Path = Path("/tmp")
    writable: tuple[Path, ...] = ()
    """Folders that it may write to."""
    ports: tuple[int, ...] = ()
    """Ports that it may connect to."""
    input: int = subprocess.DEVNULL
    """A descriptor for standard input."""


class Plain:
    """Starts commands with limits only."""

    namespaces: tuple[str, ...] = ()
    """The namespaces that the generator must enter to reach the services."""

    def __init__(self, run: str) -> None:
        self._run, self._starts = run, 0

    def close(self) -> None:
        """Does nothing."""

    def _words(self, command: Command, env: dict[str, str]) -> list[str]:
        """The command line of the program that sets the limits and becomes the command."""
        asked = {"limits": limits(*["NPROC"] * (os.geteuid() == 0)), "env": env, "command": command.words}
        return [sys.executable, "-I", "-S", str(_LAUNCH), json.dumps(asked)]

    def start(self, command: Command) -> tuple[subprocess.Popen[bytes], Tree]:
        """Start a command. It exits with 127 if the program is missing."""
        self._starts += 1
        mark = f"{self._run}/{command.name}/{self._starts}"
        env = {
            "PATH": search_path(),
            "HOME": str(command.home),
            "TMPDIR": str(command.home),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            **command.env,
            MARK: mark,
        }
        process = subprocess.Popen(
            self._words(command, env),
            cwd=command.folder,
            env={},
            stdin=command.input,
            stdout=command.output,
            stderr=command.output,
            start_new_session=True,
        )
        keep(process.pid)
        return process, Tree(process.pid, mark)
