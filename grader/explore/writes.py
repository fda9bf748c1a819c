"""Stop a service before its nth write to a file, so that it can be killed there.

    python -P -m grader.explore.writes FOLDER NTH PID...

This process traces all threads of the service with ptrace. It counts their system calls that write to a file in FOLDER
or sync one, and those that rename a file. It prints a line when all threads are traced, and another one when a thread
is about to make the nth call, for example "write stock.db"; this thread is not resumed. The process ends when the
service has ended. If it is killed, the service goes on. What a service changes in mapped memory is not seen.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import GraderError
from ..sandbox import keep

_PACKAGE = Path(__file__).resolve().parent.parent.parent
WRITE, SYNC, RENAME = "write", "sync", "rename"
CALLS = {
    "x86_64": (
        0xC000003E,
        {**dict.fromkeys((1, 18, 20, 296, 328), WRITE), 74: SYNC, 75: SYNC, 82: RENAME, 264: RENAME, 316: RENAME},
    ),
    "aarch64": (
        0xC00000B7,
        {**dict.fromkeys((64, 66, 68, 70, 287), WRITE), 82: SYNC, 83: SYNC, 38: RENAME, 276: RENAME},
    ),
}
"""For each machine: the number of its architecture in a system call, and what its calls do."""
_SYSCALL, _SEIZE, _INTERRUPT, _LISTEN, _INFO = 24, 0x4206, 0x4207, 0x4208, 0x420E
_OPTIONS = 1 | 2 | 4 | 8 | 16
"""System calls are marked by 0x80; processes and threads that are started are traced; execve is no signal."""
_CALLED = signal.SIGTRAP | 0x80
_WALL, _EVENT_STOP, _ENTRY = 0x40000000, 128, 1
"""waitpid: children of all kinds, as traced threads are; a stop without a signal; the beginning of a system call."""
_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_CALL = struct.Struct("=B3xI16xQi")
"""The beginning of ptrace_syscall_info: what it is, the architecture, the number, and the first argument."""
_INFO_BYTES, _PATIENCE = 88, 5.0
"""The length of ptrace_syscall_info, and the seconds until all threads must be traced."""
_READY, _FAILED = "ready", "failed"
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class TraceError(GraderError):
    """A service cannot be traced on this machine."""


class Writes:
    """Stops a service before its nth write. A context manager."""

    def __init__(self, pids: Iterable[int], folder: str, nth: int) -> None:
        """``pids``: its processes; ``folder``: that of its files. Raises TraceError if they cannot be traced."""
        if platform.machine() not in CALLS:
            raise TraceError(f"only system calls of {' and '.join(CALLS)} are known, not those of {platform.machine()}")
        words = [sys.executable, "-P", "-m", "grader.explore.writes", folder, str(nth), *map(str, pids)]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_PACKAGE)}
        self._process = subprocess.Popen(
            words, bufsize=0, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
        keep(self._process.pid)
        if (said := self._line(_PATIENCE)) != _READY:
            self.close()
            why = said.partition(" ")[2] or f"it is not possible within {_PATIENCE:.0f} s"
            raise TraceError(f"this machine does not let a process be traced ({why}){_mend()}")
        self._stopped = ""

    def stopped(self) -> str:
        """Return what the service is about to do, for example "write stock.db", if it is stopped now; otherwise ""."""
        self._stopped = self._stopped or self._line(0.0)
        return self._stopped

    def _line(self, seconds: float) -> str:
        """Return the next line that the tracer has printed; "" if there is none in time, or if it has ended."""
        assert self._process.stdout is not None
        there, _, _ = select.select([self._process.stdout], [], [], seconds)
        return self._process.stdout.readline().decode().rstrip("\n") if there else ""

    def close(self) -> None:
        """Trace no longer. A service that is stopped goes on, unless it was killed."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Writes:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _mend() -> str:
    """Return what to do, where it is known."""
    if _YAMA.exists() and _YAMA.read_text().strip() != "0":
        return "; as root: sysctl -w kernel.yama.ptrace_scope=0"
    return "; in a container, add the capability SYS_PTRACE"


def _ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    """Call ptrace(2). Raises OSError if it fails."""
    if _LIBC.ptrace(request, tid, address, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _attach(pids: Iterable[int]) -> set[int]:
    """Trace all threads, and stop them once. Returns them. Raises OSError if none can be traced."""
    found, failed = set[int](), OSError(errno.ESRCH, "it has ended")
    for pid in pids:
        known = set[int]()
        while new := _threads(pid) - known:
            known |= new
            for tid in new:
                try:
                    _ptrace(_SEIZE, tid, 0, _OPTIONS)
                    _ptrace(_INTERRUPT, tid)
                    found.add(tid)
                except OSError as error:  # it has ended, is traced since it was started, or belongs to the sandbox
                    failed = error
    if not found:
        raise failed
    return found


def _threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return set()  # the process has ended


def _about_to(tid: int, folder: str) -> str:
    """Return what a thread that begins or ends a system call is about to do to a file, or "" if it does not."""
    info = ctypes.create_string_buffer(_INFO_BYTES)
    _ptrace(_INFO, tid, _INFO_BYTES, ctypes.addressof(info))
    what, arch, number, first = _CALL.unpack_from(info)
    mine, calls = CALLS[platform.machine()]
    if what != _ENTRY or arch != mine or number not in calls:
        return ""
    if calls[number] == RENAME:
        return RENAME
    try:
        path = os.readlink(f"/proc/{tid}/fd/{first}").encode(errors="replace").decode()
    except OSError:
        return ""  # no such file: the call will fail
    return f"{calls[number]} {path.removeprefix(folder)}" if path.startswith(folder) else ""


def _go_on(tid: int, status: int) -> None:
    """Let a thread that has stopped go on."""
    number, event = os.WSTOPSIG(status), status >> 16
    if event == _EVENT_STOP and number in _STOPS:
        _ptrace(_LISTEN, tid)
    else:
        _ptrace(_SYSCALL, tid, 0, 0 if event or number == _CALLED else number)


def main() -> None:
    """Trace processes until they have ended."""
    folder, left = os.path.join(os.path.realpath(sys.argv[1]), ""), int(sys.argv[2])
    try:
        waiting = _attach(map(int, sys.argv[3:]))
    except OSError as error:
        return print(_FAILED, error.strerror, flush=True)
    ready = False
    while True:
        try:
            tid, status = os.waitpid(-1, _WALL)
        except ChildProcessError:
            return None
        waiting.discard(tid)
        if not (waiting or ready):
            ready = True
            print(_READY, flush=True)
        if not os.WIFSTOPPED(status):
            continue
        try:
            said = _about_to(tid, folder) if os.WSTOPSIG(status) == _CALLED else ""
            left -= bool(said) and ready
            if said and ready and not left:
                print(said, flush=True)
            else:
                _go_on(tid, status)
        except ProcessLookupError:
            continue  # it has been killed


if __name__ == "__main__":
    main()
