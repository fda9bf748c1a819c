"""The learner's folder: exercises as they were delivered, and answers that survive."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.system import answers
from sharedstate_lite.system.work import RECORD, delivered, put_back, read_record, work_folder

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if not path.stem.startswith("00")]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of a learner; the current folder is the one of its notebooks."""
    (tmp_path / "work" / "notebooks").mkdir(parents=True)
    (tmp_path / "work" / RECORD).write_text("{}")
    monkeypatch.chdir(tmp_path / "work" / "notebooks")
    return tmp_path / "work"


@pytest.mark.parametrize("lesson", LESSONS, ids=[path.stem for path in LESSONS])
def test_each_exercise_as_it_was_delivered(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, by file name and by the notebook that JupyterLab runs; one call puts it into the cell."""
    found = [c.source for c in nbformat.read(lesson, as_version=4).cells if "write-it" in c.metadata.get("tags", [])]
    number = lesson.stem.partition("-")[0]
    monkeypatch.setenv("JPY_SESSION_NAME", f"/home/me/kit/work/notebooks/{lesson.stem}.new.ipynb")
    assert [delivered(number), delivered(lesson.name), delivered()] == found * 3
    put: list[tuple[str, bool]] = []

    class Shell:
        def set_next_input(self, code: str, replace: bool) -> None:
            put.append((code, replace))

    monkeypatch.setattr(builtins, "get_ipython", Shell, raising=False)
    put_back()
    assert put == [(found[0], True)]


@pytest.mark.parametrize(
    ("lesson", "name", "message"),
    [
        ("00", "", "lesson 00 has 0 exercises; pass the name of one exercise"),
        ("01", "Min", "lesson 01 has 0 exercises Min; pass the name"),
        ("77", "", "there is no lesson 77; pass its number"),
        ("*", "", r"there is no lesson \*; pass"),
        ("", "", r"there is no lesson \(unknown\); pass"),
        (None, "", "there is no lesson Untitled.ipynb; pass its number, as in delivered"),
    ],
)
def test_an_exercise_that_does_not_exist(
    lesson: str | None, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the lesson and what to pass."""
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/kit/work/Untitled.ipynb")
    with pytest.raises(Error, match=message):
        delivered(lesson, name)


def test_put_back_outside_a_notebook() -> None:
    """The error says what to call instead; an exercise can be named."""
    assert delivered("01", "Max").startswith("class Max:")
    with pytest.raises(Error, match="use delivered"):
        put_back("01")


def test_answers_survive(work: Path, monkeypatch: pytest.MonkeyPatch, notes: Callable[[], list[str]]) -> None:
    """Any text is kept for its notebook and question, is replaced and forgotten, and is found in a carried folder."""
    assert answers.read("00", "How many?") is None
    for text in ("188,796", "", "+1 Fruit 10\n", "✗ “zwölf” 🙂", "\ud800"):
        answers.write("00", "How many?", text)
        assert answers.read("00", "How many?") == text
    answers.write("00", "Which?", "none")
    answers.write("01/../x", "How many?", "5")
    assert (answers.read("01/../x", "How many?"), answers.read("01", "How many?")) == ("5", None)
    answers.write("00", "How many?", None)
    work = work.rename(work.parent / "carried")
    monkeypatch.chdir(work)
    assert work_folder() == work
    assert (answers.read("00", "How many?"), answers.read("00", "Which?")) == (None, "none")
    assert sorted(each.name for each in (work / "answers").iterdir()) == ["00.json", "01%2F..%2Fx.json"]
    assert notes() == []


@pytest.mark.parametrize("damage", [b"", b'{"How', b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_file_of_answers_is_put_aside(work: Path, damage: bytes, notes: Callable[[], list[str]]) -> None:
    """It is renamed, one note says so, and the next answer is kept; a value that is no text counts as none."""
    answers.write("00", "How many?", "5")
    file = work / "answers" / "00.json"
    file.write_bytes(damage)
    assert answers.read("00", "How many?") is None
    (aside,) = file.parent.iterdir()
    (told,) = notes()
    assert aside.read_bytes() == damage and told.startswith(f"{file} is damaged") and aside.name in told
    answers.write("00", "How many?", "6")
    assert answers.read("00", "How many?") == "6" and aside.exists()
    file.write_text(json.dumps({"How many?": [6], "Which?": "none"}))
    assert (answers.read("00", "How many?"), answers.read("00", "Which?"), notes()) == (None, "none", [])


def test_an_answer_that_cannot_be_kept_stops_no_lesson(work: Path, notes: Callable[[], list[str]]) -> None:
    """If the file cannot be read or written, a note says so."""
    (work / "answers").write_text("mine")
    answers.write("00", "How many?", "5")
    assert answers.read("00", "How many?") is None
    assert [each.partition(": ")[2].partition(" (")[0] for each in notes()] == [
        "the answer was not kept",
        "the answers cannot be read",
    ]
    assert (work / "answers").read_text() == "mine"


def test_a_write_that_fails_leaves_the_old_answers(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced as a whole, and nothing else is left in the folder."""
    answers.write("00", "How many?", "5")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answers.write("00", "How many?", "6")
    assert answers.read("00", "How many?") == "5"
    assert [each.name for each in (work / "answers").iterdir()] == ["00.json"]


def test_outside_a_learners_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is written where no lessons were copied."""
    monkeypatch.chdir(tmp_path)
    answers.write("00", "How many?", "5")
    assert answers.read("00", "How many?") is None and list(tmp_path.iterdir()) == []
    assert work_folder() is None and read_record(tmp_path / "none.json") == {}
