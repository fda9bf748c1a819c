"""Rule 29 over stores: all of them hold the rows that a plain Python model holds, whatever is done to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import managed as m
from sharedstate_lite import postgres
from sharedstate_lite.errors import CheckpointError, StateError
from sharedstate_lite.managed.stores import KINDS, columns, create
from sharedstate_lite.managed.stores.files import FileStore
from sharedstate_lite.managed.stores.hybrid import HybridStore
from sharedstate_lite.managed.stores.inside import InsideStore
from sharedstate_lite.managed.stores.log import LogStore
from sharedstate_lite.managed.stores.protocol import Relation, StateStore, StoreReader, bins_of
from sharedstate_lite.managed.stores.remote import RemoteStore
from sharedstate_lite.managed.stores.rocks import RocksStore
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.storage.batch import Delta
from sharedstate_lite.storage.encoding import NULL, Dictionary, Words

BINS = 4
TOTAL = Relation("total", (Column("plane", Type.STRING), Column("n", Type.BIGINT), Column("x", Type.DOUBLE)), 1)
ROUTES = Relation(
    "routes",
    (Column("plane", Type.STRING), Column("day", Type.INT), Column("@key", Type.STRING), Column("day", Type.STRING)),
    2,
    1,
)
SEEN = Relation("seen", (Column("plane", Type.STRING), Column("@position", Type.INT)), 1, 1)
RELATIONS = [TOTAL, ROUTES, SEEN]

Row = tuple[Any, ...]
Rows = dict[str, dict[Row, Row]]
"""The model: the value at each key and place, of each relation."""


class World:
    """Stores that own the bins of one state together, and the model of what they hold."""

    def __init__(self, *stores: StateStore) -> None:
        self.strings, self.stores = Dictionary(), list(stores)
        self.model: Rows = {r.name: {} for r in RELATIONS}
        self.owner, self.epoch = [0] * BINS, 0
        self.handles: list[tuple[list[StoreReader], Rows]] = []
        for number, store in enumerate(stores):
            store.open(f"late{number}", RELATIONS, self.strings, BINS)

    def words(self, relation: Relation, rows: list[Row], columns: int | None = None) -> Words:
        """Encode rows as int64[k, n]."""
        types = relation.types[:columns]
        out = np.empty((len(types), len(rows)), dtype=np.int64)
        for line, kind, values in zip(out, types, list(zip(*rows, strict=True)) or [()] * len(types), strict=True):
            if kind is Type.STRING:
                line[:] = self.strings.codes(values)
            elif kind is Type.DOUBLE:
                line[:] = [NULL if v is None else int(np.float64(v + 0.0).view(np.int64)) for v in values]
            else:
                line[:] = [NULL if v is None else v for v in values]
        return out

    def rows(self, relation: Relation, words: Words) -> list[Row]:
        """Decode int64[k, n]."""
        columns = []
        for line, kind in zip(words, relation.types, strict=True):
            if kind is Type.STRING:
                columns.append(self.strings.to_list(line))
            else:
                some = line.view(np.float64) if kind is Type.DOUBLE else line
                columns.append([None if w == NULL else v for w, v in zip(line.tolist(), some.tolist(), strict=True)])
        return list(zip(*columns, strict=True))

    def write(self, changes: Mapping[str, Mapping[Row, Row | None]]) -> None:
        """Run one epoch. A value of None removes the row."""
        self.epoch += 1
        deltas: list[dict[str, Delta]] = [{} for _ in self.stores]
        for relation in RELATIONS:
            model, rows, diffs = self.model[relation.name], [], []
            for identity, value in changes.get(relation.name, {}).items():
                old = model.pop(identity, None)
                if old is not None and old != value:
                    rows, diffs = [*rows, (*identity, *old)], [*diffs, -1]
                if value is not None and old != value:
                    rows, diffs = [*rows, (*identity, *value)], [*diffs, 1]
                if value is not None:
                    model[identity] = value
            # A delta is in no order, so the new row can come before the old one.
            words, signs = self.words(relation, rows[::-1]), np.array(diffs[::-1], dtype=np.int64)
            owners = np.array(self.owner)[bins_of(relation, words, BINS, self.strings)]
            for number in set(owners.tolist()):
                deltas[number][relation.name] = Delta(words, signs).take(owners == number)
        for store, delta in zip(self.stores, deltas, strict=True):
            store.write(delta, self.epoch)

    def move(self, bins: set[int], target: int) -> None:
        """Move bins to a store, from whichever has them."""
        for source, store in enumerate(self.stores):
            own = [b for b in bins if self.owner[b] == source != target]
            self.stores[target].give(store.take(own))
        self.owner = [target if b in bins else owner for b, owner in enumerate(self.owner)]

    def open_handle(self) -> None:
        """Open a handle on every store."""
        self.handles.append(([s.handle() for s in self.stores], {n: dict(rows) for n, rows in self.model.items()}))

    def checkpoint(self, folder: Path, kind: Callable[[int], StateStore]) -> None:
        """Save every store, and replace it with another that has loaded the result."""
        while self.handles:
            self.close_handle()
        for number, old in enumerate(self.stores):
            place = folder / f"{self.epoch}-{number}"
            place.mkdir(parents=True)
            old.save(place)
            old.close()
            fresh = kind(number)
            fresh.open(f"late{number}", RELATIONS, self.strings, BINS)
            fresh.load(place)
            self.stores[number] = fresh

    def close_handle(self) -> None:
        """Close the oldest handle."""
        for reader in self.handles.pop(0)[0]:
            reader.close()

    def check(self) -> None:
        """Compare every way to read the stores, and the open handles, with the model."""
        for readers, model in [(list[StoreReader](self.stores), self.model), *self.handles]:
            for relation in RELATIONS:
                want = sorted(((*i, *v) for i, v in model[relation.name].items()), key=repr)
                scans = [self.rows(relation, reader.scan(relation.name)) for reader in readers]
                assert sorted((row for scan in scans for row in scan), key=repr) == want, relation.name
                assert self.found(readers, relation, False) == want
                assert self.found(readers, relation, True) == want
        for relation in RELATIONS:
            assert sum(store.size(relation.name)[0] for store in self.stores) >= len(self.model[relation.name])

    def found(self, readers: list[StoreReader], relation: Relation, places: bool) -> list[Row]:
        """Look up every identity that can occur, or every key, and check that each row has its owner."""
        out = []
        width = relation.identity if places else relation.key
        asked = list(dict.fromkeys(identity[:width] for identity in IDENTITIES[relation.name]))
        words = self.words(relation, asked, width)
        for reader in readers:
            sub = words[relation.key :] if places and relation.sub else None
            owner, rows = reader.read(relation.name, words[: relation.key], sub)
            assert (rows[:width] == words.take(owner, axis=1)).all()
            out += self.rows(relation, rows)
        return sorted(out, key=repr)

    def close(self) -> None:
        """Close everything."""
        while self.handles:
            self.close_handle()
        for store in self.stores:
            store.close()


PLANES = ["N1", "N2", "", "Zürich ✈", None]
IDENTITIES: dict[str, list[Row]] = {
    "total": [(plane,) for plane in PLANES],
    "routes": [(plane, day, to) for plane in PLANES[:3] for day in (1, None) for to in ("BOS", "BOSTON", "", None)],
    "seen": [(plane, at) for plane in PLANES for at in (0, 1, 2, -5)],
}
VALUES: dict[str, Any] = {
    "total": st.tuples(st.sampled_from([None, 0, -7, 2**62]), st.sampled_from([None, 0.0, -2.5, 1e300])),
    "routes": st.tuples(st.sampled_from([None, "", "early", "late by an hour"])),
    "seen": st.just(()),
}
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        name: st.dictionaries(st.sampled_from(of), st.none() | VALUES[name], max_size=6)
        for name, of in IDENTITIES.items()
    },
)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), CHANGES),
        st.tuples(st.just("write"), CHANGES),
        st.tuples(st.just("move"), st.tuples(st.sets(st.integers(0, BINS - 1)), st.integers(0, 1))),
        st.tuples(st.sampled_from(["open", "close", "check"]), st.none()),
    ),
    max_size=12,
)
STORES: dict[str, Callable[[], StateStore]] = {
    "dict": lambda: create("dict"),
    "columns": lambda: create("columns"),
    "hybrid": lambda: HybridStore(mutable=2, memory=4),
    "rocksdb": lambda: create("rocksdb"),
}


def run(world: World, operations: list[tuple[str, Any]]) -> None:
    """Do what was drawn."""
    for what, with_ in operations:
        if what == "write":
            world.write(with_)
        elif what == "move":
            world.move(*with_)
        elif what == "open":
            world.open_handle()
        elif what == "close" and world.handles:
            world.close_handle()
        elif what == "check":
            world.check()
    world.check()


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("other", ["columns", "hybrid"])
@examples(12)
@given(operations=OPERATIONS)
def test_any_operations_leave_the_rows_of_the_model(kind: str, other: str, operations: list[tuple[str, Any]]) -> None:
    """Writes, moves of bins between different stores, reads and handles agree with a plain Python model."""
    world = World(STORES[kind](), STORES[other]())
    try:
        run(world, operations)
    finally:
        world.close()


SEQUENCE: list[tuple[str, Any]] = [
    ("write", {"total": {("N1",): (1, 0.5), ("N2",): (None, None), (None,): (3, -2.5)}, "seen": {("N1", 0): ()}}),
    ("write", {"routes": {("N1", 1, "BOS"): ("early",), ("N1", 1, None): (None,), ("", None, ""): ("",)}}),
    ("check", None),
    ("open", None),
    ("write", {"total": {("N1",): (2, 0.5), ("N2",): None}, "routes": {("N1", 1, "BOS"): ("late",)}}),
    ("move", ({0, 3}, 1)),
    ("check", None),
    *(("write", {"total": {("N1",): (n, 0.0)}, "seen": {("N2", n % 3): ()}}) for n in range(10, 22)),
    ("write", {"seen": {("N2", 0): None, ("N2", 1): None, ("Zürich ✈", -5): ()}}),
    ("close", None),
    ("move", ({0, 1, 2}, 1)),
    ("move", ({1, 3}, 0)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_sequence_in_every_store_with_a_checkpoint(kind: str, server: postgres.Server, tmp_path: Path) -> None:
    """Every store holds the same rows after the same calls, and after its checkpoint has been loaded."""
    world = World(create(kind), create("columns"))
    try:
        run(world, SEQUENCE)
        world.checkpoint(tmp_path, lambda number: create(kind if number == 0 else "columns"))
        world.check()
        run(world, SEQUENCE[-6:])
        world.checkpoint(tmp_path, lambda number: create(kind if number == 0 else "columns"))
        world.check()
    finally:
        world.close()


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_from_before_a_rescaling_can_be_read(kind: str, server: postgres.Server) -> None:
    """The stores of removed workers stay until no snapshot reads them, and are closed then."""
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'state_%'"
    source = m.source("notes", "plane STRING, note STRING", key="plane")
    with server.connect(autocommit=True) as db, m.run(LastNote(), source, store=kind, workers=3, keep=2) as run:
        for text in ("late", "early"):
            run.step([(f"N{n}", text) for n in range(9)])
        run.rescale(1)
        for at, text in enumerate(("late", "early"), 1):
            assert run.sql("SELECT note, count(*) AS n FROM snapshot.note GROUP BY note", at=at).values.tolist() == [
                [text, 9]
            ]
        assert run.read("note", key="N3") == "early"
        run.step([("N1", "gone")])
        found = run.sql("SELECT note, count(*) AS n FROM snapshot.note GROUP BY note ORDER BY n", at=3)
        assert found.values.tolist() == [["gone", 1], ["early", 8]] and run.snapshots == [2, 3]
        remote = isinstance(run.instances[0][0].store, RemoteStore)
        run.rescale(2)
        assert db.execute(schemas).fetchone() == (4 if remote else 0,)
        run.step([])
        assert db.execute(schemas).fetchone() == (2 if remote else 0,)
    with server.connect(autocommit=True) as db:
        assert db.execute(schemas).fetchone() == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_run_finds_its_keys(kind: str, server: postgres.Server, tmp_path: Path) -> None:
    """Also before a row has brought their texts, which RocksDB keeps as bytes. A key that has no state adds no text."""
    source = m.source("notes", "plane STRING, note STRING", key="plane")
    with m.run(LastNote(), source, store=kind) as run:
        run.step([("N1", "late"), ("N2", None)])
        run.checkpoint(tmp_path / "saved")
    with m.restore(tmp_path / "saved", LastNote()) as run:
        known = len(run.strings)
        assert [run.read("note", key=key) for key in ("N1", "N2", "N3", "late")] == ["late", None, None, None]
        assert len(run.strings) == known
        run.step([("N4", "new")])
        run.step([("N4", "late")])
        assert run.read("note").astype(object).fillna("").values.tolist() == [
            ["N1", "late"],
            ["N2", ""],
            ["N4", "late"],
        ]
        assert [run.read("note", key=key) for key in ("N4", "N1")] == ["late", "late"]


def test_a_store_that_does_not_exist_is_refused_by_name() -> None:
    """The error lists the stores."""
    with pytest.raises(StateError, match="store 'rocks' does not exist.*rocksdb"):
        create("rocks")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose package is not installed says which one is missing."""
    monkeypatch.setitem(__import__("sys").modules, "rocksdict", None)
    monkeypatch.delitem(__import__("sys").modules, RocksStore.__module__)
    with pytest.raises(StateError, match="store 'rocksdb' needs the package rocksdict"):
        create("rocksdb")


