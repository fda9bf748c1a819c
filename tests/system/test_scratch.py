"""Temporary folders that belong to a process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharedstate_lite.system import scratch
from sharedstate_lite.system.scratch import Scratch, try_lock


def test_a_dead_folder_is_deleted_and_a_locked_one_is_not(tmp_path: Path) -> None:
    """Making a folder deletes the folders of dead processes with its prefix, and no other."""
    (tmp_path / "run-dead").mkdir()
    (tmp_path / "run-dead" / ".held").touch()
    (tmp_path / "run-strange").mkdir()
    (tmp_path / "other").mkdir()
    with Scratch(tmp_path, "run-") as first:
        (first.path / "deep").mkdir()
        with Scratch(tmp_path, "run-") as second:
            there = {path.name for path in tmp_path.iterdir()}
            assert there == {"run-strange", "other", first.path.name, second.path.name}
    assert {path.name for path in tmp_path.iterdir()} == {"run-strange", "other"}


def test_a_released_folder_stays(tmp_path: Path) -> None:
    """A released folder has its final name and its files, without the lock file."""
    scratch = Scratch(tmp_path, ".new-")
    (scratch.path / "content").touch()
    scratch.release(tmp_path / "final")
    scratch.close()
    assert [path.name for path in (tmp_path / "final").iterdir()] == ["content"]
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_prefix_is_no_pattern(tmp_path: Path) -> None:
    """``[`` and ``*`` in a prefix stand for themselves."""
    for dead in ("run[1]*-dead", "run1x-dead"):
        (tmp_path / dead).mkdir()
        (tmp_path / dead / ".held").touch()
    with Scratch(tmp_path, "run[1]*-") as mine:
        assert {path.name for path in tmp_path.iterdir()} == {"run1x-dead", mine.path.name}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("run-0123456789ab", []),
        ("run-0123456789ab.new", []),
        ("run-0123456789ab.new", [".held"]),
        ("run-0123456789ab-gone", ["deep/file"]),
        ("run-0123456789ab-gone", [".held", "deep/file"]),
    ],
)
def test_what_a_kill_leaves_between_two_steps_is_deleted(tmp_path: Path, name: str, files: list[str]) -> None:
    """A folder that a kill left before it was locked, or while it was deleted, is deleted; others of that kind are not.

    An earlier version left the names with ``.new``.
    """
    for folder in (name, f"other-{name}", f"run-{name}-x"):
        for file in files:
            (tmp_path / folder / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / file).touch()
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / f"run-{name}-x" / ".held").unlink(missing_ok=True)
    with Scratch(tmp_path, "run-") as mine:
        assert {path.name for path in tmp_path.iterdir()} == {f"other-{name}", f"run-{name}-x", mine.path.name}


def test_a_folder_that_is_taken_for_a_leftover_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process deletes a folder before its owner has locked it, the owner makes another one."""
    others: list[Scratch] = []

    def late(file: int, wait: bool = False) -> bool:
        monkeypatch.setattr(scratch, "try_lock", try_lock)
        others.append(Scratch(tmp_path, "run-"))
        return try_lock(file, wait)

    monkeypatch.setattr(scratch, "try_lock", late)
    with Scratch(tmp_path, "run-") as mine:
        Scratch(tmp_path, "run-").close()
        assert {path.name for path in tmp_path.iterdir()} == {mine.path.name, others[0].path.name}
    others[0].close()
    assert not list(tmp_path.iterdir())


def test_many_folders_are_made_at_once(tmp_path: Path) -> None:
    """Threads that make and delete folders with one prefix never delete a folder in use, and leave none."""

    def work(_: int) -> bool:
        with Scratch(tmp_path, "run-") as mine:
            (mine.path / "deep").mkdir()
            return [path.name for path in mine.path.iterdir()].count(".held") == 1

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))
    assert not list(tmp_path.iterdir())
