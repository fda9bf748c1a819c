"""The tiers, what each stops, and which one this machine has: tried out with the command line that will run.

1 is bubblewrap (walls.py), 2 Landlock (locked.py), 3 limits on resources (plain.py). ``choose`` takes the highest
that runs, and says why it is not a higher one.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import VoidError
from .locked import Locked
from .plain import Command, Plain
from .walls import Walls

READS, CHANGES, TCP, UDP = (
    "reads other files of the machine",
    "changes what is in other files of the machine",
    "reaches the network, or other ports, by TCP",
    "reaches the network by UDP or DNS",
)
SOCKETS, SIGNALS, DAEMONS, FORKS = (
    "reaches a service of the machine by a Unix socket",
    "signals the grader or a stranger's process",
    "leaves a daemon behind that hides",
    "starts processes without end",
)
FILLS, GRADE = "takes all memory, or fills the disk", "good enough for a grade"
THREATS = (READS, CHANGES, TCP, UDP, SOCKETS, SIGNALS, DAEMONS, FORKS, FILLS, GRADE)
_PROBE = 20.0
"""Seconds that a command which does nothing may take."""


def stops(tier: int, abi: int = 0) -> set[str]:
    """What a tier stops; for tier 2 by Landlock's ABI (3: truncating files, 4: TCP, 6: signals)."""
    if tier == 1:
        return set(THREATS)
    if tier == 2:
        least = {READS: 1, FORKS: 1, FILLS: 1, GRADE: 1, CHANGES: 3, TCP: 4, SIGNALS: 6}
        return {threat for threat, first in least.items() if abi >= first}
    return set()


@dataclass(frozen=True)
class Tier:
    """What was chosen, and why not a higher one."""

    number: int
    name: str
    why: str
    abi: int = 0
    """Landlock's, in tier 2."""

    def table(self) -> list[tuple[str, bool]]:
        """Each threat, and whether this tier stops it."""
        stopped = stops(self.number, self.abi)
        return [(threat, threat in stopped) for threat in THREATS]


def choose(run: str, scratch: Path, submission: Path | None) -> tuple[Tier, Plain | Walls]:
    """The highest tier that this machine has, and what starts processes in it."""
    whys = []
    try:
        walls = Walls(run, scratch, submission)
    except VoidError as error:
        whys.append(f"tier 1: {error}")
    else:
        if not (said := _tried(walls, scratch)):
            return Tier(1, "bubblewrap", ""), walls
        walls.close()
        whys.append(f"tier 1: bwrap does not run here: {said}")
    try:
        locked = Locked(run, submission)
    except VoidError as error:
        whys.append(f"tier 2: {error}")
    else:
        if not (said := _tried(locked, scratch)):
            return Tier(2, f"Landlock, ABI {locked.abi}", whys[0], locked.abi), locked
        whys.append(f"tier 2: what Landlock locks in does not run here: {said}")
    return Tier(3, "resource limits only: self-check only, not for grades", "; ".join(whys)), Plain(run)


def _tried(sandbox: Plain | Walls, scratch: Path) -> str:
    """Run a command that does nothing, but writes where it may; what went wrong, "" if nothing did."""
    data = scratch / "probe"
    data.mkdir(exist_ok=True)
    there = data / type(sandbox).__name__
    read, write = os.pipe()
    command = Command("probe", ("sh", "-c", f": > {there} && python3 -c pass"), Path("/"), write, {}, data, (data,))
    try:
        process, tree = sandbox.start(command)
    finally:
        os.close(write)
    with os.fdopen(read, "rb") as output:
        try:
            code = process.wait(_PROBE)
        except subprocess.TimeoutExpired:
            tree.kill()
            process.wait()
            return "it does not end"
        said = output.read(2000).decode(errors="replace").strip()
    return "" if code == 0 and there.exists() else f"exit {code}, {said}"
