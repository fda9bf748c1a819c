"""A solution that runs in the process of the test, for checks that are judged many times."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grader.worker import Answer, protocol
from grader.worker.protocol import Asks, encode

CHILD = ast.parse((Path(protocol.__file__).parent / "child.py").read_text())
KEEP = (ast.Import, ast.ImportFrom, ast.FunctionDef)
PLACES = ("WAITS", "TURNS", "TURN", "DRY")


def child_functions() -> dict[str, Any]:
    """The functions of the program in the sandbox, which cannot be imported."""

    def kept(node: ast.stmt) -> bool:
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        return isinstance(node, KEEP) or (isinstance(node, ast.Assign | ast.AnnAssign) and bool(names & {*PLACES}))

    found: dict[str, Any] = {"__name__": "child"}
    exec(compile(ast.Module([node for node in CHILD.body if kept(node)], []), "child.py", "exec"), found)
    return found


class Here:
    """A runner of a solution's text. ``change`` replaces the results of each question."""

    def __init__(self, text: str, change: Callable[[list[Any]], list[Any]] = lambda results: results) -> None:
        self._code, self._change = compile(text, "solution.py", "exec"), change
        self.restart()

    def limit(self, seconds: float, idle: float = 5.0) -> None:
        """There is no limit."""

    def cpu(self) -> float:
        """Return 0.0, because nothing is measured."""
        return 0.0

    def restart(self) -> None:
        """Forget all objects."""
        self._names: dict[str, Any] = {"__name__": "solution"}
        self._made: dict[str, Any] = {}
        self._child = child_functions()
        exec(self._code, self._names)

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps of `grader/worker/child.py`."""
        results: list[Any] = []
        plain, module = self._child["plain"], SimpleNamespace(**self._names)

        def asker(name: str) -> Callable[..., Any]:
            return lambda *args: plain(encode((asks or {})[name](*args)))

        self._child["asker"] = asker
        try:
            for kind, *given in steps:
                if kind == "new":
                    handle, name, args = given
                    self._made[handle] = self._names[name](*plain(args))
                elif kind == "call":
                    handle, name, args = given
                    owner = getattr(self._made[handle], name) if handle else self._names[name]
                    results.append(owner(*plain(args)))
                elif kind == "get":
                    results.append(getattr(self._made[given[0]], given[1]))
                elif kind == "together":
                    name, args, calls = given
                    results.append(self._child["together"](module, name, plain(args), plain(calls)))
            return Answer("value", json.loads(json.dumps(self._change(results), allow_nan=False)))
        except Exception as error:  # what the student's code does is an answer
            types = tuple(one.__name__ for one in type(error).__mro__)
            return Answer("error", why=f"{type(error).__name__}: {error}", types=types)
