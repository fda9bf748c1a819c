"""The student's copy of lab 6, the checkout. It has no stub and no bundle: students change a system that runs.

student/start/          the system to start from, and no other one of the master
student/README.md       lab.md: the tasks and their points
student/assignment.md   docs/assignment.md without the notes for teachers
break/                  wrong shops, for after the lab (`shops`)
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..files import whole, write_all
from ..folders import paths
from .build import GRADER
from .shops import MASTER, to_break

START, TASKS, TEACHERS = "start", "lab.md", "\n## For teachers\n"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def is_checkout(lab: Path) -> bool:
    """Return whether a folder is the master of the checkout."""
    return (lab / START / "checkout.toml").is_file() and (lab / TASKS).is_file() and (lab / MASTER).is_file()


def hand_out(lab: Path, out: Path) -> None:
    """Write student/ and break/ into ``out``. The same master gives the same bytes.

    Raises UsageError if ``out`` is something else than an earlier copy.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "student" / START).is_dir())):
        raise UsageError(f"{out} is not an earlier build, and is not overwritten; choose another folder with --out")
    sources = [f"{START}/{path}" for path in paths(lab / START, ("__pycache__",))]
    files = {path: (lab / path).read_text(encoding="utf-8") for path in sources}
    assignment = (GRADER.parent / "docs" / "assignment.md").read_text(encoding="utf-8")
    files["README.md"] = _linked((lab / TASKS).read_text(encoding="utf-8"))
    files["assignment.md"] = _linked(assignment.partition(TEACHERS)[0].rstrip() + "\n")
    with whole(out) as made:
        write_all(made / "student", files)
        write_all(made / "break", to_break(lab))


def _linked(text: str) -> str:
    """Return a page whose links lead to what is in student/. Other links become their texts."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        name = PurePosixPath(target).name
        return f"[{words}]({name})" if name in (START, "assignment.md") else words

    return _LINK.sub(link, text)
