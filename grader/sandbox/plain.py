"""Tier 3: resource limits, a new session, an empty environment and an empty home. All processes are killed at the end.

If the grader is root, the code of a lab also runs under a uid of its own.

This tier stops accidents such as endless output, a fork bomb or a memory leak. It does not hide any files, ports or
processes of the same user. Its verdicts are therefore for self-checks only, and no gradebook is written.
"""

from __future__ import annotations

import os

from .command import Command, Started, environment, give, started
from .programs import ONLY_THE_GRADERS, Programs
from .uids import Uid


class Plain:
    """Starts commands with resource limits only."""

    namespaces: tuple[str, ...] = ()

    def __init__(self, programs: Programs = ONLY_THE_GRADERS, owner: Uid | None = None, otherwise: int = -1) -> None:
        """``programs``: what commands can use; ``owner``: the user of the commands, who is given back at the end.

        ``otherwise``: the uid of the commands if there is no ``owner``; -1: that of the grader.
        """
        self._programs, self._owner, self._otherwise = programs, owner, otherwise

    @property
    def uid(self) -> int:
        """The uid of the commands; -1: that of the grader."""
        return self._otherwise if self._owner is None else self._owner.number

    def renew(self) -> None:
        """If the commands have an owner, end what they have left behind, and take another one."""
        self.close()  # the next command reserves another uid

    def close(self) -> None:
        """If the commands have an owner, end what they have left behind, and give the uid back."""
        if self._owner is not None:
            self._owner.close()

    def _rules(self, command: Command) -> dict[str, object]:
        """Return what Landlock allows, for enter.py."""
        return {}

    def start(self, command: Command) -> Started:
        """Start a command."""
        give((*command.writable, command.home), self.uid)
        env = environment(command, self._programs.path, command.home)
        asked = {"uid": self.uid, "env": env, "command": command.words, **self._rules(command)}
        all_of_root = self.uid < 0 and os.geteuid() == 0  # a limit on processes would count all of them
        return started(command, asked, command.folder, self.uid, "NPROC" if all_of_root else "")
