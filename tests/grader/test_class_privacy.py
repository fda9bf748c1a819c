"""Pages and reports for students contain no name, nothing about other students, and no text for the teacher."""

from __future__ import annotations

import json
import random
import re
import string
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from boxes import sandbox
from classes import RIGHT, SMALL, Teacher

from grader.classroom.teams import LAB

ROOT = Path(__file__).resolve().parents[2]
KINDS: tuple[Mapping[str, str], ...] = (
    {"solution.py": RIGHT},
    {"x.zip": "PK"},
    {"a.zip": "PK", "b.zip": "PK"},
    {"mine.ipynb": "{}"},
    {"notes.py": SMALL},
)
"""What students hand in: one that is right, three that cannot be graded, and a file with another name."""
COMMANDS = ("--take", "--names", "run the same command", "problems.csv")
"""Words of texts for the teacher."""
ENDS = """build = [["python3", "-c", "import os; print(os.getcwd(), os.environ, os.listdir()); exit(1)"]]
base_url = "http://127.0.0.1:{port:shop}"
[[process]]
name = "shop"
role = "gateway"
command = ["python3", "shop.py"]
"""
"""A checkout.toml without a name. Its build prints what it sees, and fails."""


@dataclass(frozen=True)
class Person:
    """A student. No word is in a file by chance."""

    id: str
    name: str
    number: str
    time: str

    @property
    def private(self) -> set[str]:
        """The words that no page contains."""
        return {self.number, self.time, *self.name.split(), *self.name.lower().split()}


def people(many: int) -> list[Person]:
    """Students with random words, the same ones in each run."""
    chance = random.Random(many)

    def word() -> str:
        return "".join(chance.choices(string.ascii_lowercase, k=9))

    def number() -> str:
        return str(chance.randrange(1_000_000, 10_000_000))

    return [Person(word(), f"{word().title()} {word().title()}", number(), number()) for _ in range(many)]


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files by their paths below a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def enrolled(path: Path, some: list[Person], teams: Mapping[int, str] | None = None) -> Path:
    """Write a roster. ``teams``: the team of the student at a place in it."""
    lines = [f"{one.id},{one.name},{(teams or {}).get(at, '')},{one.number}" for at, one in enumerate(some)]
    path.write_text("\n".join(["id,name,team,lms_id", *lines, ""]))
    return path


def searched(out: Path, some: list[Person]) -> set[str]:
    """Search each page, report and source for names and numbers, and for ids of others. Return their paths."""
    paths = [path for path in out.glob("submissions/**/*") if path.is_file() and not path.name.startswith("result")]
    paths += [path for path in out.glob("sources/**/*") if path.is_file()]
    for path in paths:
        text, name = path.read_bytes().decode("utf-8", "replace"), path.relative_to(out).as_posix()
        private = set[str]().union(*(one.private for one in some))
        private |= {one.id for one in some if one.id not in name}
        assert not [word for word in private if word in text], name
        if path.stem.startswith("feedback"):
            assert not [word for word in COMMANDS if word in text], name
    return {path.relative_to(out).as_posix() for path in paths}


@pytest.mark.parametrize("layout", ["{name}_{number}_assignsubmission_file/", "{name}_{number}_assignsubmission_file_",
                                    "{small}_{number}_77_"])  # fmt: skip
def test_pages_and_sources(teacher: Teacher, tmp_path: Path, layout: str) -> None:
    """A class in Moodle's folders, Moodle's files or Canvas's files: no page has a name, number or id of another."""
    some = people(len(KINDS))
    for one, files in zip(some, KINDS, strict=True):
        top = layout.format(name=one.name, number=one.number, small=one.name.replace(" ", "").lower())
        written(tmp_path / "subs", {f"{top}{name}": text for name, text in files.items()})
    assert teacher.grade(tmp_path / "subs", "--roster", enrolled(tmp_path / "roster.csv", some)) == 1, teacher.said
    pages = {f"submissions/{one.id}/feedback.html" for one in some}
    assert searched(teacher.out, some) == {*pages, *(f"sources/{some[at].id}/solution.py" for at in (0, 4))}


def test_submissions_that_cannot_be_told_apart(teacher: Teacher, tmp_path: Path) -> None:
    """If --names gives one id to two students, the teacher gets both names, and the page says only to ask."""
    one, two = people(2)
    subs = written(
        tmp_path / "subs", {f"same_{each.name}_{each.number}_{each.time}/solution.py": each.time for each in (one, two)}
    )
    assert teacher.grade(subs, "--names", "(?P<id>[^_]+)_.*") == 1
    (problem,) = teacher.table("problems.csv")
    assert all(word in problem["problem"] for each in (one, two) for word in (each.number, each.time, each.name))
    assert searched(teacher.out, [one, two]) == {"submissions/same/feedback.html"}
    assert "ask your teacher" in (teacher.out / "submissions" / "same" / "feedback.html").read_text()


