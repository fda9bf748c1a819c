"""A system at --url, which the grader kills and restarts with commands that its owner provides.

    --kill NAME=COMMAND --restart NAME=COMMAND

Commands are split into words as in a shell, but run without a shell. There is no command to pause a process.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from ..errors import SubmissionError, UsageError
from ..terms import Limits
from ..wire.client import Generator
from ..wire.jobs import Target
from .listening import closed

_LONGEST = 30.0
"""The time limit of a command in seconds."""
_TOLD = 300
"""The maximum number of bytes of a command's output in an error message."""


def commands(kill: Sequence[str], restart: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the words of the kill command and of the restart command for each name.

    Raises UsageError if a name does not have both, or if an option is malformed.
    """
    found: list[dict[str, list[str]]] = []
    for option, given in (("--kill", kill), ("--restart", restart)):
        named: dict[str, list[str]] = {}
        for text in given:
            name, equals, command = text.partition("=")
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise UsageError(f"{option} {text}: {error}; quote words as in a shell") from error
            if not (equals and name and words) or name in named:
                raise UsageError(f"{option} {text}: write NAME=COMMAND, with a different name each time")
            named[name] = words
        found.append(named)
    if odd := set(found[0]) ^ set(found[1]):
        names = ", ".join(sorted(odd))
        raise UsageError(f"{names}: each NAME needs both --kill and --restart")
    return {name: (words, found[1][name]) for name, words in found[0].items()}


def left_out(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return what the verdict on a system at --url does not cover, and why. ``names``: the names that can be killed."""
    there = "the grader did not start the system at --url"
    left = [
        ("its access to files and to the network", f"no sandbox, because {there}"),
        ("limits on its memory, disk and files", there),
        ("its first start, and processes that exit by themselves", there),
        ("its use of the CPU", there),
    ]
    if names:
        left.append((f"pauses (SIGSTOP) of {', '.join(names)}", "commands can kill and restart, but not pause"))
        left.append(("kills of its other processes", "no --kill and --restart options name them"))
    return left


class Elsewhere:
    """Kills and restarts a system with commands. Has the interface of a Supervisor."""

    can_pause = False

    def __init__(
        self,
        given: dict[str, tuple[list[str], list[str]]],
        targets: list[Target],
        scout: Generator,
        limits: Limits,
        note: Callable[[str, str, str], None],
    ) -> None:
        """``targets``: the addresses of the services. A restart is complete when all of them accept connections."""
        self._given, self._targets, self._scout, self._limits, self._note = given, targets, scout, limits, note

    @property
    def names(self) -> list[str]:
        """The names that can be killed."""
        return list(self._given)

    def aim(self, name: str) -> None:
        """Do nothing, because a kill command needs no preparation."""

    def freeze(self, names: list[str]) -> None:
        """Do nothing, because only the kill command stops a process."""

    def kill(self, name: str) -> None:
        """Run the kill command. Raises SubmissionError if it fails."""
        self._note(name, "kill", "")
        self._run(name, self._given[name][0])

    def restart(self, name: str) -> None:
        """Run the restart command. Raises SubmissionError if it fails."""
        self._run(name, self._given[name][1])
        self._note(name, "started", "after the grader killed it")

    def wait_ready(self, name: str) -> None:
        """Wait until every address accepts connections. Raises SubmissionError after the limit."""
        if silent := closed(self._targets, self._scout, self._limits.ready):
            raise SubmissionError(
                f"{name}: {silent} does not accept connections {self._limits.ready:.0f} s after its restart"
            )
        self._note(name, "ready", "")

    def pause(self, name: str) -> None:
        """Raise UsageError, because there is no command to pause a process."""
        raise UsageError("a system at --url cannot be paused")

    resume = pause

    def cpu(self) -> float:
        """Return 0, because the CPU time of the system is unknown."""
        return 0.0

    def _run(self, name: str, words: list[str]) -> None:
        # This is not a pipe, because the restarted process would keep it open, and reading it would never end.
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=_LONGEST,
                    start_new_session=True,  # Ctrl-C must reach only the grader
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SubmissionError(f"{name}: {shlex.join(words)}: {error}") from error
            if done.returncode:
                said.seek(max(0, said.tell() - _TOLD))
                words_ = said.read().decode(errors="replace").strip()
                raise SubmissionError(f"{name}: {shlex.join(words)} exited with {done.returncode}: {words_}")
