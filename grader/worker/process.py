"""A process that runs a student's module: what the one in the sandbox and the one on the student's machine share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

from ..outcomes import Outcome
from .allowance import IDLE, Allowance
from .answers import Answer
from .objects import Runner
from .protocol import Asks, Channel, ask


class Process(Runner, Channel, Protocol):
    """Runs `child.py`, which is restarted after a crash, a timeout or an invalid answer."""

    _allowance: Allowance

    def __enter__(self) -> Self:
        return self

    def limit(self, seconds: float, idle: float = IDLE) -> None:
        """From now on, allow this many CPU seconds, and ``idle`` seconds without using the CPU in one question."""
        self._allowance.limit(seconds, idle)

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps (see `child.py`) and return an Answer. Raises VoidError if the process does not start."""
        if not self.running:
            self._start()
        self._allowance.asked()
        answer = ask(self, steps, asks or {})
        self._allowance.answered()
        if answer.kind in (Outcome.BAD, Outcome.CRASH, Outcome.TIMEOUT):
            self.restart()  # a late answer must not be read as the answer to a later question
        return answer

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether there is a process that waits for a question."""

    @abstractmethod
    def _start(self) -> None:
        """Start a process. Raises VoidError if it does not say that it has started."""
