"""State in a PostgreSQL server, outside the process that computes it (as MillWheel's state is in Bigtable).

Each relation is a table with the relation's columns and, before them, the 64-bit hash of the operator's key. The hash
is the beginning of the table's unique index, so a lookup by key and the range of a bin both use it.

The reads of an epoch are one exchange with the server, and so are its writes. These are one transaction, which also
writes the number of the version.

Source: Akidau et al., MillWheel: Fault-tolerant stream processing at internet scale, VLDB 2013.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from ...errors import Error, StateError
from ...plan.nodes import Type
from ...postgres.rows import connected
from ...postgres.server import Server
from ...storage.batch import Delta, hash_rows
from ...storage.encoding import NULL, Dictionary, Words, doubles, from_doubles
from ..bins import word_range
from .base import RowStore
from .protocol import Found, Relation

SQL_TYPES = {Type.STRING: "text", Type.DOUBLE: "double precision", Type.INT: "integer"}
"""The column types of PostgreSQL. All other types are a bigint, which has the value's word."""

_WORD = "@hash"
_SYSTEM = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")


class RemoteStore(RowStore):
    """A store in PostgreSQL. ``where`` is a Server or a DSN; without it, all stores of this process share a server.

    The tables are in a schema of their own, which `close` drops. `open` raises StateError if there is no server.

    >>> from sharedstate_lite.plan import Column
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = RemoteStore()
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> store.read("total", np.array([[8]]))[1].tolist(), store.exchanges
    ([[8], [20]], 2)
    >>> store.close()
    """

    kind = "postgres"

    def __init__(self, where: Server | str | None = None) -> None:
        self._where = where

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        try:
            self._server = self._where or _server()
            self._db = connected(self._server, autocommit=True)
        except Error as error:
            raise StateError(f"store {self.kind!r} needs a PostgreSQL server: {error}") from error
        self.schema = f"state_{secrets.token_hex(8)}"
        self._tables = {r.name: StateTable(self.schema, r) for r in relations}
        self._handles: list[_RemoteHandle] = []
        self.exchanges = self.version = 0
        with self._db.transaction():
            self._db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
            self._db.execute(self._at_version("CREATE TABLE {} AS SELECT 0::bigint AS version, 0::bigint AS epoch"))
            for table in self._tables.values():
                self._db.execute(table.create())

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return self._find(self._db, relation, keys, sub)

    def scan(self, relation: str) -> Words:
        return self._all(self._db, relation)

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        parts = [part for name, delta in changes.items() for part in self._statements(name, delta) if part[2].shape[1]]
        if not parts:
            return
        try:
            with self._db.pipeline(), self._db.transaction():
                for query, name, rows in parts:
                    self._db.execute(query, self._values(name, rows))
                self._db.execute(self._at_version("UPDATE {} SET version = %s"), [self.version + 1])
        except psycopg.Error as error:
            raise self._failed(error, epoch) from error
        self.version += 1
        self.exchanges += 1

    def size(self, relation: str) -> tuple[int, int]:
        query = "SELECT count(*), (SELECT pg_total_relation_size({}::regclass)) FROM {}"
        table = self._tables[relation].name
        found = self._db.execute(sql.SQL(query).format(table.as_string(self._db), table)).fetchall()
        return int(found[0][0]), int(found[0][1])

    def take(self, bins: Sequence[int]) -> bytes:
        ranges = [word_range(number, self._bins) for number in bins]
        with self._db.transaction():
            out = {
                name: self._words(name, self._db.execute(*table.take(ranges))) for name, table in self._tables.items()
            }
        return self._pack(out)

    def handle(self) -> _RemoteHandle:
        self._handles.append(_RemoteHandle(self, connected(self._server)))
        return self._handles[-1]

    def close(self) -> None:
        for handle in self._handles:
            handle.close()
        with contextlib.suppress(psycopg.OperationalError):  # if the server is gone, so are the tables
            self._db.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema)))
        self._db.close()

    def _statements(self, name: str, delta: Delta) -> list[tuple[sql.Composed, str, Words]]:
        """Return what deletes identities and what writes rows, each with its relation and with what it gets."""
        (rows, diffs), identity, table = delta, self._relations[name].identity, self._tables[name]
        new, old = rows.compress(diffs > 0, axis=1), rows[:identity].compress(diffs < 0, axis=1)
        stays = set(zip(*new[:identity].tolist(), strict=True))
        gone = np.array([each not in stays for each in zip(*old.tolist(), strict=True)], dtype=bool)
        return [(table.delete(), name, old.compress(gone, axis=1)), (table.upsert(), name, new)]

    def _failed(self, error: psycopg.Error, epoch: int) -> StateError:
        """Return the error for a failed write. It says what the server has kept."""
        kept = "it is undone"
        try:
            if self._db.closed:
                self._db.close()
                self._db = connected(self._server, autocommit=True)
            found = self._db.execute(self._at_version("SELECT version FROM {}")).fetchall()[0][0]
            if found > self.version:
                self.version, kept = found, "it is done"
        except (psycopg.Error, Error):
            kept = "the server does not answer, so it is unknown what it kept; start it, and restore a checkpoint"
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return StateError(f"store {self.kind!r} ({self._name}): epoch {epoch} failed: {said}; {kept}")

    def _at_version(self, query: str) -> sql.Composed:
        return sql.SQL(query).format(sql.Identifier(self.schema, "@version"))

    def _find(self, db: psycopg.Connection[Any], relation: str, keys: Words, sub: Words | None) -> Found:
        wanted = keys if sub is None else np.concatenate([keys, sub])
        query = self._tables[relation].read(len(wanted))
        rows = db.execute(query, self._values(relation, wanted), binary=True).fetchall()
        self.exchanges += 1
        owners = np.array([row[0] - 1 for row in rows], dtype=np.intp)
        return owners, self._words(relation, [row[1:] for row in rows])

    def _all(self, db: psycopg.Connection[Any], relation: str) -> Words:
        return self._words(relation, db.execute(self._tables[relation].scan(), binary=True))

    def _values(self, relation: str, rows: Words) -> list[list[Any]]:
        """Return the columns of rows as PostgreSQL's arrays, after the hashes of their keys."""
        found, types = self._relations[relation], self._relations[relation].types
        words = hash_rows(rows[: found.key], types[: found.key], self._strings).view(np.int64)
        return [words.tolist(), *(_column(row, kind, self._strings) for row, kind in zip(rows, types, strict=False))]

    def _words(self, relation: str, rows: Any) -> Words:
        """Return rows that PostgreSQL sent, int64[k, n]."""
        types, columns = self._relations[relation].types, list(zip(*rows, strict=True))
        out = np.empty((len(types), len(columns[0]) if columns else 0), dtype=np.int64)
        for line, column, kind in zip(out, columns, types, strict=False):
            if kind is Type.STRING:
                line[:] = self._strings.codes(column)
            elif kind is Type.DOUBLE:
                line[:] = from_doubles(np.array([np.nan if v is None else v for v in column]))
            else:
                line[:] = [NULL if v is None else v for v in column]
        return out


