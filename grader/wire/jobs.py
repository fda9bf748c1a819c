"""The messages between the grader and the generator: jobs, progress and results.

A job has n requests. Request i consists of ``middles[i]`` between the two parts of ``shapes[shape[i]]``, and is due at
``start`` + ``due[i]`` on the monotonic clock. If all due times are 0 and there are few connections, the job is a closed
loop: the next request is sent as soon as a connection is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

ROOM, EACH = 64 << 20, 1024
"""A job keeps at most ROOM bytes of bodies, plus EACH bytes per request. Otherwise, they could fill the memory."""


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
    """Requests to send. Times are in nanoseconds."""

    targets: list[Target]
    shapes: list[Shape]
    shape: Longs
    middles: list[bytes]
    due: Longs
    """Ascending, relative to ``start``."""
    start: int = 0
    """The start time, as a value of time.monotonic_ns; 0: now."""
    connections: int = 1024
    """The maximum number of open connections to all targets together."""
    timeout: int = 10_000_000_000
    """The time limit from sending a request until its answer is complete."""
    patience: int = 10_000_000_000
    """A request is dropped if it cannot be sent within this time after it was due; 0: never."""
    silence: int = 0
    """After this many timeouts in a row, all unsent requests are dropped; 0: never."""
    bodies: bool = False
    """Whether to return bodies. Once the limit of ROOM plus EACH per request is reached, they are returned empty."""
    tell_after: int = 0
    """Report progress when this many requests have ended; 0: do not."""
    tell_sent: int = 0
    """Report progress when this many requests have been sent; 0: do not."""
    beat: int = 500_000_000
    """The interval between regular reports of progress."""


@dataclass
class Result:
    """The results of a job's requests. Times are values of time.monotonic_ns; 0: it did not happen."""

    sent: Longs
    done: Longs
    status: NDArray[np.int16]
    waited: NDArray[np.uint8]
    """1 if no connection was free when the request was due."""
    bodies: list[bytes] = field(default_factory=list)
    due: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The due time of each request. The caller fills this in."""
    cpu: float = 0.0
    """The CPU seconds that the generator used for the job."""
    opened: int = 0
    """The number of connections that were opened."""


@dataclass(frozen=True)
class Word:
    """Progress of a running job: how many requests have been sent, how many have ended, and the time of this report."""

    sent: int
    ended: int
    at: int
