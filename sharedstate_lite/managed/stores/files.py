"""State in dictionaries, with its versions in files: one delta for each version, and a snapshot of every tenth.

    17.delta       the rows that version 17 removed and added
    20.snapshot    all rows of version 20

A version is read from the newest snapshot before it and the deltas after that snapshot. Files are written under another
name and then renamed, and never change afterwards. A checkpoint therefore consists of hard links.

Source: the state store of Spark Structured Streaming, Armbrust et al., SIGMOD 2018 (HDFSBackedStateStoreProvider).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import CheckpointError
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ...system.folders import link
from .base import scratch
from .dicts import DictStore
from .protocol import Relation, pack, unpack

SNAPSHOT_EVERY = 10


class FileStore(DictStore):
    """A store in dictionaries and files. Files that are not needed since the last but one snapshot are deleted.

    >>> from sharedstate_lite.plan import Column, Type
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = FileStore()
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> for n in range(10):
    ...     store.write({"total": Delta(np.array([[n], [10]]), np.array([1]))}, epoch=n + 1)
    >>> [path.name for path in store.files()[-2:]]
    ['10.delta', '10.snapshot']
    >>> store.close()
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self._scratch = scratch("files")
        self.version = 0

    def files(self) -> list[Path]:
        """The files, in the order of their versions; the snapshot of a version follows its delta."""
        return _sorted(self._scratch.path)

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        self._put(f"{self.version + 1}.delta", {name: np.vstack(delta) for name, delta in changes.items()})
        super().write(changes, epoch)
        self.version += 1
        if self.version % SNAPSHOT_EVERY == 0:
            rows = {name: self.scan(name) for name in self._relations}
            self._put(f"{self.version}.snapshot", {n: np.vstack([r, np.ones_like(r[:1])]) for n, r in rows.items()})
            needed = _needed(self._scratch.path, self.version - SNAPSHOT_EVERY)
            for path in self.files():
                if _version(path) <= self.version - SNAPSHOT_EVERY and path not in needed[-1:]:
                    path.unlink()

    def save(self, folder: Path) -> None:
        for path in _needed(self._scratch.path, self.version):
            link(path, folder / path.name)
        (folder / "version").write_text(str(self.version))

    def load(self, folder: Path, version: int | None = None) -> None:
        """Read ``version``, by default the newest. Raises CheckpointError if its files are not all there."""
        try:
            newest = int((folder / "version").read_text())
        except (OSError, ValueError):
            raise CheckpointError(f"{folder} has no version of a store of files: another kind wrote it") from None
        wanted = newest if version is None else version
        for path in _needed(folder, wanted):
            link(path, self._scratch.path / path.name)
            for name, lines in unpack(path.read_bytes(), list(self._relations.values()), self._strings).items():
                delta = Delta(lines[:-1], lines[-1])
                super().write({name: delta}, 0)
        self.version = wanted

    def close(self) -> None:
        super().close()
        self._scratch.close()

    def _put(self, name: str, lines: Mapping[str, Words]) -> None:
        """Write a file with rows of some relations, and their diffs."""
        part = self._scratch.path / f"{name}.part"
        part.write_bytes(pack(lines, list(self._relations.values()), self._strings))
        part.rename(part.with_suffix(""))


def _needed(folder: Path, version: int) -> list[Path]:
    """Return the files from which a version is read, in order."""
    snapshots = [v for path in folder.glob("*.snapshot") if (v := _version(path)) <= version]
    start = max(snapshots, default=0)
    found = [folder / f"{start}.snapshot"] if start else []
    found += [folder / f"{v}.delta" for v in range(start + 1, version + 1)]
    missing = [path.name for path in found if not path.exists()]
    if missing:
        raise CheckpointError(f"{folder}: version {version} cannot be read, because {missing[0]} is missing")
    return found


def _sorted(folder: Path) -> list[Path]:
    found = [*folder.glob("*.delta"), *folder.glob("*.snapshot")]
    return sorted(found, key=lambda path: (_version(path), path.suffix))


def _version(path: Path) -> int:
    return int(path.stem)
