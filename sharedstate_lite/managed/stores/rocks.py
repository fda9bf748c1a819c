"""State in RocksDB, a log-structured merge tree on the local disk (Flink's and Kafka Streams' usual store).

A row of a relation is one entry:

    key      the relation's name and a zero byte; the 64-bit hash of the operator's key; the key; the place
    value    the other columns

Entries are sorted by key, so the entries of a bin, and those of an operator's key, are next to each other. A number is
8 bytes. A string is stored as its length, and its UTF-8 bytes follow the numbers.

A write is one atomic WriteBatch. The write-ahead log is off, because the kit recovers from checkpoints, as Flink does.
A checkpoint consists of hard links to RocksDB's immutable files, so its cost depends on what was written since the last
one. A handle is an iterator of RocksDB, which reads the version at which it was created.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rocksdict import Checkpoint, Options, Rdict, RdictIter, WriteBatch, WriteOptions

from ...plan.nodes import Type
from ...storage.batch import Delta, hash_rows
from ...storage.encoding import NULL, Dictionary, Words
from ...system.folders import link
from ..bins import word_range
from .base import RowStore, required, scratch
from .protocol import Found, Relation

_FOLDER = "rocksdb"


class RocksStore(RowStore):
    """A store in RocksDB, in a temporary folder.

    >>> from sharedstate_lite.plan import Column
    >>> total = Relation("total", (Column("plane", Type.STRING), Column("value", Type.BIGINT)), key=1)
    >>> store, strings = RocksStore(), Dictionary()
    >>> store.open("late", [total], strings, bins=8)
    >>> store.write({"total": Delta(np.array([strings.codes(["N1", "N2"]), [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> store.read("total", strings.codes(["N2"])[None])[1][1].tolist()
    [20]
    >>> store.close()
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self.written = 0  # bytes of all write batches
        self._scratch = scratch(_FOLDER)
        self._path = self._scratch.path / _FOLDER
        self._db = _connect(self._path)

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return self._find(self._db.iter(), self._relations[relation], keys, sub)

    def scan(self, relation: str) -> Words:
        return self._rows(self._db.iter(), self._relations[relation], [self._all(relation)])

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        batch = WriteBatch(raw_mode=True)
        for name, (rows, diffs) in changes.items():
            relation = self._relations[name]
            old, new = rows.compress(diffs < 0, axis=1), rows.compress(diffs > 0, axis=1)
            values = encode(new[relation.identity :], relation.types[relation.identity :], self._strings)
            puts = dict(zip(self._keys(relation, new), values, strict=True))
            for key in self._keys(relation, old):
                if key not in puts:
                    batch.delete(key)
            for key, value in puts.items():
                batch.put(key, value)
        size = batch.size_in_bytes()
        self._db.write(batch)
        self.written += size

    def size(self, relation: str) -> tuple[int, int]:
        sizes = [len(key) + len(value) for key, value in _range(self._db.iter(), *self._all(relation))]
        return len(sizes), sum(sizes)

    def take(self, bins: Sequence[int]) -> bytes:
        ranges = {name: [self._bin(name, number) for number in bins] for name in self._relations}
        out = {name: self._rows(self._db.iter(), self._relations[name], each) for name, each in ranges.items()}
        batch = WriteBatch(raw_mode=True)
        for low, high in (each for some in ranges.values() for each in some):
            batch.delete_range(low, high)
        self._db.write(batch)
        return self._pack(out)

    def handle(self) -> _RocksHandle:
        return _RocksHandle(self, self._db.iter())

    def save(self, folder: Path) -> None:
        Checkpoint(self._db).create_checkpoint(str(folder / _FOLDER))

    def load(self, folder: Path) -> None:
        required(folder / _FOLDER / "CURRENT")
        self._db.close()
        shutil.rmtree(self._path)
        # RocksDB never changes a table file. It does change the others.
        shutil.copytree(folder / _FOLDER, self._path, copy_function=_copy)
        self._db = _connect(self._path)

    def close(self) -> None:
        self._db.close()
        self._scratch.close()

    def _find(self, source: RdictIter, relation: Relation, keys: Words, sub: Words | None) -> Found:
        starts = self._keys(relation, keys if sub is None else np.concatenate([keys, sub]))
        found = [(at, entry) for at, start in enumerate(starts) for entry in _range(source, start, None)]
        return np.array([at for at, _ in found], dtype=np.intp), self._decoded(relation, [entry for _, entry in found])

    def _rows(self, source: RdictIter, relation: Relation, ranges: Sequence[tuple[bytes, bytes]]) -> Words:
        """Return the rows in some ranges of RocksDB's keys."""
        return self._decoded(relation, [entry for each in ranges for entry in _range(source, *each)])

    def _decoded(self, relation: Relation, entries: Sequence[tuple[bytes, bytes]]) -> Words:
        start = len(relation.name.encode()) + 9
        parts, data = [], [key[start:] + value for key, value in entries]
        for columns in (slice(relation.key), slice(relation.key, relation.identity), slice(relation.identity, None)):
            rows, data = decode(data, relation.types[columns], self._strings)
            parts.append(rows)
        return np.concatenate(parts)

    def _keys(self, relation: Relation, rows: Words) -> list[bytes]:
        """Return RocksDB's keys for rows, or for the first columns of rows: at least the operator's key."""
        types, key = relation.types, relation.key
        hashes = hash_rows(rows[:key], types[:key], self._strings).astype(">u8").tobytes()
        start = relation.name.encode() + b"\0"
        firsts = encode(rows[:key], types[:key], self._strings)
        places = encode(rows[key : relation.identity], types[key : min(len(rows), relation.identity)], self._strings)
        return [start + hashes[8 * i : 8 * i + 8] + a + b for i, (a, b) in enumerate(zip(firsts, places, strict=True))]

    def _all(self, relation: str) -> tuple[bytes, bytes]:
        return relation.encode() + b"\0", relation.encode() + b"\1"

    def _bin(self, relation: str, number: int) -> tuple[bytes, bytes]:
        low, last = (word % (1 << 64) for word in word_range(number, self._bins))
        start, end = self._all(relation)
        return start + low.to_bytes(8), end if last + 1 == 1 << 64 else start + (last + 1).to_bytes(8)


class _RocksHandle:
    """Reads a `RocksStore` through an iterator, which keeps the files and buffers of its version.

    RocksDB also has snapshots for this purpose, but in rocksdict 0.3.29 the iterators of a Snapshot see later writes.
    """

    def __init__(self, store: RocksStore, iterator: RdictIter) -> None:
        self._store, self._iterator = store, [iterator]

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return self._store._find(self._iterator[0], self._store._relations[relation], keys, sub)

    def scan(self, relation: str) -> Words:
        return self._store._rows(self._iterator[0], self._store._relations[relation], [self._store._all(relation)])

    def close(self) -> None:
        # RocksDB releases an iterator when the last reference to it is gone.
        self._iterator.clear()


def encode(rows: Words, types: Sequence[Type], strings: Dictionary) -> list[bytes]:
    """Encode each row of int64[k, n] as bytes, from which its end can be found.

    >>> strings = Dictionary()
    >>> rows = np.array([strings.codes(["pear", None]), [7, 8]])
    >>> data = encode(rows, (Type.STRING, Type.INT), strings)
    >>> [len(each) for each in data]
    [20, 16]
    >>> decode(data, (Type.STRING, Type.INT), strings)[0].tolist() == rows.tolist()
    True
    """
    width = 8 * len(rows)
    texts = [i for i, kind in enumerate(types) if kind is Type.STRING]
    parts = [[b"" if t is None else t.encode() for t in strings.to_list(rows[i])] for i in texts]
    if texts:
        rows = rows.copy()
        for i, part in zip(texts, parts, strict=True):
            rows[i] = np.where(rows[i] == NULL, NULL, [len(text) for text in part])
    data = np.ascontiguousarray(rows.T).tobytes()
    fixed = [data[at : at + width] for at in range(0, len(data), width)] if width else [b""] * rows.shape[1]
    return [b"".join(each) for each in zip(fixed, *parts, strict=True)] if texts else fixed


def decode(data: Sequence[bytes], types: Sequence[Type], strings: Dictionary) -> tuple[Words, list[bytes]]:
    """Decode what `encode` encoded. Returns the rows, int64[k, n], and the bytes that follow each of them."""
    width = 8 * len(types)
    fixed = np.frombuffer(b"".join([each[:width] for each in data]), dtype=np.int64)
    rows = fixed.reshape(len(data), len(types)).T.copy()
    ends = np.full(len(data), width)
    for i, kind in enumerate(types):
        if kind is Type.STRING:
            starts, null = ends, rows[i] == NULL
            ends = starts + np.where(null, 0, rows[i])
            spans = zip(data, starts.tolist(), ends.tolist(), null.tolist(), strict=True)
            rows[i] = strings.codes(None if absent else each[a:b].decode() for each, a, b, absent in spans)
    return rows, [each[end:] for each, end in zip(data, ends.tolist(), strict=True)]


def _connect(path: Path) -> Rdict:
    options, writing = Options(raw_mode=True), WriteOptions()
    # The stubs declare this attribute as a method.
    writing.disable_wal = True  # type: ignore[assignment, method-assign]
    db = Rdict(str(path), options)
    db.set_write_options(writing)
    return db


def _range(entries: RdictIter, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries from ``start`` up to ``end``, or all whose key begins with ``start``."""
    entries.seek(start)
    while entries.valid():
        key = entries.key()
        if not key.startswith(start) if end is None else key >= end:
            return
        yield key, entries.value()
        entries.next()


def _copy(source: str, target: str) -> None:
    if source.endswith(".sst"):
        link(source, target)
    else:
        shutil.copyfile(source, target)
