"""The grader's side of the file system: mount it, cut its power, mount it again, and unmount it.

The methods raise VoidError with the reason and the remedy if the machine does not allow this. The report then says "not
tested".
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
"""Named explicitly, because mfusepy would prefer an older libfuse."""
_PATIENCE = 20.0
"""The limit in seconds for the file system's process to mount, to answer, and to exit."""


@dataclass(frozen=True)
class Dropped:
    """The number of blocks of 4 KiB that a cut undid, and the number of files that they belong to."""

    blocks: int
    files: int


class Disk:
    """A folder, its mount point, and the process that serves it. Not thread-safe."""

    def __init__(self, folder: Path, place: Path) -> None:
        """Create both folders if they are missing. ``folder`` stores the data; ``place`` is the mount point."""
        folder.mkdir(parents=True, exist_ok=True)
        place.mkdir(parents=True, exist_ok=True)
        self.folder, self.place = folder, place
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._said = ""
        """The last line of the process's error output."""

    def mount(self) -> None:
        """Mount the folder. Raises VoidError if this machine does not allow it."""
        if why := _lacks():
            raise VoidError(why)
        self._errors = tempfile.TemporaryFile()
        command = [sys.executable, "-P", "-m", "grader.powercut.serve", str(self.place), str(self.folder)]
        path = os.environ.get("PATH", os.defpath)
        environment = {"PATH": path, "PYTHONPATH": str(_PACKAGE), "FUSE_LIBRARY_NAME": _LIBRARY}
        # A new session, so that Ctrl-C reaches only the grader, which then stops this process.
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
        """Cut the power: undo all unsynced writes and unmount. Raises VoidError if the process does not answer."""
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(b"cut\n")
            word, *numbers = self._line().split() or [b""]
        except BrokenPipeError:
            word = b""
        self.close()
        if word != b"cut":
            raise VoidError(f"the process of the power-cut file system has stopped: {self._said}")
        return Dropped(*(int(number) for number in numbers))

    def _line(self) -> bytes:
        """Return the next line that the process prints; b"" if there is none in time."""
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        return self._process.stdout.readline() if ready else b""

    def close(self) -> None:
        """Unmount, and stop the process whatever state it is in."""
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
            # The process was killed. In that case, its mount is removed automatically only for root.
            subprocess.run(["fusermount3", "-u", "-z", "-q", str(self.place)], stderr=subprocess.DEVNULL)
        process.stdout.close()
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
        self._said = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
        _gone(self.place)


def _lacks() -> str:
    """Return what the machine lacks, as far as this can be checked without mounting; "" if nothing."""
    if not Path("/dev/fuse").exists():
        return (
            "this machine has no /dev/fuse; load the kernel module (modprobe fuse), or start the container with "
            "--device /dev/fuse --cap-add SYS_ADMIN"
        )
    if shutil.which("fusermount3") is None:
        return "this machine has no fusermount3; install the Debian package fuse3"
    return ""


def _explained(said: str) -> str:
    """Return why the mount failed and the remedy, given the last line that the process printed."""
    if "libfuse" in said:
        return "this machine has no libfuse; install the Debian package libfuse3-3"
    if "mfusepy" in said:
        return "the Python package mfusepy is missing; reinstall the environment"
    return (
        f"mounting failed ({said}); start a container with --device /dev/fuse --cap-add SYS_ADMIN "
        "--security-opt apparmor=unconfined, or make fusermount3 setuid root"
    )


def _gone(place: Path) -> None:
    """Wait until ``place`` is no longer mounted. Raises VoidError if this takes too long."""
    until = time.monotonic() + _PATIENCE
    with open("/proc/self/mountinfo", "rb") as mounts:
        changed = select.poll()
        changed.register(mounts, select.POLLPRI | select.POLLERR)
        while any(line.split()[4] == os.fsencode(place) for line in mounts.read().splitlines()):
            if time.monotonic() > until:
                raise VoidError(f"{place} is still mounted; run: fusermount3 -u -z {place}")
            changed.poll(1000)
            mounts.seek(0)
