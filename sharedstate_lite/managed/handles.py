"""The kinds of state: declared in the body of an operator's class, and used in its callbacks.

    Value         one value
    List          values in the order in which they were appended
    Map           values by map key
    Array         a fixed number of values
    Ordered       rows ordered by event time
    Reducing      one value, to which ``add`` applies a function: sum, min, max or your own
    Aggregating   one accumulator, to which ``add`` adds a value, and from which ``get`` computes a result
    Timer         one time, at which the operator's ``on_<name>`` is called

In ``row()`` and ``on_<name>()``, a state is the one of the current key: ``self.total.get()``. In ``rows()``, its
methods take the keys of many rows first, and columns instead of values: ``self.total.add(batch.keys, batch["x"])``.

What a callback changes is kept in memory until the epoch ends, and is visible to later callbacks. Then the old and new
rows of all changes go to the store at once, unless a callback has raised.

Source: Carbone et al., State management in Apache Flink, VLDB 2017 (kinds of keyed state); Apache Beam's user state
(declared as class attributes); Megaphone, VLDB 2019 (all state of a key in one bin).
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..changelog.convert import to_series
from ..errors import StateError, shorten
from ..plan.nodes import Column, Type
from ..storage.encoding import NULL, Dictionary, Words, doubles, from_doubles
from .events import BatchKeys, grouped, words_of
from .stores.protocol import Found, Relation
from .types import (
    Collection,
    Kind,
    Scalar,
    Struct,
    assemble,
    checked,
    checked_key,
    copied,
    decode,
    duration,
    encode,
    microseconds,
    moment,
    parse_fields,
    parse_type,
    relations,
    shred,
)

Place = tuple[Any, ...]
"""Where an entry is inside its key: () for a single value, or a position, a map key, or a time and a number."""

_Sized = TypeVar("_Sized", list[Any], Words)
EXPIRES = "@expires"
_ARITHMETIC = (Type.INT, Type.BIGINT, Type.DOUBLE)
_ORDERED = (*_ARITHMETIC, Type.DATE, Type.TIMESTAMP)
REDUCERS: dict[str, Callable[[Any, Any], Any]] = {"sum": lambda a, b: a + b, "min": min, "max": max}
"""The reducers with a name."""
_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class StateScope(Protocol):
    """One operator on one worker, as its states see it (`instance.Instance`)."""

    operator: str
    strings: Dictionary
    keys: list[Any]
    """The keys of this epoch, as Python values."""
    current: int
    """The position in ``keys`` of the callback's key, or -1 outside callbacks that have one."""
    time: int
    """The event time of the current row or timer."""
    now: int
    """Entries whose expiry is not later than this are gone."""

    def key_words(self, first: int) -> Words: ...
    def register(self, words: Words) -> list[int]: ...
    def read(self, relation: Relation, keys: Words, sub: Words | None = None) -> Found: ...
    def change(self, relation: Relation, old: Words, new: Words) -> None: ...
    def own(self, keys: BatchKeys) -> None: ...
    def each(self, keys: BatchKeys) -> Iterator[int]: ...
    def arm(self, timer: str, key: int, at: int) -> None: ...


