"""Everything that differs between operating systems, as small functions that use only the standard library.

    identity(override)  returns the name of this host; processes with the same name share a runtime
    address(name)       returns the socket address of a runtime or driver
    listener(name)      listens at that address, unless another process already does
    start_lock(seconds) lets only one process at a time start a runtime
    memory_file(name)   creates a file in memory, without a path
    seal(file)          makes a file permanently read-only
    pss(pid)            measures the memory of a process, with shared pages divided among the processes

On macOS, socket files replace abstract socket names, and unlinked temporary files replace memfds. Files are not sealed,
and `pss` returns None.
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
"""The environment variable that renames this host. The value ``executor`` gives every executor a different name."""

LINUX = sys.platform.startswith("linux")


def machine() -> str:
    """Return a string that identifies the running kernel and the network namespace.

    Abstract socket names are visible only inside them. On macOS, it identifies the machine and the user.
    """
    if not LINUX:
        return f"{platform.node()}-{os.getuid()}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"


def identity(override: str | None) -> str:
    """Return the name of this host. Processes with the same name share a runtime.

    ``override`` is the driver's value of `VARIABLE`. If this process has its own value, that value is used instead.
    """
    override = os.environ.get(VARIABLE) or override
    if override == "executor":
        # Each executor has its own working directory, and its Python workers run in it.
        return f"{machine()}-{os.getcwd()}"
    return f"{machine()}-{override}" if override else machine()


def address(name: str) -> str:
    """Return the AF_UNIX address of the runtime or driver called ``name``."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    if LINUX:
        return f"\0sharedstate-lite-{digest}"
    return os.path.join(tempfile.gettempdir(), f"ss-{digest}.sock")


def listener(name: str) -> socket.socket | None:
    """Return a socket that listens at ``address(name)``, or None if another process already listens there."""
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
    """Remove the socket file of a listener, on systems that use socket files."""
    where = address(name)
    if not where.startswith("\0"):
        with contextlib.suppress(OSError):
            os.unlink(where)


@contextlib.contextmanager
def start_lock(seconds: float) -> Iterator[None]:
    """Hold this host's start lock during the block. If it cannot be acquired within ``seconds``, continue without it.

    The lock only saves work. If two processes start a runtime, the one that binds the name first is used, and the other
    exits. The temporary folder itself is locked, so that no lock file is left behind.
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
    """Create a file in memory and return its descriptor.

    The kernel frees the file when no process has it open or mapped.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(f"sharedstate-lite-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    handle, path = tempfile.mkstemp(prefix="sharedstate-lite-")
    os.unlink(path)
    return handle


def seal(file: int) -> None:
    """Prevent all processes from writing to the file, resizing it or removing the seal.

    Does nothing on systems that do not have memfds.
    """
    if hasattr(os, "memfd_create"):
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def pss(pid: int) -> int | None:
    """Return the proportional set size (PSS) of a process in bytes, or None if it cannot be measured.

    A page that n processes map counts as 1/n of a page.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None
