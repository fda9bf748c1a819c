"""Stores of managed state: what each operation costs in each of them.

Rows:
    uniform, zipf    updates, in epochs of 10,000 rows with uniform and with Zipf-distributed keys
    point, bulk      reads of one key, and of 10,000 keys at once
    scan             the sum of one column over all keys
    move             a third of the bins leaves a store, and comes back
    checkpoint       a checkpoint, the next one after an epoch, and a restore
    past             reading a version while later epochs are written

The state has a count, a sum and a maximum for each of a million keys (200,000 with --quick). The peers do the same
with their own libraries, without this kit: a Python dict, RocksDB and, if it is installed, LMDB. Figures are CPU time
of this process, medians over rounds in which the sides take turns. bench/README.md says what the targets mean.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from rocksdict import Checkpoint, Options, Rdict, WriteBatch, WriteOptions  # noqa: E402

from bench import measure  # noqa: E402
from sharedstate_lite.managed.stores import Relation, StoreReader, create  # noqa: E402
from sharedstate_lite.managed.stores.columns import ColumnStore  # noqa: E402
from sharedstate_lite.plan import Column, Type  # noqa: E402
from sharedstate_lite.storage import Delta, Dictionary  # noqa: E402
from sharedstate_lite.storage.batch import hash_rows  # noqa: E402

try:
    import lmdb  # type: ignore[import-not-found]
except ImportError:
    lmdb = None

ROWS = ["uniform", "zipf", "point", "bulk", "scan", "move", "checkpoint", "past"]
PACKAGES = ["numpy", "rocksdict", "lmdb"]
EPOCH = 10_000
BINS = 128
MOVED = tuple(range(0, BINS, 3))

Keys = npt.NDArray[np.int64]
STATE = Relation("state", tuple(Column(n, Type.BIGINT) for n in ("key", "count", "sum", "max")), 1)
KIT = ("columns", "dict", "hybrid", "rocksdb", "files", "log")
"""The kit's stores that run in this process. The first one is held against the peers."""


class Size(NamedTuple):
    """How many keys and rounds; ``points`` keys are read one by one."""

    keys: int
    rounds: int
    points: int


FULL, QUICK = Size(1_000_000, 5, 2_000), Size(200_000, 3, 500)


class Side(Protocol):
    """One way to keep the state. ``state`` is int64[4, n]: keys, counts, sums, maxima."""

    @property
    def name(self) -> str: ...
    def load(self, state: Keys) -> None: ...
    def epoch(self, keys: Keys, values: Keys) -> None: ...
    def point(self, keys: list[int]) -> list[int]: ...
    def bulk(self, keys: Keys) -> int: ...
    def scan(self) -> int: ...
    def take(self) -> Any: ...
    def give(self, taken: Any) -> None: ...
    def save(self, folder: Path) -> None: ...
    def restore(self, folder: Path) -> int: ...
    def close(self) -> None: ...


class Kit:
    """A store of the kit."""

    def __init__(self, kind: str) -> None:
        self.name, self.strings, self._epoch = f"the kit's {kind}", Dictionary(), 0
        self.kind, self.store = kind, create(kind)
        self.store.open("bench", [STATE], self.strings, BINS)

    def load(self, state: Keys) -> None:
        self.store.write({"state": Delta(state, np.ones(state.shape[1], dtype=np.int64))}, 0)

    def epoch(self, keys: Keys, values: Keys) -> None:
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        owner, old = self.store.read("state", keys[None, starts])
        new = np.zeros((4, len(starts)), dtype=np.int64)
        new[0], new[3, :] = keys[starts], -1
        new[1:, owner] = old[1:]
        new[1] += np.diff(np.r_[starts, len(keys)])
        new[2] += np.add.reduceat(values, starts)
        new[3] = np.maximum(new[3], np.maximum.reduceat(values, starts))
        diffs = np.concatenate([np.full(old.shape[1], -1), np.ones(len(starts), dtype=np.int64)])
        self._epoch += 1
        self.store.write({"state": Delta(np.concatenate([old, new], axis=1), diffs)}, self._epoch)

    def point(self, keys: list[int]) -> list[int]:
        return [int(self.store.read("state", np.array([[key]]))[1][2, 0]) for key in keys]

    def bulk(self, keys: Keys) -> int:
        return int(self.store.read("state", keys[None])[1][2].sum())

    def scan(self) -> int:
        return summed(self.store)

    def take(self) -> Any:
        return self.store.take(MOVED)

    def give(self, taken: Any) -> None:
        self.store.give(taken)

    def save(self, folder: Path) -> None:
        folder.mkdir()
        self.store.save(folder)

    def restore(self, folder: Path) -> int:
        other = Kit(self.kind)
        other.store.load(folder)
        found = other.scan()
        other.close()
        return found

    def close(self) -> None:
        self.store.close()


