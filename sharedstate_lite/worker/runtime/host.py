"""What differs between operating systems, one small function each. Standard library only.

    identity()          the name of this host: how far a runtime is shared
    address(name)       the socket address of a runtime or driver
    listener(name)      listen there, unless another process does
    start_lock(seconds) one process at a time may start a runtime
    memory_file(name)   a file in memory, without a path
    seal(file)          make a file read-only for ever
    pss(pid)            the memory of a process, shared pages counted by their share

On macOS, socket files replace abstract socket names, unlinked temporary files replace memfds, there are no seals, and
`pss` returns None.
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
"""The environment variable that renames this host. The value ``executor`` gives each executor a name of its own."""

LINUX = sys.platform.startswith("linux")


def machine() -> str:
    """The kernel since its last boot, and the network namespace: abstract socket names reach no further."""
    if not LINUX:
        return f"{platform.node()}-{os.getuid()}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"


def identity(override: str | None) -> str:
    """The name of this host for a task. ``override`` is the driver's variable; the task's own variable wins over it."""
    override = os.environ.get(VARIABLE) or override
    if override == "executor":
        # Each executor, and all of its Python workers, run in a working directory of their own.
        return f"{machine()}-{os.getcwd()}"
    return f"{machine()}-{override}" if override else machine()


def address(name: str) -> str:
    """The AF_UNIX address of the runtime or driver called ``name``."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    if LINUX:
        return f"\0sharedstate-lite-{digest}"
    return os.path.join(tempfile.gettempdir(), f"ss-{digest}.sock")


def listener(name: str) -> socket.socket | None:
    """A socket that listens at `address`; None if another process listens there."""
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
    """Remove the socket file of a listener, on systems that have one."""
    where = address(name)
    if not where.startswith("\0"):
        with contextlib.suppress(OSError):
            os.unlink(where)


@contextlib.contextmanager
def start_lock(seconds: float) -> Iterator[None]:
    """Hold a lock of this host; continue without it after ``seconds``.

    The lock only saves work: if two processes start a runtime, the one that binds the name first stays. It is a lock on
    the temporary folder itself, so it leaves no file.
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
                time.sleep(0.005)  # flock() has no timeout
            else:
                break
        yield
    finally:
        os.close(folder)


def memory_file(name: str) -> int:
    """The descriptor of a new file in memory. The kernel frees it when no process has it open or mapped."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(f"sharedstate-lite-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    handle, path = tempfile.mkstemp(prefix="sharedstate-lite-")
    os.unlink(path)
    return handle


def seal(file: int) -> None:
    """Forbid every process to write to the file, to resize it, or to remove this seal."""
    if hasattr(os, "memfd_create"):
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def pss(pid: int) -> int | None:
    """The proportional set size in bytes: a page that n processes map counts 1/n. None if it cannot be measured."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None