class KeyedState:
    """What all kinds of state have in common. A declaration has no scope; an operator's copy on a worker has one."""

    name = ""
    place: tuple[Column, ...] = ()
    """The columns that say where an entry is inside its key."""
    deadline = ""
    """The column of the root relation that says when something happens to the entry."""

    def __init__(self, kind: Kind, ttl: str | datetime.timedelta | None = None) -> None:
        self.kind = kind
        self.ttl = None if ttl is None else duration(ttl)
        if self.ttl == 0:
            raise StateError(f"ttl={ttl!r}: an entry would expire when it is written; pass a longer one, or none")
        self.scope: StateScope | None = None
        if self.ttl is not None:
            self.deadline = EXPIRES

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            raise StateError(f"{owner.__name__}.{name} and {self.name} are one object; declare each state by itself")
        self.name = name

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint compares: the kind of state, its type, and whether its entries expire."""
        kind = type(self).__name__.removesuffix("State")
        return {"state": kind, "type": str(self.shown), "ttl": self.ttl is not None}

    @property
    def shown(self) -> Kind:
        """The type of what `show` returns."""
        return self.kind

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return the state of one key as a Python value, from its entries."""
        return entries.get(())

    @property
    def plain(self) -> bool:
        """Whether each key has one row, and the first column after the key is what `show` returns."""
        return not self.place and isinstance(self.kind, Scalar) and self.shown == self.kind

    @property
    def fields(self) -> tuple[tuple[str, Kind], ...]:
        """The fields of a struct. A value of another type is one field."""
        return self.kind.fields if isinstance(self.kind, Struct) else (("value", self.kind),)

    @property
    def flat(self) -> bool:
        """Whether a value has no collections or structs inside, so that columns of it can be written as they are."""
        return all(isinstance(kind, Scalar) for _, kind in self.fields)

    def layout(self, key: Sequence[Column]) -> list[Relation]:
        """Return the relations of this state for an operator's key."""
        last = [Column(EXPIRES, Type.TIMESTAMP)] if self.ttl is not None else []
        return relations(self.name, self.kind, key, self.place, last)

    # --- on a worker ----------------------------------------------------------

    def bind(self, scope: StateScope, key: Sequence[Column]) -> KeyedState:
        """Return the copy of this declaration that an operator uses on a worker."""
        bound = copy.copy(self)
        bound.scope, bound.relations = scope, self.layout(key)
        bound.forget()
        return bound

    relations: list[Relation]

    def forget(self) -> None:
        """Drop what was read and changed in this epoch."""
        self._cells: list[dict[Place, Any]] = []
        self._expiry: dict[tuple[int, Place], int] = {}
        self._changed: dict[tuple[int, Place], None] = {}
        self._ends: dict[int, int] = {}
        self._stored: dict[str, list[tuple[list[tuple[int, Place]], Words]]] = {r.name: [] for r in self.relations}

    def places(self, lines: Words, strings: Dictionary) -> list[Place]:
        """Return the places of n rows from their words, int64[sub, n]."""
        return list(zip(*lines.tolist(), strict=True)) if len(lines) else [()] * lines.shape[1]

    def place_words(self, places: Sequence[Place], strings: Dictionary) -> Words:
        """Return places as words, int64[sub, n]."""
        return np.array(places, dtype=np.int64).reshape(len(places), len(self.place)).T

    def entries(self, tables: Mapping[str, Words], strings: Dictionary) -> list[tuple[Place, Any]]:
        """Return the place and the value of each row of the root relation. ``tables`` has the rows of each relation."""
        root = self.relations[0]
        values = assemble(self.kind, root.name, tables, root.identity, strings)
        return list(zip(self.places(tables[root.name][root.key : root.identity], strings), values, strict=True))

    def _load(self) -> None:
        """Read the state of the keys that were registered since the last call."""
        scope, first, root = self._scope(), len(self._cells), self.relations[0]
        keys = scope.key_words(first)
        self._cells += [{} for _ in range(keys.shape[1])]
        tables = {}
        for relation in self.relations:
            owner, rows = scope.read(relation, keys)
            places = self.places(rows[root.key : root.identity], scope.strings)
            self._stored[relation.name].append((list(zip((owner + first).tolist(), places, strict=True)), rows))
            tables[relation.name] = rows
        entries, rows = self._stored[root.name][-1]
        values = assemble(self.kind, root.name, tables, root.identity, scope.strings)
        for (key, place), value in zip(entries, values, strict=True):
            self._cells[key][place] = value
        if self.ttl is not None:
            self._expiry |= zip(entries, rows[-1].tolist(), strict=True)

    def flush(self) -> None:
        """Hand the changes of the epoch to the scope, and forget them."""
        if not self._changed:
            return
        scope, root = self._scope(), self.relations[0]
        kept = [(key, place) for key, place in self._changed if place in self._cells[key]]
        values = [self._cells[key][place] for key, place in kept]
        keys = scope.key_words(0).take([key for key, _ in kept], axis=1)
        last = np.array([self._expiry[entry] for entry in kept] if self.ttl is not None else [], dtype=np.int64)
        identity = np.vstack([keys, self.place_words([place for _, place in kept], scope.strings)])
        new = shred(
            self.kind, root.name, identity, values, last.reshape(int(self.ttl is not None), len(kept)), scope.strings
        )
        for relation in self.relations:
            old = [
                rows.compress(np.array([entry in self._changed for entry in entries], dtype=bool), axis=1)
                for entries, rows in self._stored[relation.name]
            ]
            scope.change(relation, np.concatenate(old, axis=1), new[relation.name])
        self.forget()

    # --- the entries of the current key ---------------------------------------

    def _scope(self) -> StateScope:
        if self.scope is None:
            raise StateError(
                f"state {self.name} was used outside its operator; use it in a callback of a running operator"
            )
        return self.scope

    def _fault(self, what: object, key: int | None = None) -> StateError:
        """Return an error for the key of this number; by default, the current one."""
        scope = self._scope()
        number = scope.current if key is None else key
        named = f", key {shorten(scope.keys[number])}" if number >= 0 else ""
        return StateError(f"{scope.operator}.{self.name}{named}: {what}")

    def _cell(self) -> dict[Place, Any]:
        scope = self._scope()
        if scope.current < 0:
            raise self._fault(
                "there is no current key here; use a state in row() or a timer, or pass batch.keys in rows()"
            )
        if len(self._cells) <= scope.current:
            self._load()
        return self._cells[scope.current]

    def _lives(self, place: Place) -> bool:
        return self.ttl is None or self._expiry[self._scope().current, place] > self._scope().now

    def _find(self, place: Place, default: Any) -> Any:
        cell = self._cell()
        return copied(self.kind, cell[place]) if place in cell and self._lives(place) else default

    def _live(self) -> dict[Place, Any]:
        """Return the entries of the current key that have not expired, in the order of their places."""
        cell = self._cell()
        return {place: copied(self.kind, cell[place]) for place in sorted(cell) if self._lives(place)}

    def _put(self, place: Place, value: Any, check: bool = True) -> None:
        cell, scope = self._cell(), self._scope()
        cell[place] = self._check(self.kind, value) if check else value
        self._changed[scope.current, place] = None
        if self.ttl is not None:
            self._expiry[scope.current, place] = scope.time + self.ttl

    def _drop(self, *places: Place) -> None:
        cell, scope = self._cell(), self._scope()
        for place in places:
            if place in cell:
                del cell[place]
                self._changed[scope.current, place] = None

    def _next(self) -> int:
        """Return a number that is greater than the last one in the place of each entry."""
        key = self._scope().current
        if key not in self._ends:
            self._ends[key] = max((place[-1] for place in self._cell()), default=-1) + 1
        self._ends[key] += 1
        return self._ends[key] - 1

    def _check(self, kind: Kind, value: Any, key: int | None = None) -> Any:
        try:
            return checked(kind, value)
        except (TypeError, ValueError) as error:
            raise self._fault(error, key) from error

    def clear(self, keys: BatchKeys | None = None) -> None:
        """Remove all entries of the current key, or of each of the ``keys``."""
        if keys is None:
            self._drop(*self._cell())
        else:
            for _ in self._scope().each(keys):
                self.clear()

    # --- many keys at once ----------------------------------------------------

    def _for_each(self, keys: BatchKeys, kind: Kind, values: Any, put: Callable[[Any], None]) -> None:
        """Pass the value of each row to a method of the current key. Columns of a struct become dicts."""
        rows = self._values(kind, values, len(keys))
        for at in self._scope().each(keys):
            put(rows[at])

    def _values(self, kind: Kind, given: Any, count: int) -> list[Any]:
        """Return n values from a column, or from the columns of a struct."""
        if isinstance(kind, Scalar):
            return decode(self._line("value", kind, given, count), kind.type, self._scope().strings)
        if isinstance(given, Mapping | pd.DataFrame):
            fields = self._named(kind, given) if isinstance(kind, Struct) else dict.fromkeys(given, kind.item)
            columns = [self._values(each, given[name], count) for name, each in fields.items()]
            return [dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True)]
        return self._sized(list(given), count)

    def _put_columns(self, keys: BatchKeys, values: Any, *places: Words) -> Sequence[Words]:
        """Write one entry for each row, and return what was written. The last row of a key and place counts."""
        self._enter(keys)
        lines = self._columns(values, len(keys))
        identity = np.vstack([keys.words, *places])
        last = (grouped(identity) if places else keys.groups).last
        identity = identity.take(last, axis=1)
        count = len(keys.words)
        found = self._scope().read(self.relations[0], identity[:count], identity[count:] if places else None)
        lines = [line.take(last) for line in lines]
        self._replace(identity, found, lines, keys.times.take(last))
        return lines

    def _enter(self, keys: BatchKeys) -> None:
        """Prepare for reading and writing rows without the cells: hand over what they have changed."""
        self._scope().own(keys)
        self.flush()
        self.forget()

    def _columns(self, values: Any, count: int) -> list[Words]:
        """Return n values of a flat type as words: one line for a scalar; for a struct, first one of ones."""
        if not isinstance(self.kind, Struct):
            return [self._line("value", self.kind, values, count)]
        lines = [self._line(name, kind, values[name], count) for name, kind in self._named(self.kind, values).items()]
        return [np.ones(count, dtype=np.int64), *lines]

    def _named(self, kind: Struct, columns: Any) -> dict[str, Kind]:
        """Return the fields of a struct. Raises StateError unless they are the columns."""
        fields = dict(kind.fields)
        if set(columns) != set(fields):
            raise self._fault(f"the columns {', '.join(map(str, columns))} are not those of {kind}")
        return fields

    def _line(self, name: str, kind: Kind, given: Any, count: int) -> Words:
        """Return n values of a scalar type as words. A single value is repeated."""
        assert isinstance(kind, Scalar)
        listed = pd.api.types.is_list_like(given, allow_sets=False) and not isinstance(given, Mapping)
        scope, column = self._scope(), Column(name, kind.type)
        words = words_of(given if listed else [given] * count, column, f"{scope.operator}.{self.name}", scope.strings)
        return self._sized(words, count)

    def _sized(self, values: _Sized, count: int) -> _Sized:
        if len(values) != count:
            raise self._fault(f"got {len(values)} values for {count} keys")
        return values

    def _replace(self, identity: Words, found: Found, lines: Sequence[Words], times: Words) -> None:
        """Write one row for each of the distinct identities, int64[k, m], in place of the rows that were found."""
        last = [times + self.ttl] if self.ttl is not None else []
        self._scope().change(self.relations[0], found[1], np.vstack([identity, *lines, *last]))


