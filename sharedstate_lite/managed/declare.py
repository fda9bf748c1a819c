"""What a user declares: operators with their state, and the source of their rows.

The kit reads an operator's class once, before the first row. Everything that is wrong with it is an error then: a state
without a type, a timer without a callback, both or neither of ``row`` and ``rows``.
"""

from __future__ import annotations

import datetime
import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import RowError, StateError, shorten
from ..plan.nodes import Column, Type
from ..storage.encoding import NULL, Dictionary, Words
from .events import BatchKeys, Events, Schema, read_rows
from .handles import KeyedState, StateScope, TimerState
from .tasks import TaskState
from .types import Scalar, Struct, duration, moment, parse_fields

RESERVED = ("row", "rows", "out", "key", "order", "watermark", "now", "clock", "each", "scope")
"""Names of an operator that cannot be names of states."""


class StatefulOperator:
    """The base class of operators with managed state, ``m.Operator``.

    A subclass declares its states as class attributes, and ``out``, the columns that it emits. It defines either
    ``row(self, key, row, out)``, which is called for each row, or ``rows(self, batch, out)``, which is called once for
    the rows of an epoch. For a timer ``quiet`` it defines ``on_quiet(self, key, at, out)``.

    ``key`` names the columns of the key, if they are not those of the source. ``order`` is "arrival" or "event". With
    "event", a row waits until the watermark has passed its time, and rows and timers are processed in the order of
    their times.
    """

    out: str = ""
    key: str | Sequence[str] = ()
    order: str = "arrival"

    scope: StateScope | None = None
    """Set on the copies that process rows."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute that is no state. Raises StateError for a state, which only its methods change."""
        state = getattr(type(self), name, None)
        if isinstance(state, KeyedState | TaskState):
            method = next(each for each in ("add", "set", "put") if hasattr(state, each))
            place = "key, " if method == "put" else "position, " if hasattr(state, "length") else ""
            raise StateError(f"{type(self).__name__}.{name} is a state, which an assignment does not change; "
                             f"write self.{name}.{method}({place}{shorten(value)})")  # fmt: skip
        super().__setattr__(name, value)

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark at the start of the epoch. No earlier row will come. None before the first row."""
        return self._moment("watermark")

    @property
    def now(self) -> datetime.datetime | None:
        """The event time of the current row or timer."""
        return self._moment("time")

    @property
    def clock(self) -> Any:
        """What was passed to ``step`` as ``clock``. It is part of the input, so a repeated epoch sees the same."""
        return getattr(self.scope, "clock", None)

    def each(self, keys: BatchKeys) -> Iterator[int]:
        """Yield the positions of ``keys`` in ``rows()``. Meanwhile, states are those of the key at this position."""
        if self.scope is None:
            raise StateError(f"{type(self).__name__}.each() was called outside rows(); use it in a running operator")
        return self.scope.each(keys)

    def _moment(self, name: str) -> datetime.datetime | None:
        micros = getattr(self.scope, name, NULL)
        return None if micros == NULL else moment(micros)


@dataclass(frozen=True)
class Declared:
    """An operator's class as the kit has read it."""

    operator: StatefulOperator
    name: str
    out: Struct
    states: dict[str, KeyedState]
    tasks: dict[str, TaskState]
    by_row: bool
    event_order: bool
    key: tuple[str, ...] = ()
    types: Schema = ()
    """The columns of its input."""

    @property
    def key_columns(self) -> list[Column]:
        """The names and types of the key."""
        kinds = dict(self.types)
        return [Column(name, kinds[name].type) for name in self.key]  # type: ignore[union-attr]

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint compares."""
        found: dict[str, KeyedState | TaskState] = {**self.states, **self.tasks}
        return {
            "operator": self.name,
            "key": [[c.name, c.type.value] for c in self.key_columns],
            "input": str(Struct(self.types)),
            "order": "event" if self.event_order else "arrival",
            "states": {name: state.describe() for name, state in found.items()},
        }


def declared(operator: StatefulOperator, order: str | None = None) -> Declared:
    """Read an operator. ``order`` replaces its own. Raises StateError for what is wrong with its class."""
    if isinstance(operator, type) or not isinstance(operator, StatefulOperator):
        raise StateError(
            f"{shorten(operator)} is not an operator; pass an object of a subclass of m.Operator, as in Late()"
        )
    kind, name = type(operator), type(operator).__name__
    found = dict(_states(kind))
    for each, state in {**vars(operator), **found}.items():
        if isinstance(state, KeyedState | TaskState) and not state.name:
            raise StateError(f"{name}.{each} was declared outside the body of its class, for example in __init__; "
                             "declare states in the body of the class")  # fmt: skip
    states = {each: state for each, state in found.items() if isinstance(state, KeyedState)}
    tasks = {each: state for each, state in found.items() if isinstance(state, TaskState)}
    for each in found:
        if each in RESERVED or each.startswith(("on_", "_")):
            raise StateError(f"{name}.{each}: a state cannot have this name, which is reserved; rename it")
    timers = [each for each, state in states.items() if isinstance(state, TimerState)]
    for each in timers:
        if not callable(getattr(operator, f"on_{each}", None)):
            raise StateError(f"{name}.{each} is a timer without a callback; define on_{each}(self, key, at, out)")
    for each in dir(kind):
        if each.startswith("on_") and each.removeprefix("on_") not in timers:
            raise StateError(f"{name}.{each} is the callback of a timer that is not declared; write "
                             f"{each.removeprefix('on_')} = m.Timer()")  # fmt: skip
    for each in ("row", "rows", *(f"on_{timer}" for timer in timers)):
        if does_nothing(getattr(operator, each, None)):
            raise StateError(f"{name}.{each} is a coroutine or a generator, which nothing would run; define it with "
                             "def, and emit rows with out(value, ...)")  # fmt: skip
    by_row, by_batch = (callable(getattr(operator, each, None)) for each in ("row", "rows"))
    if by_row == by_batch:
        raise StateError(f"{name} defines {'both' if by_row else 'neither'} of row() and rows(); define one of them")
    order = operator.order if order is None else order
    if order not in ("arrival", "event"):
        raise StateError(f"{name}: the order {shorten(order)} is unknown; it is 'arrival' or 'event'")
    if order == "event" and by_batch:
        raise StateError(
            f"{name}: order='event' interleaves rows and timers, so it needs row(); rows() is a whole epoch"
        )
    out = parse_fields(operator.out) if operator.out else Struct(())
    return Declared(operator, name, out, states, tasks, by_row, order == "event")


def does_nothing(function: Any) -> bool:
    """Return whether a call of a function only makes an object: of ``async def``, or of a body with ``yield``."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(each(function) for each in kinds)


