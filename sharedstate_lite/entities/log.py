"""The request log of a program, and snapshots of its state.

An epoch is a group of requests that are logged together. The log stores the requests of each epoch as one line: the
length of the JSON text, a CRC-32, the number of the epoch, and the JSON text. It does not store their effects. When
a server starts, it replays the log, that is, it runs the requests again.

A line is synced before the server answers a request of its epoch. Therefore a crash can tear only the last line of the
newest log, and no client has an answer to a request in a torn line. `RequestLog.read` removes it.

The folder contains ``log.1``, ``log.2``, ... and ``snapshot.2``, ... A snapshot contains the state at the beginning of
the log with the same number. The two newest snapshots and all later logs are kept. If the newest snapshot is damaged,
the server uses the previous one and replays more requests.

The first line of each file is its head: the version of this format, the version of Python, and hashes of the runtime
and of the program. A replay has the same results as the first run only if all of these are the same.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     log = RequestLog(Path(folder), {"program": "p"})
...     before = list(log.read())
...     log.open()
...     log.append([["POST /put/{item}", ["apple"]]])
...     log.append([["POST /put/{item}", ["pear"]], ["POST /join", [], "a1"]])
...     log.close()
...     print(before)
...     for each in RequestLog(Path(folder), {"program": "p"}).read():
...         print(each)
[]
('epoch', [['POST /put/{item}', ['apple']]])
('epoch', [['POST /put/{item}', ['pear']], ['POST /join', [], 'a1']])

Source: group commit as in DeWitt et al., Implementation techniques for main memory database systems, SIGMOD 1984;
a log of requests instead of effects as in Malviya et al., Rethinking main memory OLTP recovery, ICDE 2014.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .declare import Reference

FORMAT = 1
"""The version of the file format."""
_sync = getattr(os, "fdatasync", os.fsync)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ServeError(Exception):
    """A program cannot be served or exported. The message names the file or folder, the reason, and what to do."""


def line(epoch: int, value: Any) -> bytes:
    """Return a value as one line of a file. ``value`` must be data that JSON can represent.

    >>> line(7, ["apple", 5])
    b'11 d43b2b0e 7 ["apple",5]\\n'
    """
    text = _encode(value).encode()
    return b"%d %08x %d %b\n" % (len(text), zlib.crc32(b"%d %b" % (epoch, text)), epoch, text)


def parse(raw: bytes) -> tuple[int, Any] | None:
    """Return the epoch and the value of a line, or None if the line is torn or damaged."""
    parts = raw.split(b" ", 3)
    try:
        size, crc, epoch, text = int(parts[0]), int(parts[1], 16), parts[2], parts[3]
        if size == len(text) - 1 and text.endswith(b"\n") and crc == zlib.crc32(epoch + b" " + text[:-1]):
            return int(epoch), json.loads(text)
    except (IndexError, ValueError):
        pass
    return None


def to_json(value: Any) -> Any:
    """Return data in a form that JSON can represent. `from_json` converts it back.

    >>> to_json([1, ("a", {"b": Reference("Item", "x")})])
    [1, {'tuple': ['a', {'dict': {'b': {'reference': ['Item', 'x']}}}]}]
    """
    kind = type(value)
    if kind is list:
        return [to_json(part) for part in value]
    if kind is tuple:
        return {"tuple": [to_json(part) for part in value]}
    if kind is dict:
        return {"dict": {key: to_json(part) for key, part in value.items()}}
    return {"reference": [value.cls, value.key]} if isinstance(value, Reference) else value


def from_json(value: Any) -> Any:
    """Return the data that `to_json` converted."""
    if type(value) is list:
        return [from_json(part) for part in value]
    if type(value) is not dict:
        return value
    ((kind, inner),) = value.items()
    if kind == "dict":
        return {key: from_json(part) for key, part in inner.items()}
    return Reference(*inner) if kind == "reference" else tuple(map(from_json, inner))


def lock(folder: Path) -> int:
    """Create the folder if it does not exist, and lock it. Returns a file descriptor; closing it releases the lock.

    Raises ServeError, with the process id of the owner, if another server uses the folder.
    """
    import fcntl  # POSIX only

    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(file, 32).decode()
        os.close(file)
        raise ServeError(f"{folder} is in use by process {owner}; stop it, or choose another folder") from None
    os.truncate(file, 0)
    os.write(file, b"%d" % os.getpid())
    return file


class RequestLog:
    """The logs and snapshots in one folder. Call `read` and consume it, then `open`, then `append`.

    ``head``: the values that must be the same when the log is replayed. ``until``: read only files with a smaller
    number than this, and do not modify any file. ``migrate``: also read requests that another program logged.
    """

    def __init__(self, folder: Path, head: dict[str, Any], until: int | None = None, migrate: bool = False) -> None:
        self.folder, self.until, self.migrate = folder, until, migrate
        self.head = {"format": FORMAT, **head}
        self.number = self.epoch = self.size = 0
        """The number, the last epoch and the size in bytes of the newest log."""
        self.snapshot = self.snapshot_size = 0
        """The number and the size in bytes of the newest snapshot."""
        self._new = False
        """Whether `open` must create a new log."""
        self._file = -1

    def _numbers(self, kind: str) -> list[int]:
        found = sorted(int(path.suffix[1:]) for path in self.folder.glob(f"{kind}.*") if path.suffix[1:].isdigit())
        return [number for number in found if self.until is None or number < self.until]

    def read(self) -> Iterator[tuple[str, Any]]:
        """Yield ("state", row) for each row of the newest valid snapshot, then ("epoch", requests) for later epochs.

        Removes a torn last line. Raises ServeError if another line is damaged, if a file is missing, or if another
        program logged requests.
        """
        for number in reversed(self._numbers("snapshot")):
            if rows := self._snapshot(self.folder / f"snapshot.{number}"):
                self.snapshot = number
                yield from (("state", row) for row in rows[1:-1])
                break
        numbers = [number for number in self._numbers("log") if number >= self.snapshot]
        for number in range(self.snapshot or 1, max([*numbers, self.snapshot]) + 1):
            if number not in numbers:
                raise ServeError(f"{self.folder}/log.{number} is missing; put it back, or start in an empty folder")
            yield from self._log(number, last=number == numbers[-1] and self.until is None)
        self._new |= not numbers

    def _snapshot(self, path: Path) -> list[Any]:
        """Return the head, the rows and the end of a snapshot. If it is not valid, warn on stderr and return []."""
        lines = [parse(raw) for raw in path.read_bytes().splitlines(keepends=True)]
        rows = [found[1] for found in lines if found]
        if rows and len(rows) == len(lines) and rows[-1] == {"rows": len(rows) - 2} and rows[0]["format"] <= FORMAT:
            self.snapshot_size, self.epoch = path.stat().st_size, rows[0]["epoch"]
            return rows
        sys.stderr.write(f"{path} is damaged or has a later format; using the previous snapshot and more of the log\n")
        return []

    def _log(self, number: int, last: bool) -> Iterator[tuple[str, Any]]:
        path, at, head = self.folder / f"log.{number}", 0, self.head
        with path.open("rb") as file:
            for raw in file:
                found = parse(raw)
                if found is None and last and at and not file.read(1):
                    os.truncate(path, at)
                    break
                if found is None or found[0] != self.epoch + bool(at):
                    why = "is damaged" if found is None else f"has epoch {found[0]} after epoch {self.epoch}"
                    raise ServeError(f"{path}: the line at byte {at} {why}; put back a copy of the file")
                if at == 0:
                    head = found[1]
                else:
                    self._same(path, head)
                    self.epoch = found[0]
                    yield "epoch", found[1]
                at += len(raw)
        self.number, self.size, self._new = number, at, head != self.head

    def _same(self, path: Path, head: dict[str, Any]) -> None:
        other = [f"{name} {head.get(name)}, now {now}" for name, now in self.head.items() if head.get(name) != now]
        if other and not self.migrate:
            raise ServeError(
                f"{path} has requests of another program ({'; '.join(other)}), so a replay may have other results. "
                "Run 'snapshot' with the old program first, or replay them in this program with 'serve --migrate'."
            )

    def open(self) -> None:
        """Open the newest log for appending, or create a new one if the newest belongs to another program."""
        for path in self.folder.glob("*.new"):  # incomplete files of a killed process
            path.unlink()
        if self._new or self.migrate:
            self.rotate()
        else:
            self._file = os.open(self.folder / f"log.{self.number}", os.O_WRONLY | os.O_APPEND)

    def append(self, value: Any) -> None:
        """Append the requests of the next epoch as one line, and sync it. An OSError may leave part of the line."""
        data = line(self.epoch + 1, value)
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        _sync(self._file)
        self.epoch, self.size = self.epoch + 1, self.size + len(data)

    def rotate(self) -> int:
        """Create the next log, append to it from now on, and return its number."""
        self.close()
        self.number += 1
        self.size = self._create(f"log.{self.number}", [line(self.epoch, self.head)])
        self._file = os.open(self.folder / f"log.{self.number}", os.O_WRONLY | os.O_APPEND)
        return self.number

    def save(self, number: int, rows: Sequence[Any]) -> None:
        """Write the snapshot with this number: the state at the beginning of the log with the same number."""
        first, end = {**self.head, "epoch": self.epoch}, {"rows": len(rows)}
        self._create(f"snapshot.{number}", (line(self.epoch, row) for row in [first, *rows, end]))

    def saved(self, number: int) -> None:
        """Call this after `save`. Deletes all files that are older than the previous snapshot."""
        self.snapshot_size = (self.folder / f"snapshot.{number}").stat().st_size
        keep = max([old for old in self._numbers("snapshot") if old < number], default=0)
        for kind in ("snapshot", "log"):
            for old in self._numbers(kind):
                if old < keep:
                    (self.folder / f"{kind}.{old}").unlink()

    def _create(self, name: str, lines: Iterable[bytes]) -> int:
        """Create a file atomically, and return its size in bytes."""
        new = self.folder / f"{name}.{os.getpid()}.new"
        with new.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        new.rename(self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        return size

    def close(self) -> None:
        """Close the log. `append` cannot be called afterwards."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
