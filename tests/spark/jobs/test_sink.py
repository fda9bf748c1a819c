"""Where a stream's changes go: a folder that is one stream's, and that no source is read from."""

from __future__ import annotations

from pathlib import Path

import pytest
from shopping import EPOCHS, changelog, views

import sharedstate_lite as ss
from sharedstate_lite.spark.jobs import sink


def changes() -> dict[str, ss.Changes]:
    """What a first epoch changes."""
    with ss.engine("full", views()) as engine:
        return engine.step(EPOCHS[0])


def test_a_folder_is_one_streams(tmp_path: Path) -> None:
    """Who has batches there keeps it; of two that have none the later one has it, and the other's batch is not lost."""
    folder, out = tmp_path / "out", changes()
    sink.claim(folder, "a", tmp_path / "ca", new=True)
    sink.claim(folder, "b", tmp_path / "cb", new=True)
    with pytest.raises(ss.CheckpointError, match="out: another stream now writes its changes here"):
        sink.deliver(folder, "a", out, 0)
    assert changelog(folder, "counts") == []
    sink.deliver(folder, "b", out, 0)
    for new in (True, False):
        with pytest.raises(ss.CheckpointError, match="changes of a stream whose checkpoint is not .*ca"):
            sink.claim(folder, "a", tmp_path / "ca", new)
    sink.claim(folder, "b", tmp_path / "cb")
    sink.deliver(folder, "b", out, 0)
    assert len(changelog(folder, "counts")) == len(changelog(folder, "result")) == 1


def test_batches_of_before_folders_had_names(tmp_path: Path) -> None:
    """A stream that goes on takes them for its own; a new one does not."""
    sink.deliver(tmp_path, "a", changes(), 0)
    with pytest.raises(ss.CheckpointError, match="changes of a stream whose checkpoint is not"):
        sink.claim(tmp_path, "b", tmp_path / "c", new=True)
    sink.claim(tmp_path, "a", tmp_path / "c")
    with pytest.raises(ss.CheckpointError, match="another stream now writes"):
        sink.deliver(tmp_path, "b", changes(), 1)


@pytest.mark.parametrize(("source", "target"), [("A", "A"), ("A", "A/b"), ("A/counts", "A"), ("link", "A")])
def test_changes_do_not_come_in_again(tmp_path: Path, source: str, target: str) -> None:
    """A sink whose files a source would read is refused, by whatever way it is named."""
    (tmp_path / "A" / "counts").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "A")
    with pytest.raises(ss.ViewError, match="visit is read from .*read as input"):
        sink.check_not_read(tmp_path / target, ["counts"], {"info": None, "visit": str(tmp_path / source)})
    sink.check_not_read(tmp_path / "A", ["counts"], {"visit": str(tmp_path / "A" / "visit")})
