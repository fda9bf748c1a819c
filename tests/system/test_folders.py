"""Folders that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedstate_lite.errors import CheckpointError
from sharedstate_lite.system.folders import atomic_folder


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_complete(tmp_path: Path, there: bool) -> None:
    """The target is new or empty until the block ends, then it has all files, and nothing is left beside it."""
    target = tmp_path / "a" / "target"
    if there:
        target.mkdir(parents=True)
    with atomic_folder(target) as work:
        (work / "deep").mkdir()
        (work / "deep" / "file").write_text("text")
        assert not target.exists() or not any(target.iterdir())
    assert (target / "deep" / "file").read_text() == "text"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


@pytest.mark.parametrize(("error", "raised"), [(OSError("disk full"), CheckpointError), (KeyError("x"), KeyError)])
def test_a_failure_leaves_nothing(tmp_path: Path, error: Exception, raised: type[Exception]) -> None:
    """A block that raises leaves no target and no files beside it; an OSError becomes a CheckpointError."""
    with pytest.raises(raised), atomic_folder(tmp_path / "target") as work:
        (work / "file").touch()
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    (tmp_path / "mine").touch()
    for target in (tmp_path, tmp_path / "mine"):
        with pytest.raises(CheckpointError, match="not an empty folder"), atomic_folder(target):
            pytest.fail("not reached")
    with pytest.raises(CheckpointError, match="cannot create this folder"), atomic_folder(tmp_path / "mine" / "below"):
        pytest.fail("not reached")
