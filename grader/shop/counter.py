"""Send waves of requests, wait for their answers, and record every request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..record import Record, SentWave
from ..terms import SHED, Kind, Limits
from ..wire.client import Generator
from ..wire.jobs import Job, Longs, Result, Word
from .routes import ROUTES, Routes

CLOSED = 32
"""The number of connections in a closed loop, which is used for setup and reads."""
_SILENCE = 8
"""A closed loop stops after this many timeouts in a row. Otherwise, it would take hours if the system hangs."""
_PAUSE, _ROUNDS = 0.2, 15
"""Seconds before shed requests are sent again, and the maximum number of rounds in a row in which none is accepted."""


@dataclass(frozen=True)
class Wave:
    """Requests that are sent together."""

    phase: str
    name: str
    kind: Kind
    subject: Longs
    """The row of the order, user or item of each request, in the table that belongs to its kind."""
    middles: list[bytes]
    """The last part of the path of each request."""
    due: Longs | None = None
    """Nanoseconds from the wave's start. None: a closed loop, which sends a request when a connection is free."""
    connections: int = CLOSED
    attempt: int = 1
    bodies: bool = False
    """Whether to keep the bodies of the answers."""
    kinds: Longs | None = None
    """The kind of each request, if they differ."""
    counts: bool = True
    """Whether the figures of the phase count its checkouts."""
    may_refuse: bool = False
    """Whether there is too little stock or credit for some of its orders, so that they may be refused."""
    again: bool = False
    """Whether it repeats the checkouts that the system shed in a wave that counts."""


class Clock:
    """The time of a run. It exists before the run begins, so that what starts earlier has a time, too: 0.

    >>> Clock().now()
    0
    """

    def __init__(self) -> None:
        self.origin = 0
        """The beginning, as a value of time.monotonic_ns; 0: it has not begun."""

    def begin(self) -> None:
        """Begin the run."""
        self.origin = time.monotonic_ns()

    def now(self) -> int:
        """Return the nanoseconds since the run began."""
        return time.monotonic_ns() - self.origin if self.origin else 0


