"""The log of requests: what is acknowledged survives a crash at every point, and a damaged file is named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite.entities import Reference, log
from sharedstate_lite.entities.log import RequestLog, ServeError, from_json, line, lock, parse, to_json

HEAD = {"program": "p"}


def read(folder: Path, head: dict[str, Any] = HEAD, **how: Any) -> list[Any]:
    """What a start finds: the rows of a snapshot, and the epochs after it."""
    return [value for _, value in RequestLog(folder, head, **how).read()]


def opened(folder: Path, head: dict[str, Any] = HEAD, **how: Any) -> RequestLog:
    """A log to append to."""
    made = RequestLog(folder, head, **how)
    list(made.read())
    made.open()
    return made


def written(folder: Path, epochs: list[Any]) -> Path:
    """The file of a log with these epochs."""
    made = opened(folder)
    for epoch in epochs:
        made.append(epoch)
    made.close()
    return folder / f"log.{made.number}"


data: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["tuple", "dict", "reference", "é"]), inner, max_size=2)
        | st.builds(Reference, st.text(max_size=3), st.text(max_size=3))
    ),
    max_leaves=9,
)


@settings(max_examples=200, deadline=None)
@given(data)
def test_a_line_gives_back_its_value(value: Any) -> None:
    """Data of every kind, with its types: a tuple is no list, and 1 is not True."""
    found = parse(line(7, to_json(value)))
    assert found is not None and found[0] == 7 and repr(from_json(found[1])) == repr(value)


@settings(max_examples=100, deadline=None)
@given(data, st.data())
def test_a_damaged_line_is_seen(value: Any, draw: st.DataObject) -> None:
    """One changed byte, or a missing end, wherever it is."""
    raw = line(7, to_json(value))
    at = draw.draw(st.integers(0, len(raw) - 1))
    wrong = raw[:at] + bytes([raw[at] ^ draw.draw(st.integers(1, 255))]) + raw[at + 1 :]
    assert parse(raw[:at]) is None and (parse(wrong) is None or parse(wrong) == parse(raw))


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    """At whichever byte, or with zeros in place of its bytes. What is appended then can be read."""
    file = written(tmp_path, [["a"], ["b"], ["c" * 9]])
    raw = file.read_bytes()
    start = raw.rindex(b"\n", 0, -1) + 1
    torn = [raw[:end] for end in range(start, len(raw))] + [raw[:start] + bytes(len(raw) - start)]
    for each in [*torn, raw[: start + 4] + bytes(len(raw) - start - 5) + b"\n"]:
        file.write_bytes(each)
        again = opened(tmp_path)
        assert file.read_bytes() == raw[:start]
        again.append(["d"])
        again.close()
        assert read(tmp_path) == [["a"], ["b"], ["d"]]


def test_a_torn_line_that_stays_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: without the cut, the next epoch is appended to the torn line, and both are lost."""
    file = written(tmp_path, [["a"], ["b"]])
    file.write_bytes(file.read_bytes()[:-3])
    monkeypatch.setattr(os, "truncate", lambda path, size: None)
    again = opened(tmp_path)
    for epoch in "cd":
        again.append([epoch])
    again.close()
    with pytest.raises(ServeError, match="is damaged"):
        read(tmp_path)


@pytest.mark.parametrize("number", range(3))
def test_a_damaged_line_before_the_last_one_is_named(tmp_path: Path, number: int) -> None:
    """Its byte in the file; nothing is started, and the file stays as it is."""
    file = written(tmp_path, [["a"], ["b"], ["c"]])
    raw = bytearray(file.read_bytes())
    start = sum(map(len, bytes(raw).splitlines(keepends=True)[:number]))
    raw[start + 4] ^= 1
    file.write_bytes(raw)
    with pytest.raises(ServeError, match=rf"log\.1: the line at byte {start} is damaged; put back a copy"):
        read(tmp_path)
    assert file.read_bytes() == raw


def test_a_missing_line_is_named(tmp_path: Path) -> None:
    """Whole lines, of which one in the middle is gone; or a whole file."""
    file = written(tmp_path, [["a"], ["b"], ["c"]])
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(ServeError, match="has epoch 3 after epoch 1; put back"):
        read(tmp_path)
    file.write_bytes(b"".join(lines))
    opened(tmp_path).rotate()
    file.unlink()
    with pytest.raises(ServeError, match=r"log\.1 is missing; put it back"):
        read(tmp_path)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """The second one is told who the first is. A folder that is given back can be taken."""
    owner = lock(tmp_path / "new")
    with pytest.raises(ServeError, match=f"is in use by process {os.getpid()}; stop it"):
        lock(tmp_path / "new")
    os.close(owner)
    os.close(lock(tmp_path / "new"))


def test_another_program(tmp_path: Path) -> None:
    """Its requests are refused, with what differs and the two ways out. Its snapshot, or no requests, are not."""
    written(tmp_path, [["a"]])
    other = {"program": "q"}
    with pytest.raises(ServeError, match=r"program p, now q.*Run 'snapshot' with the old program first, or replay"):
        read(tmp_path, other)
    assert read(tmp_path) == [["a"]]
    old = opened(tmp_path)
    old.save(old.rotate(), [["row"]])
    old.close()
    new = opened(tmp_path, other)
    new.append(["b"])
    new.close()
    assert new.number == 3 and read(tmp_path, other) == [["row"], ["b"]]


