"""The grader's end of the file system: mounted, its power cut, mounted again with what was synced, and undone.

Raises VoidError where the machine has not what it takes, with what that is and how to give it; whoever asked then says
"not tested".
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import VoidError
from ..sandbox.tree import keep

_PACKAGE = Path(__file__).resolve().parent.parent.parent
_LIBRARY = "fuse3"
"""By name: where an older libfuse is installed too, mfusepy would take that one."""
_PATIENCE = 20.0
"""Seconds in which the file system's process must be mounted, answer, and end."""


@dataclass(frozen=True)
class Dropped:
    """What a cut undid: blocks of 4 KiB, in so many files."""

    blocks: int
    files: int

    def counts(self) -> dict[str, int]:
        """For a record."""
        return {"blocks": self.blocks, "files": self.files}


class Disk:
    """A folder, and the place where it is mounted. Not for two threads."""

    def __init__(self, folder: Path, place: Path) -> None:
        """Both are made where they are missing; ``folder`` keeps the data between two mounts."""
        folder.mkdir(parents=True, exist_ok=True)
        place.mkdir(parents=True, exist_ok=True)
        self.folder, self.place = folder, place
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._said = ""
        """The last line that the process complained of."""

    def mount(self) -> None:
        """Power on. Raises VoidError."""
        if why := _lacks():
            raise VoidError(why)
        self._errors = tempfile.TemporaryFile()
        command = [sys.executable, "-P", "-m", "grader.powercut.serve", str(self.place), str(self.folder)]
        path = os.environ.get("PATH", os.defpath)
        environment = {"PATH": path, "PYTHONPATH": str(_PACKAGE), "FUSE_LIBRARY_NAME": _LIBRARY}
        # A session of its own: Ctrl-C is for the grader, which then ends it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
        keep(self._process.pid)
        if self._line() != b"ready\n":
            self.close()
            raise VoidError(_explained(self._said))

    def cut(self) -> Dropped:
        """Power off: what was never synced is undone, and nothing is mounted any more. Raises VoidError."""
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(b"cut\n")
            word, *numbers = self._line().split() or [b""]
        except BrokenPipeError:
            word = b""
        self.close()
        if word != b"cut":
            raise VoidError(f"the file system whose power is cut ended by itself: {self._said}")
        return Dropped(*(int(number) for number in numbers))

    def _line(self) -> bytes:
        """The next line that its process says; b"" where none comes."""
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        return self._process.stdout.readline() if ready else b""

    def close(self) -> None:
        """Undo the mount and end its process, however it is."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None and self._errors is not None
        process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode:
            # It was killed, and fusermount3 undoes the mount of a killed one for root alone.
            subprocess.run(["fusermount3", "-u", "-z", "-q", str(self.place)], stderr=subprocess.DEVNULL)
        process.stdout.close()
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
        self._said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        _gone(self.place)


def _lacks() -> str:
    """What can be told without trying; "" where nothing is missing."""
    if not Path("/dev/fuse").exists():
        return (
            "this machine has no /dev/fuse; load the kernel's module (modprobe fuse), or give a container "
            "--device /dev/fuse --cap-add SYS_ADMIN"
        )
    if shutil.which("fusermount3") is None:
        return "this machine has no fusermount3; install Debian's package fuse3"
    return ""


def _explained(said: str) -> str:
    """Why it could not be mounted, and the mend."""
    if "libfuse" in said:
        return "this machine has no libfuse; install Debian's package libfuse3-3"
    if "mfusepy" in said:
        return "the Python package mfusepy is not installed; set the environment up again"
    return (
        f"nothing can be mounted here ({said}); in a container allow it by --device /dev/fuse --cap-add SYS_ADMIN "
        "--security-opt apparmor=unconfined, and elsewhere let fusermount3 be setuid root"
    )


def _gone(place: Path) -> None:
    """Wait until nothing is mounted there. Raises VoidError."""
    until = time.monotonic() + _PATIENCE
    with open("/proc/self/mountinfo", "rb") as mounts:
        changed = select.poll()
        changed.register(mounts, select.POLLPRI | select.POLLERR)
        while any(line.split()[4] == os.fsencode(place) for line in mounts.read().splitlines()):
            if time.monotonic() > until:
                raise VoidError(f"{place} stays mounted; undo it by: fusermount3 -u -z {place}")
            changed.poll(1000)
            mounts.seek(0)
