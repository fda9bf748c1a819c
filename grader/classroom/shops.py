"""Grade a class's histories for lab 6: `class --lab 6 --break`. The wrong shops are made from labs/checkout.

A submission needs all shops, each for some seconds, so submissions are graded one at a time, as systems are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_all
from ..lab.breaking import BREAK, broken_of
from ..lab.shops import to_break
from ..report.words import counted
from . import breaking, teams, work
from .results import grader_hash

if TYPE_CHECKING:
    from ..sandbox import Tier
    from .collect import Submission

_CHECKOUT = Path(__file__).resolve().parents[2] / "labs" / "checkout"
_MOST = 15
"""The most minutes that a submission can take."""


class Shops(breaking.Breaking):
    """The wrong shops of lab 6."""

    def __init__(self) -> None:
        self._files = to_break(_CHECKOUT)
        content = "\0".join(text for part in sorted(self._files.items()) for text in part)
        self.describe(broken_of(self._files[BREAK]), content.encode())

    def grader(self) -> str:
        """Return a hash of what judges histories."""
        return grader_hash((*breaking.SOURCES, *teams.SOURCES, "explore"))

    def task(self, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path, place: Path) -> work.Task:
        """Return the task for `breaking.judge`. The shops are written once, for all tasks."""
        folder = scratch / "shops"
        if not folder.exists():
            write_all(folder, self._files)
        paths = {"of": str(folder), "broken": str(folder / BREAK)}
        return {**work.task(self, submission, key, tier, scratch), **paths}

    def announcement(self, tasks: int) -> str:
        """Return how long it takes."""
        words = f"{counted(tasks, 'submission')} to grade, one at a time"
        return f"{words}: about a minute each, and at most {_MOST} minutes" if tasks else ""
