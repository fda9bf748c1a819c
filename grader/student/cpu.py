"""The CPU seconds of another process, as each system tells them."""

from __future__ import annotations

import subprocess
import sys

from ..proc import cpu


def seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU seconds of a process; 0.0 if it has ended or the system does not tell."""
    try:
        if sys.platform == "win32":
            return _windows(process)
        if sys.platform == "linux":
            return cpu(process.pid)
        words = ["ps", "-o", "time=", "-p", str(process.pid)]
        return clock(subprocess.run(words, capture_output=True, text=True).stdout)
    except (OSError, ValueError):
        return 0.0


def clock(text: str) -> float:
    """Return the seconds of a time that ps prints.

    >>> clock("1-02:03:04"), clock("2:05.25")
    (93784.0, 125.25)
    """
    days, _, rest = text.strip().rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86_400 * int(days or 0)


if sys.platform == "win32":

    def _windows(process: subprocess.Popen[bytes]) -> float:
        import ctypes

        made, ended, kernel, user = (ctypes.c_ulonglong() for _ in range(4))
        times = [ctypes.byref(time) for time in (made, ended, kernel, user)]
        handle = ctypes.c_void_p(int(process._handle))
        ctypes.windll.kernel32.GetProcessTimes(handle, *times)
        return (kernel.value + user.value) / 1e7  # units of 100 ns
