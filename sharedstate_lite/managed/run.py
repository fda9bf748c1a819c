"""A run: operators in a chain, on workers in one process, from the first epoch to a checkpoint and on.

Each worker owns some bins and has a copy of every operator with a store of its own. `ManagedRun.step` partitions the
rows of an epoch by key, lets each worker process its rows, and merges what they emit into the order of one worker. What
an operator emits is the input of the next one in the same epoch.

Source: Carbone et al., State management in Apache Flink, VLDB 2017; Hoffmann et al., Megaphone, VLDB 2019 (bins).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..changelog.changes import value_order
from ..errors import StateError, is_integer, shorten
from ..plan.nodes import Type
from ..storage.encoding import NULL, Dictionary, Words
from ..system.notes import continues
from . import bins as placement
from . import snapshot_files
from .declare import Declared, EventSource, StatefulOperator, declared, keyed
from .events import Events, Schema, merge, words_of
from .handles import KeyedState
from .instance import Instance
from .queries import At, query
from .stores import StateStore, StoreReader, create
from .stores.protocol import bins_of, packed_rows
from .tasks import TaskState, spread
from .types import Scalar, microseconds, moment

StoreKind = str | Callable[[], StateStore]


class ManagedRun:
    """A running chain of operators. `run` starts it, `restore` continues it from a checkpoint.

    ``epoch`` is the number of the last epoch, ``late`` the number of late rows that were dropped, and ``snapshots`` the
    epochs of the snapshots that can be read. ``continued`` is the checkpoint from which it continued, and its epoch.
    """

    continued = ""

    def __init__(
        self,
        chain: Sequence[Declared],
        source: EventSource,
        workers: int,
        bins: int,
        store: StoreKind,
        every: int,
        keep: int,
        order: str | None = None,
    ) -> None:
        self.chain, self.source, self.bins, self.order = list(chain), source, bins, order
        self.store_kind, self._every, self._keep = store, every, keep
        self.epoch = self.late = 0
        self.micros, self.counts = NULL, [0] * len(chain)
        self.strings = Dictionary()
        self._snapshots: dict[int, list[list[StoreReader]]] = {}
        # The stores of removed workers, and the last epoch whose snapshot reads them.
        self._retired: list[tuple[int, StateStore]] = []
        self.owners = placement.assign([0] * bins, workers)
        self.instances = [self._instances(worker) for worker in range(workers)]
        self._open = True

    def _instances(self, worker: int) -> list[Instance]:
        return [Instance(each, create(self.store_kind), self.strings, self.bins, worker) for each in self.chain]

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self.instances)

    @property
    def watermark(self) -> datetime.datetime | None:
        """The greatest event time so far minus the delay, or the time of `advance`. None before the first row."""
        return None if self.micros == NULL else moment(self.micros)

    @property
    def snapshots(self) -> list[int]:
        """The epochs of the snapshots that can be read, from the oldest."""
        return sorted(self._snapshots)

    # --- epochs ---------------------------------------------------------------

    def step(self, rows: Any = (), clock: Any = None) -> pd.DataFrame:
        """Process one epoch, and return what the last operator has emitted.

        ``rows`` are a DataFrame, an Arrow table, or a list of tuples or dicts. ``clock`` is what operators read as
        ``self.clock``. The rows returned are in the order of the input rows from which they follow, then of the timers
        (time, key, name). Raises RowError for wrong or late rows, and StateError if a callback raises, with its
        exception as the cause. The state is then as before the call.
        """
        return self._epoch(rows, NULL, clock)

    def advance(self, time: datetime.datetime, clock: Any = None) -> pd.DataFrame:
        """Process an epoch without rows that moves the watermark to ``time``. Returns what timers have emitted."""
        try:
            micros = microseconds(time)
        except (TypeError, ValueError) as error:
            raise StateError(f"advance: {error}") from error
        if self.source.time is None or micros < self.micros:
            raise StateError(f"advance: {time} is before the watermark {self.watermark}, or the source has no time; "
                             "a watermark only moves forward")  # fmt: skip
        return self._epoch((), micros, clock)

    def _epoch(self, rows: Any, tick: int, clock: Any) -> pd.DataFrame:
        self._check_open()
        known = len(self.strings)
        instances = [each for worker in self.instances for each in worker]
        counts = list(self.counts)
        try:
            events, late, after = self.source.read(rows, self.micros, self.strings)
            after = max(after, tick)
            for stage, operator in enumerate(self.chain):
                events = self._stage(stage, operator, events, after, clock)
            frame = events.frame()
        except BaseException:
            for each in instances:
                each.discard()
            self.counts = counts
            self.strings.truncate(known)
            raise
        self._commit(instances, after)
        self.epoch += 1
        self.late += late
        self.micros = after
        self._snapshot()
        return frame

    def _commit(self, instances: Sequence[Instance], after: int) -> None:
        """Write the changes of an epoch. If the first store fails, the epoch is undone; later, the run cannot go on."""
        written = 0
        try:
            for each in instances:
                each.commit(self.epoch + 1, after)
                written += 1
        except BaseException as error:
            for each in instances:
                each.discard()
            if written:
                self.close()
                raise StateError(
                    f"epoch {self.epoch + 1} was written by {written} of {len(instances)} stores, and then failed "
                    f"({error}), so this run is closed; restore a checkpoint"
                ) from error
            raise

    def _stage(self, stage: int, operator: Declared, events: Events, after: int, clock: Any) -> Events:
        """Let each worker process its rows with one operator, and merge what they emit."""
        outputs = []
        owner = None
        if self.workers > 1:
            keys = events.keys(operator.key)
            relation = self.instances[0][stage].key_relation
            owner = np.array(self.owners).take(bins_of(relation, keys, self.bins, self.strings))
        for number, worker in enumerate(self.instances):
            mine = np.arange(len(events)) if owner is None else np.flatnonzero(owner == number)
            part = events if owner is None else events.take(mine)
            out = worker[stage].epoch(part, mine, self.micros, after, clock, self.counts[stage])
            outputs.append((out, mine))
        self.counts[stage] += len(events)
        return merge(outputs, operator.out.fields, operator.name, self.strings).events

    def _snapshot(self) -> None:
        if not self._every or self.epoch % self._every:
            return
        self._snapshots[self.epoch] = [[each.store.handle() for each in worker] for worker in self.instances]
        while len(self._snapshots) > self._keep:
            self._close_snapshot(min(self._snapshots))

    def _close_snapshot(self, epoch: int) -> None:
        for worker in self._snapshots.pop(epoch):
            for reader in worker:
                reader.close()
        self._close_retired()

    def _close_retired(self) -> None:
        first = min(self._snapshots, default=self.epoch + 1)
        while self._retired and self._retired[0][0] < first:
            self._retired.pop(0)[1].close()

    # --- reading --------------------------------------------------------------

    def find(self, name: str) -> tuple[int, KeyedState | TaskState]:
        """Return a state and the position of its operator in the chain, by its name or ``Operator.name``.

        Raises StateError if there is none, or if several operators have one.
        """
        found: list[tuple[int, KeyedState | TaskState]] = []
        for stage, each in enumerate(self.instances[0]):
            states: list[KeyedState | TaskState] = [*each.states.values(), *each.tasks.values()]
            found += [(stage, s) for s in states if name in (s.name, f"{each.operator}.{s.name}")]
        if len(found) != 1:
            known = [f"{each.operator}.{state}" for each in self.instances[0] for state in (*each.states, *each.tasks)]
            raise StateError(
                f"{len(found) or 'no'} states are named {shorten(name)}; the states are {', '.join(known)}"
            )
        return found[0]

    def read(self, name: str, key: Any = None) -> Any:
        """Return the state of a key as a Python value, or None if it has none; without a key, a frame with all keys.

        A key of several columns is a tuple. For task state, the frame has a row for each worker.
        """
        self._check_open()
        stage, state = self.find(name)
        if isinstance(state, TaskState):
            values = [worker[stage].tasks[state.name].stored for worker in self.instances]
            return pd.DataFrame({"worker": range(self.workers), state.name: pd.Series(values, dtype=object)})
        if key is None:
            return self.contents(name).frame()
        known = len(self.strings)
        try:
            bin, words = self.bin_of(stage, key)
            bound = self.instances[self.owners[bin]][stage]
            tables = {r.name: bound.store.read(r.name, words)[1] for r in state.relations}
            entries = dict(state.entries(tables, self.strings))
        finally:
            # No row has brought what is new here: texts of the key, or texts that the store keeps outside the process.
            self.strings.truncate(known)
        return state.show(entries) if entries else None

    def contents(self, name: str, at: int | None = None) -> Events:
        """Return a state's keys and values, sorted by key: now, or in the snapshot of epoch ``at``.

        Raises StateError for an unknown state or a task's, and TimeError for a snapshot that was not kept.
        """
        stage, state = self.find(name)
        if isinstance(state, TaskState):
            raise StateError(f"{name} is task state, which has no keys; read it with run.read({name!r})")
        if at is None:
            readers: list[StoreReader] = [worker[stage].store for worker in self.instances]
        else:
            readers = [worker[stage] for worker in self._kept(at)]
        columns = self.chain[stage].key_columns
        count = len(columns)
        tables = {r.name: np.hstack([reader.scan(r.name) for reader in readers]) for r in state.relations}
        root = tables[state.name]
        schema: Schema = (*((c.name, Scalar(c.type)) for c in columns), (state.name, state.shown))
        if state.plain:
            keys, values = root[:count], root[count]
        else:
            owners: dict[tuple[int, ...], dict[Any, Any]] = {}
            for row, (place, value) in zip(
                zip(*root[:count].tolist(), strict=True), state.entries(tables, self.strings), strict=True
            ):
                owners.setdefault(row, {})[place] = value
            keys = np.array(list(owners), dtype=np.int64).reshape(-1, count).T
            values = [state.show(each) for each in owners.values()]
        out = Events(schema, [*keys, values], np.full(keys.shape[1], self.epoch if at is None else at), self.strings)
        return out.take(value_order(tuple(columns), keys, self.strings))

    def _kept(self, at: int) -> list[list[StoreReader]]:
        if at not in self._snapshots:
            raise snapshot_files.expired(at, self.snapshots)
        return self._snapshots[at]

    def bin_of(self, stage: int, key: Any) -> tuple[int, Words]:
        """Return the bin of a key, and the key as words, int64[k, 1]. Adds its texts to ``strings``."""
        columns = self.chain[stage].key_columns
        parts = key if isinstance(key, tuple | list) else (key,)
        if len(parts) != len(columns):
            raise StateError(f"the key {shorten(key)} has {len(parts)} values, not {len(columns)}: "
                             + ", ".join(c.name for c in columns))  # fmt: skip
        words = np.array([words_of([part], c, "key", self.strings) for part, c in zip(parts, columns, strict=True)])
        return int(bins_of(self.instances[0][stage].key_relation, words, self.bins, self.strings)[0]), words

    def state(self, relation: str | None = None) -> pd.DataFrame:
        """Return what is stored: a row for each relation and worker; or, for a ``relation``, its rows and their bins.

        ``bytes`` are those of the store, and ``bins`` is the number of bins that have rows.
        """
        self._check_open()
        if relation is not None:
            return self._stored(relation)
        table = []
        for number, worker in enumerate(self.instances):
            for each in worker:
                for state in each.states.values():
                    for stored in state.relations:
                        rows, (_, size) = each.store.scan(stored.name), each.store.size(stored.name)
                        used = np.unique(bins_of(stored, rows, self.bins, self.strings))
                        key = tuple(each.declared.key)
                        kind = state.describe()["state"].lower()
                        table.append([each.operator, stored.name, key, rows.shape[1], size, kind, number, len(used)])
        return pd.DataFrame(table, columns=["operator", "relation", "key", "rows", "bytes", "kind", "worker", "bins"])

    def _stored(self, name: str) -> pd.DataFrame:
        parts = name.split(".", 1)
        for stage, each in enumerate(self.instances[0]):
            for relation in each.relations:
                if name == relation.name or (parts[0] == each.operator and parts[-1] == relation.name):
                    rows = np.hstack([worker[stage].store.scan(relation.name) for worker in self.instances])
                    rows = rows.take(value_order(relation.columns, rows, self.strings), axis=1)
                    where = bins_of(relation, rows, self.bins, self.strings)
                    types: Schema = (*((c.name, Scalar(c.type)) for c in relation.columns), ("bin", Scalar(Type.INT)))
                    return Events(types, [*rows, where], where, self.strings).frame()
        known = ", ".join(relation.name for each in self.instances[0] for relation in each.relations)
        raise StateError(f"there is no relation {shorten(name)}; the relations are {known}")

    def sql(self, text: str, at: At = None) -> pd.DataFrame:
        """Return the result of a SELECT over ``live.NAME`` and ``snapshot.NAME``, where NAME is a state's.

        ``at`` is the snapshot id; None is the newest one. Errors are those of `queries.query`.
        """
        self._check_open()
        return query(self, text, at)

    # --- rescaling and checkpoints ----------------------------------------------

    def rescale(self, workers: int, migration: str | placement.Migration = "batched") -> pd.DataFrame:
        """Change the number of workers, and return the steps in which bins have moved: their bins, rows and bytes.

        All state of a bin moves: its timers, its waiting rows and its expiries too. ``migration`` is "all", "fluid",
        "batched" or ``bins.chunks(n)`` (see `bins`). Raises StateError for an unknown migration, and unless the number
        of workers is between 1 and that of the bins.
        """
        self._check_open()
        owners = placement.assign(self.owners, workers)
        order = placement.steps(placement.moves(self.owners, owners), migration)
        tasks = self._spread(workers)
        self.instances += [self._instances(worker) for worker in range(self.workers, workers)]
        table = []
        try:
            for moving in order:
                rows, size = self._move(moving)
                table.append([len(moving), rows, size])
        finally:
            # If a step has failed, the bins are where `owners` says.
            gone = [each for worker in self.instances[max(self.owners) + 1 :] for each in worker]
            self._retired += [(self.epoch, each.store) for each in gone]
            self._close_retired()
            del self.instances[max(self.owners) + 1 :]
            for each in (each for worker in self.instances for each in worker):
                each.reindex()
        for number, worker in enumerate(self.instances):
            for each in worker:
                for name, task in each.tasks.items():
                    task.stored = tasks[each.operator, name][number]
                each.discard()
        return pd.DataFrame(table, columns=["bins", "rows", "bytes"])

    def _move(self, moving: Sequence[placement.BinMove]) -> tuple[int, int]:
        """Move bins between workers, and return the number of their rows and bytes. If that fails, they stay."""
        rows = size = 0
        pairs: dict[tuple[int, int], list[int]] = {}
        for move in moving:
            pairs.setdefault((move.source, move.target), []).append(move.bin)
        for (source, target), numbers in pairs.items():
            taken: list[tuple[Instance, Instance, bytes]] = []
            try:
                for old, new in zip(self.instances[source], self.instances[target], strict=True):
                    taken.append((old, new, old.store.take(numbers)))
                    new.store.give(taken[-1][2])
            except BaseException:
                for old, new, blob in taken:
                    new.store.take(numbers)
                    old.store.give(blob)
                raise
            rows += sum(packed_rows(blob) for _, _, blob in taken)
            size += sum(len(blob) for _, _, blob in taken)
            for number in numbers:
                self.owners[number] = target
        return rows, size

    def _spread(self, workers: int) -> dict[tuple[str, str], list[Any]]:
        """Return the task state of each of the new workers."""
        return {
            (each.operator, name): spread(
                task, [worker[stage].tasks[name].stored for worker in self.instances], workers
            )
            for stage, each in enumerate(self.instances[0])
            for name, task in each.tasks.items()
        }

    def checkpoint(self, path: str | Path) -> None:
        """Write state, time and declarations to ``path``, a folder that is new or empty. Raises CheckpointError."""
        self._check_open()
        snapshot_files.write(self, path)

    def _check_open(self) -> None:
        if not self._open:
            raise StateError("this run is closed; start a new one, or restore a checkpoint")

    def close(self) -> None:
        """Close the stores. Closing again has no effect."""
        if self._open:
            self._open = False
            for epoch in self.snapshots:
                self._close_snapshot(epoch)
            for worker in self.instances:
                for each in worker:
                    each.store.close()

    def __enter__(self) -> ManagedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.chain)
        since = f", continued from {self.continued}" if self.continued else ""
        return f"ManagedRun({names}, epoch={self.epoch}, workers={self.workers}, watermark={self.watermark}{since})"


def chained(operators: Any, source: EventSource, order: str | None = None) -> list[Declared]:
    """Read a chain of operators, of which each receives what the one before emits. Raises StateError."""
    given = _listed(operators)
    if not given or not isinstance(source, EventSource):
        raise StateError("a run needs at least one operator, and a source that m.source(...) has declared")
    chain: list[Declared] = []
    types, default = source.columns.fields, source.key
    for each in given:
        found = keyed(declared(each, order), types, default, source.time is not None)
        chain.append(found)
        types, default = found.out.fields, ()
    names = [each.name for each in chain]
    if len(set(names)) < len(names):
        raise StateError(
            f"the chain has two operators named {max(names, key=names.count)}; give one of them a class of its own"
        )
    return chain


def _listed(operators: Any) -> list[Any]:
    return list(operators) if isinstance(operators, list | tuple) else [operators]


def run(
    operators: StatefulOperator | Sequence[StatefulOperator],
    source: EventSource,
    *,
    workers: int = 1,
    bins: int = 256,
    store: StoreKind = "columns",
    order: str | None = None,
    snapshot_every: int = 1,
    keep: int = 2,
) -> ManagedRun:
    """Start a run of one operator, or of a chain of them, on the rows of ``source``.

    ``bins``, a power of 2, is the largest number of workers that the run can ever have. ``store`` is a kind of store
    (see `stores`), or a function that returns one. ``order`` replaces the operators' own. Every ``snapshot_every``
    epochs (0: never) a snapshot is kept, which queries can read, and the last ``keep`` of them stay.

    >>> class Count(StatefulOperator):
    ...     out = "product STRING, n BIGINT"
    ...     def row(self, key, row, out): out(key, 1)
    >>> from sharedstate_lite import managed as m
    >>> with m.run(Count(), m.source("visit", "product STRING", key="product")) as counting:
    ...     counting.step([("Apple",)]).values.tolist()
    [['Apple', 1]]
    """
    chain = chained(operators, source, order)
    placement.word_range(0, bins)  # raises unless the number is a power of 2
    _positive("workers", workers, 1)
    _positive("snapshot_every", snapshot_every, 0)
    _positive("keep", keep, 1)
    return ManagedRun(chain, source, workers, bins, store, snapshot_every, keep, order)


def _positive(name: str, value: Any, least: int) -> None:
    if not (is_integer(value) and value >= least):
        raise StateError(f"{name}={shorten(value)}: pass a whole number from {least}")


def restore(
    path: str | Path,
    operators: StatefulOperator | Sequence[StatefulOperator],
    *,
    workers: int | None = None,
    store: StoreKind | None = None,
) -> ManagedRun:
    """Continue a run from a checkpoint, with the same operators. ``workers`` and ``store`` may differ from the run's.

    A note says that the run continues, and from which epoch.

    An operator may have new states, which are empty. Raises CheckpointError if the checkpoint was damaged or another
    version wrote it, and if a state was removed or its type, key, time to live or reducer was changed.
    """
    found = snapshot_files.SavedRun(path)
    about = found.about
    snapshot_files.check_names(about["operators"], [type(each).__name__ for each in _listed(operators)])
    chain = chained(operators, found.source, about["order"])
    snapshot_files.check_declared(about["operators"], chain)
    many, kind = workers or found.workers, store or about["store"]
    out = ManagedRun(chain, found.source, many, about["bins"], kind, 1, 2, about["order"])
    try:
        found.fill(out)
    except BaseException:
        out.close()
        raise
    out.continued = continues(path, f"epoch {out.epoch}")
    return out


__all__ = ["ManagedRun", "chained", "restore", "run"]
