"""The example in each room's ``__init__``, and those of other docstrings, run as doctests."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SESSION = "spark.session("
"""An example that contains this needs a Spark session; it runs in tests/spark, on the session that the tests share."""


def documented() -> dict[str, str]:
    """Every room of the library: its package's name, and the docstring of its ``__init__``."""
    found = {}
    for face in sorted((ROOT / "sharedstate_lite").rglob("__init__.py")):
        name = ".".join(face.parent.relative_to(ROOT).parts)
        found[name] = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
    return found


def run(package: str) -> None:
    """Run the examples of one package's docstring; raises AssertionError with the difference, or if there is none."""
    text = importlib.import_module(package).__doc__ or ""
    test = doctest.DocTestParser().get_doctest(text, {}, package, package, 0)
    assert test.examples, f"{package}: the docstring of its __init__ has no example"
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


def modules() -> list[str]:
    """The other modules of the library and of grader/ with an example in a docstring."""
    paths = [p for folder in ("sharedstate_lite", "grader") for p in sorted((ROOT / folder).rglob("*.py"))]
    shown = [p for p in paths if p.name != "__init__.py" and ">>> " in p.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in shown]


def run_all(module: str) -> None:
    """Run the examples of every docstring of a module; raises AssertionError with the differences."""
    loaded = importlib.import_module(module)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(loaded, module):
        runner.run(test, out=said.append)
    assert not said, "".join(said)
    assert runner.tries


__all__ = ["SESSION", "documented", "modules", "run", "run_all"]
