"""Which modules of the grader a student's copy of a lab contains."""

from __future__ import annotations

import ast
from pathlib import Path

_GRADER = Path(__file__).resolve().parents[1]
_STARTS = ("__init__.py", "__main__.py", "lab/__init__.py", "student/__init__.py", "worker/child.py")


def files() -> list[str]:
    """Return the paths of these modules below the folder ``grader``, sorted, such as "lab/checks.py".

    They are the modules that `check` and a lab's checks.py import at the top, directly or indirectly.
    """
    found: set[str] = set()
    left = list(_STARTS)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported(path)
    return sorted(found)


def _imported(path: str) -> list[str]:
    """Return the modules that a module imports relatively at its top, with the packages that contain them."""
    paths = []
    for node in ast.parse((_GRADER / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (_GRADER / path).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            names = [base, *(base / alias.name for alias in node.names)]
            for place in names:
                paths += [place.with_suffix(".py"), place / "__init__.py", place.parent / "__init__.py"]
    return [place.relative_to(_GRADER).as_posix() for place in paths if place.is_file() and _GRADER in place.parents]
