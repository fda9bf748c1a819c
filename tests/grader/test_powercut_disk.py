"""The power-cut disk against a model in memory, and its mount."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from boxes import Mounted, mounted, sandbox
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.errors import VoidError
from grader.powercut import Disk, disk, prove
from grader.powercut.undo import Undo

NAMES = ("a", "b", "c")
OFFSETS = st.sampled_from([0, 1, 100, 4095, 4096, 5000, 8192, 12_288])
PIECES = st.builds(
    lambda letter, length: letter * length, st.sampled_from([b"x", b"y"]), st.sampled_from([1, 96, 5000])
)


class Kept:
    """A model of a file: its content now and after a cut."""

    def __init__(self) -> None:
        self.now, self.after = bytearray(), bytearray()

    def write(self, offset: int, data: bytes, *, durable: bool = False) -> None:
        for bytes_ in (self.now, self.after) if durable else (self.now,):
            bytes_.extend(bytes(max(0, offset - len(bytes_))))
            bytes_[offset : offset + len(data)] = data

    def resize(self, length: int) -> None:
        for bytes_ in (self.now, self.after):
            del bytes_[length:]
            bytes_.extend(bytes(length - len(bytes_)))

    def sync(self) -> None:
        self.after[:] = self.now


STEPS = st.one_of(
    st.tuples(st.just("write"), OFFSETS, PIECES),
    st.tuples(st.just("durable"), OFFSETS, PIECES),
    st.tuples(st.just("resize"), OFFSETS, st.just(b"")),
    st.tuples(st.just("sync"), st.just(0), st.just(b"")),
)


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=400)
def test_undone_a_file_holds_what_was_synced(steps: list[tuple[str, int, bytes]]) -> None:
    """After any sequence of writes, a cut leaves exactly the synced bytes."""
    kept, undo = Kept(), None
    with tempfile.TemporaryFile() as file:
        for what, offset, data in steps:
            if what == "write":
                undo = undo or Undo(file.fileno())
                undo.before(offset, len(data))
                os.pwrite(file.fileno(), data, offset)
                kept.write(offset, data)
            elif what == "durable":
                os.pwrite(file.fileno(), data, offset)
                kept.write(offset, data, durable=True)
                if undo is not None:
                    undo.through(offset, data)
            elif what == "resize":
                os.ftruncate(file.fileno(), offset)
                kept.resize(offset)
                if undo is not None:
                    undo.cut_to(offset)
            else:
                kept.sync()
                if undo is not None:
                    undo.close()
                    undo = None
        if undo is not None:
            undo.undo()
            undo.close()
        file.seek(0)
        assert file.read() == kept.after


__all__ = ["mounted"]

MOVES = st.one_of(
    st.tuples(st.sampled_from(["write", "mapped"]), st.sampled_from(NAMES), OFFSETS, PIECES),
    # Whatever else a kernel syncs with an O_DSYNC write: here nothing else is left to sync.
    st.tuples(st.just("dsync"), st.sampled_from(NAMES), OFFSETS, PIECES),
    st.tuples(st.sampled_from(["append", "open anew"]), st.sampled_from(NAMES), st.just(0), PIECES),
    st.tuples(st.sampled_from(["fsync", "fdatasync", "remove"]), st.sampled_from(NAMES), st.just(0), st.just(b"")),
    st.tuples(st.sampled_from(["resize", "reserve"]), st.sampled_from(NAMES), OFFSETS, st.just(b"")),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.integers(0, len(NAMES) - 1), st.just(b"")),
)


def _sync(file: int, kept: Kept) -> None:
    os.fsync(file)
    kept.sync()


def _write(place: Path, kept: Kept, what: str, offset: int, data: bytes) -> None:
    """Apply one change to a file, on the disk and in the model."""
    flags = {"append": os.O_APPEND, "open anew": os.O_TRUNC, "dsync": os.O_DSYNC}.get(what, 0)
    file = os.open(place, os.O_RDWR | os.O_CREAT | flags)
    try:
        if what == "open anew":
            kept.resize(0)
        if what == "append":
            offset = len(kept.now)
        if what == "dsync":
            _sync(file, kept)
        if what in ("write", "dsync"):
            os.pwrite(file, data, offset)
            kept.write(offset, data, durable=what == "dsync")
        elif what in ("append", "open anew"):
            os.write(file, data)
            kept.write(offset, data)
        elif what == "mapped" and len(kept.now) > offset:
            data = data[: len(kept.now) - offset]
            with mmap.mmap(file, 0) as memory:
                memory[offset : offset + len(data)] = data
                if len(data) > 1:
                    memory.flush()  # msync
                    kept.write(offset, data)
                    kept.sync()
                else:
                    kept.write(offset, data)
        elif what == "fsync":
            _sync(file, kept)
        elif what == "fdatasync":
            os.fdatasync(file)
            kept.sync()
        elif what == "resize":
            os.ftruncate(file, offset)
            kept.resize(offset)
        elif what == "reserve" and offset:
            os.posix_fallocate(file, 0, offset)
            kept.resize(max(len(kept.now), offset))
            kept.after.extend(bytes(max(0, offset - len(kept.after))))
    finally:
        os.close(file)


def _play(place: Path, moves: list[tuple[str, str, int, bytes]]) -> dict[str, Kept]:
    """Apply all changes to the disk and to the model. Returns the model."""
    files: dict[str, Kept] = {}
    for what, name, offset, data in moves:
        if what in ("remove", "rename"):
            other = NAMES[offset]
            if name in files and what == "remove":
                os.unlink(place / name)
                del files[name]
            elif name in files and name != other:
                os.rename(place / name, place / other)
                files[other] = files.pop(name)
        else:
            _write(place / name, files.setdefault(name, Kept()), what, offset, data)
    return files


def test_after_a_cut_there_is_what_was_synced_and_nothing_else(mounted: Mounted) -> None:
    """Through the kernel: writes, mappings, all syncs, lengths, names. Before the cut everything is readable."""

    @given(st.lists(MOVES, min_size=1, max_size=14))
    @example([("write", "a", 100, b"x" * 5000), ("reserve", "a", 8192, b"")])
    @example(
        [("write", "a", 0, b"x" * 5000), ("fsync", "a", 0, b""), ("mapped", "a", 4096, b"y"), ("rename", "a", 1, b"")]
    )
    def check(moves: list[tuple[str, str, int, bytes]]) -> None:
        one = mounted()
        try:
            place = Path(tempfile.mkdtemp(dir=one.place))
            files = _play(place, moves)
            assert {path.name: path.read_bytes() for path in place.iterdir()} == {n: k.now for n, k in files.items()}
            one.cut()
            one.mount()
            assert {path.name: path.read_bytes() for path in place.iterdir()} == {n: k.after for n, k in files.items()}
        finally:
            one.close()

    mounted().close()  # a machine that cannot is told so here: hypothesis would show its example with it
    check()


def test_a_write_that_says_that_it_is_synced_is(tmp_path: Path) -> None:
    """An O_DSYNC write is durable, and nothing around it, whether or not the kernel sends an fsync after it."""
    serve = pytest.importorskip("grader.powercut.serve", reason="install libfuse3-3, and this runs", exc_type=OSError)
    folder = serve.Folder(str(tmp_path))
    plain, synced, mapped = (serve.fuse_file_info(flags=os.O_RDWR | more) for more in (0, os.O_DSYNC, os.O_DSYNC))
    mapped.writepage = 1
    assert folder.create("/a", 0o600, plain) == 0
    synced.fh = mapped.fh = plain.fh
    folder.write("/a", b"1" * 3000, 0, plain)
    folder.write("/a", b"2" * 1000, 1000, synced)
    folder.write("/a", b"3" * 100, 1500, mapped)
    assert folder.cut() == (1, 1)
    assert (tmp_path / "a").read_bytes() == bytes(1000) + b"2" * 1000
    with pytest.raises(OSError, match="the power is cut"):
        folder.write("/a", b"4", 0, plain)
    folder.release("/a", plain)


def test_an_open_file_that_was_removed_is_gone_after_a_cut(mounted: Mounted) -> None:
    """A removed open file is usable until the cut, and libfuse's name for it does not remain."""
    one = mounted()
    try:
        file = os.open(one.place / "a", os.O_RDWR | os.O_CREAT)
        os.unlink(one.place / "a")
        os.write(file, b"still there")
        assert os.pread(file, 20, 0) == b"still there"
        one.cut()
        with contextlib.suppress(OSError):  # what it would tell is not there any more
            os.close(file)
        assert list(one.folder.iterdir()) == []
    finally:
        one.close()


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_the_services_of_each_tier_reach_it(mounted: Mounted, tmp_path: Path, tier: int) -> None:
    """The grader's own proof works in each tier of the sandbox."""
    one = mounted()
    one.close()
    box = sandbox(tier, tmp_path)
    try:
        prove(one, box, tmp_path)
    finally:
        box.close()
    assert not os.path.ismount(one.place)


