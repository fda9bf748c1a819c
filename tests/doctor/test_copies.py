"""The learner's copies of the lessons: kept, brought up to date, and as good as the lessons themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest

from sharedstate_lite.doctor import copies
from sharedstate_lite.doctor.copies import LESSONS, LINKED, copy_lessons
from sharedstate_lite.system.work import delivered

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "notebooks"))
from notebook_run import run  # noqa: E402

LINK = re.compile(r"(?:\]\(|\b(?:src|href)=\")(?!https?:|mailto:|#|attachment:|data:)([^)\"#\s]+)")
UPWARD = re.compile(r"Path\((\"\.\.\"(?:, \"[^\"]+\")*)\)")
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.M)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copies of this checkout's lessons."""
    target = tmp_path_factory.mktemp("kit") / "work"
    copy_lessons(target, ROOT)
    return target


def notebook(*sources: str, **metadata: Any) -> str:
    """A notebook's file with these code cells."""
    cells = [nbformat.v4.new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)]
    return str(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata)))


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A small kit with two lessons."""
    for name in ("notebooks", "labs/1", "docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notebooks" / "00.ipynb").write_text(notebook("first"))
    (tmp_path / "notebooks" / "ruff.toml").write_text("")
    (tmp_path / "labs" / "1" / "solution.py").write_text("first")
    (tmp_path / "labs" / "1" / "run.sh").write_text("true")
    (tmp_path / "labs" / "1" / "run.sh").chmod(0o755)
    (tmp_path / "docs" / "rules.md").write_text("first")
    for name in set(LINKED) - {"docs"}:
        (tmp_path / name).touch()
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """The files of a folder without its record: path -> text; of a notebook, the source of its first cell."""
    paths = [each for each in sorted(folder.rglob("*")) if each.is_file() and not each.name.startswith(".")]
    texts = {str(each.relative_to(folder)): each.read_text() for each in paths if not each.is_symlink()}
    return {name: json.loads(t)["cells"][0]["source"][0] if name.endswith("b") else t for name, t in texts.items()}


def test_a_copy_stays_or_is_brought_up_to_date(kit: Path, notes: Callable[[], list[str]]) -> None:
    """Unchanged copies follow the kit, changed ones stay, and the kit's lesson then arrives beside them once."""
    work, lesson, code = kit / "work", kit / "notebooks" / "00.ipynb", kit / "labs" / "1" / "solution.py"
    copy_lessons(work, kit)
    mine = {"labs/1/run.sh": "true", "labs/1/solution.py": "first", "notebooks/00.ipynb": "first"}
    assert contents(work) == mine and os.access(work / "labs/1/run.sh", os.X_OK)
    # JupyterLab's own changes are none of the learner's, so the next version replaces the copy.
    opened = nbformat.reads(notebook("first", language_info={"name": "python", "version": "3.11"}), as_version=4)
    opened.cells[0].outputs = [nbformat.v4.new_output("stream", text="1")]
    nbformat.write(opened, work / "notebooks" / "00.ipynb")
    copy_lessons(work, kit)
    assert json.loads((work / "notebooks" / "00.ipynb").read_text())["cells"][0]["outputs"]
    lesson.write_text(notebook("second"))
    code.write_text("second")
    copy_lessons(work, kit)
    mine |= {"labs/1/solution.py": "second", "notebooks/00.ipynb": "second"}
    assert contents(work) == mine and notes() == []
    # The learner's changes stay.
    (work / "notebooks" / "00.ipynb").write_text(notebook("mine"))
    (work / "labs" / "1" / "solution.py").write_text("mine")
    mine |= {"labs/1/solution.py": "mine", "notebooks/00.ipynb": "mine"}
    copy_lessons(work, kit)
    assert contents(work) == mine and notes() == []
    lesson.write_text(notebook("third"))
    for told in (1, 0):
        copy_lessons(work, kit)
        mine["notebooks/00.new.ipynb"] = "third"
        assert contents(work) == mine
        assert notes() == told * [f"{work / 'notebooks' / '00.ipynb'} was changed by you and by the kit: yours stays, "
                                  "and the kit's is 00.new.ipynb beside it"]  # fmt: skip
    # A new lesson replaces the earlier one beside the copy, unless the learner has worked in it.
    lesson.write_text(notebook("fourth"))
    copy_lessons(work, kit)
    assert contents(work) == mine | {"notebooks/00.new.ipynb": "fourth"} and len(notes()) == 1
    (work / "notebooks" / "00.new.ipynb").write_text(notebook("mine, too"))
    lesson.write_text(notebook("fifth"))
    copy_lessons(work, kit)
    mine |= {"notebooks/00.new.ipynb": "mine, too", "notebooks/00.new2.ipynb": "fifth"}
    assert contents(work) == mine and "00.new2.ipynb" in notes()[0]
    # The learner takes the new lesson, and it follows the kit again.
    (work / "notebooks" / "00.new2.ipynb").replace(work / "notebooks" / "00.ipynb")
    lesson.write_text(notebook("sixth"))
    copy_lessons(work, kit)
    del mine["notebooks/00.new2.ipynb"]
    assert contents(work) == mine | {"notebooks/00.ipynb": "sixth"} and notes() == []
    # A copy that was deleted comes again.
    (work / "notebooks" / "00.ipynb").unlink()
    copy_lessons(work, kit)
    assert contents(work) == mine | {"notebooks/00.ipynb": "sixth"}


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"notebooks/00.ipynb": 1}', b"\xff", b"[" * 100_000, None])
def test_without_its_record_no_work_is_lost(kit: Path, damage: bytes | None, notes: Callable[[], list[str]]) -> None:
    """If the record is damaged or gone, a copy that differs counts as changed, and a damaged file is put aside."""
    work, record = kit / "work", kit / "work" / copies.RECORD
    copy_lessons(work, kit)
    (work / "labs" / "1" / "solution.py").write_text("mine")
    record.unlink()
    if damage is not None:
        record.write_bytes(damage)
    copy_lessons(work, kit)
    found = contents(work)
    assert found["labs/1/solution.py"] == "mine" and found["labs/1/solution.new.py"] == "first"
    aside = [each.name for each in work.glob(".*damaged*")]
    told = notes()
    assert len(told) == 1 + len(aside) and [each for each in aside if each not in told[0]] == []
    assert len(aside) == (damage is not None and damage[:2] != b'{"')
    copy_lessons(work, kit)
    assert contents(work) == found and notes() == []


