"""Waves of requests: each is sent, waited for, and written into the record, whatever came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..record import Record
from ..terms import SHED, Kind, Limits
from ..wire.client import Generator
from ..wire.jobs import Job, Longs, Result, Word
from .routes import ROUTES, Routes

CLOSED = 32
"""Connections of a closed loop: set-up and reading."""
_SILENCE = 8
"""Requests of a closed loop that time out in a row before what is left of it is given up: a system that hangs would
be waited for by every connection in turn, for hours."""
_PAUSE, _ROUNDS = 0.2, 15
"""Seconds before what was shed is sent again; so many times in a row with none let in, and no more is sent again."""


@dataclass(frozen=True)
class Wave:
    """Requests of one kind that are sent together."""

    phase: str
    name: str
    kind: Kind
    subject: Longs
    """Rows of the record, by kind."""
    middles: list[bytes]
    """The ends of their paths."""
    due: Longs | None = None
    """Nanoseconds since the wave's start. None: a closed loop, each request as soon as it may."""
    connections: int = CLOSED
    attempt: int = 1
    bodies: bool = False
    """Whether the answers' bodies are kept."""
    kinds: Longs | None = None
    """Of each request, where they are not all of ``kind``; subjects are rows by it."""


class Counter:
    """Sends for one run. Times are nanoseconds since the run began."""

    def __init__(self, record: Record, generator: Generator, routes: Routes, limits: Limits) -> None:
        self.record, self.limits = record, limits
        self._generator, self._routes = generator, routes
        self.tend: list[Callable[[], None]] = []
        """Called ten times a second while a wave runs or time passes."""
        self.origin = time.monotonic_ns()
        self._wave: tuple[int, Wave, Longs] | None = None
        self._turned_away: dict[Kind | str, int] = {}
        """Of each kind and of each service, how often in a row nobody was let in."""

    def now(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self.origin

    def send(self, wave: Wave) -> Result:
        """Send a wave and wait for its end."""
        self.begin(wave)
        while True:
            said = self.poll(0.1)
            if isinstance(said, Result):
                return said

    def insist(self, wave: Wave, seconds: float = float("inf")) -> Result:
        """Send a closed loop, and what was shed of it again, on fewer connections each time, until all is let in.

        A 429 and a refused connection are without effect, so the last answer is the one that counts. Given up after
        so many ``seconds``, and where nobody is let in any more; whoever is let in later opens it again.
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
        """How often in a row, with this time, nobody was let in: to this kind, or to its whole service.

        Over all waves: else each request to a service that is gone for good would be waited for anew.
        """
        of = kind, ROUTES[kind][0]
        for one in of if len(shed) else ():
            self._turned_away[one] = self._turned_away.get(one, 0) + 1 if shed.all() else 0
        return max(self._turned_away.get(one, 0) for one in of)

    def begin(self, wave: Wave, tell_after: int = 0, tell_sent: int = 0, start: int = 0) -> None:
        """Send a wave, and go on; ``poll`` until its result. ``start``: of the run, 0 for now."""
        kinds = np.full(len(wave.middles), wave.kind, dtype=np.int64) if wave.kinds is None else wave.kinds
        shapes, shape = self._routes.shapes(kinds)
        start = start or self.now()
        job = Job(
            self._routes.targets,
            shapes,
            shape,
            wave.middles,
            np.zeros(len(wave.middles), dtype=np.int64) if wave.due is None else wave.due,
            start + self.origin,
            wave.connections,
            int(self.limits.timeout * 1e9),
            0 if wave.due is None else int(self.limits.timeout * 1e9),
            _SILENCE if wave.due is None else 0,
            wave.bodies,
            tell_after,
            tell_sent,
        )
        number = len(self.record.waves)
        self.record.waves.append(
            {"phase": wave.phase, "name": wave.name, "start": start, "requests": len(wave.middles)}
        )
        self._wave = number, wave, job.due + start
        self._generator.start(job)

    def poll(self, seconds: float, tend: bool = True) -> Word | Result | None:
        """What happens within so many seconds; a result has been recorded when this returns it.

        Not to ``tend``: for moments that are measured in milliseconds, some of which a look at everything takes.
        """
        if tend:
            self._tend()
        said = self._generator.poll(seconds)
        if not isinstance(said, Result) or self._wave is None:
            return said
        number, wave, due = self._wave
        self._wave = None
        about = self.record.waves[number]
        about.update(end=self.now(), cpu=round(said.cpu, 4), opened=said.opened)
        for column in (said.sent, said.done):
            column[column != 0] -= self.origin
        said.due = due
        self.record.history.append(
            wave=number,
            kind=int(wave.kind) if wave.kinds is None else wave.kinds,
            subject=wave.subject,
            attempt=wave.attempt,
            due=due,
            sent=said.sent,
            done=said.done,
            status=said.status,
            waited=said.waited,
        )
        return said

    def finish(self) -> None:
        """Send nothing more of a wave that runs, and wait for its end."""
        self._generator.stop()
        while self._wave is not None:
            self.poll(0.1)

    def hang_up(self) -> None:
        """Close the connections that are open: the next wave begins with new ones."""
        self._generator.ask("hang up")

    def _tend(self) -> None:
        for duty in self.tend:
            duty()

    def wait(self, seconds: float) -> None:
        """Let time pass, and tend: what the assignment itself states in seconds, a stable time or a pause.

        And before what was shed or lost is asked again: nobody tells when a system lets in more, or is back.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._tend()
            # No event ends a time that has to pass; in tenths, since a service may exit by itself meanwhile.
            time.sleep(min(left, 0.1))
