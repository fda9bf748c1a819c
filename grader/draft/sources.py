"""Looks for lines of code that name a host, or that listen on every address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..folders import ignore, paths

_SKIP = {".git", ".venv", "venv", "node_modules", "__pycache__", "test", "tests"}
_SOURCES = (".py", ".js", ".ts", ".go", ".java", ".kt", ".rs", ".properties", ".sh")


def hard_coded(folder: Path, contexts: list[str], hosts: Mapping[str, str]) -> list[str]:
    """Return a note for each such line. ``hosts``: the process of each name that a line can contain."""
    names = "|".join(sorted(map(re.escape, hosts), key=len, reverse=True))
    host = re.compile(rf"//({names})(?![\w.-])|@({names})(?=[:/])|['\"]({names}):\d+['\"]")
    notes = []
    for path in (path for context in contexts for path in _sources(folder / context)):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            where = f"{path.relative_to(folder)}, line {number}"
            if found := host.search(line):
                address = f"{{address:{hosts[next(filter(None, found.groups()))]}}}"
                notes.append(f"{where} names a host; read its address from a variable, and set it in env to {address}")
            elif "0.0.0.0" in line:
                notes.append(
                    f"{where} listens on every address, so no other process can use its port; read the address from a "
                    "variable, and set it in env to {address}"
                )
    return notes


def _sources(folder: Path) -> Iterator[Path]:
    """Return the source files below a folder, without packages and tests."""
    return (folder / path for path in paths(folder, _SKIP, ignore) if path.endswith(_SOURCES))