def checked_default(kind: Kind, default: Any, state: str) -> Any:
    """Return a default as its type stores it. Raises StateError if it has another type."""
    try:
        return checked(kind, default)
    except (TypeError, ValueError) as error:
        raise StateError(f"the default of {state}: {error}") from error


class ValueState(KeyedState):
    """One value for each key. ``default`` is what `get` returns if there is none.

    >>> from sharedstate_lite import managed as m
    >>> class Changed(m.Operator):
    ...     out = "plane STRING, was INT, now INT"
    ...     gate = m.Value("INT")
    ...     def row(self, key, row, out):
    ...         if self.gate.get() != row["gate"]:
    ...             out(key, self.gate.get(), row["gate"])
    ...         self.gate.set(row["gate"])
    >>> run = m.run(Changed(), m.source("flights", "plane STRING, gate INT", key="plane"))
    >>> run.step([("N1", 3), ("N1", 3), ("N1", 4)]).values.tolist()
    [['N1', <NA>, 3], ['N1', 3, 4]]
    >>> run.read("gate", key="N1")
    4
    """

    def __init__(self, kind: str, ttl: str | datetime.timedelta | None = None, default: Any = None) -> None:
        super().__init__(parse_type(kind), ttl)
        self.default = checked_default(self.kind, default, "a Value")

    def get(self, keys: BatchKeys | None = None) -> Any:
        """Return the value, or the default. For ``keys``, return a Series or, for a struct, a DataFrame."""
        if keys is None:
            return self._find((), copied(self.kind, self.default))
        return self._column(keys, self.default)

    def exists(self) -> bool:
        """Return whether there is a value. It can be None, which is NULL."""
        return () in self._cell() and self._lives(())

    def set(self, value: Any, values: Any = None) -> None:
        """Replace the value: ``set(value)``, or ``set(keys, values)``, where the last row of a key counts."""
        if not isinstance(value, BatchKeys):
            self._put((), value)
        elif self.flat:
            self._put_columns(value, values)
        else:
            self._for_each(value, self.kind, values, self.set)

    def _column(self, keys: BatchKeys, default: Any) -> Any:
        """Return the value of each key's row as a column."""
        scope = self._scope()
        if not self.flat:
            return pd.Series([self._find((), default) for _ in scope.each(keys)], dtype=object)
        self._enter(keys)
        owner, rows = scope.read(self.relations[0], keys.unique)
        first = self.relations[0].key + isinstance(self.kind, Struct)
        columns = {}
        for at, (name, kind) in enumerate(self.fields):
            assert isinstance(kind, Scalar)
            missing = default[name] if isinstance(default, dict) else default
            words = encode([missing], kind.type, scope.strings).repeat(keys.unique.shape[1])
            words[owner] = rows[first + at]
            columns[name] = to_series(words.take(keys.groups.member), kind.type, scope.strings)
        return pd.DataFrame(columns) if isinstance(self.kind, Struct) else columns["value"]


