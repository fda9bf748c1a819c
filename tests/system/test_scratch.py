"""Temporary folders that belong to a process."""

from __future__ import annotations

from pathlib import Path

from sharedstate_lite.system.scratch import Scratch


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