@pytest.mark.parametrize("kind", ["columns", "rocksdb", "files", "log"])
def test_a_folder_of_another_store_is_refused(kind: str, tmp_path: Path) -> None:
    """Loading what another kind of store saved is a CheckpointError that names the folder."""
    (tmp_path / "else").write_text("")
    store = create(kind)
    store.open("late", RELATIONS, Dictionary(), BINS)
    with pytest.raises(CheckpointError, match=tmp_path.name):
        store.load(tmp_path)
    store.close()


# --- RocksDB -------------------------------------------------------------------------------------


def opened(store: Any, *relations: Relation) -> Any:
    """Open a store."""
    store.open("late", relations, Dictionary(), BINS)
    return store


COUNT = Relation("count", (Column("plane", Type.INT), Column("n", Type.BIGINT)), 1, reducers=("sum",))


def put(store: Any, rows: Mapping[int, int], epoch: int = 1) -> None:
    """Set the counts of some planes."""
    keys = np.array([list(rows)])
    old = store.read("count", keys)[1]
    lines = np.concatenate([old, np.array([list(rows), list(rows.values())])], axis=1)
    store.write({"count": Delta(lines, np.array([-1] * old.shape[1] + [1] * len(rows)))}, epoch)


def counts(store: Any) -> dict[int, int]:
    """Return all counts."""
    return dict(store.scan("count").T.tolist())


