"""What the generator is asked to do, and what it brings back: plain values that cross a pipe.

A job is n requests. Request i is ``shapes[shape[i]]`` around ``middles[i]``; it is due at ``start`` + ``due[i]``
on the machine's monotonic clock. With every due time 0 and few connections a job is a closed loop: the next
request leaves as soon as a connection is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

ROOM, EACH = 64 << 20, 1024
"""Bytes of bodies that a job keeps: a system that answers megabytes should not fill the memory of who asks."""


@dataclass(frozen=True)
class Target:
    """An address that requests go to."""

    host: str
    port: int


@dataclass(frozen=True)
class Shape:
    """The bytes of a request before and after its middle, and its place in the job's targets."""

    target: int
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Job:
    """Requests to send. Times are nanoseconds."""

    targets: list[Target]
    shapes: list[Shape]
    shape: Longs
    middles: list[bytes]
    due: Longs
    """Not falling. After ``start``."""
    start: int = 0
    """On the clock of time.monotonic_ns; 0: now."""
    connections: int = 1024
    """Open at once, over all targets."""
    timeout: int = 10_000_000_000
    """From the sending of a request to its whole answer."""
    patience: int = 10_000_000_000
    """What could not be sent so long after it was due is dropped; 0: never dropped."""
    silence: int = 0
    """Once so many requests in a row have timed out, and none has ended otherwise, the rest is dropped; 0: never."""
    bodies: bool = False
    """Whether answers' bodies come back. Beyond ROOM bytes, and EACH a request, they come back empty."""
    tell_after: int = 0
    """Send word when so many requests have ended; 0: no word."""
    tell_sent: int = 0
    """Send word when so many requests have been sent; 0: no word."""
    beat: int = 500_000_000
    """Word of progress each so often."""


@dataclass
class Result:
    """What became of the requests of a job; times are of time.monotonic_ns, 0 where it never came to that."""

    sent: Longs
    done: Longs
    status: NDArray[np.int16]
    waited: NDArray[np.uint8]
    """1: no connection was free when it was due."""
    bodies: list[bytes] = field(default_factory=list)
    due: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Filled in by who asked."""
    cpu: float = 0.0
    """Seconds of CPU that the generator took."""
    opened: int = 0
    """Connections opened."""


@dataclass(frozen=True)
class Word:
    """Said while a job runs: how many requests were sent and have ended, and when."""

    sent: int
    ended: int
    at: int
