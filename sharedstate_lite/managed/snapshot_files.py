"""Checkpoints of a run: the folders of its stores, and a manifest with its declarations and its time.

    manifest.json     format, epoch, watermark, source, declarations, owners of bins; the SHA-256 of every file
    0-Late/           what the store of worker 0 has written of the operator Late
    tasks             the task state, a Parquet file with a row for each worker

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

import pyarrow as pa
import pyarrow.parquet

from ..errors import CheckpointError, TimeError
from ..plan.nodes import Column, Type
from ..storage.encoding import Dictionary
from ..system.folders import atomic_folder
from .declare import Declared, EventSource
from .instance import Instance
from .stores import create
from .stores.protocol import Relation
from .tasks import spread
from .types import arrow_type, parse_type

FORMAT = 2


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


def check_names(old: Sequence[dict[str, Any]], names: list[str]) -> None:
    """Raise CheckpointError unless operators have the names of those that `Declared.describe` described."""
    before = [each["operator"] for each in old]
    if before != names:
        raise CheckpointError(f"the checkpoint has the operators {before}, not {names}; restore with the same chain")


def check_declared(old: Sequence[dict[str, Any]], chain: Sequence[Declared]) -> None:
    """Raise CheckpointError unless operators are those that `Declared.describe` described, apart from new states."""
    check_names(old, [each.name for each in chain])
    for before, after in zip(old, (each.describe() for each in chain), strict=True):
        for part in ("key", "input", "order"):
            _same(f"{before['operator']}: the {part}", before[part], after[part])
        for name, state in before["states"].items():
            whole = f"{before['operator']}.{name}"
            if name not in after["states"]:
                raise CheckpointError(
                    f"{whole} is in the checkpoint, but no longer declared; a state cannot be dropped"
                )
            for part, value in state.items():
                _same(f"{whole}: the {part}", value, after["states"][name].get(part))


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
        pyarrow.parquet.write_table(_tasks(run), work / "tasks")
        files = {str(f.relative_to(work)): _digest(f.read_bytes()) for f in sorted(work.rglob("*")) if f.is_file()}
        text = json.dumps({**_describe(run), "files": files})
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
            self.about: dict[str, Any] = json.loads(found["manifest"])
            digests = [found["sha256"], *self.about["files"].values()]
            contents = {file: found["manifest"].encode()}
            contents |= {each: each.read_bytes() for each in map(self._folder.joinpath, self.about["files"])}
        except FileNotFoundError as error:
            raise CheckpointError(f"{error.filename} is missing, so {self._folder} is not a whole checkpoint of a run; "
                                  "pass a folder that run.checkpoint() wrote")  from error  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
        for digest, (place, data) in zip(digests, contents.items(), strict=True):
            if _digest(data) != digest:
                raise CheckpointError(f"{place} was altered (SHA-256 differs); use another checkpoint")
        if self.about["format"] != FORMAT:
            raise CheckpointError(f"{file} has format {self.about['format']}, but this version reads format {FORMAT}; "
                                  "restore it with the version that wrote it")  # fmt: skip
        name, columns, key, time, delay, late = self.about["source"]
        fields: Any = parse_type(columns)
        self.source = EventSource(name, fields, tuple(key), time, delay, late)
        self.workers = max(self.about["owners"]) + 1

    def fill(self, run: CheckpointedRun) -> None:
        """Give the state of the checkpoint to a new run."""
        about = self.about
        run.epoch, run.micros, run.late, run.counts = (about[each] for each in ("epoch", "watermark", "late", "counts"))
        for stage, relations in enumerate(about["relations"]):
            stored = [
                Relation(n, tuple(Column(c, Type(t)) for c, t in columns), k, s) for n, columns, k, s in relations
            ]
            for number in range(self.workers):
                self._load(run, stage, stored, number)
        tasks = pyarrow.parquet.read_table(self._folder / "tasks")
        for stage, instance in enumerate(run.instances[0]):
            for name, task in instance.tasks.items():
                if f"{instance.operator}.{name}" in tasks.column_names:
                    values = tasks[f"{instance.operator}.{name}"].to_pylist(maps_as_pydicts="strict")
                    for worker, value in zip(run.instances, spread(task, values, len(run.instances)), strict=True):
                        worker[stage].tasks[name].stored = value
        for worker in run.instances:
            for instance in worker:
                instance.watermark = run.micros
                instance.reindex()
                instance.discard()

    def _load(self, run: CheckpointedRun, stage: int, stored: list[Relation], number: int) -> None:
        """Load the store of one operator of the worker ``number`` or, if the new run differs, move its bins."""
        target = run.instances[min(number, len(run.instances) - 1)][stage]
        folder = self._folder / f"{number}-{target.operator}"
        kind, owners = self.about["store"], self.about["owners"]
        if (run.store_kind, run.owners, target.relations) == (kind, owners, stored):
            target.store.load(folder)
            return
        old = create(kind)
        old.open(f"restore-{number}-{target.operator}", stored, run.strings, run.bins)
        try:
            old.load(folder)
            for worker in range(len(run.instances)):
                mine = [at for at, owner in enumerate(run.owners) if owner == worker]
                run.instances[worker][stage].store.give(old.take(mine))
        finally:
            old.close()


def _tasks(run: CheckpointedRun) -> pa.Table:
    """Return the task state, with a row for each worker."""
    columns = {}
    for stage, each in enumerate(run.instances[0]):
        for name, task in each.tasks.items():
            values = [worker[stage].tasks[name].stored for worker in run.instances]
            columns[f"{each.operator}.{name}"] = pa.array(values, arrow_type(task.kind))
    return pa.table(columns)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
