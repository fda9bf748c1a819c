"""Grade a class's histories: `class --break`. What is handed in is only text; all code that runs is the lab's.

Each wrong solution is a check with one point. The bonus is one more check, which earns a share of its points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..lab.breaking import BONUS, BREAK, HISTORIES, NEAR, Broken, Told, read_broken, score
from ..lab.bundle import Bundle
from ..lab.judge import Result
from ..lab.source import read
from ..outcomes import Outcome
from ..student.breaks import told_of
from ..submission.upload import choose
from . import work
from .one import ungraded
from .results import GRADED, Found, fresh, grader_hash

if TYPE_CHECKING:
    from ..sandbox import Tier
    from .collect import Submission

_BONUS = "bonus"
SOURCES = (
    *("lab", "worker", "errors.py", "outcomes.py", "proc.py", "student/breaks.py", "student/cpu.py"),
    *("student/local.py", "classroom/breaking.py", "classroom/one.py", "submission/archive.py", "submission/upload.py"),
)


class Breaking:
    """The wrong solutions of a lab that `lab build` has built."""

    kind = work.BREAK
    folder: Path | None = None

    def __init__(self, bundle: Bundle) -> None:
        """Raises UsageError if the bundle has nothing to break."""
        self._checks, self._broken = bundle.checks, bundle.checks.with_name(BREAK)
        if not self._broken.is_file():
            why = f"{bundle.checks.parent} has no {BREAK}: checks.py has no reader, or an earlier version has built it"
            raise UsageError(f"{why}; build it again: python -m grader lab build")
        both = self._checks.read_bytes() + b"\0" + self._broken.read_bytes()
        self.describe(read_broken(self._broken), both)

    def describe(self, broken: Broken, content: bytes) -> None:
        """Set what is known of a lab. ``content``: everything that can change a result."""
        self.hash = hashlib.sha256(content).hexdigest()
        number = len(broken.wrong)
        self.points: Mapping[str, float] = {**dict.fromkeys(_ids(broken), 1), _BONUS: round(number * BONUS, 2)}
        about = {"number": broken.number, "title": f"{broken.title}: break it", "hand_in": [HISTORIES], "tasks": {}}
        self.about: Mapping[str, Any] = {**about, "kind": self.kind}

    def grader(self) -> str:
        """Return a hash of what judges histories."""
        return grader_hash(SOURCES)

    def tier(self, scratch: Path, ungraded: bool, closed: Sequence[Path]) -> tuple[Tier, bool]:
        """Return that no sandbox is needed."""
        from ..sandbox import Tier

        return Tier(0, "not needed, because texts are handed in", ""), False

    def task(self, submission: Submission, key: Mapping[str, str], tier: Tier, scratch: Path, place: Path) -> work.Task:
        """Return the task for `judge`."""
        paths = {"of": str(self._checks), "broken": str(self._broken)}
        return {**work.task(self, submission, key, tier, scratch), **paths}

    def counts(self, found: Found) -> bool:
        """Return True: a result does not run again."""
        return True

    def announcement(self, tasks: int) -> str:
        """Return "": it takes less than a second for each submission."""
        return ""


def _ids(broken: Broken) -> list[str]:
    """Return the id of each wrong solution, such as "7 join.retract"."""
    return [f"{number} {one.area}" for number, one in enumerate(broken.wrong, 1)]


def judge(task: Mapping[str, Any], scratch: Path) -> Found:
    """Judge the histories of a task of the pool."""
    broken = read_broken(Path(task["broken"]))
    found, folder, place = fresh(broken.number, task["key"], 0), scratch / "submission", scratch / "solutions"
    folder.mkdir()
    place.mkdir()
    try:
        chosen = choose([(name, Path(path)) for name, path in task["files"]], HISTORIES, scratch / "unpacked")
        content, notes = read(chosen.path.read_bytes(), chosen.name)
        (folder / HISTORIES).write_bytes(content)
        told = list(told_of(broken, Path(task["of"]), content.decode(), place))
    except KeyboardInterrupt:  # the class has been interrupted, and all shops have ended
        raise SystemExit(1) from None
    except Exception as error:
        return {**found, **ungraded(error)}
    about = {"notes": [chosen.note] * bool(chosen.note) + notes, "histories": [one.as_json() for one in told]}
    more = "more wrong solutions may be exposed on an idle machine"
    odd = [f"line {one.line}: {one.word or more}" for one in told if one.waited or one.blamed]
    return {**found, "status": GRADED, **about, "look": odd, "checks": _checks(broken, told)}


def _checks(broken: Broken, told: Sequence[Told]) -> list[dict[str, Any]]:
    won = score(broken, told)
    checks = [
        Result(id, 1, one.says, False, Outcome.EXPOSED if number in won.exposed else Outcome.AT_LARGE).as_json()
        for number, (id, one) in enumerate(zip(_ids(broken), broken.wrong, strict=True), 1)
    ]
    got, share = f"{won.changes} changes, at most {broken.most}", won.near * len(won.exposed) / len(broken.wrong)
    rule = f"All changes together are at most {NEAR:g} times those of the shortest set known, {broken.known}."
    bonus = Result(_BONUS, 1, rule, False, Outcome.MEASURED, got=got, waited=any(one.waited for one in told))
    return [*checks, {**bonus.as_json(), "share": str(round(share, 6))}]