class ReducingState(ValueState):
    """One value for each key, to which `add` applies a function of two values, such as sum.

    ``reducer`` is "sum", "min" or "max", or an associative and commutative function. For a STRUCT, it can be a dict
    with one of these names for each field. None is not added.

    >>> from sharedstate_lite import managed as m
    >>> class Total(m.Operator):
    ...     total = m.Reducing("BIGINT", "sum")
    ...     def rows(self, batch, out):
    ...         self.total.add(batch.keys, batch["length"])
    >>> run = m.run(Total(), m.source("visit", "product STRING, length INT", key="product"), workers=2)
    >>> _ = run.step([("Apple", 20), ("Potato", 60), ("Apple", 5)])
    >>> run.read("total")
      product  total
    0   Apple     25
    1  Potato     60
    """

    def __init__(self, kind: str, reducer: Any, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)
        self.reducer = reducer
        fields = dict(self.fields)
        names = reducer if isinstance(reducer, Mapping) else dict.fromkeys(fields, reducer)
        named = set(names) == set(fields) and all(isinstance(each, str) and each in REDUCERS for each in names.values())
        if not named and not callable(reducer):
            raise StateError(f"the reducer {shorten(reducer)} is not sum, min or max, or a function of two values, "
                             "or a dict with one of these names for each field of a STRUCT")  # fmt: skip
        self._names = [names[field] for field in fields] if named else []
        for each, (field, kind_) in zip(self._names, fields.items(), strict=named):
            if not isinstance(kind_, Scalar) or (each == "sum" and kind_.type not in _ARITHMETIC):
                raise StateError(f"the reducer {each} does not apply to {field} {kind_}")

    def describe(self) -> dict[str, Any]:
        """Add the reducer: its name or, for a function, the name of the function."""
        return {**super().describe(), "reducer": function_name(self.reducer)}

    def add(self, value: Any, values: Any = None) -> None:
        """Apply the reducer to the state and ``value``; or, with ``add(keys, values)``, to each key and its values."""
        if isinstance(value, BatchKeys):
            fast = self._names and all(isinstance(k, Scalar) and k.type in _ORDERED for _, k in self.fields)
            self._add_columns(value, values) if fast else self._for_each(value, self.kind, values, self.add)
            return
        added = self._check(self.kind, value)
        if added is not None:
            there = self._find((), None)
            # Of a sum, only the last value of the epoch has to be in range, as in rows().
            self._put((), added if there is None else self._combine(there, added), check=not self._names)

    def flush(self) -> None:
        """Check the sums of the epoch first."""
        for key, place in self._changed if self._names else ():
            if place in self._cells[key]:
                self._check(self.kind, self._cells[key][place], key)
        super().flush()

    def _combine(self, a: Any, b: Any) -> Any:
        if not self._names:
            return self.reducer(a, b)
        if not isinstance(self.kind, Struct):
            return REDUCERS[self._names[0]](a, b)
        return {
            name: b[name] if a[name] is None else a[name] if b[name] is None else REDUCERS[each](a[name], b[name])
            for each, (name, _) in zip(self._names, self.kind.fields, strict=True)
        }

    def _add_columns(self, keys: BatchKeys, values: Any) -> None:
        self._enter(keys)
        lines, wide = self._columns(values, len(keys)), isinstance(self.kind, Struct)
        if not wide:
            real = lines[0] != NULL
            keys, lines = keys[real], [lines[0].compress(real)]
        member, first = keys.groups.member, self.relations[0].key + wide
        owner, old = found = self._scope().read(self.relations[0], keys.unique)
        out = [np.ones(keys.unique.shape[1], dtype=np.int64)] if wide else []
        for at, (reducer, column) in enumerate(zip(self._names, self.relations[0].columns[first:], strict=False)):
            before = np.full(keys.unique.shape[1], NULL)
            before[owner] = old[first + at]
            try:
                out.append(reduce_words(before, lines[wide + at], member, reducer, column.type))
            except OverflowError as error:
                raise self._fault(error) from error
        self._replace(keys.unique, found, out, keys.last)


