"""A solution that runs in the process of the test, for checks that are judged many times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from grader.worker import Answer
from grader.worker.protocol import Asks


class Here:
    """A runner of a solution's text. ``change`` replaces the results of each question."""

    def __init__(self, text: str, change: Callable[[list[Any]], list[Any]] = lambda results: results) -> None:
        self._code, self._change = compile(text, "solution.py", "exec"), change
        self.restart()

    def limit(self, seconds: float) -> None:
        """There is no limit."""

    def cpu(self) -> float:
        """Return 0.0, because nothing is measured."""
        return 0.0

    def restart(self) -> None:
        """Forget all objects."""
        self._names: dict[str, Any] = {"__name__": "solution"}
        self._made: dict[str, Any] = {}
        exec(self._code, self._names)

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps of `grader/worker/child.py`."""
        results: list[Any] = []
        try:
            for kind, *given in steps:
                if kind == "new":
                    handle, name, args = given
                    self._made[handle] = self._names[name](*_plain(args, asks or {}))
                elif kind == "call":
                    handle, name, args = given
                    owner = getattr(self._made[handle], name) if handle else self._names[name]
                    results.append(owner(*_plain(args, asks or {})))
                elif kind == "get":
                    results.append(getattr(self._made[given[0]], given[1]))
            return Answer("value", json.loads(json.dumps(self._change(results), allow_nan=False)))
        except Exception as error:  # what the student's code does is an answer
            types = tuple(one.__name__ for one in type(error).__mro__)
            return Answer("error", why=f"{type(error).__name__}: {error}", types=types)


def _plain(value: Any, asks: Asks) -> Any:
    if type(value) is list:
        return [_plain(item, asks) for item in value]
    if type(value) is dict:
        if set(value) == {"("}:
            return tuple(_plain(item, asks) for item in value["("])
        return asks[value["?"]] if set(value) == {"?"} else {key: _plain(item, asks) for key, item in value.items()}
    return value
