"""Tier 2: Landlock. A process may read /usr, the grader's Python and the submission, and write to its own folders.

For machines whose kernel has Landlock and gives no namespaces (most containers). It connects by TCP to the run's own
ports only, from ABI 4; it signals nobody outside, from ABI 6. It stops no UDP, and no Unix socket that has a
path. There is no /tmp and no /dev/shm of one's own: TMPDIR names a folder, and what is shared between
processes has to be a file there.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import sys
from pathlib import Path

from ..errors import VoidError
from .plain import LIMITS, Command, Plain

_LOCK = Path(__file__).resolve().parent / "lock.py"
_CREATE_RULESET, _VERSION = 444, 1
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc")
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "localtime", "alternatives")


def landlock() -> int:
    """The ABI that the kernel has, 0 where it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


class Locked(Plain):
    """Starts commands that Landlock has locked in. Raises VoidError where the kernel has none."""

    def __init__(self, run: str, submission: Path | None) -> None:
        """``run`` is unlike any other run's; ``submission`` is what may be read."""
        super().__init__(run)
        self.abi = landlock()
        if self.abi < 1:
            raise VoidError("this kernel has no Landlock (Linux 5.13 or later, with lsm=landlock)")
        self._submission = submission
        self._uid = _nobody() if os.geteuid() == 0 else -1

    def _words(self, command: Command) -> list[str]:
        writable = [str(path) for path in dict.fromkeys((*command.writable, command.home))]
        if self._uid >= 0:
            for path in writable:
                os.chown(path, self._uid, self._uid)
        python = [str(Path(prefix).resolve()) for prefix in (sys.base_prefix, sys.prefix)]
        submission = [str(self._submission)] if self._submission is not None else []
        asked = {
            "abi": self.abi,
            "readable": [*_SYSTEM, *(f"/etc/{name}" for name in _ETC), *python, *submission],
            "writable": writable,
            "ports": command.ports,
            "uid": self._uid,
            "limits": LIMITS,
            "command": command.words,
        }
        return [sys.executable, "-I", "-S", str(_LOCK), json.dumps(asked)]


def _nobody() -> int:
    """Whom a run of root's becomes: somebody whom the machine knows by name, since databases ask for it."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return 65_534