def test_a_lesson_that_could_not_be_written_arrives_the_next_time(
    kit: Path, monkeypatch: pytest.MonkeyPatch, notes: Callable[[], list[str]]
) -> None:
    """If the disk is full, or the process is killed before it has recorded the lesson, it arrives once nevertheless."""
    copy_lessons(kit / "work", kit)
    (kit / "work" / "notebooks" / "00.ipynb").write_text(notebook("mine"))
    (kit / "notebooks" / "00.ipynb").write_text(notebook("second"))
    before = (kit / "work" / copies.RECORD).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(copies, "replace", full)
        copy_lessons(kit / "work", kit)
    for _ in range(2):
        copy_lessons(kit / "work", kit)
        (kit / "work" / copies.RECORD).write_bytes(before)
    lessons = {name: text for name, text in contents(kit / "work").items() if name.startswith("notebooks/")}
    assert lessons == {"notebooks/00.ipynb": "mine", "notebooks/00.new.ipynb": "second"} and len(notes()) == 2


def test_a_damaged_copy_stays(kit: Path) -> None:
    """A notebook that is no JSON any more is the learner's."""
    copy_lessons(kit / "work", kit)
    copy = kit / "work" / "notebooks" / "00.ipynb"
    for text in ("{", '{"cells": 1}', '{"cells": [{}]}'):
        copy.write_text(text)
        (kit / "notebooks" / "00.ipynb").write_text(notebook(text))
        copy_lessons(kit / "work", kit)
        assert copy.read_text() == text and contents(copy.parent.parent / "labs")
        assert json.loads(copy.with_name("00.new.ipynb").read_text())["cells"][0]["source"] == [text]