def function_name(function: Any) -> Any:
    """Return how a checkpoint names a function. Names and dicts of names stay as they are."""
    return f"{function.__module__}.{function.__qualname__}" if callable(function) else function


def reduce_words(before: Words, added: Words, member: npt.NDArray[np.intp], reducer: str, kind: Type) -> Words:
    """Apply a reducer to m values and, one after the other, to n added ones, and return the new m values.

    ``member``, int[n], are the positions of the values that the added ones belong to. NULL is left out. Raises
    OverflowError.
    """
    real = np.flatnonzero(added != NULL)
    member, added = member.take(real), added.take(real)
    none = before == NULL
    missing = none.copy()
    missing[member] = False
    double = kind is Type.DOUBLE
    old, new = (doubles(before), doubles(added)) if double else (before, added)
    least, most = (-np.inf, np.inf) if double else (NULL, 2**63 - 1)
    out = np.where(none, {"sum": 0, "min": most, "max": least}[reducer], old)
    with np.errstate(over="ignore"):
        _UFUNCS[reducer].at(out, member, new)
    if reducer == "sum":
        # int64 wraps around. A float64 sum is not exact, but it shows where that has happened.
        wide = np.where(none, 0.0, old)
        with np.errstate(over="ignore"):
            np.add.at(wide, member, new.astype(np.float64))
        low, high = (-(2**31), 2**31 - 1) if kind is Type.INT else (NULL + 1, most)
        if (np.isinf(wide) if double else (out < low) | (out > high) | (np.abs(wide - out) > 2.0**62)).any():
            raise OverflowError(f"a sum is out of the range of {kind.value}")
    return np.where(missing, NULL, from_doubles(out) if double else out)


class Mean:
    """The average, for `AggregatingState`: the sum and the number of the values, which merge."""

    acc = "STRUCT<n: BIGINT, total: DOUBLE>"

    def create(self) -> Any:
        """Return the accumulator of no values."""
        return {"n": 0, "total": 0.0}

    def add(self, acc: Any, value: Any) -> Any:
        """Return the accumulator with one more value."""
        return {"n": acc["n"] + 1, "total": acc["total"] + value}

    def merge(self, a: Any, b: Any) -> Any:
        """Return the accumulator of the values of both."""
        return {"n": a["n"] + b["n"], "total": a["total"] + b["total"]}

    def result(self, acc: Any) -> Any:
        """Return the average, or None without values."""
        return acc["total"] / acc["n"] if acc["n"] else None