_HOLDS = """
import sys
from pathlib import Path
from grader.powercut import Disk
one = Disk(Path(sys.argv[1]), Path(sys.argv[2]))
one.mount()
print(one._process.pid, flush=True)
sys.stdin.read()
one.close()
"""


@pytest.mark.parametrize("whom", ["who started it", "the file system"])
def test_killed_it_leaves_no_mount(mounted: Mounted, tmp_path: Path, whom: str) -> None:
    """After kill -9 of the grader or of the file system's process, the other one unmounts."""
    mounted().close()
    words = [sys.executable, "-c", _HOLDS, str(tmp_path / "disk"), str(tmp_path / "place")]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    served = int(holder.stdout.readline())
    assert os.path.ismount(tmp_path / "place")
    os.kill(holder.pid if whom == "who started it" else served, signal.SIGKILL)
    holder.stdin.close()
    disk._gone(tmp_path / "place")
    holder.stdout.close()
    assert holder.wait(60) == (0 if whom == "the file system" else -signal.SIGKILL)


def test_what_a_machine_lacks_is_told_with_its_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: Mounted
) -> None:
    """If fusermount3 or libfuse is missing, the error says so, and nothing is left mounted."""
    mounted().close()
    one = Disk(tmp_path / "disk", tmp_path / "place")
    with monkeypatch.context() as here:
        here.setenv("PATH", str(tmp_path))
        with pytest.raises(VoidError, match="no fusermount3; install the Debian package fuse3"):
            one.mount()
    monkeypatch.setattr(disk, "_LIBRARY", "no-such-fuse")
    with pytest.raises(VoidError, match="no libfuse; install the Debian package libfuse3-3"):
        one.mount()
    assert not os.path.ismount(one.place)
