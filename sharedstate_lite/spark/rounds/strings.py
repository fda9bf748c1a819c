"""The string dictionary of a Python worker, which all of its bins share. It is replaced when most strings are unused.

Codes are never reused, so a dictionary only grows. A worker lives as long as its session, so it must drop strings that
rows no longer use. To do so, it starts a new dictionary and reads the bins from the store again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...plan.nodes import Type
from ...storage.encoding import Dictionary

MIN_STRINGS = 1 << 20
"""A dictionary with at most this many strings is never replaced."""


@dataclass
class ProcessStrings:
    """A string dictionary that is kept from one micro-batch to the next."""

    strings: Dictionary = field(default_factory=Dictionary)
    limit: int = 0
    """The number of strings above which `collect` looks for unused ones: twice the number that was in use before."""

    def collect(self, bins: Iterable[Any] = ()) -> bool:
        """Replace the dictionary if it is large, and less than half of its strings occur in arrangements of ``bins``.

        Returns True if it did. The codes in these bins are then invalid, so the caller must drop the bins.
        """
        if len(self.strings) <= max(MIN_STRINGS, self.limit):
            return False
        arrangements = [arrangement for each in bins for arrangement in each.arrangements()]
        used = [
            run.body[1 + line]
            for arrangement in arrangements
            for run in arrangement.runs
            for line, kind in enumerate(arrangement.layout.types)
            if kind is Type.STRING
        ]
        self.limit = max(MIN_STRINGS, 2 * len(self.strings.keep(used)[0]))
        if len(self.strings) <= self.limit:
            return False
        self.strings = Dictionary()
        return True


worker_strings = ProcessStrings()
"""The dictionary of this process."""
