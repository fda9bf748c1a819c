"""What only one system has, one small function each; the standard library alone.

    identity()         which host this is: how far a runtime can be shared
    address(name)      where a runtime of that name listens
    alone(seconds)     at most one process of the host in here at a time, without a file
    memory(name)       a file in memory without a name in any folder
    seal(file)         nobody can change it any more
    pss(pid)           the memory of a process, pages that it shares counted by their share

Linux has all of it. macOS has socket files instead of abstract names, unnamed
temporary files instead of memfds, no seals, and no PSS: None, not measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "SHAREDSTATE_LITE_HOST"
"""The environment variable that gives this host another name; ``executor``: a name for each executor."""

LINUX = sys.platform.startswith("linux")


def machine() -> str:
    """This host: its kernel since it was started, and the network namespace, beyond which no name reaches."""
    if not LINUX:
        return f"{platform.node()}-{os.getuid()}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"


def identity(override: str | None) -> str:
    """The name of this host for a task; ``override`` is the driver's, and the task's own environment goes before."""
    override = os.environ.get(VARIABLE) or override
    if override == "executor":
        # Every executor runs in a folder of its own, and so do its Python workers.
        return f"{machine()}-{os.getcwd()}"
    return f"{machine()}-{override}" if override else machine()


def address(name: str) -> str:
    """Where a runtime listens whose application and host are ``name``; for AF_UNIX."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    if LINUX:
        return f"\0sharedstate-lite-{digest}"
    return os.path.join(tempfile.gettempdir(), f"ss-{digest}.sock")


def listener(name: str) -> socket.socket | None:
    """A socket that listens there; None where another process does."""
    where = address(name)
    out = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not where.startswith("\0") and os.path.exists(where):
            with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(where)
                return None
            os.unlink(where)
        out.bind(where)
        out.listen(1024)
    except OSError:
        out.close()
        return None
    return out


def unlisten(name: str) -> None:
    """Remove what a listener leaves where names are files."""
    where = address(name)
    if not where.startswith("\0"):
        with contextlib.suppress(OSError):
            os.unlink(where)


@contextlib.contextmanager
def start_lock(seconds: float) -> Iterator[None]:
    """Hold the host's lock, on a folder that is there anyway; whoever waits longer goes on without it.

    It saves work, and nothing depends on it: what decides is who listens.
    """
    folder = os.open(tempfile.gettempdir(), os.O_RDONLY)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.005)  # flock() waits for ever or not at all
            else:
                break
        yield
    finally:
        os.close(folder)


def memory_file(name: str) -> int:
    """A new file in memory, as a descriptor; it is gone when nobody has it open or mapped."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(f"sharedstate-lite-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    handle, path = tempfile.mkstemp(prefix="sharedstate-lite-")
    os.unlink(path)
    return handle


def seal(file: int) -> None:
    """From now on nobody can write to the file, make it shorter or longer, or take this back."""
    if hasattr(os, "memfd_create"):
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def pss(pid: int) -> int | None:
    """Bytes of memory that a process is charged with; None where it is gone or its system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None
