"""Shows the progress and the remaining time of a run: one updating line in a terminal, otherwise one line per step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from .session import BUILDING


class _Bar(BarColumn):
    """A bar that shows the elapsed time as a share of the usual time."""

    def render(self, task: Task) -> ProgressBar:
        total = task.total or 1.0
        return ProgressBar(total=total, completed=min(total, task.elapsed or 0.0), width=12)


def left(past: float, usual: float) -> str:
    """Return the estimated seconds left in words, or by how many seconds the run is longer than usual."""
    return f"about {usual - past:.0f} s left" if past < usual else f"{past - usual:.0f} s longer than usual"


class _Left(ProgressColumn):
    """A column with the elapsed seconds and the estimated seconds left."""

    def render(self, task: Task) -> Text:
        past = task.elapsed or 0.0
        return Text(f"{past:.0f} s, {left(past, task.total or 0.0)}")


class Shown:
    """A context manager that shows the progress of a run."""

    def __init__(
        self, usual: float, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the clock. ``usual`` is the usual length of such a run in seconds. ``console`` defaults to stderr."""
        self._usual, self._clock, self._began = usual, clock, clock()
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._phase, self._since = "", self._began
        self._building = False
        self._line: Progress | None = None
        if self._console.is_terminal:
            # In a narrow terminal only the text of the step is truncated, not the time.
            at = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
            columns = (SpinnerColumn(), _Bar(), _Left(table_column=Column(no_wrap=True)), at)
            self._line = Progress(*columns, console=self._console, transient=True, expand=True)
            self._task = self._line.add_task("", total=usual)

    def __enter__(self) -> Shown:
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.stop()

    def say(self, text: str) -> None:
        """Show the step that starts now. ``text`` has the form "phase: description", or only a description."""
        now = self._clock()
        past = now - self._began
        if self._building:
            self._usual += past  # the usual length does not include the build
        self._building = text == BUILDING
        if self._line is None:
            print(f"[{past:6.1f} s, {left(past, self._usual)}] {text}", file=sys.stderr, flush=True)
            return
        phase = text.partition(":")[0]
        if phase != self._phase:
            if self._phase:
                self._line.console.print(f"  {self._phase:<32} {now - self._since:6.1f} s", style="dim", markup=False)
            self._phase, self._since = phase, now
        self._line.update(self._task, description=text, total=self._usual)
