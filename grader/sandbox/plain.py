"""Tier 3: limits on resources, a session of its own, an empty environment and home, and the tree ended at the end.

It stops accidents: endless output, a fork bomb, a full memory. It hides no file, no port and no process of
the same user, so its verdicts are for the student's own eyes: no line of a gradebook is written.
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
"""Of one process; NPROC of all together, threads included: a gateway and three services behind it, with a thread for
each connection that the grader opens, are half of it. The CPU's is more than a run of twelve minutes can use, and ends
what goes on after it. The stack's is every thread's, and counts as data: with the usual 8 MiB a thread for each of 508
connections were the most, and the grader opens twice as many."""
_AT_WILL = {"STACK"}
"""What a program may raise for itself: a compiler asks for a larger stack."""


def limits(*without: str) -> dict[str, tuple[int, bool]]:
    """For the program that sets them: each limit, and whether it is the most that the process can ever have."""
    return {name: (value, name not in _AT_WILL) for name, value in LIMITS.items() if name not in without}


@dataclass(frozen=True)
class Command:
    """What is to run: the words, the folder, the variables, where its output goes."""

    name: str
    words: tuple[str, ...]
    folder: Path
    output: int
    """A descriptor for standard output and error."""
    env: dict[str, str] = field(default_factory=dict)
    home: Path = Path("/tmp")
    writable: tuple[Path, ...] = ()
    """Folders that it may write to, where others are closed."""
    ports: tuple[int, ...] = ()
    """Ports of the run that it may connect to, where others are closed."""
    input: int = subprocess.DEVNULL
    """A descriptor for standard input."""


class Plain:
    """Starts commands without a wall around them."""

    namespaces: tuple[str, ...] = ()
    """What the generator enters to reach the services."""

    def __init__(self, run: str) -> None:
        self._run, self._starts = run, 0

    def close(self) -> None:
        """Nothing is held."""

    def _words(self, command: Command, env: dict[str, str]) -> list[str]:
        """The command line that limits itself and then becomes the command, with these variables."""
        asked = {"limits": limits(*["NPROC"] * (os.geteuid() == 0)), "env": env, "command": command.words}
        return [sys.executable, "-I", "-S", str(_LAUNCH), json.dumps(asked)]

    def start(self, command: Command) -> tuple[subprocess.Popen[bytes], Tree]:
        """Start it. Its exit status is 127 where there is no such program."""
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