def _states(kind: type) -> Iterator[tuple[str, Any]]:
    """The states of a class and its bases, in the order of declaration."""
    seen: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, KeyedState | TaskState):
                seen[name] = value
            elif isinstance(value, type) and issubclass(value, KeyedState | TaskState):
                raise StateError(
                    f"{kind.__name__}.{name} is a class; declare a state with its type, as in m.Value('INT')"
                )
    yield from seen.items()


def keyed(operator: Declared, types: Schema, default: Sequence[str], time: bool) -> Declared:
    """Return the operator for an input with columns ``types``, whose key is ``default`` unless it declares one.

    Raises StateError if the key is missing or has no scalar type, or if it needs event time and there is none.
    """
    key = _key_columns(operator.name, operator.operator.key or default, types)
    if not key:
        raise StateError(f"{operator.name} has no key; set key = 'column' in its class")
    twice = Counter(each.lower() for each in (*key, *operator.states))
    for each in operator.states:
        if twice[each.lower()] > 1:
            raise StateError(f"{operator.name}.{each} has the name of a column of the key or of another state, for SQL "
                             "ignores case; rename one of them")  # fmt: skip
    for each, _ in types:
        if each.startswith("__"):
            raise StateError(f"{operator.name}: Python reserves the name of the column {each}; rename it")
    needs = [each for each, state in operator.states.items() if state.deadline] + [
        "order='event'"
    ] * operator.event_order
    if needs and not time:
        raise StateError(f"{operator.name}.{needs[0]} needs event time; declare it with source(..., time='column')")
    return replace(operator, key=key, types=types)