def test_where_there_are_no_links(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders are copied instead, and brought up to date like lessons."""

    def refused(*_: Any, **__: Any) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", refused)
    copy_lessons(kit / "work", kit)
    (kit / "docs" / "rules.md").write_text("second")
    copy_lessons(kit / "work", kit)
    assert (kit / "work" / "docs" / "rules.md").read_text() == "second"
    assert not (kit / "work" / "docs").is_symlink()


def test_a_folder_that_was_carried_to_another_clone(kit: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its links are those of the new clone, and the learner's changes are in it."""
    copy_lessons(kit / "work", kit)
    (kit / "work" / "notebooks" / "00.ipynb").write_text(notebook("mine"))
    clone = tmp_path_factory.mktemp("clone") / "kit"
    shutil.copytree(kit, clone, symlinks=True)
    shutil.rmtree(kit / "docs")
    copy_lessons(clone / "work", clone)
    assert (clone / "work" / "docs" / "rules.md").samefile(clone / "docs" / "rules.md")
    assert contents(clone / "work")["notebooks/00.ipynb"] == "mine"


def pages(work: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every lesson of the kit: its copy, the texts of its Markdown cells, and those of its code cells."""
    lessons = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "labs").glob("*/lab.ipynb"))]
    for path in lessons:
        copy = work / path.relative_to(ROOT)
        assert copy.read_bytes() == path.read_bytes()  # metadata included
        cells = nbformat.read(copy, as_version=4).cells
        yield copy, *([c.source for c in cells if c.cell_type == kind] for kind in ("markdown", "code"))  # type: ignore[misc]


def test_every_link_and_path_of_a_lesson_works_in_its_copy(work: Path) -> None:
    """Links of Markdown cells, paths in code and imports of files beside it, in 25 notebooks and in those of 5 labs."""
    links = paths = imports = 0
    for copy, texts, codes in pages(work):
        for link in LINK.findall("\n".join(texts)):
            assert (copy.parent / unquote(link)).exists(), f"{copy.name}: {link}"
            links += 1
        for path in UPWARD.findall("\n".join(codes)):
            assert copy.parent.joinpath(*json.loads(f"[{path}]")).exists(), f"{copy.name}: {path}"
            paths += 1
        # A notebook starts processes with the folder above it as PYTHONPATH.
        assert (copy.parents[1] / "sharedstate_lite").exists() or copy.parent.parent.name == "labs"
        lesson = ROOT / copy.relative_to(work)
        for name in IMPORT.findall("\n".join(codes)):
            imports += (beside := lesson.with_name(f"{name}.py")).exists()
            assert not beside.exists() or copy.with_name(beside.name).read_bytes() == beside.read_bytes()
    assert (links > 100, paths, imports >= 5) == (True, 2, True), (links, paths, imports)


def test_every_link_of_a_page_works_beside_the_copies(work: Path) -> None:
    """JupyterLab follows a page's links below its root, the learner's folder: links to lessons open the copies."""
    count = 0
    for page in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "bench" / "README.md"]:
        for link in LINK.findall(page.read_text()):
            place = Path(os.path.normpath(page.relative_to(ROOT).parent / unquote(link)))
            assert (work / place).exists(), f"{page.name}: {link}"
            count += 1
    assert count > 100


def test_git_stays_clean_while_a_learner_works(tmp_path: Path) -> None:
    """A copy is run, saved as JupyterLab saves it, and writes files; all that git sees of it is nothing."""
    kit = tmp_path / "kit"
    for name in (*LESSONS, "docs"):
        shutil.copytree(ROOT / name, kit / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    shutil.copy(ROOT / ".gitignore", kit)
    for name in set(LINKED) - {"docs"}:
        (kit / name).symlink_to(ROOT / name)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "kit"]):
        subprocess.run([*git, *command], cwd=kit, check=True)
    copy_lessons(kit / "work", kit)
    place = kit / "work" / "notebooks" / "14-snapshots.ipynb"
    lesson = nbformat.read(place, as_version=4)
    lesson.cells.append(nbformat.v4.new_code_cell(
        "import sharedstate_lite as ss\n"
        "open('mine.csv', 'w').write('a')\n"
        "view = ss.Catalog(t='k STRING').view('CREATE VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k')\n"
        "ss.engine('full', [view]).checkpoint('state')"
    ))  # fmt: skip
    lesson.cells.append(nbformat.v4.new_code_cell(
        "from sharedstate_lite.system.work import put_back\n"
        "put_back('14')\n"
        "print(get_ipython().payload_manager.read_payload()[-1]['text'])"
    ))  # fmt: skip
    ran = run(lesson, place.parent)
    assert (ran.error, ran.stderr) == ("", [])
    assert lesson.cells[-1].outputs[0].text == delivered("14") + "\n"
    lesson.metadata.language_info = {"name": "python", "version": "3.11.2", "file_extension": ".py"}
    nbformat.write(lesson, place)
    (place.parent / "Untitled.ipynb").write_text(notebook(""))
    assert {"mine.csv", "state", "Untitled.ipynb"} <= {each.name for each in place.parent.iterdir()}
    status = subprocess.run(["git", "status", "--porcelain"], cwd=kit, capture_output=True, text=True, check=True)
    assert status.stdout == ""
