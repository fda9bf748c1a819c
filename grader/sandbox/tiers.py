"""The three tiers, the threats that each of them stops, and the choice of a tier that works on this machine.

Tier 1 is bubblewrap (walls.py), tier 2 is Landlock (locked.py), and tier 3 is resource limits (plain.py). ``choose``
tries them in this order, and reports why a better tier does not work.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import VoidError
from .command import Command, Sandbox
from .locked import Locked
from .plain import Plain
from .programs import ONLY_THE_GRADERS, Programs
from .uids import Uid
from .walls import Walls

READS, CHANGES, TCP, UDP = (
    "reads other files on the machine",
    "changes the content of other files",
    "reaches the network, or other ports, over TCP",
    "reaches the network over UDP or DNS",
)
SOCKETS, SIGNALS, DAEMONS, FORKS = (
    "reaches a service on the machine through a Unix socket",
    "sends signals to the grader or to other programs",
    "leaves a hidden daemon behind",
    "starts processes endlessly",
)
FILLS, GRADE = "uses all memory, or fills the disk", "good enough for a grade"
THREATS = (READS, CHANGES, TCP, UDP, SOCKETS, SIGNALS, DAEMONS, FORKS, FILLS, GRADE)
_PROBE = 20.0
"""The time limit of the probe in seconds."""


def stops(tier: int, abi: int = 0) -> set[str]:
    """Return the threats that a tier stops. In tier 2, they depend on the ABI of Landlock.

    ABI 3 adds truncation, ABI 4 adds TCP connections, and ABI 6 adds signals.
    """
    if tier == 1:
        return set(THREATS)
    if tier == 2:
        least = {READS: 1, FORKS: 1, FILLS: 1, GRADE: 1, CHANGES: 3, TCP: 4, SIGNALS: 6}
        return {threat for threat, first in least.items() if abi >= first}
    return set()


@dataclass(frozen=True)
class Tier:
    """The chosen tier, and the reason why no better tier was chosen."""

    number: int
    name: str
    why: str
    abi: int = 0
    """The ABI of Landlock in tier 2; 0 in other tiers."""

    def table(self) -> list[tuple[str, bool]]:
        """Return each threat, and whether this tier stops it."""
        stopped = stops(self.number, self.abi)
        return [(threat, threat in stopped) for threat in THREATS]


def make(
    tier: int,
    scratch: Path,
    submission: Path | None,
    programs: Programs = ONLY_THE_GRADERS,
    network: bool = False,
    owner: Uid | None = None,
) -> Sandbox:
    """Return a sandbox of this tier. ``network``: for a build: with the network of the machine.

    `choose` has the other arguments. Raises VoidError if the machine does not allow it.
    """
    if tier == 1:
        return Walls(scratch, submission, programs, network)
    return Locked(submission, network, programs, owner) if tier == 2 else Plain(programs, owner)


def no_grades(tier: Tier, secret: Sequence[Path] = ()) -> str:
    """Return why labs cannot be graded in this tier, and what to do; "" if they can.

    ``secret``: folders that a submission must not read, such as the hidden checks. They matter in tier 3 only.
    """
    mend = "install bubblewrap, or start the grader as root"
    if tier.number == 1 or (tier.number == 2 and (os.geteuid() == 0 or tier.abi >= 6)):
        return ""
    if tier.number == 2:
        return f"Landlock of this kernel (ABI {tier.abi}) does not keep a submission from signalling the grader; {mend}"
    if os.geteuid() != 0:
        return f"a submission could read all of your files ({tier.why}); {mend}"
    for path in secret:
        if all(place.stat().st_mode & stat.S_IXOTH for place in path.resolve().parents) and path.stat().st_mode & 0o005:
            return f"every user of this machine, and so every submission, can read {path}; run: chmod 700 {path}"
    return ""


def choose(
    scratch: Path, submission: Path | None, programs: Programs = ONLY_THE_GRADERS, owner: Uid | None = None
) -> tuple[Tier, Sandbox]:
    """Return the best tier that works on this machine, and its sandbox.

    ``scratch``: a folder for the run; ``submission``: a folder that commands can read; ``programs``: what they can use
    besides; ``owner``: their user in tiers 2 and 3. In tier 1, they have another one anyway.
    """
    whys = []
    try:
        walls = Walls(scratch, submission, programs)
    except VoidError as error:
        whys.append(f"tier 1: {error}")
    else:
        if not (why := _tried(walls, scratch)):
            return Tier(1, "bubblewrap", ""), walls
        walls.close()
        whys.append(f"tier 1: bwrap does not work on this machine: {why}")
    try:
        locked = Locked(submission, False, programs, owner)
    except VoidError as error:
        whys.append(f"tier 2: {error}")
    else:
        if not (why := _tried(locked, scratch)):
            return Tier(2, f"Landlock, ABI {locked.abi}", whys[0], locked.abi), locked
        whys.append(f"tier 2: a process under Landlock does not work on this machine: {why}")
    return Tier(3, "resource limits only; for self-checks, not for grades", "; ".join(whys)), Plain(programs, owner)


def _tried(sandbox: Sandbox, scratch: Path) -> str:
    """Run a probe that writes a file and starts Python. Returns the error; "" if it worked."""
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
            return f"the probe did not end within {_PROBE:.0f} s"
        finally:
            tree.kill()
            process.wait()
        said = output.read(2000).decode(errors="replace").strip()
    return "" if code == 0 and there.exists() else f"the probe exited with {code}: {said}"
