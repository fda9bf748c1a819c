"""Shows how far a build is, and about how long the rest will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

GUESS = 60.0
"""Seconds for a notebook that has never been run on this machine."""
EVERY = 10.0
"""Seconds between two lines if the output is not a terminal."""


def duration(seconds: float) -> str:
    """Return a duration in words: ``40 s`` or ``3 min``."""
    return f"{round(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"


class Progress:
    """Tells how much of each job is done. On a terminal, one line is rewritten; elsewhere, lines are printed.

    ``jobs`` are pairs of a name and the seconds that the job took the last time, or None. ``clock`` returns seconds.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[str, float | None]],
        out: TextIO = sys.stdout,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._out, self._clock = list(jobs), out, clock
        self._at, self._began, self._shown = 0, clock(), -EVERY

    def begin(self, number: int) -> None:
        """Start job ``number``, counted from 0."""
        self._at, self._began, self._shown = number, self._clock(), -EVERY
        self.done(0.0)

    def done(self, share: float) -> None:
        """Show that ``share`` of the current job is done: a number from 0 to 1."""
        now = self._clock()
        if not self._out.isatty() and now - self._shown < EVERY:
            return
        self._shown = now
        name, _ = self._jobs[self._at]
        left = duration(self.left(share))
        self._print(f"{self._at + 1} of {len(self._jobs)}  {name}  {share:.0%}  about {left} left")

    def left(self, share: float) -> float:
        """Return an estimate of the seconds that are left."""
        used = self._clock() - self._began
        expected = self._jobs[self._at][1] or GUESS
        # The cells of a notebook take different times, so the share that is done says little at first.
        here = expected * (1 - share) if share < 0.2 else (1 - share) * max(expected, used / share)
        return max(here, 0.0) + sum(seconds or GUESS for _, seconds in self._jobs[self._at + 1 :])

    def end(self) -> None:
        """Clear the line."""
        if self._out.isatty():
            self._print("")
            print("\r", end="", file=self._out, flush=True)

    def _print(self, text: str) -> None:
        if self._out.isatty():
            print(f"\r{text[:78]:<78}", end="", file=self._out, flush=True)
        else:
            print(text, file=self._out, flush=True)