class _RemoteHandle:
    """Reads a `RemoteStore` in a transaction of its own, which sees the version at which it began (MVCC)."""

    def __init__(self, store: RemoteStore, db: psycopg.Connection[Any]) -> None:
        self._store, self._db = store, db
        db.isolation_level, db.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
        db.execute("SELECT 1")  # PostgreSQL takes the snapshot at the first query

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return self._store._find(self._db, relation, keys, sub)

    def scan(self, relation: str) -> Words:
        return self._store._all(self._db, relation)

    def close(self) -> None:
        self._db.close()


class StateTable:
    """The statements for the table of one relation. Their parameters are arrays, one for each column."""

    def __init__(self, schema: str, relation: Relation) -> None:
        self.name, self.relation = sql.Identifier(schema, relation.name), relation
        names = [c.name for c in relation.columns]
        # A field of the state can have the name of a column of the key, and both can have that of a system column.
        unique = [f"{name}@{i}" if name in {*names[:i], *_SYSTEM} else name for i, name in enumerate(names)]
        self.columns = [sql.Identifier(name) for name in (_WORD, *unique)]
        self.types = [
            sql.SQL(kind) for kind in ("bigint", *(SQL_TYPES.get(c.type, "bigint") for c in relation.columns))
        ]

    def create(self) -> sql.Composed:
        columns = [sql.SQL("{} {}").format(*each) for each in zip(self.columns, self.types, strict=True)]
        query = "CREATE TABLE {} ({}, UNIQUE NULLS NOT DISTINCT ({}))"
        return sql.SQL(query).format(self.name, _list(columns), self._identity)

    def scan(self) -> sql.Composed:
        return sql.SQL("SELECT {} FROM {}").format(_list(self.columns[1:]), self.name)

    def read(self, count: int) -> sql.Composed:
        """Select the position of each key that is found, from 1, and the row. ``count`` columns are given."""
        query = 'SELECT k."@at", {} FROM unnest({}) WITH ORDINALITY AS k({}, "@at") JOIN {} AS t ON {}'
        rows = _list([self._of("t", name) for name in self.columns[1:]])
        given, names = self._given(count + 1), _list(self.columns[: count + 1])
        return sql.SQL(query).format(rows, given, names, self.name, self._same(count + 1))

    def delete(self) -> sql.Composed:
        query, count = "DELETE FROM {} AS t USING unnest({}) AS k({}) WHERE {}", self.relation.identity + 1
        return sql.SQL(query).format(self.name, self._given(count), _list(self.columns[:count]), self._same(count))

    def upsert(self) -> sql.Composed:
        query = "INSERT INTO {} AS t SELECT * FROM unnest({}) ON CONFLICT ({}) DO "
        values = self.columns[self.relation.identity + 1 :]
        change = [sql.SQL("{} = excluded.{}").format(name, name) for name in values]
        do = sql.SQL("UPDATE SET {}").format(_list(change)) if values else sql.SQL("NOTHING")
        return sql.SQL(query).format(self.name, self._given(len(self.columns)), self._identity) + do

    def take(self, ranges: Sequence[tuple[int, int]]) -> tuple[sql.Composed, list[list[int]]]:
        """Delete the rows whose hashes are in some ranges, and return them."""
        query = "DELETE FROM {} AS t USING unnest(%s::bigint[], %s::bigint[]) AS r(low, high) "
        query += "WHERE {} BETWEEN r.low AND r.high RETURNING {}"
        rows = _list([self._of("t", name) for name in self.columns[1:]])
        filled = sql.SQL(query).format(self.name, self._of("t", self.columns[0]), rows)
        return filled, [list(each) for each in zip(*ranges, strict=True)] or [[], []]

    @property
    def _identity(self) -> sql.Composed:
        return _list(self.columns[: self.relation.identity + 1])

    def _given(self, count: int) -> sql.Composed:
        return _list([sql.SQL("%s::{}[]").format(kind) for kind in self.types[:count]])

    def _same(self, count: int) -> sql.Composed:
        # The hash is never NULL, and its comparison uses the index. NULL equals NULL in the others.
        first, *others = self.columns[:count]
        pairs = [sql.SQL("{} = {}").format(self._of("t", first), self._of("k", first))]
        pairs += [sql.SQL("{} IS NOT DISTINCT FROM {}").format(self._of("t", n), self._of("k", n)) for n in others]
        return sql.SQL(" AND ").join(pairs)

    @staticmethod
    def _of(table: str, column: sql.Identifier) -> sql.Composed:
        return sql.SQL("{}.{}").format(sql.Identifier(table), column)


@cache
def _server() -> Server:
    """The server of this process. It stops with the process."""
    return Server()


def _column(words: Words, kind: Type, strings: Dictionary) -> list[Any]:
    if kind is Type.STRING:
        return list(strings.to_list(words))
    values = doubles(words).tolist() if kind is Type.DOUBLE else words.tolist()
    return [None if word == NULL else value for word, value in zip(words.tolist(), values, strict=True)]


def _list(parts: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)
