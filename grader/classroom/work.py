"""What a class is graded with: a lab, or the checkout. `breaking` has a third kind.

Everything in `classroom` that differs between them is here. ``kind`` says in run.json which of them it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UsageError, VoidError
from ..lab.bundle import Bundle
from ..sandbox import LAB, Programs, Tier, Uid, choose, no_grades, own_uid
from ..sandbox.programs import ONLY_THE_GRADERS
from .results import Found, grader_hash

if TYPE_CHECKING:
    from .collect import Submission  # which needs a package that Gradescope lacks

BUNDLE, CHECKOUT, BREAK = "lab", "checkout", "break"
"""The kinds of work."""
Task = dict[str, Any]
"""What a process of the pool is given, as JSON values: the kind of work, the submission's id, files and key, ...."""


def kind_of(lab: Mapping[str, Any]) -> str:
    """Return the kind of work that the part ``lab`` of a run.json is about.

    An earlier version wrote no kind for labs, and one before it none for the checkout, which alone has a seed.

    >>> kind_of({"number": 6}), kind_of({"number": 6, "seed": 7}), kind_of({"kind": "checkout"})
    ('lab', 'checkout', 'checkout')
    """
    kind = str(lab.get("kind") or (CHECKOUT if "seed" in lab else BUNDLE))
    if kind not in (BUNDLE, CHECKOUT, BREAK):
        raise UsageError(
            f"run.json is about a {kind!r}, which this version cannot grade; use the version that wrote it"
        )
    return kind


class Work(Protocol):
    """What a class is graded with."""

    kind: str
    """BUNDLE, CHECKOUT or BREAK."""
    hash: str
    """A hash of everything that can change a result, besides the submission and the grader."""
    points: Mapping[str, float]
    """The points of each check."""
    about: Mapping[str, Any]
    """What run.json says about it: kind, number, title, hand_in, tasks."""
    folder: Path | None
    """The folder with the hidden checks; None if there are none."""

    def grader(self) -> str:
        """Return a hash of the sources of the grader that can change a result."""

    def tier(self, scratch: Path, ungraded: bool, closed: Sequence[Path]) -> tuple[Tier, bool]:
        """Return the best tier, and whether it is too weak for grades. Raises VoidError if it is, unless ``ungraded``.

        ``closed``: folders that no submission may read.
        """

    def task(self, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path, place: Path) -> Task:
        """Return the task to judge a submission. ``place``: where its results are stored."""

    def counts(self, found: Found) -> bool:
        """Return whether a settled result makes another run unnecessary."""

    def announcement(self, tasks: int) -> str:
        """Return how long it takes; "" if that is not known before the first results."""


def task(work: Work, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path) -> Task:
    """Return what all tasks have. ``scratch``: the folder for files that are needed meanwhile."""
    files = [(name, str(path.absolute())) for name, path in submission.files]  # the processes have another folder
    about = {"kind": work.kind, "id": submission.id, "files": files, "key": key}
    return {**about, "tier": asdict(tier), "scratch": str(scratch)}


def best_tier(
    scratch: Path,
    ungraded: bool,
    weakness: Callable[[Tier], str],
    programs: Programs = ONLY_THE_GRADERS,
    owner: Uid | None = None,
) -> tuple[Tier, bool]:
    """Return the best tier of this machine, and whether it is too weak for grades: ``weakness`` says why.

    Raises VoidError if it is, unless ``ungraded``. ``scratch``, ``programs``, ``owner``: as in `choose`.
    """
    place = scratch / "choose"
    place.mkdir()
    tier, sandbox = choose(place, None, programs, owner)
    sandbox.close()
    if (why := weakness(tier)) and not ungraded:
        rule = f"no sandbox that is good enough for grades works here: {why}"
        raise VoidError(f"{rule}. With `class --ungraded`, submissions run without a gradebook")
    return tier, bool(why)


def tier_for_labs(scratch: Path, ungraded: bool, closed: Sequence[Path]) -> tuple[Tier, bool]:
    """Return the best tier for the code of a lab, as `Work.tier`."""
    return best_tier(scratch, ungraded, lambda tier: no_grades(tier, closed), LAB, own_uid())


class Lab:
    """A lab that `lab build` has built."""

    kind = BUNDLE

    def __init__(self, bundle: Bundle) -> None:
        self.hash = bundle.hash
        self.points: Mapping[str, float] = bundle.points
        self.folder: Path | None = bundle.checks.parent
        lab = {name: value for name, value in bundle.lab.items() if name != "known"}
        self.about: Mapping[str, Any] = {**lab, "kind": self.kind}

    def grader(self) -> str:
        """Return a hash of what judges solutions."""
        return grader_hash()

    def tier(self, scratch: Path, ungraded: bool, closed: Sequence[Path]) -> tuple[Tier, bool]:
        """Return the best tier for the code of a lab."""
        return tier_for_labs(scratch, ungraded, closed)

    def task(self, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path, place: Path) -> Task:
        """Return the task for `one.judge`."""
        return {**task(self, submission, key, tier, scratch), "bundle": str(self.folder)}

    def counts(self, found: Found) -> bool:
        """Return True: a result of a lab does not run again."""
        return True

    def announcement(self, tasks: int) -> str:
        """Return "", because solutions may hang."""
        return ""
