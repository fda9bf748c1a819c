"""A student's classes as objects that checks can call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ..outcomes import Outcome
from .allowance import IDLE
from .answers import VALUE, Answer
from .protocol import Asks, encode

_ANSWERED = ("call", "get", "together", "cells", "import")
"""The steps that have a result."""


class Runner(Protocol):
    """A process that runs a student's module: `client.Worker`, or a plain process on the student's machine."""

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps of `child.py` and return an Answer."""

    def restart(self) -> None:
        """End the process. The next question starts a new one."""

    def limit(self, seconds: float, idle: float = IDLE) -> None:
        """From now on, allow this many CPU seconds, and ``idle`` seconds without using the CPU in one question."""

    def cpu(self) -> float:
        """Return the CPU seconds used so far."""


class NoValueError(Exception):
    """The student's code has returned no value. ``answer`` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.why)
        self.answer = answer


class Student:
    """The student's module, in a process of its own.

    Arguments and results are JSON values. A tuple arrives as a tuple, and comes back as a list. A function among the
    arguments (``asks``) runs in the grader.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner, self._made = runner, 0
        self._first: list[list[Any]] = []
        """Steps without a result, which go with the next question."""

    def _run(self, steps: list[list[Any]], asks: Asks | None = None) -> list[Any]:
        steps, self._first = [*self._first, *steps], []
        answer = self._runner.run(steps, asks)
        if answer.kind != VALUE:
            raise NoValueError(answer)
        if type(answer.value) is not list or len(answer.value) != sum(step[0] in _ANSWERED for step in steps):
            self._runner.restart()  # the right answer may follow, and must not be read as the next one
            raise NoValueError(Answer(Outcome.BAD, why="not an answer to this question"))
        return answer.value

    def forget(self) -> None:
        """Drop all objects before the next question."""
        self._first = [["forget"]]

    def cells(self) -> list[str]:
        """Read the notebook that was handed in in place of the module, without running it.

        Returns what is left out, and which of several definitions counts. Raises NoValueError if it cannot be read.
        """
        return self._notes("cells")

    def load(self) -> list[str]:
        """Import the student's module. Raises NoValueError if that fails.

        Returns what is left out of a notebook, as `cells` does, with the statements that fail.
        """
        return self._notes("import")

    def _notes(self, step: str) -> list[str]:
        (notes,) = self._run([[step]])
        return [note for note in notes if type(note) is str] if type(notes) is list else []

    def restart(self) -> None:
        """Kill the process, so that only what `save` has returned survives."""
        self._runner.restart()
        self._first = []

    def call(self, function: str, *args: Any) -> Any:
        """Call a function of the module and return its result. Raises NoValueError, as all methods below."""
        return self._run([["call", "", function, encode(list(args))]])[0]

    def play(self, cls: str, method: str, history: Iterable[Any], *args: Any) -> list[Any]:
        """Make an object with ``args``, call a method once for each item of the history, and return all results.

        An item is the method's argument; if it is a tuple, its arguments.
        """
        items = (item if isinstance(item, tuple) else (item,) for item in history)
        return self.new(cls, *args).all((method, *item) for item in items)

    def calls(self, cls: str, history: Iterable[Sequence[Any]]) -> list[Any]:
        """Make an object, call its methods as (name, argument, ...) in turn, and return all results.

        For example, ``calls("Count", [("answer", "Nut", 2), ("question", "Nut")])``.
        """
        return self.new(cls).all(history)

    def together(
        self, cls: str, args: Sequence[Any], calls: Iterable[Sequence[Any]], **asks: Callable[..., Any]
    ) -> Any:
        """Call async methods of a new object at the same time; if ``cls`` is "", async functions of the module.

        A call is (name, argument, ...). Among the arguments, `awaited` is an async function of the grader. ``asks`` are
        the functions behind them, and ``begin(n)``, which each call waits for first: they return a number. ``next()``
        returns what happens when all code waits, and ``cancelled(number)`` is called if the code gives a wait up; see
        `child.py`. Returns the outcome of each call: ["value", v], ["error", text], ["cancelled"] or ["waits"].
        """
        encoded = [[name, encode(given)] for name, *given in calls]
        return self._run([["together", cls, encode(list(args)), encoded]], asks)[0]

    def new(self, cls: str, *args: Any, **asks: Callable[..., Any]) -> Thing:
        """Make an object. Functions in ``asks`` are its last arguments, in this order; each method may call them.

        The object is made with the next question. Only if there are ``asks``, it is made at once.
        """
        self._made += 1
        handle = str(self._made)
        self._first.append(["new", handle, cls, [*encode(list(args)), *({"?": name} for name in asks)]])
        if asks:
            self._run([], asks)
        return Thing(self._run, handle, asks)


class Thing:
    """An object in the student's process. Its methods are called as usual: ``thing.step(changes)``."""

    def __init__(self, run: Callable[[list[list[Any]], Asks | None], list[Any]], handle: str, asks: Asks) -> None:
        self._run, self._handle, self._asks = run, handle, asks

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: self.all([(name, *args)])[0]

    def all(self, calls: Iterable[Sequence[Any]]) -> list[Any]:
        """Call methods as (name, argument, ...) in turn, in one question, and return all results."""
        return self._run([["call", self._handle, name, encode(args)] for name, *args in calls], self._asks)

    def get(self, attribute: str) -> Any:
        """Return the value of an attribute or property."""
        return self._run([["get", self._handle, attribute]], self._asks)[0]
