"""Which part of a module a check can reach: what it asks for, and all definitions that this names.

A wrong solution differs from the solution in a few lines. If a check cannot reach them, it finds what it finds with the
solution, so the proof of a lab does not run it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..worker import Answer, Runner
from ..worker.protocol import Asks

_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Asked:
    """A runner that notes in ``names`` which functions and classes of the module are asked for."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.names = set[str]()
        self.restart, self.limit, self.cpu = runner.restart, runner.limit, runner.cpu

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Note the names, and let the runner run the steps."""
        for kind, *given in steps:
            if kind == "new" or (kind == "call" and not given[0]):
                self.names.add(given[1])
            elif kind == "together":
                self.names |= {given[0]} if given[0] else {name for name, _ in given[2]}
        return self._runner.run(steps, asks)


@cache
def reached(text: str, names: frozenset[str]) -> list[str]:
    """Return the definitions that ``names`` reach in a module, and all other statements at its top, as texts.

    >>> module = "def f(): return g()\\ndef g(): return 1\\ndef h(): return 2"
    >>> others, f = (module.replace("1", "3"), module.replace("2", "3")), frozenset({"f"})
    >>> [reached(other, f) == reached(module, f) for other in others]
    [False, True]
    """
    tree = ast.parse(text)
    defined = {node.name: node for node in tree.body if isinstance(node, _DEFINES)}
    others = [node for node in tree.body if node not in defined.values()]
    found, left = set[str](), [*names, *(name for node in others for name in _names(node))]
    while left:
        if (name := left.pop()) in defined and name not in found:
            found.add(name)
            left += _names(defined[name])
    return [ast.dump(node) for node in [*others, *(defined[name] for name in sorted(found))]]


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
