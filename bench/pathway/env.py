"""The environment that Pathway runs in: ``python bench/pathway/env.py`` makes it, once.

    env.py            make it where it is missing or was locked anew; says where it is
    env.py --check    exit 0 if it is there and complete, else 1 and why; changes nothing

It lies in the caches folder (``make clean`` removes it) and holds exactly what requirements.txt locks: about
1.5 GB, a minute or two with a fast network. How it is made and stamped: bench/environment.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench import measure  # noqa: E402
from bench.environment import Environment  # noqa: E402

LOCK = Path(__file__).with_name("requirements.txt")
COMMAND = "python bench/pathway/env.py"


def _environment() -> Environment:
    return Environment("Pathway", COMMAND, LOCK, "about 1.5 GB")


def python() -> Path:
    """Its interpreter."""
    return _environment().python


def expected() -> str:
    """What a complete environment is stamped with."""
    return _environment().expected()


def missing() -> str | None:
    """Why there is no environment to run in, with the way out; None where there is one."""
    return _environment().missing()


def make(tell: Callable[[str], None]) -> None:
    """Make the environment. Raises Error, with pip's last words, where that fails."""
    _environment().make(tell)


if __name__ == "__main__":
    measure.command(lambda: _environment().command_line(__doc__))