def test_a_read_of_places_in_columns_looks_at_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a place, only the rows of a key with its code are read; without one, all of the key."""
    made: list[columns.FoundRows] = []

    class Watched(columns.FoundRows):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(columns, "FoundRows", Watched)
    relation = Relation("visit", tuple(Column(name, Type.BIGINT) for name in ("key", "place", "value")), 1, 1)
    store = opened(create("columns"), relation)
    rows = np.array([[7] * 50 + [8] * 50, [*range(50)] * 2, [*range(100)]])
    store.write({"visit": Delta(rows, np.ones(100, dtype=np.int64))}, 1)
    owner, found = store.read("visit", np.array([[8, 7, 9]]), np.array([[30, 40, 30]]))
    assert sorted(zip(owner.tolist(), *found.tolist(), strict=True)) == [(0, 8, 30, 80), (1, 7, 40, 40)]
    owner, _ = store.read("visit", np.array([[8, 7]]))
    assert np.bincount(owner).tolist() == [50, 50] and [each.kept for each in made] == [2, 100]


def test_columns_merge_the_same_batches_whether_versions_are_kept_or_not() -> None:
    """Kept versions delay no merge of the column store, and each shows its own rows."""
    kept, plain = opened(create("columns"), COUNT), opened(create("columns"), COUNT)
    versions = []
    for epoch in range(1, 31):
        for store in (kept, plain):
            put(store, dict.fromkeys(range(200 * (epoch % 4), 900), epoch), epoch)
        assert kept.arrangements["count"].batches == plain.arrangements["count"].batches
        versions.append((kept.handle(), counts(kept)))
    assert all(counts(version) == rows for version, rows in versions)


def test_the_next_checkpoint_of_rocksdb_shares_files_with_the_last(tmp_path: Path) -> None:
    """A checkpoint consists of hard links, so only new files take space, and loading one does not change it."""
    store, folders = opened(RocksStore(), COUNT), [tmp_path / "1", tmp_path / "2"]
    put(store, {n: n for n in range(20_000)})
    for number, folder in enumerate(folders):
        folder.mkdir()
        store.save(folder)
        put(store, {number: -1})
    inodes = [{p.stat().st_ino: p.stat().st_size for p in f.rglob("*.sst")} for f in folders]
    new = sum(size for inode, size in inodes[1].items() if inode not in inodes[0])
    assert inodes[0].items() <= inodes[1].items()
    assert 0 < new < sum(inodes[0].values()) / 20
    store.close()
    other = opened(RocksStore(), COUNT)
    other.load(folders[0])
    put(other, {5: 500})
    assert counts(other)[5] == 500
    other.close()
    again = opened(RocksStore(), COUNT)
    again.load(folders[0])
    assert counts(again) == {n: n for n in range(20_000)}
    again.close()


# --- files and the changelog ---------------------------------------------------------------------


def test_files_write_a_delta_a_version_and_a_snapshot_every_tenth(tmp_path: Path) -> None:
    """Version 25 is read from snapshot 20 and five deltas. Older versions stay readable back to snapshot 10."""
    store = opened(FileStore(), COUNT)
    for n in range(1, 26):
        put(store, {n % 3: n}, n)
    names = [path.name for path in store.files()]
    assert names[0] == "10.snapshot"
    assert [name for name in names if "snapshot" in name] == ["10.snapshot", "20.snapshot"]
    assert [name for name in names if "delta" in name] == [f"{n}.delta" for n in range(11, 26)]
    store.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["version", "20.snapshot", *(f"{n}.delta" for n in range(21, 26))]
    )
    store.close()
    for version, want in ((25, {0: 24, 1: 25, 2: 23}), (20, {0: 18, 1: 19, 2: 20})):
        older = opened(FileStore(), COUNT)
        older.load(tmp_path, version)
        assert counts(older) == want
        older.close()
    (tmp_path / "23.delta").unlink()
    with pytest.raises(CheckpointError, match="version 25 cannot be read, because 23.delta is missing"):
        opened(FileStore(), COUNT).load(tmp_path)


def test_a_changelog_gives_the_state(tmp_path: Path) -> None:
    """Its records give the rows, also after a compaction. A damaged record is refused."""
    store = opened(LogStore(), COUNT)
    put(store, {1: 10, 2: 20})
    put(store, {1: 11})
    largest = 0
    for n in range(700):
        put(store, {1: n})
        largest = max(largest, store.path.stat().st_size)
    assert store.path.stat().st_size < largest
    assert counts(store) == {1: 699, 2: 20}
    store.save(tmp_path)
    store.close()
    log = (tmp_path / "changelog").read_bytes()
    for damaged in (log[:-1], log[:-1] + bytes([log[-1] ^ 1])):
        (tmp_path / "changelog").write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged or incomplete"):
            opened(LogStore(), COUNT).load(tmp_path)


# --- the hybrid log ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_share_that_is_updated_in_place_is_the_mutable_share(share: float) -> None:
    """Under uniform keys, a row is in the mutable region with a probability equal to the region's share of the rows."""
    size, random = 2_000, np.random.default_rng(2)
    store = opened(HybridStore(mutable=int(size * share), memory=size), COUNT)
    put(store, dict.fromkeys(range(size), 0))
    before = store.counts
    for n in range(400):
        put(store, dict.fromkeys(random.integers(0, size, 20).tolist(), n + 1))
    in_place = store.counts.in_place - before.in_place
    assert in_place / (in_place + store.counts.appended - before.appended) == pytest.approx(share, abs=0.05)
    assert 0 < store._log["count"].head < store._log["count"].tail  # part of the log is on disk
    assert len(counts(store)) == size
    store.close()


