"""The checkout: teams hand in systems, which are graded one at a time by `python -m grader checkout`.

A result belongs to the hashes of the system, the seed and the grader, and to a mode: quick or full. A full result also
counts where a quick one is asked for.
"""

from __future__ import annotations

import hashlib
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..report.words import counted
from ..sandbox import Tier
from ..sandbox.tiers import GRADE
from ..submission.reading import FILE
from ..table import ASKED, JUDGED, TABLE
from ..terms import BUDGETS, QUICK_STILL, WAITS, Limits
from .collect import Submission
from .gradebook import RUN
from .results import Found, grader_hash, read
from .work import CHECKOUT, Task, best_tier, task

LAB, NUMBER = "6", 6
"""What --lab calls the checkout, and its number in the gradebook. A teacher's own lab may have this number, too."""
QUICK, FULL = "quick", "full"
_RUBRIC = Path(__file__).resolve().parents[1] / "rubric.toml"
SOURCES = (
    *("audit", "orders", "phases", "powercut", "processes", "record", "report", "sandbox", "shop", "submission"),
    *("verdict", "wire", "errors.py", "files.py", "folders.py", "outcomes.py", "proc.py", "session.py", "table.py"),
    *("terms.py", "toml.py", "classroom/checkout.py"),
)


class Checkout:
    """The checkout as a class is graded with it. Its points are those of grader/rubric.toml; speed has none.

    >>> sum(Checkout(7).points.values())
    85
    """

    kind = CHECKOUT

    def __init__(self, seed: int, mode: str = QUICK) -> None:
        """``seed``: that of the orders."""
        rubric = tomllib.loads(_RUBRIC.read_text())
        self.seed, self.mode = seed, mode
        points = {asked.name: rubric[asked.name] for name in JUDGED for asked in TABLE[name].asks}
        tasks: dict[str, str] = {}
        for asked in ASKED.values():
            if asked.name in TABLE:
                tasks[str(asked.task)] = " and ".join(filter(None, [tasks.get(str(asked.task)), asked.name]))
        self.hash = hashlib.sha256(f"checkout {seed}".encode()).hexdigest()
        self.points: Mapping[str, float] = {**points, "speed": 0}
        self.folder: Path | None = None
        lab = {"number": NUMBER, "title": "The checkout microservices", "hand_in": [FILE], "tasks": tasks}
        self.about: Mapping[str, Any] = {**lab, "kind": self.kind, "seed": seed, "cap": str(rubric["safety_cap"])}

    def grader(self) -> str:
        """Return a hash of the sources that can change a result of `checkout`."""
        return grader_hash(SOURCES)

    def tier(self, scratch: Path, ungraded: bool, closed: Sequence[Path]) -> tuple[Tier, bool]:
        """Return the best tier for systems, which have no hidden checks to read."""
        return best_tier(scratch, ungraded, _weakness)

    def task(self, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path, place: Path) -> Task:
        """Return the task for `checkout.judge`."""
        report = place / f"report-{self.mode}-{key['submission'][:12]}"
        about = {"lab": NUMBER, "mode": self.mode, "seed": self.seed, "limits": asdict(limits(self.mode))}
        return {**task(self, submission, key, tier, scratch), **about, "out": str(report.absolute())}

    def counts(self, found: Found) -> bool:
        """Return whether a result is as long as this run."""
        return self.mode == QUICK or found.get("mode") == FULL

    def announcement(self, tasks: int) -> str:
        """Return how long it takes at most."""
        return estimate(tasks, self.mode) if tasks else ""


def seed_of(out: Path) -> int:
    """Return the seed of the orders in a folder of results. A new folder gets a random one."""
    lab = (read(out / RUN) or {}).get("lab", {})
    return int(lab.get("seed", secrets.randbelow(1_000_000)))


def _weakness(tier: Tier) -> str:
    return "" if dict(tier.table())[GRADE] else f"{tier.why}; install bubblewrap"


def limits(mode: str) -> Limits:
    """Return the limits of a run, as the command `checkout` sets them."""
    return Limits(still=QUICK_STILL if mode == QUICK else Limits.still, budget=BUDGETS[mode])


def estimate(teams: int, mode: str) -> str:
    """Return in words how long it takes at most to grade teams.

    >>> estimate(20, "quick")
    '20 teams to grade, one at a time (--quick, up to 3 minutes each): up to 60 minutes, and the time of their builds'
    """
    each = round((BUDGETS[mode] + WAITS) / 60)
    words = f"{counted(teams, 'team')} to grade, one at a time (--{mode}, up to {each} minutes each)"
    return f"{words}: up to {teams * each} minutes, and the time of their builds"
