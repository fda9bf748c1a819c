"""Lab 6, the checkout: teams hand in systems, which are graded one at a time by `python -m grader checkout`.

A result belongs to the hashes of the system, the seed and the grader, and to a mode: quick or full. A full result also
counts where a quick one is asked for.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import VoidError
from ..lab.bundle import Bundle
from ..report.words import counted
from ..sandbox import Tier, choose
from ..sandbox.tiers import GRADE
from ..submission.reading import FILE
from ..terms import BUDGETS, JUDGED, QUICK_STILL, WAITS, Limits
from .collect import Submission
from .gradebook import CHECKOUT, RUN
from .pool import Task, task
from .results import grader_hash, read
from .run import Grading

LAB, NUMBER = "6", 6
"""What --lab calls the checkout, which has no bundle."""
QUICK, FULL = "quick", "full"
_RUBRIC = Path(__file__).resolve().parents[1] / "rubric.toml"
_BESIDES = ("false_refusals", "availability", "convergence")
"""The parts of the score that count, besides the phases."""
_SOURCES = (
    *("audit", "orders", "phases", "powercut", "processes", "record", "report", "sandbox", "shop", "submission"),
    *("verdict", "wire", "errors.py", "folders.py", "proc.py", "session.py", "terms.py", "classroom/checkout.py"),
)


def checkout(seed: int) -> Bundle:
    """Return what stands for the bundle of lab 6. Its points are those of grader/rubric.toml; speed has none.

    >>> sum(checkout(7).points.values())
    85
    """
    rubric = tomllib.loads(_RUBRIC.read_text())
    points = {name: rubric[name] for name in (*JUDGED, *_BESIDES)}
    tasks = {"1": "duplicates", "2": "scarcity and load", "3": "faults"}
    about = {"number": NUMBER, "title": "The checkout microservices", "hand_in": [FILE], "tasks": tasks}
    lab = {**about, "kind": CHECKOUT, "seed": seed, "cap": str(rubric["safety_cap"])}
    mark = hashlib.sha256(f"checkout {seed}".encode()).hexdigest()
    return Bundle(Path(), mark, NUMBER, str(about["title"]), 0, {}, {**points, "speed": 0}, lab)


def seed_of(out: Path) -> int:
    """Return the seed of the orders in a folder of results. A new folder gets a random one."""
    lab = (read(out / RUN) or {}).get("lab", {})
    return int(lab.get("seed", secrets.randbelow(1_000_000)))


def tier_for_systems(scratch: Path, ungraded: bool) -> tuple[Tier, bool]:
    """Return the best tier, and whether it is too weak for grades. Raises VoidError if it is, unless ``ungraded``."""
    place = scratch / "choose"
    place.mkdir()
    tier, sandbox = choose(place, None)
    sandbox.close()
    weak = not dict(tier.table())[GRADE]
    if weak and not ungraded:
        said = f"no sandbox that is good enough for grades works here: {tier.why}; install bubblewrap"
        raise VoidError(f"{said}. With --ungraded, systems run without a gradebook")
    return tier, weak


def limits(mode: str) -> Limits:
    """Return the limits of a run, as the command `checkout` sets them."""
    return Limits(still=QUICK_STILL if mode == QUICK else Limits.still, budget=BUDGETS[mode])


def estimate(teams: int, mode: str) -> str:
    """Return in words how long it takes at most to grade teams.

    >>> estimate(20, "quick")
    '20 teams to grade, one at a time (--quick, up to 3 minutes each): up to 60 minutes, and the time of their builds'
    """
    each = round((BUDGETS[mode] + WAITS) / 60)
    said = f"{counted(teams, 'team')} to grade, one at a time (--{mode}, up to {each} minutes each)"
    return f"{said}: up to {teams * each} minutes, and the time of their builds"


@dataclass
class Checkouts(Grading):
    """One run over the systems of the teams."""

    mode: str = QUICK

    @staticmethod
    def grader() -> str:
        """Return a hash of the sources that can change a result of `checkout`."""
        return grader_hash(_SOURCES)

    def _task(self, one: Submission, key: dict[str, str]) -> Task:
        report = self._place(one.id) / f"report-{self.mode}-{key['submission'][:12]}"
        about = {"lab": NUMBER, "mode": self.mode, "seed": self.bundle.lab["seed"], "limits": asdict(limits(self.mode))}
        asked = task(one.id, one.files, Path(), key, self.tier, self.scratch)
        return {**asked, **about, "out": str(report.absolute())}

    def _has(self, name: str, id: str, key: Mapping[str, str], *also: str) -> bool:
        found = read(self._place(id) / name) or {}
        return (self.mode == QUICK or found.get("mode") == FULL) and super()._has(name, id, key, *also)

    def _announce(self, tasks: int) -> None:
        if tasks:
            print(estimate(tasks, self.mode), file=sys.stderr, flush=True)