class Counter:
    """Sends the requests of one run. Times are nanoseconds since the run began."""

    def __init__(
        self, record: Record, generator: Generator, routes: Routes, limits: Limits, clock: Clock | None = None
    ) -> None:
        """The run begins now. ``clock``: the one that has to tell the time since then."""
        self.record, self.limits, self._clock = record, limits, clock or Clock()
        self._clock.begin()
        self._generator, self._routes = generator, routes
        self.tend: list[Callable[[], None]] = []
        """Functions that are called ten times per second while a wave runs or `wait` waits."""
        self._wave: tuple[int, Wave, Longs] | None = None
        self._turned_away: dict[Kind | str, int] = {}
        """For each kind and each service: the number of waves in a row in which no request was accepted."""

    def now(self) -> int:
        """Return the nanoseconds since the run began."""
        return self._clock.now()

    def send(self, wave: Wave) -> Result:
        """Send a wave and wait for its result."""
        self.begin(wave)
        while True:
            message = self.poll(0.1)
            if isinstance(message, Result):
                return message

    def insist(self, wave: Wave, seconds: float = float("inf")) -> Result:
        """Send a closed loop and repeat its shed requests, each time over fewer connections, until all are accepted.

        The result contains only the last answer to each request, because a 429 and a refused connection have no effect.
        Stops after ``seconds`` or after several rounds in a row without an accepted request.
        """
        until, connections = time.monotonic() + seconds, wave.connections
        result = self.send(wave)
        shed = np.isin(result.status, SHED)
        left, idle = np.flatnonzero(shed), self._idle(wave.kind, shed)
        while len(left) and idle < _ROUNDS and time.monotonic() < until:
            self.wait(_PAUSE)
            connections = max(1, connections // 2)
            middles = [wave.middles[at] for at in left]
            again = self.send(replace(wave, subject=wave.subject[left], middles=middles, connections=connections))
            for column in ("sent", "done", "status", "waited", "due"):
                getattr(result, column)[left] = getattr(again, column)
            for at, body in zip(left, again.bodies, strict=False):
                result.bodies[at] = body
            shed = np.isin(again.status, SHED)
            left, idle = left[shed], self._idle(wave.kind, shed)
        return result

    def _idle(self, kind: Kind, shed: NDArray[np.bool_]) -> int:
        """Count a wave. Returns how many waves in a row, of this kind or to its service, had no accepted request.

        The count continues in later waves. Otherwise, every wave to a dead service would repeat all rounds.
        """
        of = kind, ROUTES[kind][0]
        for one in of if len(shed) else ():
            self._turned_away[one] = self._turned_away.get(one, 0) + 1 if shed.all() else 0
        return max(self._turned_away.get(one, 0) for one in of)

    def begin(self, wave: Wave, tell_after: int = 0, tell_sent: int = 0, start: int = 0) -> None:
        """Start a wave without waiting for it. `poll` returns its result.

        ``tell_after``, ``tell_sent``: report progress when this many requests have ended, or have been sent; 0: do not.
        ``start``: when to start, in nanoseconds since the run began; 0: now.
        """
        kinds = np.full(len(wave.middles), wave.kind, dtype=np.int64) if wave.kinds is None else wave.kinds
        shapes, shape = self._routes.shapes(kinds)
        start = start or self.now()
        job = Job(
            self._routes.targets,
            shapes,
            shape,
            wave.middles,
            np.zeros(len(wave.middles), dtype=np.int64) if wave.due is None else wave.due,
            start + self._clock.origin,
            wave.connections,
            int(self.limits.timeout * 1e9),
            0 if wave.due is None else int(self.limits.timeout * 1e9),
            _SILENCE if wave.due is None else 0,
            wave.bodies,
            tell_after,
            tell_sent,
        )
        number = len(self.record.waves)
        flags = {"counts": wave.counts, "may_refuse": wave.may_refuse, "again": wave.again}
        self.record.waves.append(SentWave(wave.phase, wave.name, start, len(wave.middles), **flags))
        self._wave = number, wave, job.due + start
        self._generator.start(job)

    def poll(self, seconds: float, tend: bool = True) -> Word | Result | None:
        """Wait up to ``seconds`` for progress or for the result. Returns None if neither arrives.

        A result is also recorded. ``tend``: whether to call the functions in `tend` first, which takes milliseconds.
        """
        if tend:
            self._tend()
        message = self._generator.poll(seconds)
        if not isinstance(message, Result) or self._wave is None:
            return message
        number, wave, due = self._wave
        self._wave = None
        about = self.record.waves[number]
        about.end, about.cpu, about.opened = self.now(), round(message.cpu, 4), message.opened
        for column in (message.sent, message.done):
            column[column != 0] -= self._clock.origin
        message.due = due
        self.record.history.append(
            wave=number,
            kind=int(wave.kind) if wave.kinds is None else wave.kinds,
            subject=wave.subject,
            attempt=wave.attempt,
            due=due,
            sent=message.sent,
            done=message.done,
            status=message.status,
            waited=message.waited,
        )
        return message

    def finish(self) -> None:
        """Drop the unsent requests of the running wave, and wait for its end."""
        self._generator.stop()
        while self._wave is not None:
            self.poll(0.1)

    def hang_up(self) -> None:
        """Close all connections, so that the next wave opens new ones."""
        self._generator.ask("hang up")

    def _tend(self) -> None:
        for duty in self.tend:
            duty()

    def wait(self, seconds: float) -> None:
        """Wait, and call the functions in `tend` meanwhile. Used for times in the rules, and between retries."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._tend()
            # Sleep for a tenth of a second at most, because a service may exit meanwhile.
            time.sleep(min(left, 0.1))
