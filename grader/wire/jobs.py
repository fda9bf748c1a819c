"""The messages between the grader and the generator: jobs, progress and results.

A job has n requests. Request i is ``shapes[shape[i]]`` around ``middles[i]``, due at ``start`` + ``due[i]`` on the
monotonic clock. If all due times are 0 and there are few connections, the job is a closed loop: the next request is
sent as soon as a connection is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

ROOM, EACH = 64 << 20, 1024
"""Bytes of bodies that a job keeps: ROOM, and EACH for a request. Longer answers would fill the memory."""


@dataclass(frozen=True)
class Target:
    """The address of a service."""

    host: str
    port: int


@dataclass(frozen=True)
class Shape:
    """The bytes of a request before and after its middle, and the index of its target."""

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
    """Ascending, relative to ``start``."""
    start: int = 0
    """A time of time.monotonic_ns; 0: now."""
    connections: int = 1024
    """The most open connections, over all targets."""
    timeout: int = 10_000_000_000
    """From sending a request to its complete answer."""
    patience: int = 10_000_000_000
    """A request that could not be sent so long after it was due is dropped; 0: never."""
    silence: int = 0
    """After so many timeouts in a row, all unsent requests are dropped; 0: never."""
    bodies: bool = False
    """Whether to return bodies. Beyond ROOM bytes, plus EACH for a request, they are returned empty."""
    tell_after: int = 0
    """Report progress when so many requests have ended; 0: not."""
    tell_sent: int = 0
    """Report progress when so many requests have been sent; 0: not."""
    beat: int = 500_000_000
    """Nanoseconds between reports of progress."""


@dataclass
class Result:
    """The results of a job's requests. Times are of time.monotonic_ns; 0: never."""

    sent: Longs
    done: Longs
    status: NDArray[np.int16]
    waited: NDArray[np.uint8]
    """1: no connection was free when it was due."""
    bodies: list[bytes] = field(default_factory=list)
    due: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Filled in by the caller."""
    cpu: float = 0.0
    """CPU seconds of the generator."""
    opened: int = 0
    """How many connections were opened."""


@dataclass(frozen=True)
class Word:
    """Progress of a running job: how many requests were sent and have ended, and when."""

    sent: int
    ended: int
    at: int
