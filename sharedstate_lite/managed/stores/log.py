"""State as a view of its changelog: each write is appended to a log first, and the log alone is kept.

A record of the log is its length, a checksum, and the changes of one write. The rows in memory are computed from the
log. When most rows of the log are out of date, the log is replaced with the present rows (log compaction).

Source: Kafka Streams' changelog topics; Samza's changelog, Noghabi et al., VLDB 2017.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import CheckpointError
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from .base import required, scratch
from .dicts import DictStore
from .protocol import Relation, pack, unpack

_LOG = "changelog"
_HEAD = struct.Struct("<II")


class LogStore(DictStore):
    """A store whose changelog is in a file.

    >>> from sharedstate_lite.plan import Column, Type
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = LogStore()
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> [(_, changes)] = records(store.path.read_bytes(), [total], Dictionary())
    >>> changes["total"].rows.tolist()
    [[7, 8], [10, 20]]
    >>> store.close()
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self._scratch = scratch("log")
        self.path = self._scratch.path / _LOG
        self.path.touch()
        self._logged = self._live = 0  # rows in the log, and rows in memory

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        self._append(self.path, changes)
        super().write(changes, epoch)
        self._live += sum(int(delta.diffs.sum()) for delta in changes.values())
        if self._logged > 4 * self._live + 1_000:
            self._compact()

    def save(self, folder: Path) -> None:
        (folder / _LOG).write_bytes(self.path.read_bytes())

    def load(self, folder: Path) -> None:
        log, end = required(folder / _LOG).read_bytes(), 0
        for after, changes in records(log, list(self._relations.values()), self._strings):
            super().write(changes, 0)
            self._live += sum(int(delta.diffs.sum()) for delta in changes.values())
            self._logged += sum(len(delta.diffs) for delta in changes.values())
            end = after
        if end < len(log):
            raise CheckpointError(f"{folder / _LOG}: the record at byte {end} is damaged or incomplete")
        self.path.write_bytes(log)

    def close(self) -> None:
        super().close()
        self._scratch.close()

    def _append(self, path: Path, changes: Mapping[str, Delta]) -> None:
        lines = {name: np.vstack(delta) for name, delta in changes.items()}
        blob = pack(lines, list(self._relations.values()), self._strings)
        with path.open("ab") as log:
            log.write(_HEAD.pack(len(blob), zlib.crc32(blob)) + blob)
        self._logged += sum(each.shape[1] for each in lines.values())

    def _compact(self) -> None:
        self._logged, part = 0, self.path.with_suffix(".part")
        rows = {name: self.scan(name) for name in self._relations}
        self._append(part, {n: Delta(each, np.ones(each.shape[1], dtype=np.int64)) for n, each in rows.items()})
        part.rename(self.path)


def records(log: bytes, relations: Sequence[Relation], strings: Dictionary) -> Iterator[tuple[int, dict[str, Delta]]]:
    """Yield the records of a log, with the position where each one ends. A record that is incomplete ends the log."""
    at = 0
    while at + _HEAD.size <= len(log):
        size, check = _HEAD.unpack_from(log, at)
        blob = log[at + _HEAD.size : at + _HEAD.size + size]
        if len(blob) < size or zlib.crc32(blob) != check:
            return
        at += _HEAD.size + size
        lines: dict[str, Words] = unpack(blob, relations, strings)
        yield at, {name: Delta(each[:-1], each[-1]) for name, each in lines.items()}
