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
from .plain import Command, Plain, limits
from .programs import settings

_LOCK = Path(__file__).resolve().parent / "lock.py"
_CREATE_RULESET, _VERSION = 444, 1
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc")
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "localtime")
_FOLDERS = ("ca-certificates", "ld.so.conf.d", "pki/tls/certs", "ssl/certs", "ssl/openssl.cnf")
"""Below /etc, for builds: folders without secrets, whatever right of root's a process has kept."""


def landlock() -> int:
    """The ABI that the kernel has, 0 where it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


class Locked(Plain):
    """Starts commands that Landlock has locked in. Raises VoidError where the kernel has none."""

    def __init__(self, run: str, submission: Path | None, network: bool = False) -> None:
        """``run`` is unlike any other run's; ``submission`` is what may be read; with the network no port is closed."""
        super().__init__(run)
        self.abi = landlock()
        if self.abi < 1:
            raise VoidError("this kernel has no Landlock (Linux 5.13 or later, with lsm=landlock)")
        self._submission, self._network = submission, network
        self.uid = _nobody() if os.geteuid() == 0 else -1
        """Whom the commands run as; -1: as who calls."""

    def _words(self, command: Command, env: dict[str, str]) -> list[str]:
        writable = [str(path) for path in dict.fromkeys((*command.writable, command.home))]
        if self.uid >= 0:
            for path in writable:
                os.chown(path, self.uid, self.uid)
        python = [str(Path(prefix).resolve()) for prefix in (sys.base_prefix, sys.prefix)]
        etc = _for_all() if self._network else _ETC
        submission = [str(self._submission)] if self._submission is not None else []
        asked = {
            "abi": self.abi,
            "readable": [*_SYSTEM, *settings(), *(f"/etc/{name}" for name in etc), *python, *submission],
            "writable": writable,
            "ports": None if self._network else command.ports,
            "uid": self.uid,
            "limits": limits(),
            "env": env,
            "command": command.words,
        }
        return [sys.executable, "-I", "-S", str(_LOCK), json.dumps(asked)]


def _for_all() -> list[str]:
    """What /etc has for everybody: its files that anyone may read, and some folders."""
    files = [path.name for path in Path("/etc").iterdir() if path.is_file() and path.stat().st_mode & 0o004]
    return [*sorted(files), *_FOLDERS]


def _nobody() -> int:
    """Whom a run of root's becomes: somebody whom the machine knows by name, since databases ask for it."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return 65_534
