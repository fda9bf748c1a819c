"""The page of public names: those in the ``__all__`` of each package, each with the first sentence of its docstring.

A constant has no docstring of its own. Its sentence is the string below its assignment.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import grader.lab
import sharedstate_lite

from .execution import ROOT, SiteError

PAGE = "docs/api.md"
"""The page's file on the site; it is not in the repository."""
FRONT = """# Public names

The names in the `__all__` of each package. A name that is not listed can change with any version. The line beside a
name is the first sentence of its docstring, and `help(name)` shows the rest. `website/api.py` writes this page.
"""


def page() -> str:
    """Return the page in Markdown, with links relative to docs/. Raises SiteError for a name without a docstring."""
    parts = [FRONT]
    for package in packages():
        rows = [f"| [`{name}`]({link}) | {line} |" for name, link, line in names(package)]
        parts.append(f"## {package.__name__}\n\n{first(package.__doc__)}\n")
        parts.append("\n".join(["| name | what it is |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def packages() -> Iterator[ModuleType]:
    """Yield the library and each of its packages that declares public names; then the grader's, for authors of labs."""
    below = pkgutil.walk_packages(sharedstate_lite.__path__, "sharedstate_lite.")
    found = [sharedstate_lite, *(importlib.import_module(each.name) for each in below if each.ispkg)]
    yield from (each for each in [*found, grader, grader.lab] if hasattr(each, "__all__"))


def names(package: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield each public name with the file that defines it, relative to docs/, and its sentence.

    >>> import sharedstate_lite.plan
    >>> next(each for each in names(sharedstate_lite.plan) if each[0] == "View")[1]
    '../sharedstate_lite/plan/view.py'
    """
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
            file, text = inspect.getsourcefile(inspect.unwrap(getattr(package, name))), thing.__doc__
        else:
            file, text = constant(package, name)
        if not file or not text:
            raise SiteError(f"{package.__name__}.{name} has no docstring: write one sentence below its definition")
        yield name, f"../{Path(file).relative_to(ROOT).as_posix()}", first(text)


def constant(package: ModuleType, name: str) -> tuple[str, str]:
    """Return the file of the package that assigns ``name``, and the text below the assignment, or two empty texts."""
    for file in sorted(Path(*package.__path__).glob("*.py")):
        body: list[Any] = ast.parse(file.read_text(encoding="utf-8")).body
        body += [inner for each in body for inner in getattr(each, "body", [])]
        for each, below in zip(body, body[1:], strict=False):
            bound = [ast.unparse(each) for each in getattr(each, "targets", [getattr(each, "target", None)]) if each]
            if name in bound and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return str(file), str(below.value.value)
    return "", ""


def first(text: str | None) -> str:
    """Return the first sentence of a docstring on one line, for a table.

    >>> first("Add a\\n    row, e.g. a|b, and return it. More.")
    'Add a row, e.g. a\\\\|b, and return it.'
    >>> first("Return a :class:`~.play.Replay`. More.")
    'Return a `Replay`.'
    """
    words = re.sub(r":\w+:`~?[\w.]*?(\w+)`", r"`\1`", " ".join((text or "").split("\n\n")[0].split()))
    return re.split(r"(?<=[a-z0-9)`\]\"*]\.)\s+(?=[A-Z`])", words)[0].replace("|", "\\|")
