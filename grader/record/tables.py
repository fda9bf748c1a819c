"""The record in memory: tables of numpy columns. Rows are only added, but a few columns are filled in later.

Row numbers are used as identifiers: the subject of a request is the row number of an order, a user or an item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..terms import Entity, Kind
from .notes import Exchange, Notes, SentWave

N = TypeVar("N", bound=Notes)
Column = NDArray[Any]
TEXT, LONG, SHORT, BYTE = np.dtype(object), np.dtype(np.int64), np.dtype(np.int16), np.dtype(np.int8)

SCHEMA: dict[str, dict[str, np.dtype[Any]]] = {
    "history": {
        "wave": LONG, "kind": BYTE, "subject": LONG, "attempt": SHORT,
        "due": LONG, "sent": LONG, "done": LONG, "status": SHORT, "waited": BYTE,
    },
    "orders": {"phase": TEXT, "number": LONG, "user": LONG, "slot": BYTE, "id": TEXT, "cost": LONG, "ready": BYTE},
    "lines": {"order": LONG, "item": LONG, "quantity": LONG, "price": LONG},
    "users": {"phase": TEXT, "block": LONG, "id": TEXT, "ready": BYTE},
    "items": {"phase": TEXT, "block": LONG, "id": TEXT, "price": LONG, "ready": BYTE},
    "funds": {"kind": BYTE, "subject": LONG, "amount": LONG, "at": LONG},
    "snapshots": {"snapshot": LONG, "kind": BYTE, "subject": LONG, "state": BYTE, "value": LONG},
    "events": {"at": LONG, "process": TEXT, "what": TEXT, "detail": TEXT},
    "samples": {"at": LONG, "generator": np.dtype(np.float64), "services": np.dtype(np.float64),
                "foreign": np.dtype(np.float64)},
}  # fmt: skip
"""The type of each column of each table. docs/grader.md explains the columns."""


class Table:
    """A table of numpy columns."""

    def __init__(self, name: str, columns: dict[str, Column] | None = None) -> None:
        self.name = name
        self._columns = columns or {c: np.zeros(0, dtype=d) for c, d in SCHEMA[name].items()}
        self._more: list[dict[str, Column]] = []
        self._rows = len(next(iter(self._columns.values())))

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    def append(self, **columns: Any) -> slice:
        """Add rows and return their range. A scalar is repeated in all of them."""
        schema = SCHEMA[self.name]
        if set(columns) != set(schema):
            raise TypeError(f"a row of {self.name} needs exactly the columns {', '.join(schema)}")
        rows = next((len(v) for v in columns.values() if not np.isscalar(v)), 1)
        self._more.append({c: _column(columns[c], d, rows) for c, d in schema.items()})
        self._rows += rows
        return slice(self._rows - rows, self._rows)

    def __getitem__(self, column: str) -> Column:
        """Return a column. Writing to it changes the table."""
        if self._more:
            parts = [self._columns, *self._more]
            self._columns = {c: np.concatenate([part[c] for part in parts]) for c in SCHEMA[self.name]}
            self._more = []
        return self._columns[column]


def _column(value: Any, dtype: np.dtype[Any], rows: int) -> Column:
    if np.isscalar(value):
        return np.full(rows, value, dtype=dtype)
    column = np.empty(len(value), dtype=dtype)
    column[:] = value
    return column


@dataclass(frozen=True)
class Shot:
    """One snapshot of orders, users and items. Times are nanoseconds since the run began."""

    begin: int
    end: int
    read: dict[Entity, tuple[Column, Column, Column]]
    """For each entity: the rows that were read, the state of each read, and its value."""

    def same(self, other: Shot) -> bool:
        """Return whether another snapshot read the same values from the same rows."""
        return all(np.array_equal(a, b) for e in Entity for a, b in zip(self.read[e], other.read[e], strict=True))


@dataclass
class Record:
    """The record of one run. Times are nanoseconds since the run began, except those in the notes."""

    about: dict[str, Any] = field(default_factory=dict)
    """The rest of run.json."""
    tables: dict[str, Table] = field(default_factory=lambda: {name: Table(name) for name in SCHEMA})
    waves: list[SentWave] = field(default_factory=list)
    """The waves of requests. Their numbers in the history are their places here."""
    phases: dict[str, Notes] = field(default_factory=dict)
    """The notes about each phase that was begun or skipped."""
    exchanges: list[Exchange] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    powercut: Record | None = None
    """The record of the run with the power cuts."""

    def __getattr__(self, name: str) -> Table:
        """Return the table with this name."""
        try:
            return self.__dict__["tables"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def snapshots_taken(self) -> list[dict[str, Any]]:
        """One entry per snapshot: phase ("" if it covers all phases), begin, end, name, accepted."""
        return self.about.setdefault("snapshots", [])  # type: ignore[no-any-return]

    def notes(self, kind: type[N]) -> N:
        """Return the notes of the phase that ``kind`` is for; empty ones if there are none.

        >>> Record().notes(Notes).skipped
        ''
        """
        found = self.phases.get(kind.phase)
        return found if isinstance(found, kind) else kind()

    def keep(self, shot: Shot, phase: str, name: str, accepted: bool) -> int:
        """Add a snapshot to the record and return its number."""
        number = len(self.snapshots_taken)
        about = {"phase": phase, "name": name, "begin": shot.begin, "end": shot.end, "accepted": accepted}
        self.snapshots_taken.append(about)
        for entity, (subject, state, value) in shot.read.items():
            if len(subject):
                rows = {"kind": int(entity), "subject": subject, "state": state, "value": value}
                self.tables["snapshots"].append(snapshot=number, **rows)
        return number

    def shot(self, number: int) -> Shot:
        """Return the snapshot with this number."""
        table, about = self.tables["snapshots"], self.snapshots_taken[number]
        mine = table["snapshot"] == number
        read = {}
        for entity in Entity:
            chosen = mine & (table["kind"] == entity)
            read[entity] = (table["subject"][chosen], table["state"][chosen], table["value"][chosen])
        return Shot(about["begin"], about["end"], read)

    def rows(self, entity: Entity) -> Table:
        """Return the table of an entity: orders, users or items."""
        return self.tables[("orders", "users", "items")[entity]]

    def additions(self, entity: Entity, before: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the additions acknowledged up to ``before``.

        The first column has the rows of the users or items, ascending, and the second one has the amounts.
        """
        funds = self.tables["funds"]
        chosen = np.flatnonzero((funds["kind"] == entity) & (funds["at"] <= before))
        chosen = chosen[np.argsort(funds["subject"][chosen], kind="stable")]
        return funds["subject"][chosen], funds["amount"][chosen]

    def initial(self, entity: Entity, before: int) -> NDArray[np.int64]:
        """Return the amount that was acknowledged for each user or item up to the time ``before``, int64[rows]."""
        total = np.zeros(len(self.rows(entity)), dtype=np.int64)
        np.add.at(total, *self.additions(entity, before))
        return total

    def checkouts(self) -> NDArray[np.bool_]:
        """Return a mask over the rows of the history that is true for checkouts."""
        return np.asarray(self.tables["history"]["kind"] == Kind.CHECKOUT)
