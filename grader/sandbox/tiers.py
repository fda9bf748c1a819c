"""The tiers, what each stops, and which one this machine has: tried out with the command line that will run.

Tiers 1 (bubblewrap) and 2 (Landlock) are not built in this version: ``choose`` says so in the report, and takes 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from .plain import Plain

THREATS = (
    "reads other files of the machine",
    "reaches the network by TCP",
    "reaches the network by UDP or DNS",
    "signals the grader or a stranger's process",
    "leaves a daemon behind",
    "takes all memory, processes or disk",
    "good enough for a grade",
)
STOPS = {
    1: (True, True, True, True, True, True, True),
    2: (True, True, True, True, False, True, True),
    3: (False, False, False, False, False, True, False),
}
"""Threat by threat; for the last one: whether a grade may come of it. Tier 2 as of Landlock's ABI 6."""


@dataclass(frozen=True)
class Tier:
    """What was chosen, and why not a higher one."""

    number: int
    name: str
    why: str

    def table(self) -> list[tuple[str, bool]]:
        """Each threat, and whether this tier stops it."""
        return list(zip(THREATS, STOPS[self.number], strict=True))


def choose(run: str) -> tuple[Tier, Plain]:
    """The highest tier that this machine and this version have, and what starts processes in it."""
    why = "bubblewrap (tier 1) and Landlock (tier 2) are not built in this version"
    return Tier(3, "resource limits only: self-check, not for grades", why), Plain(run)
