"""A timer for epoll with microsecond precision, on Linux.

The timeout of epoll_wait is in milliseconds. A timerfd wakes the loop at an absolute time of the monotonic clock. It is
used through the C library, because Python supports it only from version 3.13 on.
"""

from __future__ import annotations

import ctypes
import os

_CLOCK_MONOTONIC, _ABSOLUTE, _NONBLOCK_CLOEXEC = 1, 1, 0o2004000


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns")]


class Timer:
    """A timer. Call `arm`, then wait until ``fd`` is readable."""

    def __init__(self) -> None:
        """Create the timer. Raises OSError if the kernel has no timerfd."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Spec()
        self._reference = ctypes.byref(self._spec)

    def arm(self, at: int) -> None:
        """Make ``fd`` readable at the time ``at``, which is a value of time.monotonic_ns."""
        self._spec.at_s, self._spec.at_ns = divmod(at, 1_000_000_000)
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._reference, None)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
