"""What the zoo is made of: right systems, each a few folders laid over each other, and wrong ones.

A mutant is a right system with one place made wrong, planted by replacing a text; undoing that is undoing the bug.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Right:
    """A system that must pass every phase."""

    name: str
    parts: tuple[str, ...]
    """Folders, each laid over the ones before it; the last one is its own, with its checkout.toml."""
    convergence: float = 3.0
    """Seconds that its effects may take to complete."""


@dataclass(frozen=True)
class Mutant:
    """A right system, wrong in one place."""

    name: str
    base: str
    file: str
    right: str
    wrong: str
    phase: str
    """The one that must catch it."""
    rule: str
    """And by which rule, among others."""
    also: str = ""
    """A phase that must run too for the mistake to show."""
    seconds: float = 0.0
    """Of its phase; 0: what is enough for the others."""
    slow: bool = False
    """Left out of most runs of the tests: its effects take long, or a busy machine may not bring them about."""


RIGHT = {
    right.name: right
    for right in (
        Right("single", ("web", "single")),
        Right("gateway", ("web", "single", "gateway")),
        Right("slow", ("web", "single", "slow")),
        Right("sheds", ("web", "single", "sheds")),
        Right("overload", ("web", "single", "overload")),
        Right("postgres", ("web", "postgres")),
        Right("gunicorn", ("web", "postgres", "gunicorn")),
        Right("three", ("web", "three")),
        Right("twophase", ("web", "three", "twophase"), convergence=20.0),
        Right("fast", ("fast",)),
    )
}


def right(name: str, folder: Path) -> Path:
    """A right system as a folder to grade."""
    for part in RIGHT[name].parts:
        shutil.copytree(HERE / part, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return folder


def plant(mutant: Mutant, folder: Path) -> Path:
    """The mutant as a folder to grade. Raises ValueError where its place is not there exactly once."""
    right(mutant.base, folder)
    source = folder / mutant.file
    text = source.read_text()
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.name}: its place is not once in {mutant.base}/{mutant.file}")
    source.write_text(text.replace(mutant.right, mutant.wrong))
    return folder