class AggregatingState(KeyedState):
    """An accumulator for each key. `add` adds a value to it, and `get` returns its result.

    ``aggregate`` has the methods ``create()``, ``add(acc, value)``, ``merge(a, b)`` and ``result(acc)``, and the type
    of its accumulator as ``acc``, as `Mean` does. ``kind`` is the type of the values added, and also of the result
    unless the aggregate has another one as ``returns``.

    >>> from sharedstate_lite import managed as m
    >>> class Average(m.Operator):
    ...     mean = m.Aggregating("DOUBLE", m.Mean)
    ...     def row(self, key, row, out):
    ...         self.mean.add(row["length"])
    >>> run = m.run(Average(), m.source("visit", "product STRING, length INT", key="product"))
    >>> _ = run.step([("Apple", 20), ("Apple", 5)])
    >>> run.read("mean", key="Apple")
    12.5
    """

    def __init__(self, kind: str, aggregate: Any, acc: str = "", ttl: str | datetime.timedelta | None = None) -> None:
        self.aggregate = aggregate() if isinstance(aggregate, type) else aggregate
        missing = [each for each in ("create", "add", "merge", "result") if not hasattr(self.aggregate, each)]
        declared = acc or getattr(self.aggregate, "acc", "")
        if missing or not declared:
            raise StateError(f"the aggregate {shorten(aggregate)} lacks {', '.join(missing) or 'the type of its acc'}")
        super().__init__(parse_type(declared), ttl)
        self.given = parse_type(kind)
        self._returns = parse_type(getattr(self.aggregate, "returns", kind))

    def describe(self) -> dict[str, Any]:
        """Add the aggregate's name, and the type of its accumulator."""
        return {**super().describe(), "acc": str(self.kind), "reducer": function_name(type(self.aggregate))}

    @property
    def shown(self) -> Kind:
        """The type of the result."""
        return self._returns

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return the result."""
        return self.aggregate.result(entries[()]) if () in entries else None

    def get(self) -> Any:
        """Return the result, or None if nothing was added."""
        return self.show(self._live())

    def add(self, value: Any, values: Any = None) -> None:
        """Add a value, or with ``add(keys, values)`` one for each key. None is not added."""
        if isinstance(value, BatchKeys):
            self._for_each(value, self.given, values, self.add)
            return
        added = self._check(self.given, value)
        if added is not None:
            there = self._live()
            self._put((), self.aggregate.add(there[()] if there else self.aggregate.create(), added))


class ListState(KeyedState):
    """Values in the order in which they were appended. With a ``ttl``, each of them expires by itself.

    >>> from sharedstate_lite import managed as m
    >>> class Tail(m.Operator):
    ...     tail = m.List("STRUCT<dest: STRING, delay: INT>")
    ...     def row(self, key, row, out):
    ...         self.tail.set(self.tail.get()[-1:] + [(row["dest"], row["delay"])])
    >>> run = m.run(Tail(), m.source("flights", "plane STRING, dest STRING, delay INT", key="plane"))
    >>> _ = run.step([("N1", "BOS", 5), ("N1", "ORD", 0), ("N1", "SFO", 9)])
    >>> run.read("tail", key="N1")
    [{'dest': 'ORD', 'delay': 0}, {'dest': 'SFO', 'delay': 9}]
    """

    place = (Column("@position", Type.BIGINT),)

    def __init__(self, kind: str, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(parse_type(kind), ttl)

    @property
    def shown(self) -> Kind:
        """A LIST of the values' type."""
        return Collection(self.kind)

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return the values in order."""
        return [entries[place] for place in sorted(entries)]

    def get(self) -> list[Any]:
        """Return the values as a new list."""
        return list(self._live().values())

    def clear(self, keys: BatchKeys | None = None) -> None:
        """Remove all values of the current key, or of each of the ``keys``."""
        super().clear(keys)
        if keys is None:
            self._ends[self._scope().current] = 0

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        self._put((self._next(),), value)

    def set(self, values: Sequence[Any]) -> None:
        """Replace all values."""
        found = self._check(Collection(self.kind), values) or []
        self.clear()
        for value in found:
            self.append(value)


class MapState(KeyedState):
    """Values by map key. Changing one entry changes one row of the store. With a ``ttl``, each entry expires by itself.

    >>> from sharedstate_lite import managed as m
    >>> class Routes(m.Operator):
    ...     routes = m.Map("STRING", "STRUCT<n: BIGINT, delays: LIST<INT>>")
    ...     def row(self, key, row, out):
    ...         route = self.routes.get(row["dest"], {"n": 0, "delays": []})
    ...         self.routes.put(row["dest"], {"n": route["n"] + 1, "delays": [*route["delays"], row["delay"]]})
    >>> run = m.run(Routes(), m.source("flights", "plane STRING, dest STRING, delay INT", key="plane"))
    >>> _ = run.step([("N1", "BOS", 5), ("N1", "ORD", 0), ("N1", "BOS", 9)])
    >>> run.read("routes", key="N1")
    {'BOS': {'n': 2, 'delays': [5, 9]}, 'ORD': {'n': 1, 'delays': [0]}}
    """

    def __init__(self, key: str, kind: str, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(parse_type(kind), ttl)
        found = parse_type(key)
        if not isinstance(found, Scalar):
            raise StateError(f"the key of a Map is one of the seven scalar types, not {found}")
        self.key = found.type
        self.place = (Column("@key", found.type),)

    @property
    def shown(self) -> Kind:
        """A MAP."""
        return Collection(self.kind, self.key)

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return a dict in the order of its keys."""
        return {key: entries[key,] for (key,) in sorted(entries)}

    def places(self, lines: Words, strings: Dictionary) -> list[Place]:
        """Return the map keys of n rows."""
        return [(key,) for key in decode(lines[0], self.key, strings)]

    def place_words(self, places: Sequence[Place], strings: Dictionary) -> Words:
        """Return map keys as words."""
        return encode([key for (key,) in places], self.key, strings)[None]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a map key, or ``default`` if there is none."""
        return self._find((self._key(key),), default)

    def put(self, key: Any, value: Any, values: Any = None) -> None:
        """Set the value of a map key; or ``put(keys, map_keys, values)``, where the last row of an entry counts."""
        if not isinstance(key, BatchKeys):
            self._put((self._key(key),), value)
            return
        places = self._line("the map's key", Scalar(self.key), value, len(key))
        if (places == NULL).any():
            raise self._fault("the key of a MAP cannot be NULL")
        if self.flat:
            self._put_columns(key, values, places)
            return
        entries = iter(decode(places, self.key, self._scope().strings))
        self._for_each(key, self.kind, values, lambda each: self.put(next(entries), each))

    def table(self, keys: BatchKeys) -> pd.DataFrame:
        """Return all entries of the ``keys`` in ``rows()``, for values of a scalar type.

        The columns are ``at``, a position in ``keys`` that has the entry's key, and ``key`` and ``value``. The entries
        of a key that occurs several times are returned once.
        """
        if not isinstance(self.kind, Scalar):
            raise self._fault(f"table() needs values of a scalar type, not {self.kind}; use items() in row()")
        self._enter(keys)
        scope = self._scope()
        owner, rows = scope.read(self.relations[0], keys.unique)
        rows, owner = (each.compress(rows[-1] > scope.now, axis=-1) if self.ttl is not None else each
                       for each in (rows, owner))  # fmt: skip
        entry, value = rows[self.relations[0].key : self.relations[0].key + 2]
        at = keys.groups.order.take(keys.groups.starts.take(owner))
        columns = to_series(entry, self.key, scope.strings), to_series(value, self.kind.type, scope.strings)
        return pd.DataFrame({"at": at, "key": columns[0], "value": columns[1]})

    def remove(self, key: Any) -> None:
        """Remove a map key. If there is none, nothing happens."""
        self._drop((self._key(key),))

    def items(self) -> list[tuple[Any, Any]]:
        """Return the entries as (key, value), in the order of the keys."""
        return [(key, value) for (key,), value in self._live().items()]

    def __contains__(self, key: Any) -> bool:
        return (self._key(key),) in self._cell() and self._lives((self._key(key),))

    def __len__(self) -> int:
        return sum(map(self._lives, self._cell()))

    def _key(self, key: Any) -> Any:
        try:
            return checked_key(self.key, key)
        except (TypeError, ValueError) as error:
            raise self._fault(error) from error


class ArrayState(KeyedState):
    """``length`` values, of which each is ``default`` until it is set. Each value is a row of the store.

    >>> from sharedstate_lite import managed as m
    >>> class Hours(m.Operator):
    ...     hours = m.Array("BIGINT", 4, default=0)
    ...     def row(self, key, row, out):
    ...         self.hours.set(row["hour"], self.hours.get(row["hour"]) + 1)
    >>> run = m.run(Hours(), m.source("flights", "plane STRING, hour INT", key="plane"))
    >>> _ = run.step([("N1", 2), ("N1", 3), ("N1", 2)])
    >>> run.read("hours", key="N1")
    [0, 0, 2, 1]
    """

    place = (Column("@position", Type.BIGINT),)

    def __init__(self, kind: str, length: int, default: Any = None) -> None:
        super().__init__(parse_type(kind))
        self.length = parse_type(f"ARRAY<INT, {length}>").length  # type: ignore[union-attr]
        self.default = checked_default(self.kind, default, "an Array")

    @property
    def shown(self) -> Kind:
        """An ARRAY."""
        return Collection(self.kind, None, self.length)

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return all values, or None if none was set."""
        return [entries.get((at,), self.default) for at in range(self.length)] if entries else None

    def get(self, at: int | None = None) -> Any:
        """Return the value at a position from 0, or a list of all values."""
        if at is None:
            return [self.get(each) for each in range(self.length)]
        return self._find(self._at(at), copied(self.kind, self.default))

    def set(self, at: int, value: Any) -> None:
        """Set the value at a position from 0."""
        self._put(self._at(at), value)

    def _at(self, at: Any) -> Place:
        if at not in range(self.length):
            raise self._fault(f"there is no position {shorten(at)}; the positions are 0 to {self.length - 1}")
        return (int(at),)