def test_a_failure_of_the_machine(teacher: Teacher, tmp_path: Path) -> None:
    """A void page does not say where the teacher's files are, or which command to run."""
    (one,) = people(1)
    subs = written(tmp_path / "subs", {f"{one.name}_{one.number}_assignsubmission_file/solution.py": RIGHT})
    roster = enrolled(tmp_path / "roster.csv", [one])
    assert teacher.grade(subs, "--roster", roster) == 0
    place = teacher.out / "submissions" / one.id / "result.json"
    void = {
        **json.loads(place.read_text()),
        "status": "void",
        "why": f"{subs / one.name} is gone; run the same command again",
    }
    place.write_text(json.dumps({**void, "checks": []}))
    assert teacher.run("grades", teacher.out) == 2
    assert one.name in teacher.table("problems.csv")[0]["problem"]
    searched(teacher.out, [one])


def test_teams(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and reports of lab 6: no member's name, number or folder, nor the id of another member.

    A system without a name; one that two members hand in differently; two systems in one folder, a damaged archive and
    a file in place of a system.
    """
    sandbox(1, tmp_path).close()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    some = people(9)
    teams = ("red", "red", "blue", "blue", "green", "green", "white", "white", "")
    folders = [f"{one.name}_{one.number}_assignsubmission_file" for one in some]
    files = {
        f"{folders[0]}/checkout.toml": ENDS,
        f"{folders[2]}/checkout.toml": ENDS,
        f"{folders[3]}/checkout.toml": f"{ENDS}#",
        f"{folders[4]}/a/checkout.toml": "",
        f"{folders[4]}/b/checkout.toml": "",
        f"{folders[6]}_x.zip": "PK",
        f"{folders[8]}_y.py": "",
    }
    roster = enrolled(tmp_path / "roster.csv", some, dict(enumerate(teams)))
    teacher.lab = Path(LAB)
    assert teacher.grade(written(tmp_path / "subs", files), "--roster", roster) == 1, teacher.said
    states = ("graded", "graded", "ambiguous", "ambiguous", "ambiguous", "ambiguous", *["unreadable"] * 3)
    assert teacher.column("status") == {one.id: state for one, state in zip(some, states, strict=True)}
    names = searched(teacher.out, some)
    assert {name for name in names if "feedback" in name} == {
        *(f"submissions/{team}/feedback-{one.id}.html" for one, team in zip(some[:8], teams, strict=False)),
        f"submissions/{some[8].id}/feedback.html",
    }
    (report,) = (teacher.out / name for name in names if name.endswith("/report.html"))
    assert "exited with 1" in report.read_text()


def test_what_is_written_outside_of_out(teacher: Teacher, tmp_path: Path) -> None:
    """The filled export and the zip of pages can be read by their owner only, also if an earlier one could be read."""
    subs = written(tmp_path / "subs", {"s0001/solution.py": RIGHT})
    assert teacher.grade(subs) == 0
    export = written(tmp_path, {"export.csv": "ID,Grade\ns0001,\n"}) / "export.csv"
    words = ("grades", teacher.out, "--fill", export, "--feedback-zip", tmp_path / "back.zip")
    for made in (tmp_path / "export-filled.csv", tmp_path / "back.zip"):
        assert teacher.run(*words) == 0
        assert made.stat().st_mode & 0o777 == 0o600
        made.chmod(0o644)
        assert teacher.run(*words) == 0
        assert made.stat().st_mode & 0o777 == 0o600


def test_git_ignores_what_the_page_tells_to_write() -> None:
    """The files that the commands of docs/teaching.md name are not added by `git add -A` in a clone."""
    page = (ROOT / "docs" / "teaching.md").read_text()
    lines = "\n".join(line for line in page.splitlines() if line.startswith("    "))
    names = sorted({*re.findall(r"(?<![\w/.-])(?:[\w-]+\.(?:csv|zip|txt)|course\.toml|grades/[\w/.-]+)", lines)})
    assert {"secret.txt", "roster.csv", "course.toml", "export.csv", "grades/lab1"} <= {*names}
    done = subprocess.run(["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip("this is no clone")
    assert done.stdout.split() == names