# --- PostgreSQL ----------------------------------------------------------------------------------


def test_an_epoch_is_two_exchanges(server: postgres.Server) -> None:
    """One with the server for its reads, and one for its writes."""
    store = opened(RemoteStore(server), COUNT)
    put(store, {n: n for n in range(9)})
    assert store.exchanges == 2 and counts(store) == {n: n for n in range(9)}
    store.close()


def test_a_failing_epoch_leaves_nothing_in_the_server(server: postgres.Server) -> None:
    """The writes of an epoch are one transaction."""
    text = Relation("text", (Column("plane", Type.INT), Column("note", Type.STRING)), 1)
    strings, store = Dictionary(), RemoteStore(server)
    store.open("late", [text], strings, BINS)
    rows = np.array([[1, 2, 3, 4], strings.codes(["a", "b", "PostgreSQL stores no \0 in a text", "d"])])
    with pytest.raises(StateError, match="epoch 7 failed.*it is undone"):
        store.write({"text": Delta(rows, np.ones(4, dtype=np.int64))}, 7)
    assert store.scan("text")[0].tolist() == []
    store.close()


class LastNote(m.Operator):
    """Keeps the last text of a key."""

    note = m.Value("STRING")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Replace the text."""
        self.note.set(row["note"])


def test_a_run_whose_epoch_fails_is_as_before(server: postgres.Server) -> None:
    """Nothing is left of the epoch, and the next one follows."""
    source = m.source("notes", "plane INT, note STRING", key="plane")
    with m.run(LastNote(), source, store=lambda: RemoteStore(server)) as run:
        with pytest.raises(StateError, match="epoch 1 failed"):
            run.step([(1, "a"), (2, "b"), (3, "\0"), (4, "d")])
        assert (run.epoch, len(run.read("note"))) == (0, 0)
        run.step([(5, "e")])
        assert run.epoch == 1 and len(run.read("note")) == 1


def test_a_lost_connection_says_what_the_server_kept(server: postgres.Server) -> None:
    """The store connects again, and asks the server which version it has."""
    store = opened(RemoteStore(server), COUNT)
    put(store, {1: 10})
    with server.connect(autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [store._db.info.backend_pid])
    with pytest.raises(StateError, match="epoch 2 failed.*it is undone"):
        store.write({"count": Delta(np.array([[2], [20]]), np.array([1]))}, 2)
    store.write({"count": Delta(np.array([[2], [20]]), np.array([1]))}, 2)
    assert counts(store) == {1: 10, 2: 20}
    store.close()


@pytest.mark.skipif("SHAREDSTATE_LITE_POSTGRES_DSN" in os.environ, reason="the server belongs to somebody else")
def test_a_server_that_is_gone_is_named() -> None:
    """Without a server, a store does not open; if it stops later, what it kept is unknown."""
    with pytest.raises(StateError, match="store 'postgres' needs a PostgreSQL server"):
        opened(RemoteStore("postgresql://127.0.0.1:1/none"), COUNT)
    with postgres.Server() as gone:
        store = opened(RemoteStore(gone), COUNT)
    with pytest.raises(StateError, match="epoch 1 failed.*unknown what it kept"):
        store.write({"count": Delta(np.array([[2], [20]]), np.array([1]))}, 1)
    store.close()


def test_the_server_reduces_and_does_an_epoch_once(server: postgres.Server) -> None:
    """A sum in the server equals Python's, in one exchange an epoch; an epoch that is sent again changes nothing."""
    store, random = opened(InsideStore(server), COUNT), np.random.default_rng(3)
    want: dict[int, int] = {}
    for epoch in range(1, 6):
        rows = random.integers(-5, 6, (2, 40))
        for key, value in rows.T.tolist():
            want[key] = want.get(key, 0) + value
        for _ in range(2):
            touched = store.reduce({"count": rows}, epoch)["count"]
            assert dict(touched.T.tolist()) == {key: want[key] for key in set(rows[0].tolist())}
    assert counts(store) == want
    with pytest.raises(StateError, match="epoch 6 failed.*out of range; it is undone"):
        store.reduce({"count": np.array([[1, 2, 1], [2**62, 5, 2**62]])}, 6)
    assert counts(store) == want
    store.close()


