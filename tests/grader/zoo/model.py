"""The data model of the zoo: right systems, and mutants, which are right systems with one mistake.

A right system is built from folders that are copied over each other. A mutant replaces one text in one file of it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import sharedstate_lite.entities
from sharedstate_lite.entities.export import export

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2] / "labs" / "checkout"
PROGRAM = CHECKOUT / "entities" / "shop.py"


@dataclass(frozen=True)
class Right:
    """A system that must pass every phase."""

    name: str
    parts: tuple[str, ...]
    """Folders, copied over each other in this order; absolute paths are outside the zoo. The last one belongs to this
    system alone. Or an entity program, which is exported."""
    convergence: float = 3.0
    """Seconds within which its effects must complete."""


@dataclass(frozen=True)
class Mutant:
    """A right system with one mistake."""

    name: str
    base: str
    file: str
    right: str
    wrong: str
    phase: str
    """The phase that must catch it."""
    rule: str
    """A rule that it must break there."""
    also: str = ""
    """Another phase that must run for the mistake to show."""
    seconds: float = 0.0
    """Length of its phase; 0: the usual length."""


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
        Right("timer", ("web", "three", "timer"), convergence=60.0),
        Right("twophase", ("web", "three", "twophase"), convergence=20.0),
        Right("fast", (str(CHECKOUT / "fast"),)),
        Right("entities", (str(PROGRAM),)),
        Right("embedded", (str(CHECKOUT / "embedded"),), convergence=10.0),
        Right("log", (str(CHECKOUT / "log"),), convergence=10.0),
    )
}
LABS = {name: Right(name, (str(CHECKOUT / name),), convergence=10.0) for name in ("one-database", "saga")}
"""The right systems of labs/checkout that are not in the zoo, because other systems in it have the same design."""


def sources(name: str) -> list[Path]:
    """The files and folders that a right system consists of."""
    found = [HERE / part for part in RIGHT[name].parts]
    return [*found, *(Path(path) for path in sharedstate_lite.entities.__path__ if PROGRAM in found)]


def right(name: str, folder: Path) -> Path:
    """Copy a right system into a folder, and return the folder."""
    for part in (RIGHT | LABS)[name].parts:
        if part == str(PROGRAM):
            export(PROGRAM, folder)
            continue
        shutil.copytree(HERE / part, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return folder


def plant(mutant: Mutant, folder: Path) -> Path:
    """Copy a mutant into a folder, and return the folder. Raises ValueError unless its text occurs exactly once."""
    right(mutant.base, folder)
    source = folder / mutant.file
    text = source.read_text()
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.name}: {mutant.base}/{mutant.file} must contain its text exactly once")
    source.write_text(text.replace(mutant.right, mutant.wrong))
    return folder
