"""The grader's side of the file system: mount, cut the power, mount again, unmount.

Raises VoidError if the machine cannot do this, with the reason and the remedy. The report then says "not tested".
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
"""Named explicitly, as mfusepy would prefer an older libfuse."""
_PATIENCE = 20.0
"""Seconds within which the file system's process must mount, answer, and end."""


@dataclass(frozen=True)
class Dropped:
    """How many blocks of 4 KiB a cut undid, in how many files."""

    blocks: int
    files: int

    def counts(self) -> dict[str, int]:
        """As values for a record."""
        return {"blocks": self.blocks, "files": self.files}


class Disk:
    """A folder and its mount point. Not thread-safe."""

    def __init__(self, folder: Path, place: Path) -> None:
        """Creates both if missing. ``folder`` holds the data between mounts; ``place`` is the mount point."""
        folder.mkdir(parents=True, exist_ok=True)
        place.mkdir(parents=True, exist_ok=True)
        self.folder, self.place = folder, place
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._said = ""
        """The last line of the process's error output."""

    def mount(self) -> None:
        """Mount the folder. Raises VoidError."""
        if why := _lacks():
            raise VoidError(why)
        self._errors = tempfile.TemporaryFile()
        command = [sys.executable, "-P", "-m", "grader.powercut.serve", str(self.place), str(self.folder)]
        path = os.environ.get("PATH", os.defpath)
        environment = {"PATH": path, "PYTHONPATH": str(_PACKAGE), "FUSE_LIBRARY_NAME": _LIBRARY}
        # A new session: Ctrl-C must reach only the grader, which then ends this process.
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
        """Cut the power: undo all unsynced writes, and unmount. Raises VoidError."""
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(b"cut\n")
            word, *numbers = self._line().split() or [b""]
        except BrokenPipeError:
            word = b""
        self.close()
        if word != b"cut":
            raise VoidError(f"the power-cut file system ended by itself: {self._said}")
        return Dropped(*(int(number) for number in numbers))

    def _line(self) -> bytes:
        """The next line of the process; b"" if none comes in time."""
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        return self._process.stdout.readline() if ready else b""

    def close(self) -> None:
        """Unmount, and end the process in any state."""
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
            # The process was killed. Its mount is then removed automatically for root only.
            subprocess.run(["fusermount3", "-u", "-z", "-q", str(self.place)], stderr=subprocess.DEVNULL)
        process.stdout.close()
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
        self._said = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
        _gone(self.place)


def _lacks() -> str:
    """What the machine lacks, as far as that is known without trying; "" if nothing."""
    if not Path("/dev/fuse").exists():
        return (
            "this machine has no /dev/fuse; load the kernel's module (modprobe fuse), or start the container with "
            "--device /dev/fuse --cap-add SYS_ADMIN"
        )
    if shutil.which("fusermount3") is None:
        return "this machine has no fusermount3; install Debian's package fuse3"
    return ""


def _explained(said: str) -> str:
    """Why the mount failed, and the remedy."""
    if "libfuse" in said:
        return "this machine has no libfuse; install Debian's package libfuse3-3"
    if "mfusepy" in said:
        return "the Python package mfusepy is missing; install the environment again"
    return (
        f"mounting failed ({said}); start a container with --device /dev/fuse --cap-add SYS_ADMIN "
        "--security-opt apparmor=unconfined, or make fusermount3 setuid root"
    )


def _gone(place: Path) -> None:
    """Wait until ``place`` is unmounted. Raises VoidError after the limit."""
    until = time.monotonic() + _PATIENCE
    with open("/proc/self/mountinfo", "rb") as mounts:
        changed = select.poll()
        changed.register(mounts, select.POLLPRI | select.POLLERR)
        while any(line.split()[4] == os.fsencode(place) for line in mounts.read().splitlines()):
            if time.monotonic() > until:
                raise VoidError(f"{place} is still mounted; run: fusermount3 -u -z {place}")
            changed.poll(1000)
            mounts.seek(0)
