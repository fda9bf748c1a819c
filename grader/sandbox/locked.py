"""Tier 2: Landlock. A process can read /usr, the grader's Python and the submission, and write to its own folders.

This tier is for machines that have Landlock but do not allow namespaces, such as most containers. From ABI 4 on, a
process can open TCP connections only to the ports of the run. From ABI 6 on, it cannot send signals to other services
or to the grader. UDP and Unix sockets with a path are not blocked. /tmp and /dev/shm are not private, so TMPDIR is set
to a folder of the command.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from ..errors import VoidError
from .command import Command
from .plain import Plain
from .programs import ONLY_THE_GRADERS, Programs, for_all, settings
from .uids import Uid

_CREATE_RULESET, _VERSION = 444, 1
_UNPRIVILEGED = 65_534
"""The uid of the commands if the grader runs as root, except in labs. Linux has a user name for it, which databases
require."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc")
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "localtime")


def landlock() -> int:
    """Return the ABI version of the kernel's Landlock; 0 if the kernel does not have it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


class Locked(Plain):
    """Starts commands restricted by Landlock. Raises VoidError if the kernel does not have it."""

    def __init__(
        self,
        submission: Path | None,
        network: bool = False,
        programs: Programs = ONLY_THE_GRADERS,
        owner: Uid | None = None,
    ) -> None:
        """``submission``: a folder that commands can read; ``network``: allow all ports; the others: as in `Plain`."""
        super().__init__(programs, owner, _UNPRIVILEGED if os.geteuid() == 0 else -1)
        self.abi = landlock()
        if self.abi < 1:
            raise VoidError("this kernel has no Landlock; use Linux 5.13 or later, booted with lsm=landlock")
        self._submission, self._network = submission, network

    def _rules(self, command: Command) -> dict[str, object]:
        etc = for_all() if self._network else [f"/etc/{name}" for name in _ETC]
        more = [str(path) for path in (self._submission, *self._programs.readable) if path is not None]
        rules = {
            "abi": self.abi,
            "readable": [*_SYSTEM, *settings(), *etc, *self._programs.prefixes, *more],
            "writable": [str(path) for path in dict.fromkeys((*command.writable, command.home))],
            "ports": None if self._network else command.ports,
        }
        return {"landlock": rules}