def _key_columns(name: str, given: str | Sequence[str], columns: Schema) -> tuple[str, ...]:
    """Return the names in a key. Raises StateError if one of them is no column with a scalar type."""
    kinds = dict(columns)
    key = tuple(each.strip() for each in given.split(",")) if isinstance(given, str) else tuple(given)
    for each in key:
        if not isinstance(kinds.get(each), Scalar):
            raise StateError(f"{name}: the key {each} is not a column with a scalar type; "
                             f"the columns are {', '.join(kinds)}")  # fmt: skip
    return key


@dataclass(frozen=True)
class EventSource:
    """The rows that a run receives. `source` creates it."""

    name: str
    columns: Struct
    key: tuple[str, ...]
    time: str | None = None
    delay: int = 0
    late: str = "error"

    def read(self, rows: Any, watermark: int, strings: Dictionary) -> tuple[Events, int, int]:
        """Return the rows that are not late, the number of those that are, and the new watermark.

        ``rows`` are a DataFrame, an Arrow table, or a list of tuples or dicts. Watermarks are in microseconds. Raises
        RowError for wrong rows and, with ``late="error"``, for late ones.
        """
        columns = read_rows(rows, self.columns, self.name, strings)
        types: Schema = self.columns.fields
        count = len(columns[0]) if columns else 0
        if self.time is None:
            return Events(types, columns, np.full(count, NULL), strings), 0, NULL
        times = columns[[name for name, _ in types].index(self.time)]
        assert isinstance(times, np.ndarray)
        events = Events(types, columns, times, strings)
        bad = np.flatnonzero(self.is_late(times, watermark))
        if len(bad) and self.late == "error":
            at = int(bad[0])
            why = f"is earlier than the watermark {moment(watermark)}; declare a longer delay"
            if times[at] == NULL:
                why = f"has no time; set its {self.time}"
            row = next(events.take(bad[:1]).rows())
            raise RowError(f"{self.name}: row {at} {shorten(row)} {why}, or late='drop' to count such rows in run.late")
        if len(bad):
            events = events.take(np.setdiff1d(np.arange(count), bad))
        return events, len(bad), self.advanced(events.times, watermark)

    def is_late(self, times: Words, watermark: int) -> npt.NDArray[np.bool_]:
        """Return which of n rows are late, or have no time, bool[n]."""
        late: npt.NDArray[np.bool_] = (times == NULL) | (times < watermark)
        return late

    def advanced(self, times: Words, watermark: int) -> int:
        """Return the watermark after an epoch with rows of these times, int64[n], none of them late."""
        return max(watermark, int(times.max()) - self.delay if len(times) else NULL)


def source(
    name: str,
    columns: str,
    *,
    key: str | Sequence[str],
    time: str | None = None,
    delay: str | datetime.timedelta = "0 seconds",
    late: str = "error",
) -> EventSource:
    """Declare the rows of a run.

    ``key`` names the columns that rows are partitioned by, and ``time`` the TIMESTAMP column of their event times. The
    *watermark* is the greatest time so far minus ``delay``. A row that is earlier than the watermark is late. Late rows
    raise RowError, or with ``late="drop"`` they are dropped and counted in ``run.late``.

    >>> source("flights", "plane STRING, t TIMESTAMP", key="plane", time="t", delay="10 minutes").delay
    600000000
    """
    found = parse_fields(columns)
    names = _key_columns(f"source {name}", key, found.fields)
    if time is not None and dict(found.fields).get(time) != Scalar(Type.TIMESTAMP):
        raise StateError(f"source {name}: the time {time} is not a TIMESTAMP column; the columns are {found}")
    if late not in ("error", "drop"):
        raise StateError(f"source {name}: late={shorten(late)} is unknown; it is 'error' or 'drop'")
    return EventSource(name, found, names, time, duration(delay), late)


__all__ = ["Declared", "EventSource", "StatefulOperator", "declared", "keyed", "source"]