def summed(store: StoreReader) -> int:
    """The sum of the state's second value over all keys."""
    if isinstance(store, ColumnStore):
        # A sum needs no consolidation: the diffs of old and new rows cancel.
        return sum(int((batch.body[3] * batch.body[5]).sum()) for batch in store.arrangements["state"].runs)
    return int(store.scan("state")[2].sum())


class PlainDict:
    """A dict from key to a tuple, a record at a time."""

    name = "a Python dict"

    def load(self, state: Keys) -> None:
        self.rows = {key: (a, b, c) for key, a, b, c in state.T.tolist()}

    def epoch(self, keys: Keys, values: Keys) -> None:
        rows = self.rows
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            count, total, most = rows.get(key, (0, 0, -1))
            rows[key] = (count + 1, total + value, max(value, most))

    def point(self, keys: list[int]) -> list[int]:
        return [self.rows[key][1] for key in keys]

    def bulk(self, keys: Keys) -> int:
        return sum([self.rows[key][1] for key in keys.tolist()])

    def scan(self) -> int:
        return sum(row[1] for row in self.rows.values())

    def take(self) -> Any:
        moved = frozenset(MOVED)
        bins = bin_numbers(np.fromiter(self.rows, dtype=np.int64)).tolist()
        out = [key for key, number in zip(self.rows, bins, strict=True) if number in moved]
        return pickle.dumps([(key, self.rows.pop(key)) for key in out])

    def give(self, taken: Any) -> None:
        self.rows.update(pickle.loads(taken))

    def save(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "rows").write_bytes(pickle.dumps(self.rows))

    def restore(self, folder: Path) -> int:
        rows: dict[int, tuple[int, int, int]] = pickle.loads((folder / "rows").read_bytes())
        return sum(row[1] for row in rows.values())

    def close(self) -> None:
        self.rows.clear()


KEY, VALUE = struct.Struct(">Qq"), struct.Struct("<qqq")


