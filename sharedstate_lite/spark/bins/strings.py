"""The string dictionary of a Python worker: shared by all of its bins, and replaced when most of it is unused.

Codes are never reused, so a dictionary only grows. A worker lives as long as its session, so it has to drop strings
that no row uses any more. It does so as a whole: a new dictionary, and bins that are read from the store again.
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
    """A string dictionary that outlives a micro-batch."""

    strings: Dictionary = field(default_factory=Dictionary)
    limit: int = 0
    """Check for unused strings beyond this many; doubles with what is in use."""

    def collect(self, bins: Iterable[Any] = ()) -> bool:
        """Replace the dictionary if more than half of its strings occur in no arrangement of ``bins``.

        Returns True if it did: then the codes of these bins mean nothing any more.
        """
        if len(self.strings) <= max(MIN_STRINGS, self.limit):
            return False
        arrangements = [held.arrangement for each in bins for held in each.parts.values()]
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
