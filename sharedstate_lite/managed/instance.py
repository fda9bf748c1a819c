"""One operator on one worker: it calls the callbacks of an epoch, collects what they change, and writes it at the end.

    rows       in order of arrival or, with order="event", of event time
    timers     the watermark advances, and those that it has reached are called in the order (time, key, name)
    expiries   entries whose expiry the watermark has reached are removed

Nothing is written before `commit`, so an epoch in which a callback raises leaves no trace.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import Error, StateError, shorten
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary, Words
from .deadlines import Deadlines
from .declare import Declared
from .events import BatchKeys, Events, Output, Rank, RowBatch, grouped, row_class
from .handles import KeyedState, OrderedState, TimerState
from .stores.protocol import Found, Relation, StateStore, add_changes, changed
from .tasks import TaskState
from .types import Struct, assemble, decode, microseconds, shred

MAX_FIRINGS = 1_000
"""How often a timer of a key may be called at one time in an epoch."""
_TIMER, _ROW = 0, 1


class WaitingRows(OrderedState):
    """The rows of an operator with order="event" whose time the watermark has not passed, by time and arrival."""

    deadline = "@time"

    def __init__(self, columns: Struct) -> None:
        KeyedState.__init__(self, columns)
        self.name = "@rows"


class Instance:
    """An operator with its store on one worker. A `StateScope`."""

    def __init__(self, declared: Declared, store: StateStore, strings: Dictionary, bins: int, worker: int) -> None:
        self.declared, self.store, self.strings, self.worker = declared, store, strings, worker
        self.operator = declared.name
        self.op = copy.copy(declared.operator)
        self.op.scope = self
        self.states: dict[str, KeyedState] = {}
        self.tasks: dict[str, TaskState] = {}
        declarations = dict(declared.states)
        if declared.event_order:
            declarations["@rows"] = WaitingRows(Struct(declared.types))
        for name, state in declarations.items():
            self.states[name] = state.bind(self, declared.key_columns)
            vars(self.op)[name] = self.states[name]
        for name, task in declared.tasks.items():
            self.tasks[name] = task.bind(declared.name)
            vars(self.op)[name] = self.tasks[name]
        self.relations = [relation for state in self.states.values() for relation in state.relations]
        store.open(f"{declared.name}-{worker}", self.relations, strings, bins)
        self.key_relation = Relation("@key", tuple(declared.key_columns), len(declared.key))
        self._row = row_class(declared.types)
        self._timers = [name for name, state in self.states.items() if isinstance(state, TimerState)]
        self._index: dict[str, Deadlines] = {}
        self.watermark = NULL
        self.clock: Any = None
        self.reindex()
        self.discard()

    def reindex(self) -> None:
        """Read the deadlines of all state, after it was loaded or moved."""
        self._index = {}
        for state in self.states.values():
            for relation in state.relations if state.deadline else ():
                # A column of the key can have the name of a deadline.
                names = [c.name for c in relation.columns[relation.key :]]
                if state.deadline in names:
                    line = relation.key + names.index(state.deadline)
                    index = self._index[relation.name] = Deadlines(relation.key, line)
                    index.add(self.store.scan(relation.name))

    # --- the scope of the states ----------------------------------------------

    def discard(self) -> None:
        """Forget what the epoch has changed."""
        self.keys: list[Any] = []
        self._ids: dict[Any, int] = {}
        self._words: list[Words] = [np.empty((len(self.declared.key), 0), dtype=np.int64)]
        self._changes: dict[str, Arrangement] = {}
        self._heap: list[tuple[int, Any, str, int]] = []
        self._batch: object = None
        self._fired: dict[tuple[str, int, int], int] = {}
        self._last: Rank = ()
        self.current, self.time, self.now, self._limit, self._reached = -1, NULL, NULL, NULL, NULL
        for state in self.states.values():
            state.forget()
        for task in self.tasks.values():
            task.pending, task.active = task.stored, False

    def key_words(self, first: int) -> Words:
        """Return the words of the keys from number ``first``."""
        if len(self._words) > 1:
            self._words = [np.concatenate(self._words, axis=1)]
        return self._words[0][:, first:]

    def register(self, words: Words) -> list[int]:
        """Return the numbers of distinct keys in this epoch. New keys get the next ones."""
        types = [c.type for c in self.declared.key_columns]
        values = [decode(line, kind, self.strings) for line, kind in zip(words, types, strict=True)]
        keys = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        fresh = [at for at, key in enumerate(keys) if key not in self._ids]
        for at in fresh:
            self._ids[keys[at]] = len(self.keys)
            self.keys.append(keys[at])
        self._words.append(words.take(fresh, axis=1))
        return [self._ids[key] for key in keys]

    def read(self, relation: Relation, keys: Words, sub: Words | None = None) -> Found:
        """Read distinct keys: the rows of the store, with the changes of this epoch."""
        found = self.store.read(relation.name, keys, sub)
        if relation.name not in self._changes:
            return found
        return changed(found, self._changes[relation.name], relation, self.strings, keys, sub)

    def change(self, relation: Relation, old: Words, new: Words) -> None:
        """Replace rows in this epoch."""
        rows = np.hstack([old, new])
        if rows.shape[1]:
            diffs = np.repeat([-1, 1], [old.shape[1], new.shape[1]])
            if relation.name not in self._changes:
                self._changes[relation.name] = relation.no_changes()
            add_changes(self._changes[relation.name], Delta(rows, diffs), self.strings)

    def own(self, keys: BatchKeys) -> None:
        """Raise StateError unless the keys are those of the batch that ``rows()`` processes."""
        if keys.owner is not self._batch or self._batch is None:
            raise StateError(f"{self.operator}: these keys are not those of the current batch; pass batch.keys")

    def each(self, keys: BatchKeys) -> Iterator[int]:
        """Yield the positions of the batch's rows, with the key and the time of each as the current ones."""
        self.own(keys)
        numbers = self.register(keys.unique)
        members, times = keys.groups.member.tolist(), keys.times.tolist()
        try:
            for at, member in enumerate(members):
                self.current, self.time = numbers[member], times[at]
                yield at
        finally:
            self.current = -1

    def arm(self, timer: str, key: int, at: int) -> None:
        """Remember that a timer may be due in this epoch."""
        if at <= self._limit:
            heapq.heappush(self._heap, (at, _sortable(self.keys[key]), timer, key))

    # --- an epoch -------------------------------------------------------------

    def epoch(self, events: Events, positions: Words, before: int, after: int, clock: Any, first: int) -> Output:
        """Process rows, timers and expiries. Returns what was emitted. Raises Error if a callback does.

        ``positions``, int64[n], are those of the rows in the epoch. The watermark moves from ``before`` to ``after``.
        ``first`` is the number of the epoch's first row in the run.
        """
        out = Output(self.operator, self.declared.out.fields, self.strings)
        self.watermark, self.clock, self.now, self._limit = before, clock, before, after
        for task in self.tasks.values():
            task.active = True
        if self.declared.event_order:
            self._in_event_order(events, positions + first, after, out)
        else:
            if self.declared.by_row:
                self._call_rows(events, positions, out)
            elif len(events):
                self._call_batch(events, out)
            self._arm_due(after)
            while self._heap:
                self._fire(out, (1,))
        self.current, out.rank = -1, None
        for state in self.states.values():
            state.flush()
        self._expire(after)
        return out

    def _call_rows(self, events: Events, positions: Words, out: Output) -> None:
        rows = map(self._row, zip(*(events.values(at) for at in range(len(events.schema))), strict=True))
        numbers = self._numbers(events.keys(self.declared.key))
        for row, key, time, position in zip(rows, numbers, events.times.tolist(), positions.tolist(), strict=True):
            self._call("row", key, time, row, out, (0, position))

    def _call_batch(self, events: Events, out: Output) -> None:
        self._batch = object()
        keys = BatchKeys(events.keys(self.declared.key), events.times, self._batch)
        out.batch = RowBatch(events, keys)
        try:
            self._returned("rows", self.op.rows(out.batch, out))  # type: ignore[attr-defined]
        except Error:
            raise
        except Exception as error:
            raise self._raised("rows", error) from error
        finally:
            self._batch = out.batch = None

    def _in_event_order(self, events: Events, sequence: Words, after: int, out: Output) -> None:
        """Store all rows as state, then process those whose time the watermark has passed, and remove them."""
        waiting = self.states["@rows"]
        root, place = waiting.relations[0], len(self.declared.key)
        keys = events.keys(self.declared.key)
        identity = np.vstack([keys, events.times, sequence])
        values = list(events.rows())
        tables = shred(waiting.kind, root.name, identity, values, identity[:0], self.strings)
        due = [self._index[root.name].due(max(after - 1, NULL)), keys.compress(events.times < after, axis=1)]
        for relation in waiting.relations:
            new = tables[relation.name]
            self.change(relation, new[:, :0], new)
            rows = self.read(relation, distinct(np.hstack(due)))[1]
            tables[relation.name] = rows = rows.compress(rows[place] < after, axis=1)
            self.change(relation, rows, rows[:, :0])
        stored = assemble(waiting.kind, root.name, tables, root.identity, self.strings)
        ids, times, numbers = self._numbers(tables[root.name][:place]), *tables[root.name][place : place + 2]
        self._arm_due(after)
        for at in np.lexsort([numbers, times]).tolist():
            when = int(times[at])
            while self._heap and self._heap[0][0] <= when:
                self._fire(out, ())
            self.now = self._reached = when
            self._last = (when, _ROW, int(numbers[at]))
            self._call("row", ids[at], when, self._row(stored[at].values()), out, self._last)
        while self._heap:
            self._fire(out, ())

    def _numbers(self, keys: Words) -> list[int]:
        """Return the number of each row's key, and register the keys."""
        if not keys.shape[1]:
            return []
        groups = grouped(keys)
        numbers = self.register(keys.take(groups.order.take(groups.starts), axis=1))
        return [numbers[member] for member in groups.member.tolist()]

    def _arm_due(self, after: int) -> None:
        """Arm the timers in the store that the watermark has reached."""
        keys = np.hstack([self._index[name].due(after) for name in self._timers] or [self.key_words(0)[:, :0]])
        if not keys.shape[1]:
            return
        numbers = self.register(distinct(keys))
        for name in self._timers:
            state = self.states[name]
            for number in numbers:
                self.current = number
                at = state._find((), None)
                if at is not None:
                    self.arm(name, number, microseconds(at))
        self.current = -1

    def _fire(self, out: Output, rank: Rank) -> None:
        """Call the first timer of the heap, if its key still has it.

        A timer that was set to an earlier time than the last callback's comes right after it in the output.
        """
        at, key, name, number = heapq.heappop(self._heap)
        state = self.states[name]
        self.current = number
        pending = state._find((), None)
        if pending is None or microseconds(pending) != at:
            return
        self._fired[name, number, at] = self._fired.get((name, number, at), 0) + 1
        if self._fired[name, number, at] > MAX_FIRINGS:
            raise StateError(
                f"{self.operator}.{name}, key {shorten(self.keys[number])}: on_{name} has set the timer to its own "
                f"time {pending} {MAX_FIRINGS} times in one epoch; set it to a later time"
            )
        state.clear()
        self.now = max(self.now, at)
        if at > self._reached:
            self._reached, self._last = at, ()
        self._call(f"on_{name}", number, at, pending, out, self._last or (*rank, self._reached, _TIMER, key))

    def _call(self, callback: str, number: int, time: int, given: Any, out: Output, rank: Rank) -> None:
        self.current, self.time = number, time
        out.rank, out.time = rank, time
        try:
            self._returned(callback, getattr(self.op, callback)(self.keys[number], given, out))
        except Error:
            raise
        except Exception as error:
            raise self._raised(callback, error) from error

    def _returned(self, callback: str, found: Any) -> None:
        if found is not None:
            raise StateError(f"{self.operator}.{callback} has returned {shorten(found)}, which nothing would read; "
                             "emit rows with out(value, ...), and return nothing")  # fmt: skip

    def _raised(self, callback: str, error: Exception) -> StateError:
        key = f", key {shorten(self.keys[self.current])}" if self.current >= 0 else ""
        return StateError(f"{self.operator}.{callback}{key}: {type(error).__name__}: {error}; the epoch was undone")

    def _expire(self, after: int) -> None:
        """Remove the entries whose expiry the watermark has reached."""
        for state in self.states.values():
            for relation in state.relations if state.ttl is not None else ():
                index = self._index[relation.name]
                due = [index.due(after)]
                if relation.name in self._changes:
                    rows = self._changes[relation.name].contents().rows
                    due.append(rows[: relation.key].compress(rows[index.line] <= after, axis=1))
                keys = distinct(np.hstack(due))
                if keys.shape[1]:
                    _, rows = self.read(relation, keys)
                    gone = rows.compress(rows[index.line] <= after, axis=1)
                    self.change(relation, gone, gone[:, :0])

    def commit(self, epoch: int, watermark: int) -> None:
        """Write the changes of the epoch."""
        changes = {name: each.contents(strings=self.strings) for name, each in self._changes.items()}
        changes = {name: delta for name, delta in changes.items() if len(delta.diffs)}
        self.store.write(changes, epoch)
        for name, index in self._index.items():
            if watermark != NULL:
                # A row that waits until the watermark has passed its time is not due at the watermark.
                index.drop(watermark - (name.partition(".")[0] == "@rows"))
            if name in changes:
                index.add(changes[name].rows.compress(changes[name].diffs > 0, axis=1))
        for task in self.tasks.values():
            task.stored = task.pending
        self.discard()


def distinct(keys: Words) -> Words:
    """Return the distinct columns of int64[k, n]."""
    groups = grouped(keys)
    return keys.take(groups.order.take(groups.starts), axis=1)


def _sortable(key: Any) -> Any:
    """Return a key such that keys with None can be compared: None comes last."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple((part is None, part) for part in parts)