class RawRocks:
    """RocksDB through rocksdict: the reads of an epoch are one multi-get, and its writes one WriteBatch."""

    name = "RocksDB"

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "rocks")
        self.db = self._open(self.path)

    @staticmethod
    def _open(path: str) -> Rdict:
        db, writing = Rdict(path, Options(raw_mode=True)), WriteOptions()
        writing.disable_wal = True  # type: ignore[assignment, method-assign]
        db.set_write_options(writing)
        return db

    def load(self, state: Keys) -> None:
        for part in np.array_split(state, max(1, state.shape[1] // 100_000), axis=1):
            self._write(dict(zip(packed(part[0]), (VALUE.pack(*row) for row in part[1:].T.tolist()), strict=True)))
        self.db.flush()

    def _write(self, entries: dict[bytes, bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in entries.items():
            batch.put(key, value)
        self.db.write(batch)

    def epoch(self, keys: Keys, values: Keys) -> None:
        distinct = np.unique(keys)
        names = packed(distinct)
        rows: dict[int, tuple[int, int, int]] = {
            key: (0, 0, -1) if value is None else VALUE.unpack(value)
            for key, value in zip(distinct.tolist(), self._get(names), strict=True)
        }
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            count, total, most = rows[key]
            rows[key] = (count + 1, total + value, max(value, most))
        self._write({name: VALUE.pack(*row) for name, row in zip(names, rows.values(), strict=True)})

    def _get(self, names: list[Any]) -> list[Any]:
        return list(self.db[names] or [])

    def point(self, keys: list[int]) -> list[int]:
        return [VALUE.unpack(self.db[name])[1] for name in packed(np.array(keys))]  # type: ignore[arg-type]

    def bulk(self, keys: Keys) -> int:
        return sum([VALUE.unpack(value)[1] for value in self._get(packed(keys))])

    def scan(self) -> int:
        return sum(VALUE.unpack(value)[1] for value in self.db.values())

    def take(self) -> Any:
        size, out, gone = 1 << 57, [], WriteBatch(raw_mode=True)
        for number in MOVED:
            low, high = (number * size).to_bytes(8), ((number + 1) * size).to_bytes(9)[-8:]
            last = number + 1 == BINS
            entries: Iterator[Any] = self.db.items(from_key=low)
            for key, value in entries:
                if not last and key[:8] >= high:
                    break
                out.append((key, value))
            gone.delete_range(low, b"\xff" * 17 if last else high)
        blob = pickle.dumps(out)
        self.db.write(gone)
        return blob

    def give(self, taken: Any) -> None:
        self._write(dict(pickle.loads(taken)))

    def save(self, folder: Path) -> None:
        Checkpoint(self.db).create_checkpoint(str(folder))

    def restore(self, folder: Path) -> int:
        db = self._open(str(folder))
        found = sum(int(VALUE.unpack(value)[1]) for value in db.values())
        db.close()
        return found

    def close(self) -> None:
        self.db.close()


class Lmdb:
    """LMDB, a transaction an epoch."""

    name = "LMDB"

    def __init__(self, folder: Path) -> None:
        self.env = lmdb.open(str(folder / "lmdb"), map_size=4 << 30, sync=False)

    def load(self, state: Keys) -> None:
        names = packed(state[0])
        entries = sorted(zip(names, (VALUE.pack(*row) for row in state[1:].T.tolist()), strict=True))
        with self.env.begin(write=True) as changes:
            changes.cursor().putmulti(entries, append=True)

    def epoch(self, keys: Keys, values: Keys) -> None:
        with self.env.begin(write=True) as changes:
            for name, value in zip(packed(keys), values.tolist(), strict=True):
                old = changes.get(name)
                count, total, most = (0, 0, -1) if old is None else VALUE.unpack(old)
                changes.put(name, VALUE.pack(count + 1, total + value, max(value, most)))

    def point(self, keys: list[int]) -> list[int]:
        with self.env.begin() as reads:
            return [VALUE.unpack(reads.get(name))[1] for name in packed(np.array(keys))]

    def bulk(self, keys: Keys) -> int:
        return sum(self.point(keys.tolist()))

    def scan(self) -> int:
        with self.env.begin() as reads:
            return sum(int(VALUE.unpack(value)[1]) for value in reads.cursor().iternext(keys=False))

    def take(self) -> Any:
        out, size = [], 1 << 57
        with self.env.begin(write=True) as changes:
            for number in MOVED:
                cursor = changes.cursor()
                more = cursor.set_range((number * size).to_bytes(8))
                while more and int.from_bytes(cursor.key()[:8]) // size == number:
                    out.append((cursor.key(), cursor.value()))
                    more = cursor.delete()
        return pickle.dumps(out)

    def give(self, taken: Any) -> None:
        with self.env.begin(write=True) as changes:
            changes.cursor().putmulti(pickle.loads(taken))

    def save(self, folder: Path) -> None:
        folder.mkdir()
        self.env.copy(str(folder), compact=True)

    def restore(self, folder: Path) -> int:
        with lmdb.open(str(folder), map_size=4 << 30, readonly=True) as env, env.begin() as reads:
            return sum(VALUE.unpack(value)[1] for value in reads.cursor().iternext(keys=False))

    def close(self) -> None:
        self.env.close()


def hashes(keys: Keys) -> npt.NDArray[np.uint64]:
    """The hash of each key, the same as the kit's, so that all sides move the same keys."""
    return hash_rows(keys[None], (Type.BIGINT,), Dictionary())


def bin_numbers(keys: Keys) -> Keys:
    """The bin of each key: the top 7 bits of its hash."""
    return (hashes(keys) >> np.uint64(57)).astype(np.int64)


def packed(keys: Keys) -> list[bytes]:
    """Keys as bytes: the hash first, so that the entries of a bin are next to each other."""
    return [KEY.pack(*pair) for pair in zip(hashes(keys).tolist(), keys.tolist(), strict=True)]


class Bench:
    """All sides with the same state, and the seconds of CPU that each action took."""

    def __init__(self, size: Size, folder: Path, told: Callable[[str], None]) -> None:
        self.size, self.folder, self.random = size, folder, np.random.default_rng(7)
        self.keys = self.random.permutation(size.keys).astype(np.int64)
        amounts = self.random.integers(0, 100, (2, size.keys))
        self.state = np.array([self.keys, np.ones(size.keys, dtype=np.int64), *amounts])
        sides: list[Side] = [*map(Kit, KIT), PlainDict(), RawRocks(folder)]
        self.absent = [] if lmdb else ["LMDB (absent: pip install lmdb==3.0.0)"]
        self.sides = {side.name: side for side in [*sides, *([Lmdb(folder)] if lmdb else [])]}
        for side in self.sides.values():
            told(f"loading {side.name}")
            side.load(self.state)
        self.told = told

    def drawn(self) -> tuple[Keys, Keys]:
        """The keys, drawn uniformly, and the values of an epoch."""
        return self.keys[self.random.integers(0, self.size.keys, EPOCH)], self.random.integers(0, 1_000, EPOCH)

    def timed(
        self, action: Callable[[Side, Any], object], rounds: int, made: Callable[[], Any] = lambda: None
    ) -> tuple[dict[str, float], bool]:
        """Median seconds of each side, and whether all sides gave the same answers. The sides take turns."""
        seconds: dict[str, list[float]] = {name: [] for name in self.sides}
        equal = True
        for number in range(rounds + 1):
            drawn, answers = made(), []
            for name, side in list(self.sides.items())[:: 1 if number % 2 else -1]:
                start = time.process_time()
                answers.append(action(side, drawn))
                if number:  # the first round is a warm-up
                    seconds[name].append(time.process_time() - start)
            equal &= all(answer == answers[0] for answer in answers)
        return {name: float(np.median(each)) for name, each in seconds.items()}, equal

    def row(
        self,
        what: str,
        seconds: dict[str, float],
        each: float,
        unit: str,
        against: Sequence[tuple[str, float | None]],
        equal: bool | None,
    ) -> Iterator[measure.Row]:
        """A row for every peer and target, of the time of the columns times ``each``."""
        ours = f"the kit's {KIT[0]}"
        peers: dict[str, float | None] = {name: s * each for name, s in seconds.items() if name != ours}
        peers.update(dict.fromkeys(self.absent, None))
        for peer, target in against:
            value = seconds[ours] * each
            yield measure.compared(
                f"{what}, over {peer}", value, unit, peers, against=peer, target=target, less=True, equal=equal
            )

    def sums(self) -> bool:
        """Whether all sides have the same sum."""
        return len({side.scan() for side in self.sides.values()}) == 1


def updates(bench: Bench, zipf: bool) -> Iterator[measure.Row]:
    """Epochs of 10,000 rows, microseconds a row."""

    def drawn() -> tuple[Keys, Keys]:
        places = bench.random.zipf(1.2, EPOCH) - 1 if zipf else bench.random.integers(0, bench.size.keys, EPOCH)
        return bench.keys[places % bench.size.keys], bench.random.integers(0, 1_000, EPOCH)

    # Merging and compaction come and go, so more rounds than elsewhere.
    seconds, _ = bench.timed(lambda side, rows: side.epoch(*rows), 3 * bench.size.rounds, drawn)
    against = [("RocksDB", 3.0), ("a Python dict", None)] if zipf else [("RocksDB", 4.0), ("a Python dict", 0.9)]
    what = "updates, Zipf 1.2" if zipf else "updates, uniform"
    yield from bench.row(what, seconds, 1e6 / EPOCH, "us an update", against, bench.sums())


def reads(bench: Bench, bulk: bool) -> Iterator[measure.Row]:
    """Reads of keys, microseconds each."""
    count = EPOCH if bulk else bench.size.points

    def drawn() -> Any:
        keys = bench.random.choice(bench.keys, count, replace=False)
        return keys if bulk else keys.tolist()

    if bulk:
        seconds, equal = bench.timed(lambda side, keys: side.bulk(keys), bench.size.rounds, drawn)
        yield from bench.row("reads in bulk", seconds, 1e6 / count, "us a read", [("RocksDB", 4.0)], equal)
    else:
        seconds, equal = bench.timed(lambda side, keys: side.point(keys), min(3, bench.size.rounds), drawn)
        yield from bench.row("reads of one key", seconds, 1e6 / count, "us a read", [("RocksDB", None)], equal)


def scans(bench: Bench) -> Iterator[measure.Row]:
    """The sum of one column, milliseconds."""
    seconds, equal = bench.timed(lambda side, _: side.scan(), bench.size.rounds)
    against = [("RocksDB", 60.0), ("a Python dict", 10.0)]
    yield from bench.row("scan of one column", seconds, 1e3, "ms", against, equal)


def moving(bench: Bench) -> Iterator[measure.Row]:
    """A third of the bins is taken out, serialized, and given back; milliseconds."""
    taken: dict[str, Any] = {}
    out: dict[str, list[float]] = {name: [] for name in bench.sides}
    back: dict[str, list[float]] = {name: [] for name in bench.sides}
    equal = True
    for _ in range(min(3, bench.size.rounds)):
        for name, side in bench.sides.items():
            start = time.process_time()
            taken[name] = side.take()
            out[name].append(time.process_time() - start)
        equal &= bench.sums()
        for name, side in bench.sides.items():
            start = time.process_time()
            side.give(taken[name])
            back[name].append(time.process_time() - start)
        equal &= bench.sums()
    for what, all_seconds, target in (("a third of the bins out", out, 30.0), ("and back", back, None)):
        seconds = {name: float(np.median(each)) for name, each in all_seconds.items()}
        yield from bench.row(what, seconds, 1e3, "ms", [("RocksDB", target)], equal)


def checkpoints(bench: Bench) -> Iterator[measure.Row]:
    """A checkpoint, the next one, and a restore; milliseconds and bytes."""
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    seconds: list[dict[str, float]] = [{}, {}, {}]
    sizes: list[dict[str, float]] = [{}, {}]
    answers = set()
    for name, side in bench.sides.items():
        seen: set[int] = set()
        for number in range(2):
            place = folder / f"{len(seconds[0])}-{name.replace(' ', '-')}-{number}"
            start = time.process_time()
            side.save(place)
            seconds[number][name] = time.process_time() - start
            files = [path.stat() for path in place.rglob("*") if path.is_file()]
            sizes[number][name] = float(sum(each.st_size for each in files if each.st_ino not in seen))
            seen |= {each.st_ino for each in files}
            if not number:
                random = np.random.default_rng(8)
                side.epoch(bench.keys[random.integers(0, bench.size.keys, EPOCH)], random.integers(0, 1_000, EPOCH))
        start = time.process_time()
        answers.add(side.restore(place))
        seconds[2][name] = time.process_time() - start
    equal = len(answers) == 1 and bench.sums()
    what = ["checkpoint", "the next checkpoint, after an epoch", "restore and scan"]
    for name, each in zip(what, seconds, strict=True):
        yield from bench.row(name, each, 1e3, "ms", [("RocksDB", None)], equal)
    for name, each in zip(what, sizes, strict=False):
        yield from bench.row(f"{name}: new bytes", each, 1e-6, "MB", [("RocksDB", None)], equal)


def past(bench: Bench) -> Iterator[measure.Row]:
    """A handle is opened, an epoch written, and the sum of the old version read; and what handles cost an epoch."""
    ours, plain = bench.sides[f"the kit's {KIT[0]}"], bench.sides["a Python dict"]
    assert isinstance(ours, Kit) and isinstance(plain, PlainDict)
    times: dict[str, list[float]] = {"handle": [], "copy": []}
    equal = True
    for _ in range(3 * bench.size.rounds):
        want = plain.scan()
        start = time.process_time()
        handle, opening = ours.store.handle(), time.process_time() - start
        start = time.process_time()
        copied, copying = dict(plain.rows), time.process_time() - start
        rows = bench.drawn()
        for side in bench.sides.values():
            side.epoch(*rows)
        start = time.process_time()
        found = summed(handle)
        times["handle"].append(opening + time.process_time() - start)
        start = time.process_time()
        again = sum(row[1] for row in copied.values())
        times["copy"].append(copying + time.process_time() - start)
        handle.close()
        equal &= found == again == want
    middle = {name: float(np.median(each)) * 1e3 for name, each in times.items()}
    yield measure.compared(
        "first read of a past version, over a dict's copy", middle["handle"], "ms", {"copy": middle["copy"]},
        against="copy", target=2.0, less=True, equal=equal,
    )  # fmt: skip
    yield keeping(bench)


def keeping(bench: Bench) -> measure.Row:
    """Epochs of a store of which the last two versions are kept, as a run does, and of one without handles.

    Both get the same rows, so they merge in the same epochs.
    """
    twins = [Kit(KIT[0]), Kit(KIT[0])]
    for kit in twins:
        kit.load(bench.state)
    kept = deque([kit.store.handle() for kit in 2 * twins[:1]])
    seconds = [0.0, 0.0]
    rounds = 30 * bench.size.rounds
    for number in range(rounds):
        rows = bench.drawn()
        for which in (0, 1) if number % 2 else (1, 0):
            start = time.process_time()
            twins[which].epoch(*rows)
            if which == 0:
                kept.append(twins[0].store.handle())
                kept.popleft().close()
            seconds[which] += time.process_time() - start
    with_handles, without = (each * 1e3 / rounds for each in seconds)
    return measure.compared(
        "an epoch while two past versions are kept", with_handles, "ms", {"without": without},
        against="without", target=0.9, less=True, equal=twins[0].scan() == twins[1].scan(),
    )  # fmt: skip


def measured(size: Size, only: Sequence[str], told: Callable[[str], None] = lambda _: None) -> list[measure.Row]:
    """All rows that are wanted."""
    actions: dict[str, Callable[[Bench], Iterator[measure.Row]]] = {
        "uniform": lambda bench: updates(bench, False),
        "zipf": lambda bench: updates(bench, True),
        "point": lambda bench: reads(bench, False),
        "bulk": lambda bench: reads(bench, True),
        "scan": scans,
        "move": moving,
        "checkpoint": checkpoints,
        "past": past,
    }
    rows: list[measure.Row] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bench = Bench(size, Path(folder), told)
        for side in bench.sides.values():
            stack.callback(side.close)
        for name in [name for name in actions if not only or name in only]:
            told(name)
            rows += actions[name](bench)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 if answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    size = QUICK if chosen.quick else FULL
    rows = measured(size, chosen.only, lambda what: print(what, file=sys.stderr, flush=True))
    print(f"{size.keys:,} keys; above 1, a ratio is in favour of the kit's {KIT[0]}")
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