def test_reducing_by_min_and_max_ignores_null(server: postgres.Server) -> None:
    """NULL is no value for a reducer, as in SQL."""
    values = (Column("least", Type.DOUBLE), Column("most", Type.STRING))
    store, strings = InsideStore(server), Dictionary()
    store.open(
        "late", [Relation("range", (Column("plane", Type.STRING), *values), 1, reducers=("min", "max"))], strings, BINS
    )
    words = np.array([2.5, -1.0]).view(np.int64)
    for epoch, line in enumerate([[words[0], NULL], [words[1], words[0]], [NULL, NULL]]):
        texts = strings.codes(["b", None] if epoch else ["a", "c"])
        store.reduce({"range": np.array([strings.codes(["N1", None]), line, texts])}, epoch + 1)
    rows = store.scan("range")
    found = zip(strings.to_list(rows[0]), rows[1].view(np.float64).tolist(), strings.to_list(rows[2]), strict=True)
    assert set(found) == {("N1", -1.0, "b"), (None, 2.5, "c")}
    store.close()


def test_a_relation_without_reducers_is_refused(server: postgres.Server) -> None:
    """The server reduces only what has a reducer for each value column."""
    store = opened(InsideStore(server), SEEN)
    with pytest.raises(StateError, match="seen has no reducers"):
        store.reduce({"seen": np.array([[0], [0]])}, 1)
    store.close()
