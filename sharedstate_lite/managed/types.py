"""The types of state, and how nested values are shredded into flat relations.

A type is one of the catalog's seven, or ``LIST<T>``, ``ARRAY<T, n>`` (n values), ``MAP<K, V>`` (K is one of the seven)
or ``STRUCT<name: T, ...>``, nested at will. Python's values are lists, dicts, and dicts by field name.

`shred` turns values into rows, and `assemble` turns the rows back into values. Each LIST, ARRAY and MAP is a relation
of its own, with a row for each entry. A row is identified by the row that contains the collection, and by the entry's
position or map key. A field of a STRUCT becomes a column. Changing one entry of a map therefore changes one row. A
collection and a struct also have a Boolean column, because NULL differs from an empty collection and from a struct of
NULLs.

>>> kind = parse_type("STRUCT<n: BIGINT, delays: LIST<INT>>")
>>> for relation in relations("routes", kind, (Column("plane", Type.INT),), (Column("@key", Type.INT),)):
...     print(relation.name, [c.name for c in relation.columns])
routes ['plane', '@key', '?', 'n', 'delays?']
routes.delays ['plane', '@key', '@position', 'value']

Source: Melnik et al., Dremel: Interactive analysis of web-scale datasets, VLDB 2010, for the idea of shredding. Dremel
stores repetition levels; relations of their own allow a store to change one entry.
"""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..changelog.convert import ARROW, CALENDAR, from_values, to_arrow
from ..errors import StateError, is_integer, shorten
from ..plan.nodes import Column, Type
from ..sql.catalog import TYPES
from ..storage.encoding import Dictionary, Words
from .stores.protocol import Relation


@dataclass(frozen=True)
class Scalar:
    """One of the catalog's seven types."""

    type: Type

    @cached_property
    def check(self) -> Callable[[Any], Any]:
        """The function that checks a value of this type."""
        return _CHECKS[self.type]

    def __str__(self) -> str:
        return self.type.value


