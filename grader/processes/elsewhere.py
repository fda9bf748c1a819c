"""A system that somebody else runs: killed and restarted by commands that its owner gave.

    --kill NAME=COMMAND --restart NAME=COMMAND

Commands are split into words as a shell would, and run without one. A pause is not to be had this way.
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
"""Seconds that a command may take."""
_TOLD = 300
"""Bytes of what it printed that a message has."""


def commands(kill: Sequence[str], restart: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Name to the words of its two commands. Raises UsageError unless each name has both."""
    found: list[dict[str, list[str]]] = []
    for option, given in (("--kill", kill), ("--restart", restart)):
        named: dict[str, list[str]] = {}
        for text in given:
            name, equals, command = text.partition("=")
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise UsageError(f"{option} {text}: {error}; words and quotes are a shell's") from error
            if not (equals and name and words) or name in named:
                raise UsageError(f"{option} {text}: it is NAME=COMMAND, each name once")
            named[name] = words
        found.append(named)
    if odd := set(found[0]) ^ set(found[1]):
        names = ", ".join(sorted(odd))
        raise UsageError(f"{names}: each NAME needs both a --kill and a --restart, or the system stays down")
    return {name: (words, found[1][name]) for name, words in found[0].items()}


def left_out(names: Sequence[str]) -> list[tuple[str, str]]:
    """What no verdict on a system elsewhere speaks of, and why; ``names`` is what can be killed."""
    there = "it runs elsewhere, and the grader has started none of its processes"
    left = [
        ("what it may read, write and reach", f"no sandbox: {there}"),
        ("limits on its memory, disk and files", there),
        ("a start from nothing, and a process that exits by itself", there),
        ("cores that it takes", there),
    ]
    if names:
        left.append(
            (f"pauses (SIGSTOP) of {', '.join(names)}", "there are commands to kill and to restart, none to pause")
        )
        left.append(("kills of anything else that it consists of", "no --kill and --restart names it"))
    return left


class Elsewhere:
    """What faults need of processes, by commands."""

    can_pause = False

    def __init__(
        self,
        given: dict[str, tuple[list[str], list[str]]],
        targets: list[Target],
        scout: Generator,
        limits: Limits,
        note: Callable[[str, str, str], None],
    ) -> None:
        """``targets``: where the services answer; all must accept before one counts as ready again."""
        self._given, self._targets, self._scout, self._limits, self._note = given, targets, scout, limits, note

    @property
    def names(self) -> list[str]:
        """Of what can be killed."""
        return list(self._given)

    def aim(self, name: str) -> None:
        """Nothing can be prepared."""

    def freeze(self, names: list[str]) -> None:
        """Nothing is stopped before its kill command runs."""

    def kill(self, name: str) -> None:
        """Run the kill command. Raises SubmissionError where it fails."""
        self._note(name, "kill", "")
        self._run(name, self._given[name][0])

    def restart(self, name: str) -> None:
        """Run the restart command. Raises SubmissionError where it fails."""
        self._run(name, self._given[name][1])
        self._note(name, "started", "after the grader killed it")

    def wait_ready(self, name: str) -> None:
        """Until every address accepts connections. Raises SubmissionError."""
        if silent := closed(self._targets, self._scout, self._limits.ready):
            raise SubmissionError(
                f"{name}: {silent} accepts no connection {self._limits.ready:.0f} s after its restart"
            )
        self._note(name, "ready", "")

    def pause(self, name: str) -> None:
        """Raises UsageError: there is no command for it."""
        raise UsageError("a system that runs elsewhere cannot be paused")

    resume = pause

    def cpu(self) -> float:
        """Unknown here: 0."""
        return 0.0

    def _run(self, name: str, words: list[str]) -> None:
        # Not a pipe: what a restart starts would hold it open, and its end would never come.
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=_LONGEST,
                    start_new_session=True,  # Ctrl-C is for the grader, not for what has been started again
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SubmissionError(f"{name}: {shlex.join(words)}: {error}") from error
            if done.returncode:
                said.seek(max(0, said.tell() - _TOLD))
                words_ = said.read().decode(errors="replace").strip()
                raise SubmissionError(f"{name}: {shlex.join(words)} ended with {done.returncode}: {words_}")
