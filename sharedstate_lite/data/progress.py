"""Shows the progress of a long command: as a bar on a terminal, otherwise as one line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

WIDTH = 24
LINE_SECONDS = 10


class Progress:
    """A progress display, which writes the finished share of ``total`` and the remaining time to ``out``.

    On a terminal, it updates a single line. ``what`` is the text before the percentage.
    """

    def __init__(self, what: str, total: int, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._total, self._out, self._clock = what, total, out, clock
        self._bar = out.isatty()
        self._began = self._said = clock()
        self._shown = -1

    def show(self, done: int) -> None:
        """Show that ``done`` of ``total`` units are finished."""
        now = self._clock()
        if done == self._shown or (not self._bar and now - self._said < LINE_SECONDS):
            return
        self._said, self._shown = now, done
        spent = now - self._began
        left = f", {_span(spent / done * (self._total - done))} left" if done else ""
        text = f"{self._what}: {done * 100 // self._total}% in {_span(spent)}{left}"
        if self._bar:
            full = done * WIDTH // self._total
            self._out.write(f"\r{'█' * full}{'░' * (WIDTH - full)} {text}\x1b[K")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def close(self) -> None:
        """Clear the line on the terminal."""
        if self._bar and self._shown >= 0:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _span(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"
