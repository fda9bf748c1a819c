"""The tiers, what each stops, and which one this machine has: tried out with the command line that will run.

Tier 2 (Landlock) is not built in this version: where bubblewrap does not run, ``choose`` takes 3 and says why.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import VoidError
from .plain import Command, Plain
from .walls import Walls

THREATS = (
    "reads other files of the machine",
    "reaches the network by TCP",
    "reaches the network by UDP or DNS",
    "signals the grader or a stranger's process",
    "leaves a daemon behind",
    "starts processes without end",
    "takes all memory, or fills the disk",
    "good enough for a grade",
)
STOPS = {
    1: (True, True, True, True, True, True, True, True),
    2: (True, True, True, True, False, False, False, True),
    3: (False,) * 8,
}
"""Threat by threat; for the last one: whether a grade may come of it. Tier 2 as of Landlock's ABI 6."""
_PROBE = 20.0
"""Seconds that a command which does nothing may take."""


@dataclass(frozen=True)
class Tier:
    """What was chosen, and why not a higher one."""

    number: int
    name: str
    why: str

    def table(self) -> list[tuple[str, bool]]:
        """Each threat, and whether this tier stops it."""
        return list(zip(THREATS, STOPS[self.number], strict=True))


def choose(run: str, scratch: Path, submission: Path | None) -> tuple[Tier, Plain | Walls]:
    """The highest tier that this machine and this version have, and what starts processes in it."""
    try:
        walls = Walls(run, scratch, submission)
    except VoidError as error:
        why = f"tier 1: {error}"
    else:
        if not (said := _tried(walls, scratch)):
            return Tier(1, "bubblewrap", ""), walls
        walls.close()
        why = f"tier 1: bwrap does not run here: {said}"
    why += "; tier 2 (Landlock) is not built in this version"
    return Tier(3, "resource limits only: self-check only, not for grades", why), Plain(run)


def _tried(walls: Walls, scratch: Path) -> str:
    """Run a command that does nothing, but writes where it may; what went wrong, "" if nothing did."""
    data = scratch / "probe"
    data.mkdir()
    read, write = os.pipe()
    command = Command(
        "probe", ("sh", "-c", f": > {data}/there && python3 -c pass"), Path("/"), write, {}, data, (data,)
    )
    try:
        process, tree = walls.start(command)
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
    return "" if code == 0 and (data / "there").exists() else f"exit {code}, {said}"
