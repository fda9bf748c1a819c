"""Tier 1: bubblewrap. Each process sees only /usr, the grader's Python, the submission and its own data.

All services share one network namespace that has only the loopback interface. A holder process owns this namespace, and
the generator enters it. A build uses the network of the machine. Each command has its own pid namespace, which ends
with the command, so no daemon survives.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ..errors import VoidError
from .command import Command, Started, environment, give, started
from .programs import ONLY_THE_GRADERS, Programs, for_all, settings
from .tree import keep
from .uids import own_uid

_HOLD = Path(__file__).resolve().parent / "hold.py"
_TMP = 512 << 20
"""The size of /tmp and of /dev/shm in bytes, if a file may be as large."""
_BURN = 'n=$0; while [ "$n" -gt 0 ]; do ( : ); n=$((n-1)); done; exec "$@"'
"""A shell command that uses up some pids, so that the pid in a stale pid file does not belong to a new process."""
_ETC = {
    "passwd": "root:x:0:0:root:/tmp:/bin/sh\nsubmission:x:1000:1000:submission:/tmp:/bin/sh\n",
    "group": "root:x:0:\nsubmission:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class Walls:
    """Starts commands inside bubblewrap. Raises VoidError if the machine does not allow it."""

    def __init__(
        self,
        scratch: Path,
        submission: Path | None,
        programs: Programs = ONLY_THE_GRADERS,
        network: bool = False,
    ) -> None:
        """``scratch``: a folder for this run; ``submission``: a folder that commands can read.

        ``programs``: what commands can use in addition; ``network``: for a build: use the network of the machine, and
        keep the command's home.
        """
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise VoidError("bwrap is missing; install the Debian package bubblewrap")
        self._bwrap, self._starts = bwrap, 0
        self._network, self._owner = network, own_uid()
        self._scratch = scratch
        self._submission, self._programs = submission, programs
        # This folder is only used as a mount point in a private mount namespace.
        self._stage = next((place for place in ("/mnt", "/media", "/srv", "/opt") if Path(place).is_dir()), "/tmp")
        etc = scratch / "etc"
        etc.mkdir(exist_ok=True)
        for name, text in _ETC.items():
            (etc / name).write_text(text)
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HOLD), str(self.uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        keep(self._holder.pid)
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != b"ready\n":
            said = self._holder.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
            self.close()
            raise VoidError(
                f"this machine does not allow namespaces ({said}); enable user namespaces for this user, or start the "
                "container with --privileged"
            )

    @property
    def uid(self) -> int:
        """The uid of the commands; -1: that of the grader."""
        return -1 if self._owner is None else self._owner.number

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that the generator must enter to reach the services."""
        return tuple(f"/proc/{self._holder.pid}/ns/{name}" for name in ("user", "net"))

    def _binds(self, writable: list[str]) -> list[tuple[str, str, bool]]:
        more = (self._submission, *self._programs.readable)
        etc = ("passwd", "group") if self._network else tuple(_ETC)
        readable = sorted(
            path
            for path in {*self._programs.prefixes, *(str(path) for path in more if path is not None)}
            if not path.startswith("/usr/")
        )
        return [
            ("/usr", "/usr", False),
            *((path, path, False) for path in settings()),
            *((path, path, False) for path in (for_all() if self._network else ())),
            *((str(self._scratch / "etc" / name), f"/etc/{name}", False) for name in etc),
            *((path, path, False) for path in readable),
            *((path, path, True) for path in writable),
        ]

    def start(self, command: Command) -> Started:
        """Start a command."""
        self._starts += 1
        home = command.home if self._network else Path("/tmp")
        writable = dict.fromkeys((*command.writable, home)) if self._network else command.writable
        give(writable, self.uid)
        words = [self._bwrap, "--unshare-all", "--share-net", "--unshare-user", "--disable-userns"]
        words += ["--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for place in ("/tmp", "/dev/shm"):
            words += ["--size", str(min(_TMP, command.limits["FSIZE"])), "--tmpfs", place]
        for name in ("bin", "sbin", "lib", "lib64"):
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        words.append("--clearenv")
        for name, value in environment(command, self._programs.path, home).items():
            words += ["--setenv", name, value]
        words += ["--chdir", str(command.folder)]
        asked = {
            "uid": self.uid,
            "stage": self._stage,
            "binds": self._binds([str(path) for path in writable]),
            "namespaces": () if self._network else self.namespaces,
            "bwrap": words,
            "env": {},
            "command": ["sh", "-c", _BURN, str(self._starts * 7 % 50), *command.words],
        }
        return started(command, asked, Path("/"), -1)

    def renew(self) -> None:
        """Do nothing, because each command has namespaces of its own."""

    def close(self) -> None:
        """Kill the holder, and give the uid back. The namespaces end when their last process ends."""
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()
        for pipe in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if pipe is not None:
                pipe.close()
        if self._owner is not None:
            self._owner.release()