class OrderedState(KeyedState):
    """Rows ordered by event time, of which ranges can be read and dropped.

    >>> from sharedstate_lite import managed as m
    >>> from datetime import timedelta
    >>> class Recent(m.Operator):
    ...     out = "plane STRING, n INT"
    ...     recent = m.Ordered("delay INT", ttl="24 hours")
    ...     def row(self, key, row, out):
    ...         self.recent.add(row["delay"])
    ...         out(key, len(self.recent.range(row["t"] - timedelta(hours=1))))
    >>> flights = m.source("flights", "plane STRING, delay INT, t TIMESTAMP", key="plane", time="t")
    >>> run = m.run(Recent(), flights)
    >>> hours = ("09:00", "09:30", "12:00")
    >>> run.step([("N1", 5, f"2013-01-01 {hour}") for hour in hours])["n"].tolist()
    [1, 2, 1]
    """

    place = (Column("@time", Type.TIMESTAMP), Column("@number", Type.BIGINT))

    def __init__(self, fields: str, ttl: str | datetime.timedelta | None = None) -> None:
        kind = parse_fields(fields)
        if any(name.lower() == "time" for name, _ in kind.fields):
            raise StateError(f"Ordered({fields!r}): each row has its event time as `time`; rename that field")
        super().__init__(kind, ttl)

    @property
    def shown(self) -> Kind:
        """A LIST of structs that begin with the time."""
        assert isinstance(self.kind, Struct)
        return Collection(Struct((("time", Scalar(Type.TIMESTAMP)), *self.kind.fields)))

    def show(self, entries: Mapping[Place, Any]) -> Any:
        """Return the rows in order, as dicts."""
        return [{"time": moment(place[0]), **entries[place]} for place in sorted(entries)]

    def add(self, *values: Any, at: datetime.datetime | None = None) -> None:
        """Add a row with a value for each field, at the event time of the current row or at another one."""
        time = self._scope().time if at is None else self._micros(at)
        if time == NULL:
            raise self._fault("the source has no time; declare one with source(..., time=)")
        self._put((time, self._next()), values)

    def range(
        self, start: datetime.datetime | None = None, end: datetime.datetime | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows with ``start <= time < end``, as dicts with their ``time``. None is an open end."""
        low, high = self._edges(start, end)
        cell = self._cell()
        there = {at: copied(self.kind, cell[at]) for at in cell if low <= at[0] < high and self._lives(at)}
        return list(self.show(there))

    def drop_until(self, end: datetime.datetime) -> None:
        """Remove the rows before a time."""
        _, high = self._edges(None, end)
        self._drop(*[place for place in self._cell() if place[0] < high])

    def _edges(self, start: datetime.datetime | None, end: datetime.datetime | None) -> tuple[int, int]:
        return NULL if start is None else self._micros(start), 2**63 if end is None else self._micros(end)

    def _micros(self, given: datetime.datetime) -> int:
        try:
            return microseconds(given)
        except (TypeError, ValueError) as error:
            raise self._fault(error) from error


class TimerState(ValueState):
    """At most one pending time for each key. When the watermark reaches it, ``on_<name>(key, at, out)`` is called.

    A timer at or before the watermark is called in the same epoch.

    >>> from sharedstate_lite import managed as m
    >>> from datetime import timedelta
    >>> class Quiet(m.Operator):
    ...     out = "plane STRING, since TIMESTAMP"
    ...     quiet = m.Timer()
    ...     def row(self, key, row, out):
    ...         self.quiet.set(row["t"] + timedelta(hours=1))
    ...     def on_quiet(self, key, at, out):
    ...         out(key, at)
    >>> run = m.run(Quiet(), m.source("flights", "plane STRING, t TIMESTAMP", key="plane", time="t"))
    >>> run.step([("N1", "2013-01-01 09:00"), ("N1", "2013-01-01 09:30")]).values.tolist()
    []
    >>> run.step([("N2", "2013-01-01 11:00")])
      plane                since
    0    N1  2013-01-01 10:30:00
    """

    deadline = "value"

    def __init__(self) -> None:
        super().__init__("TIMESTAMP")

    def set(self, value: Any, values: Any = None) -> None:
        """Replace the pending time: ``set(at)``, or ``set(keys, times)``, where the last row of a key counts."""
        scope, missing = self._scope(), self._fault("a timer needs a time; to remove the pending one, use clear()")
        if isinstance(value, BatchKeys):
            (times,) = self._put_columns(value, values)
            if (times == NULL).any():
                raise missing
            for key, at in zip(scope.register(value.unique), times.tolist(), strict=True):
                scope.arm(self.name, key, at)
        elif value is None:
            raise missing
        else:
            self._put((), value)
            scope.arm(self.name, scope.current, microseconds(self._find((), None)))