@dataclass(frozen=True)
class Struct:
    """Named fields. Python's value is a dict with exactly these names, or a tuple in this order."""

    fields: tuple[tuple[str, Kind], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"


@dataclass(frozen=True)
class Collection:
    """A MAP if it has a ``key``, an ARRAY if it has a ``length``, and a LIST otherwise."""

    item: Kind
    key: Type | None = None
    length: int = 0

    def __str__(self) -> str:
        if self.key is not None:
            return f"MAP<{self.key.value}, {self.item}>"
        return f"ARRAY<{self.item}, {self.length}>" if self.length else f"LIST<{self.item}>"


Kind = Scalar | Struct | Collection
"""A type, parsed."""

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


# --- declarations ------------------------------------------------------------


def parse_type(text: str) -> Kind:
    """Parse a type such as ``"MAP<STRING, LIST<INT>>"``. Raises StateError, which names the part that is wrong."""
    if not isinstance(text, str):
        raise StateError(f"a type is a text such as 'LIST<INT>', not {shorten(text)}")
    name = " ".join(text.upper().split())
    if name in TYPES:
        return Scalar(TYPES[name])
    nested = re.fullmatch(r"\s*(\w+)\s*<(.*)>\s*", text, re.DOTALL)
    match (nested[1].upper(), _parts(nested[2])) if nested else ("", []):
        case "STRUCT", [*fields]:
            return _struct(fields, r"\s*:\s*", text)
        case "LIST", [item]:
            return Collection(parse_type(item))
        case "MAP", [key, item]:
            kind = parse_type(key)
            if not isinstance(kind, Scalar):
                raise _fault(text, "the key of a MAP is one of the seven scalar types")
            return Collection(parse_type(item), kind.type)
        case "ARRAY", [item, length]:
            if not length.strip().isdecimal() or not int(length):
                raise _fault(text, "the length of an ARRAY is a whole number from 1")
            return Collection(parse_type(item), None, int(length))
    raise _fault(text, f"{text.strip() or 'an empty text'} is not a type")


def parse_fields(text: str) -> Struct:
    """Parse columns, such as ``"plane STRING, delays LIST<INT>"``."""
    return _struct(_parts(text), r"\s+", text)


def _struct(fields: Sequence[str], between: str, text: str) -> Struct:
    """Parse fields, in which a name and a type have the pattern ``between`` them."""
    found = [re.fullmatch(rf"\s*([^\W\d]\w*){between}(.*)", field, re.DOTALL) for field in fields]
    kinds = {each[1]: parse_type(each[2]) for each in found if each is not None}
    if len(set(map(str.lower, kinds))) < len(fields):
        raise _fault(text, "each field has a name of its own and a type")
    return Struct(tuple(kinds.items()))


def _parts(text: str) -> list[str]:
    """Split a text at the commas that are not inside < and >."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _fault(text: str, rule: str) -> StateError:
    known = ", ".join(t.value for t in Type)
    return StateError(f"type {text!r}: {rule}; a type is {known}, LIST<T>, ARRAY<T, n>, MAP<K, V> or "
                      "STRUCT<name: T, ...>")  # fmt: skip


def duration(given: str | datetime.timedelta) -> int:
    """Return a duration, such as ``"24 hours"``, in microseconds. Raises StateError if it is negative.

    >>> duration("10 minutes")
    600000000
    """
    if isinstance(given, datetime.timedelta):
        length = given
    else:
        found = re.fullmatch(r"\s*(\d+)\s*(milliseconds?|seconds?|minutes?|hours?|days?|weeks?)\s*", str(given))
        if found is None:
            raise StateError(f"{shorten(given)} is not a duration; write a text such as '24 hours', or a timedelta")
        length = datetime.timedelta(**{found[2].rstrip("s") + "s": int(found[1])})
    if length < datetime.timedelta(0):
        raise StateError(f"the duration {shorten(given)} is negative; durations start at 0")
    return length // _MICROSECOND


# --- values ------------------------------------------------------------------


def checked(kind: Kind, value: Any) -> Any:
    """Return a copy of ``value`` as the type stores it, with NaN and NA as None. Raises TypeError or ValueError.

    >>> checked(parse_type("MAP<STRING, LIST<INT>>"), {"BOS": (5, None)})
    {'BOS': [5, None]}
    """
    if value is None or value is pd.NA:
        return None
    if isinstance(kind, Scalar):
        return kind.check(value)
    if isinstance(kind, Struct):
        names = [name for name, _ in kind.fields]
        if isinstance(value, tuple) and len(value) == len(names):
            value = dict(zip(names, value, strict=True))
        if not isinstance(value, Mapping) or set(value) != set(names):
            raise TypeError(f"{shorten(value)} is no {kind}; pass a dict with exactly these fields")
        return {name: checked(each, value[name]) for name, each in kind.fields}
    if kind.key is not None:
        if not isinstance(value, Mapping):
            raise TypeError(f"{shorten(value)} is no {kind}; pass a dict")
        # In the order of the keys, as the value comes back from a store: an operator may depend on it.
        found = {checked_key(kind.key, key): checked(kind.item, item) for key, item in value.items()}
        return {key: found[key] for key in sorted(found)}
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{shorten(value)} is no {kind}; pass a list")
    if kind.length and len(value) != kind.length:
        raise ValueError(f"{shorten(value)} has {len(value)} values, but an {kind} has exactly {kind.length}")
    return [checked(kind.item, item) for item in value]


def checked_key(kind: Type, key: Any) -> Any:
    """Return the key of a map entry as the type stores it. Raises ValueError for NULL."""
    found = checked(Scalar(kind), key)
    if found is None:
        raise ValueError("the key of a MAP cannot be NULL")
    return found


def _whole(low: int, high: int, name: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not int and not is_integer(value):
            return _missing(value, name)
        if not low <= value <= high:
            raise ValueError(f"{value} is out of the range of {name}, {low} to {high}")
        return int(value)

    return check


def _double(value: Any) -> Any:
    if not isinstance(value, float | int | np.number) or isinstance(value, bool):
        raise TypeError(f"{shorten(value)} is no DOUBLE")
    number = float(value)
    if number - number != 0:
        return _missing(number, "DOUBLE, which must be finite")
    return number + 0.0


def _timestamp(value: Any) -> Any:
    if type(value) is datetime.datetime and value.tzinfo is None:
        return value
    return moment(microseconds(value)) if isinstance(value, datetime.datetime) else _missing(value, "TIMESTAMP")


def _date(value: Any) -> Any:
    plain = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return value if plain else _missing(value, "DATE")


def _missing(value: Any, name: str) -> None:
    """Return None for NaN, which is NULL. Raises TypeError for every other value."""
    if not isinstance(value, float) or value == value:
        raise TypeError(f"{shorten(value)} is no {name}")


_CHECKS: dict[Type, Callable[[Any], Any]] = {
    Type.STRING: lambda value: str(value) if isinstance(value, str) else _missing(value, "STRING"),
    Type.INT: _whole(-(2**31), 2**31 - 1, "INT"),
    Type.BIGINT: _whole(-(2**63) + 1, 2**63 - 1, "BIGINT"),
    Type.DOUBLE: _double,
    Type.BOOLEAN: lambda value: bool(value) if isinstance(value, bool | np.bool_) else _missing(value, "BOOLEAN"),
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}
"""For each type, a function that returns a value as the type stores it, and raises TypeError or ValueError."""


def microseconds(value: datetime.datetime) -> int:
    """Return the microseconds from 1970 to a datetime without a time zone. Raises TypeError or ValueError otherwise."""
    if not isinstance(value, datetime.datetime) or value != value:
        raise TypeError(f"{shorten(value)} is no time; pass a datetime")
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone; convert it to UTC and remove the time zone first")
    return int((value - _EPOCH) // _MICROSECOND)


def moment(micros: int) -> datetime.datetime:
    """Return the datetime that is this many microseconds after 1970. Times past the calendar become its last one."""
    first, last = CALENDAR[Type.TIMESTAMP]
    return _EPOCH + _MICROSECOND * min(max(micros, first), last)


def copied(kind: Kind, value: Any) -> Any:
    """Return a value that the caller may change without changing the state."""
    return value if isinstance(kind, Scalar) else copy.deepcopy(value)


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the Arrow type of a type. An ARRAY becomes a list."""
    if isinstance(kind, Scalar):
        return ARROW[kind.type]
    if isinstance(kind, Struct):
        return pa.struct([(name, arrow_type(each)) for name, each in kind.fields])
    return pa.list_(arrow_type(kind.item)) if kind.key is None else pa.map_(ARROW[kind.key], arrow_type(kind.item))


# --- shredding ---------------------------------------------------------------


def encode(values: Sequence[Any], kind: Type, strings: Dictionary) -> Words:
    """Return n checked values as words, int64[n]."""
    return from_values(values, Column("value", kind), "state", strings)


def decode(words: Words, kind: Type, strings: Dictionary) -> list[Any]:
    """Return words, int64[n], as n Python values."""
    found: list[Any] = to_arrow(words, kind, strings).to_pylist()
    return found


def relations(
    name: str, kind: Kind, key: Sequence[Column], sub: Sequence[Column] = (), last: Sequence[Column] = ()
) -> list[Relation]:
    """Return the relations of a type: the one of its root first. ``last`` are columns at the end of each of them."""
    columns, nested = _leaves(kind, "")
    out = [Relation(name, (*key, *sub, *columns, *last), len(key), len(sub))]
    for path, inner in nested:
        place = Column("@position", Type.BIGINT) if inner.key is None else Column("@key", inner.key)
        out += relations(f"{name}.{path}", inner.item, key, (*sub, place), last)
    return out


def _leaves(kind: Kind, path: str) -> tuple[list[Column], list[tuple[str, Collection]]]:
    """Return the columns of a type in one relation, and the collections inside it with their paths."""
    if isinstance(kind, Scalar):
        return [Column(path or "value", kind.type)], []
    columns, nested = [Column(f"{path}?", Type.BOOLEAN)], []
    if isinstance(kind, Collection):
        return columns, [(path or "items", kind)]
    for name, each in kind.fields:
        more, inner = _leaves(each, f"{path}.{name}" if path else name)
        columns += more
        nested += inner
    return columns, nested


def shred(
    kind: Kind, name: str, identity: Words, values: Sequence[Any], last: Words, strings: Dictionary
) -> dict[str, Words]:
    """Return the rows of n values for each relation. ``identity``, int64[k, n], are the keys and places of the values.

    ``last``, int64[l, n], are the words of the columns at the end.
    """
    columns: list[Words] = []
    out: dict[str, Words] = {}
    for path, inner, parents in list(_split(kind, "", values, columns, strings)):
        owner = np.array([at for at, each in enumerate(parents) for _ in each or ()], dtype=np.intp)
        if inner.key is None:
            places = np.array([at for each in parents for at in range(len(each or ()))], dtype=np.int64)
            items = [item for each in parents for item in each or ()]
        else:
            places = encode([key for each in parents for key in each or ()], inner.key, strings)
            items = [item for each in parents for item in (each or {}).values()]
        below = np.vstack([identity.take(owner, axis=1), places[None]])
        out |= shred(inner.item, f"{name}.{path}", below, items, last.take(owner, axis=1), strings)
    return {name: np.vstack([identity, *columns, last]), **out}


def _split(
    kind: Kind, path: str, values: Sequence[Any], columns: list[Words], strings: Dictionary
) -> Iterator[tuple[str, Collection, Sequence[Any]]]:
    """Append the columns of the values, and yield the collections inside them."""
    if isinstance(kind, Scalar):
        columns.append(encode(values, kind.type, strings))
        return
    columns.append(np.array([value is not None for value in values], dtype=np.int64))
    if isinstance(kind, Collection):
        yield path or "items", kind, values
        return
    for name, each in kind.fields:
        inner = [None if value is None else value[name] for value in values]
        yield from _split(each, f"{path}.{name}" if path else name, inner, columns, strings)


def assemble(kind: Kind, name: str, tables: Mapping[str, Words], identity: int, strings: Dictionary) -> list[Any]:
    """Return the value of each row of ``tables[name]``. The first ``identity`` columns are keys and places."""
    rows = tables[name]
    return _join(kind, "", iter(rows[identity:]), name, tables, identity, strings)


def _join(
    kind: Kind, path: str, lines: Iterator[Words], name: str, tables: Mapping[str, Words], identity: int, s: Dictionary
) -> list[Any]:
    line = next(lines)
    if isinstance(kind, Scalar):
        return decode(line, kind.type, s)
    present = (line == 1).tolist()
    if isinstance(kind, Struct):
        names = [field for field, _ in kind.fields]
        parts = [
            _join(each, f"{path}.{field}" if path else field, lines, name, tables, identity, s)
            for field, each in kind.fields
        ]
        whole = zip(present, zip(*parts, strict=True), strict=True)
        return [dict(zip(names, values, strict=True)) if there else None for there, values in whole]
    below = f"{name}.{path or 'items'}"
    items = assemble(kind.item, below, tables, identity + 1, s)
    places = tables[below][identity]
    keys = places.tolist() if kind.key is None else decode(places, kind.key, s)
    parent = {row: at for at, row in enumerate(zip(*tables[name][:identity].tolist(), strict=True))}
    owners = [parent[row] for row in zip(*tables[below][:identity].tolist(), strict=True)]
    out: list[Any] = [None if not there else [] if kind.key is None else {} for there in present]
    for at in sorted(range(len(keys)), key=keys.__getitem__):
        if kind.key is None:
            out[owners[at]].append(items[at])
        else:
            out[owners[at]][keys[at]] = items[at]
    return out
