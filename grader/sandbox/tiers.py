"""The tiers, what each stops, and which one works on this machine.

1 is bubblewrap (walls.py), 2 Landlock (locked.py), 3 limits on resources (plain.py). ``choose`` tries them in this
order, and reports why a better one does not work.
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
"""The longest time of the probe in seconds."""


def stops(tier: int, abi: int = 0) -> set[str]:
    """The threats that a tier stops. For tier 2 they depend on Landlock's ABI (3: truncation, 4: TCP, 6: signals)."""
    if tier == 1:
        return set(THREATS)
    if tier == 2:
        least = {READS: 1, FORKS: 1, FILLS: 1, GRADE: 1, CHANGES: 3, TCP: 4, SIGNALS: 6}
        return {threat for threat, first in least.items() if abi >= first}
    return set()


@dataclass(frozen=True)
class Tier:
    """The chosen tier, and why it is not a better one."""

    number: int
    name: str
    why: str
    abi: int = 0
    """Landlock's, in tier 2."""

    def table(self) -> list[tuple[str, bool]]:
        """All threats, and whether this tier stops them."""
        stopped = stops(self.number, self.abi)
        return [(threat, threat in stopped) for threat in THREATS]


def choose(run: str, scratch: Path, submission: Path | None) -> tuple[Tier, Plain | Walls]:
    """The best tier that works on this machine, and its sandbox."""
    whys = []
    try:
        walls = Walls(run, scratch, submission)
    except VoidError as error:
        whys.append(f"tier 1: {error}")
    else:
        if not (said := _tried(walls, scratch)):
            return Tier(1, "bubblewrap", ""), walls
        walls.close()
        whys.append(f"tier 1: bwrap does not work here: {said}")
    try:
        locked = Locked(run, submission)
    except VoidError as error:
        whys.append(f"tier 2: {error}")
    else:
        if not (said := _tried(locked, scratch)):
            return Tier(2, f"Landlock, ABI {locked.abi}", whys[0], locked.abi), locked
        whys.append(f"tier 2: a process under Landlock does not work here: {said}")
    return Tier(3, "resource limits only; for self-checks, not for grades", "; ".join(whys)), Plain(run)


def _tried(sandbox: Plain | Walls, scratch: Path) -> str:
    """Run a probe that writes a file. Returns the error; "" if it worked."""
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
