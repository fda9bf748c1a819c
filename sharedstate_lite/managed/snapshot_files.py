"""Checkpoints of a run: the folders of its stores, and a manifest with its declarations and its time.

    manifest.json     format, epoch, watermark, source, declarations, owners of bins; the SHA-256 of every file
    0-Late/           what the store of worker 0 has written of the operator Late
    tasks             the task state of all workers

A store writes in its own format, which may share files with the store (RocksDB). To restore into another store, the old
kind of store loads the folder, and its bins move to the new one.

Source: Carbone et al., State management in Apache Flink, VLDB 2017 (savepoints with the types of state).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import CheckpointError, Error, TimeError
from ..plan.nodes import Column, Type
from ..storage.encoding import Dictionary, Words
from ..system.folders import atomic_folder
from .declare import Declared, EventSource
from .instance import Instance
from .stores import create
from .stores.protocol import Relation, pack, unpack
from .tasks import TaskState, spread
from .types import assemble, parse_type, relations, shred

FORMAT = 2
_WORKER = (Column("@worker", Type.BIGINT),)


class CheckpointedRun(Protocol):
    """The part of a run that a checkpoint reads, and that it fills when a run is restored."""

    chain: list[Declared]
    source: EventSource
    instances: list[list[Instance]]
    strings: Dictionary
    store_kind: Any
    owners: list[int]
    bins: int
    order: str | None
    epoch: int
    late: int
    micros: int
    counts: list[int]


def expired(at: Any, kept: Sequence[int]) -> TimeError:
    """Return the error for a snapshot that is not there."""
    return TimeError(f"there is no snapshot {at}; the snapshots are {', '.join(map(str, kept)) or 'none yet'}")


def check_declared(old: Sequence[dict[str, Any]], chain: Sequence[Declared]) -> None:
    """Raise CheckpointError unless operators are those that `Declared.describe` described, apart from new states."""
    new = [json.loads(json.dumps(each.describe())) for each in chain]
    names = [[each["operator"] for each in side] for side in (old, new)]
    if names[0] != names[1]:
        raise CheckpointError(
            f"the checkpoint has the operators {names[0]}, not {names[1]}; restore with the same chain"
        )
    for before, after in zip(old, new, strict=True):
        for part in ("key", "input", "order"):
            _same(f"{before['operator']}: the {part}", before[part], after[part])
        for name, state in before["states"].items():
            whole = f"{before['operator']}.{name}"
            if name not in after["states"]:
                raise CheckpointError(
                    f"{whole} is in the checkpoint, but no longer declared; a state cannot be dropped"
                )
            for part in ("state", *state):
                _same(f"{whole}: the {part}", state[part], after["states"][name].get(part))


def _same(what: str, before: Any, after: Any) -> None:
    if before != after:
        raise CheckpointError(f"{what} was {before} in the checkpoint, and is {after} now; declare it as it was")


def write(run: CheckpointedRun, path: str | Path) -> None:
    """Write a checkpoint of a run into a folder that is new or empty. Raises CheckpointError."""
    if not isinstance(run.store_kind, str):
        raise CheckpointError("a run with a store of your own cannot be checkpointed; use a store with a name")
    with atomic_folder(Path(path)) as work:
        for number, worker in enumerate(run.instances):
            for each in worker:
                folder = work / f"{number}-{each.operator}"
                folder.mkdir()
                each.store.save(folder)
        (work / "tasks").write_bytes(_pack_tasks(run))
        files = {str(f.relative_to(work)): _digest(f.read_bytes()) for f in sorted(work.rglob("*")) if f.is_file()}
        text = json.dumps({**_describe(run), "files": files}, sort_keys=True)
        (work / "manifest.json").write_text(json.dumps({"sha256": _digest(text.encode()), "manifest": text}))


def _describe(run: CheckpointedRun) -> dict[str, Any]:
    source = run.source
    return {
        "format": FORMAT,
        "epoch": run.epoch,
        "watermark": run.micros,
        "late": run.late,
        "counts": run.counts,
        "bins": run.bins,
        "order": run.order,
        "owners": run.owners,
        "store": run.store_kind,
        "source": [source.name, str(source.columns), source.key, source.time, source.delay, source.late],
        "operators": [each.describe() for each in run.chain],
        "relations": [
            [[r.name, [[c.name, c.type.value] for c in r.columns], r.key, r.sub] for r in each.relations]
            for each in run.instances[0]
        ],
    }


class SavedRun:
    """A checkpoint that was read and verified. Raises CheckpointError if a file is missing or was altered."""

    def __init__(self, path: str | Path) -> None:
        self._folder = Path(path)
        file = self._folder / "manifest.json"
        try:
            found = json.loads(file.read_text())
            text, digest = found["manifest"], found["sha256"]
            if _digest(text.encode()) != digest:
                raise CheckpointError(f"{file} was altered (SHA-256 differs); use another checkpoint")
            about = json.loads(text)
            if about["format"] != FORMAT:
                raise CheckpointError(f"{file} has format {about['format']}, but this version reads format {FORMAT}; "
                                      "restore it with the version that wrote it")  # fmt: skip
            for name, wanted in about["files"].items():
                if _digest((self._folder / name).read_bytes()) != wanted:
                    raise CheckpointError(
                        f"{self._folder / name} was altered (SHA-256 differs); use another checkpoint"
                    )
            name, columns, key, time, delay, late = about["source"]
        except FileNotFoundError as error:
            raise CheckpointError(f"{error.filename} is missing, so {self._folder} is not a whole checkpoint of a run; "
                                  "pass a folder that run.checkpoint() wrote")  from error  # fmt: skip
        except CheckpointError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
        self._about = about
        fields: Any = parse_type(columns)
        self.source = EventSource(name, fields, tuple(key), time, delay, late)
        self.bins: int = about["bins"]
        self.order: str | None = about["order"]
        self.store: str = about["store"]
        self.workers = max(about["owners"]) + 1

    def check_names(self, names: list[str]) -> None:
        """Raise CheckpointError unless the operators have the names of those of the checkpoint."""
        before = [each["operator"] for each in self._about["operators"]]
        if before != names:
            raise CheckpointError(
                f"the checkpoint has the operators {before}, not {names}; restore with the same chain"
            )

    def check(self, chain: Sequence[Declared]) -> None:
        """Raise CheckpointError unless the operators are those of the checkpoint, apart from states that are new."""
        check_declared(self._about["operators"], chain)

    def fill(self, run: CheckpointedRun) -> None:
        """Give the state of the checkpoint to a new run."""
        about = self._about
        run.epoch, run.micros, run.late, run.counts = (
            about["epoch"],
            about["watermark"],
            about["late"],
            about["counts"],
        )
        try:
            for stage, each in enumerate(run.chain):
                stored = [Relation(n, tuple(Column(c, Type(t)) for c, t in columns), key, sub)
                          for n, columns, key, sub in about["relations"][stage]]  # fmt: skip
                for number in range(self.workers):
                    self._load(run, stage, stored, self._folder / f"{number}-{each.name}", number)
            self._fill_tasks(run)
        except CheckpointError:
            raise
        except (Error, OSError, KeyError, ValueError) as error:
            raise CheckpointError(f"{self._folder} cannot be restored ({error}); use another checkpoint") from error
        for worker in run.instances:
            for instance in worker:
                instance.watermark = run.micros
                instance.reindex()
                instance.discard()

    def _load(self, run: CheckpointedRun, stage: int, stored: list[Relation], folder: Path, number: int) -> None:
        target = run.instances[min(number, len(run.instances) - 1)][stage]
        same = self.workers == len(run.instances) and run.store_kind == self.store and stored == target.relations
        if same and run.owners == self._about["owners"]:
            target.store.load(folder)
            return
        old = create(self.store)
        old.open(f"restore-{number}-{target.operator}", stored, run.strings, run.bins)
        try:
            old.load(folder)
            for worker in range(len(run.instances)):
                mine = [at for at, owner in enumerate(run.owners) if owner == worker]
                run.instances[worker][stage].store.give(old.take(mine))
        finally:
            old.close()

    def _fill_tasks(self, run: CheckpointedRun) -> None:
        values = _unpack_tasks((self._folder / "tasks").read_bytes(), run.instances[0], self.workers)
        for stage, each in enumerate(run.instances[0]):
            for name, task in each.tasks.items():
                parts = values.get((each.operator, name), [None] * self.workers)
                for number, value in enumerate(spread(task, parts, len(run.instances))):
                    run.instances[number][stage].tasks[name].stored = value


def _task_relations(operator: str, task: TaskState) -> list[Relation]:
    return relations(f"{operator}.{task.name}", task.kind, _WORKER)


def _pack_tasks(run: CheckpointedRun) -> bytes:
    tables: dict[str, Words] = {}
    stored: list[Relation] = []
    for stage, each in enumerate(run.instances[0]):
        for name, task in each.tasks.items():
            values = [worker[stage].tasks[name].stored for worker in run.instances]
            some = [number for number, value in enumerate(values) if value is not None]
            identity, last = np.array([some], dtype=np.int64), np.empty((0, len(some)), dtype=np.int64)
            found = _task_relations(each.operator, task)
            tables |= shred(task.kind, found[0].name, identity, [values[n] for n in some], last, run.strings)
            stored += found
    return pack(tables, stored, run.strings)


def _unpack_tasks(blob: bytes, instances: Any, workers: int) -> dict[tuple[str, str], list[Any]]:
    strings, out = Dictionary(), {}
    found = [
        (each.operator, task, _task_relations(each.operator, task))
        for each in instances
        for task in each.tasks.values()
    ]
    tables = unpack(blob, [relation for _, _, each in found for relation in each], strings)
    for operator, task, each in found:
        if each[0].name in tables:
            values: list[Any] = [None] * workers
            numbers = tables[each[0].name][0].tolist()
            for number, value in zip(numbers, assemble(task.kind, each[0].name, tables, 1, strings), strict=True):
                values[number] = value
            out[operator, task.name] = values
    return out


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
