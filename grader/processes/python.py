"""Finds the Python that checkout.toml asks for, and makes it usable in the sandbox.

A Python is recognized by its files. It is never run outside the sandbox, because a path could name any program.
"""

from __future__ import annotations

import os
import re
import shlex
from glob import glob
from pathlib import Path

from ..errors import SubmissionError
from ..sandbox import Programs

GATEWAY = Path(__file__).resolve().parent / "gateway.py"
"""The program of a process with routes, which commands in the sandbox must be able to read."""
_PLACES = (
    "/usr/local/bin",
    "/usr/bin",
    "/opt/*/bin",
    "~/.pyenv/versions/*/bin",
    "~/.local/share/uv/python/*/bin",
    "/opt/hostedtoolcache/Python/*/*/bin",
)
"""Where Pythons are found in addition to the PATH: those of the system, of pyenv, of uv and of GitHub's runners."""
_LIBRARIES = ("lib", "lib64")


def find(asked: str) -> Path:
    """Return the program of a Python. ``asked``: a version such as "3.12", or an absolute path.

    Links are followed, because only the folder of the Python itself can be read in the sandbox. The exception is a path
    in a virtual environment, which keeps its packages.

    Raises SubmissionError if this machine does not have it.
    """
    if asked.startswith("/"):
        if _library(Path(asked)) is None:
            raise SubmissionError(
                f"checkout.toml, python: {asked!r} is not a Python on this machine; write the path of its program, "
                'such as "/usr/bin/python3", or a version, such as "3.12"'
            )
        return Path(asked) if _is_environment(Path(asked)) else Path(asked).resolve()
    there = {path.name.removeprefix("python"): path.resolve() for path in reversed(_all())}
    if asked not in there:
        known = ", ".join(sorted(there, key=lambda version: int(version[2:]))) or "none"
        raise SubmissionError(
            f"checkout.toml, python: this machine has no Python {asked}; it has {known}. Install Python {asked}, or "
            "write one of these versions or the path of another Python"
        )
    return there[asked]


def wrap(python: Path, folder: Path) -> None:
    """Make a folder for the PATH with ``python`` and ``python3``. It is not the Python's own, which may have others."""
    folder.mkdir()
    for name in ("python", "python3"):
        # This is not a link, because a virtual environment would then refer to the folder of the link.
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
        (folder / name).chmod(0o755)


def programs_of(python: Path | None, folder: Path) -> Programs:
    """Return what a submission can use.

    ``python``: its Python, for which `wrap` makes ``folder``; None: the grader's.
    """
    if python is None:
        return Programs(None, (GATEWAY,))
    library, home = _library(python), python.parent.parent
    assert library is not None, "find has found it"
    environment = (home,) if _is_environment(python) else ()
    return Programs(folder, (GATEWAY, folder, python.resolve().parent, library.parent, *environment))


def _is_environment(python: Path) -> bool:
    """Return whether a program belongs to a virtual environment."""
    return (python.parent.parent / "pyvenv.cfg").is_file()


def _library(python: Path) -> Path | None:
    """Return the folder with the standard library of a Python, or None if the program is not a Python."""
    real = python.resolve()
    if not re.fullmatch(r"python3\.\d+", real.name) or not os.access(real, os.X_OK):
        return None
    found = (real.parent.parent / lib / real.name for lib in _LIBRARIES)
    return next((folder for folder in found if (folder / "os.py").is_file()), None)


def _all() -> list[Path]:
    """Return the Pythons on this machine, those on the PATH first, and the newest of several patch versions first."""
    folders = os.environ.get("PATH", "").split(":")
    for pattern in _PLACES:
        folders += sorted(glob(os.path.expanduser(pattern)), key=_numbers, reverse=True)
    found = [path for folder in folders if folder for path in Path(folder).glob("python3.*")]
    return [path for path in found if re.fullmatch(r"python3\.\d+", path.name) and _library(path) is not None]


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]