def test_requests_of_another_program_on_demand(tmp_path: Path) -> None:
    """They are read; what they come to is for a snapshot of this program, and a log of its own begins."""
    written(tmp_path, [["a"]])
    new = RequestLog(tmp_path, {"program": "q"}, migrate=True)
    assert list(new.read()) == [("epoch", ["a"])]
    new.open()
    new.save(new.number, [["row"]])
    new.append(["b"])
    new.close()
    assert read(tmp_path, {"program": "q"}) == [["row"], ["b"]]


def test_a_damaged_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Torn anywhere, or of a later version: the one before it and the longer log, and stderr says so."""
    made = opened(tmp_path)
    for epoch in range(3):
        made.append([epoch])
        made.save(made.rotate(), [["state", epoch]])
        made.saved(made.number)
    made.append([3])
    made.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.3", "log.4", "snapshot.3", "snapshot.4"]
    assert read(tmp_path) == [["state", 2], [3]]
    file = tmp_path / "snapshot.4"
    raw = file.read_bytes()
    later = line(3, {**made.head, "format": 2, "epoch": 3})
    for wrong in (raw[:-1], raw[: raw.rindex(b"\n", 0, -1) + 1], raw[:5], b"", later + raw[raw.index(b"\n") + 1 :]):
        file.write_bytes(wrong)
        assert read(tmp_path) == [["state", 1], [2], [3]]
        assert "snapshot.4 is damaged or has a later format; using the prev" in capsys.readouterr().err


class Crash(BaseException):
    """The process dies here."""


class Disk:
    """The calls that a log makes; the one of number ``last`` dies, a write in the middle."""

    def __init__(self, last: int) -> None:
        self.left, self.synced = last, dict[int, int]()
        self.real = {name: getattr(os, name) for name in ("write", "fsync", "rename", "unlink", "truncate", "open")}

    def call(self, name: str) -> Callable[..., Any]:
        """The call that takes the place of a function of ``os``."""

        def run(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                if name == "write":
                    self.real[name](args[0], args[1][: len(args[1]) // 2])
                raise Crash
            if name == "fsync":
                self.synced[os.fstat(args[0]).st_ino] = os.fstat(args[0]).st_size
                return None
            return self.real[name](*args)

        return run

    def cut_power(self, folder: Path) -> None:
        """Take away what was never synced."""
        for path in folder.iterdir():
            os.truncate(path, min(path.stat().st_size, self.synced.get(path.stat().st_ino, 0)))


@contextmanager
def dies_at(last: int) -> Iterator[Disk]:
    """Let the call of number ``last`` die."""
    disk = Disk(last)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "fsync"):
            patch.setattr(os, name, disk.call(name))
        patch.setattr(log, "_sync", disk.call("fsync"))
        patch.setattr(Path, "rename", disk.call("rename"))
        patch.setattr(Path, "unlink", disk.call("unlink"))
        yield disk


def some_life(folder: Path, acknowledged: list[int]) -> None:
    """Epochs and snapshots, as a server makes them; a row of a snapshot has the sum of the epochs."""
    made = opened(folder)
    for epoch in range(made.epoch + 1, made.epoch + 8):
        made.append(epoch)
        acknowledged.append(epoch)
        if epoch % 3 == 0:
            number = made.rotate()
            before = RequestLog(folder, HEAD, until=number)
            total = sum(value[0] if kind == "state" else value for kind, value in before.read())
            before.save(number, [[total]])
            made.saved(number)
    made.close()


def total(folder: Path) -> int:
    """The sum of all epochs, as a start finds it."""
    return sum(value[0] if kind == "state" else value for kind, value in RequestLog(folder, HEAD).read())


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
def test_a_crash_at_every_call(power: bool) -> None:
    """A start finds what was acknowledged, and at most the one epoch that was being written; then a second life.

    A power cut takes away what was not synced.
    """
    for last in range(1, 200):
        with tempfile.TemporaryDirectory() as name:
            folder, acknowledged = Path(name), list[int]()
            with dies_at(last) as disk:
                try:
                    some_life(folder, acknowledged)
                except Crash:
                    pass
            if power:
                disk.cut_power(folder)
            done = len(acknowledged)
            assert total(folder) in (sum(range(done + 1)), sum(range(done + 2))), (last, acknowledged)
            again = list[int]()
            some_life(folder, again)
            assert total(folder) == sum(range(again[-1] + 1))
        if disk.left > 0:
            break
    assert disk.left > 0 and last > 30


def test_the_power_cut_finds_a_log_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test before can fail: without the sync, what was acknowledged is gone."""
    with tempfile.TemporaryDirectory() as name:
        folder, acknowledged = Path(name), list[int]()
        with dies_at(1000) as disk:
            monkeypatch.setattr(log, "_sync", lambda file: None)
            some_life(folder, acknowledged)
        disk.cut_power(folder)
        assert len(acknowledged) == 7 and total(folder) < sum(acknowledged)
