"""Where a stream's changes go: a folder that is one stream's, and that no source is read from."""

from __future__ import annotations

from pathlib import Path

import pytest
from shopping import EPOCHS, changelog, views

import sharedstate_lite as ss
from sharedstate_lite.spark.jobs import sink as outlet


def changes() -> dict[str, ss.Changes]:
    """What a first epoch changes."""
    with ss.engine("full", views()) as engine:
        return engine.step(EPOCHS[0])


def test_a_folder_is_one_streams(tmp_path: Path) -> None:
    """Who has batches there keeps it; of two that have none the later one has it, and the other's batch is not lost."""
    sink, out = tmp_path / "out", changes()
    outlet.taken(sink, "a", tmp_path / "ca", new=True)
    outlet.taken(sink, "b", tmp_path / "cb", new=True)
    with pytest.raises(ss.CheckpointError, match="out: another stream has taken this folder"):
        outlet.give(sink, "a", out, 0)
    assert changelog(sink, "counts") == []
    outlet.give(sink, "b", out, 0)
    for new in (True, False):
        with pytest.raises(ss.CheckpointError, match="changes of a stream with another checkpoint than .*ca"):
            outlet.taken(sink, "a", tmp_path / "ca", new)
    outlet.taken(sink, "b", tmp_path / "cb")
    outlet.give(sink, "b", out, 0)
    assert len(changelog(sink, "counts")) == len(changelog(sink, "result")) == 1


def test_batches_of_before_folders_had_names(tmp_path: Path) -> None:
    """A stream that goes on takes them for its own; a new one does not."""
    outlet.give(tmp_path, "a", changes(), 0)
    with pytest.raises(ss.CheckpointError, match="changes of a stream with another checkpoint"):
        outlet.taken(tmp_path, "b", tmp_path / "c", new=True)
    outlet.taken(tmp_path, "a", tmp_path / "c")
    with pytest.raises(ss.CheckpointError, match="another stream has taken"):
        outlet.give(tmp_path, "b", changes(), 1)


@pytest.mark.parametrize(("source", "sink"), [("A", "A"), ("A", "A/b"), ("A/counts", "A"), ("link", "A")])
def test_changes_do_not_come_in_again(tmp_path: Path, source: str, sink: str) -> None:
    """A sink whose files a source would read is refused, by whatever way it is named."""
    (tmp_path / "A" / "counts").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "A")
    with pytest.raises(ss.ViewError, match="visit is read from .*come in again"):
        outlet.apart(tmp_path / sink, ["counts"], {"info": None, "visit": str(tmp_path / source)})
    outlet.apart(tmp_path / "A", ["counts"], {"visit": str(tmp_path / "A" / "visit")})
