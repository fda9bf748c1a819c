"""One bin of one operator on Spark: what a worker does with it in a micro-batch. It needs no Spark itself.

A bin b that slot j owns is bin ``j + slots * b`` of the operator's stage, which lies on partition j (see
`grouping_keys`). Its messages have one of these channels:

    TICK     the epoch: its file, its watermarks, the owners of all bins. Each bin gets one, with or without rows
    EVENTS   rows that bins of the previous operator have emitted
    COPY     write the state to a file after the epoch, for another slot
    GIVE     read the state from that file before the epoch
    DROP     remove the state

A bin moves in two micro-batches. In the first one, its old group processes its rows and copies its state to a file. In
the second one, the new group reads the file and then processes rows, and the old group drops the state. No row waits,
and after each micro-batch Spark's store has the whole state of the bin, at its owner.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from ...engine.state_tables import StatePart
from ...errors import StateError
from ...spark.bins import files
from ...spark.rounds.bin import Bin, Recipe
from ...spark.rounds.message import BinMessage, Store
from ...spark.rounds.runs import RunsBin
from ...spark.rounds.strings import worker_strings
from ...storage.encoding import Dictionary, Words
from ..declare import Declared, EventSource
from ..events import Emitted, Events, merge
from ..instance import Instance
from ..stores.base import STATE
from ..stores.columns import ColumnStore
from ..stores.protocol import Relation, bins_of
from .rows import full_rank, pack_rows, sorted_rows

TICK, EVENTS, COPY, GIVE, DROP = 1, 2, 3, 4, 5


@dataclass
class ManagedRecipe(Recipe):
    """The recipe of managed state: the chain of operators and the source. ``slots`` can own a bin."""

    chain: Sequence[Declared]
    source: EventSource
    slots: int = 1

    @property
    def numbers(self) -> int:
        """See `Recipe.numbers`. Every bin has one for each slot."""
        return self.bins * self.slots

    def build(self, stage: int, number: int) -> Bin:
        """See `Recipe.build`."""
        return ManagedBin(self, stage, number)

    def close(self) -> None:
        """Drop the input file that is in memory."""
        _last.clear()


class _InputFile(NamedTuple):
    """The rows of an input file, and the bin of each."""

    identity: tuple[Any, ...]
    strings: Dictionary
    events: Events
    bins: npt.NDArray[np.int64]


_last: list[_InputFile] = []


@dataclass
class ManagedBin(RunsBin):
    """Runs one operator for the keys of one bin; see the module's docstring."""

    recipe: ManagedRecipe

    def __post_init__(self) -> None:
        self.chain, self.source = self.recipe.chain, self.recipe.source
        self.declared = self.chain[self.stage - 1]
        self.key_bin, slot = divmod(self.number, self.recipe.slots)
        self.table = ColumnStore()
        self.instance = Instance(self.declared, self.table, worker_strings.strings, self.recipe.bins, slot)
        self.parts = {
            r.name: StatePart(r.name, self.declared.name, "managed", self.table.arrangements[r.name],
                              tuple(c.name for c in r.columns))
            for r in self.instance.relations
        }  # fmt: skip
        self.stored = {part: [] for part in self.parts}

    @property
    def strings(self) -> Dictionary:
        """The dictionary of this process."""
        return self.instance.strings

    def step(self, messages: list[BinMessage]) -> list[BinMessage]:
        """Process one micro-batch, and return what the operator emits. Raises StateError if a callback raises."""
        before, out = self._uppers(), []
        by: dict[int, list[BinMessage]] = {}
        for message in messages:
            by.setdefault(message.channel, []).append(message)
        if DROP in by:
            self.table.take([self.key_bin])
        for message in by.get(GIVE, ()):
            self.table.give(Path(message.what).read_bytes())
        if self._uppers() != before:
            self.instance.reindex()
        for message in by.get(TICK, ()):
            try:
                out = self._epoch(json.loads(message.what), [each.blob for each in by.get(EVENTS, ())])
            except StateError as error:
                raise located(error) from error
        for message in by.get(COPY, ()):
            self._copy(Path(message.what))
        self.changed, self.time = self._uppers() != before, max(self._uppers(), default=1) - 1
        for arrangement in self.table.arrangements.values():
            arrangement.upper = self.time + 1  # as after `load`
        return out

    def load(self, head: dict[str, Any], store: Store) -> None:
        """See `Bin.load`."""
        super().load(head, store)
        self.instance.reindex()

    def _uppers(self) -> list[int]:
        return [each.upper for each in self.table.arrangements.values()]

    def _epoch(self, tick: dict[str, Any], blobs: list[bytes]) -> list[BinMessage]:
        parents = None
        if self.stage == 1:
            events, positions = self._input(tick)
            first = tick["first"]
        else:
            events, parents = sorted_rows(blobs, self.declared.types, self.strings)
            positions, first = np.arange(len(events)), tick["epoch"] << 32
        out = self.instance.epoch(events, positions, tick["before"], tick["after"], tick["clock"], first)
        emitted = merge([(out, positions)], self.declared.out.fields, self.declared.name, self.strings)
        self.instance.commit(tick["epoch"], tick["after"])
        if parents is not None and not self.declared.event_order:
            emitted = Emitted(emitted.events, [_below(rank, parents) for rank in emitted.ranks])
        return self._messages(emitted, tick["owners"])

    def _input(self, tick: dict[str, Any]) -> tuple[Events, Words]:
        """Return the rows of this bin in the epoch's input file, and their positions among those that are not late."""
        if tick["file"] is None:
            events, *_ = self.source.read((), tick["before"], self.strings)
            return events, np.arange(0)
        identity = (self.recipe.generation, tick["file"], tick["before"])
        if not _last or _last[0].identity != identity or _last[0].strings is not self.strings:
            table = read_input(Path(tick["file"]))
            events, *_ = self.source.read(table, tick["before"], self.strings)
            where = self._bins(self.declared, events)
            _last[:] = [_InputFile(identity, self.strings, events, where)]
        mine = np.flatnonzero(_last[0].bins == self.key_bin)
        return _last[0].events.take(mine), mine

    def _bins(self, declared: Declared, events: Events) -> npt.NDArray[np.int64]:
        key = Relation("@key", tuple(declared.key_columns), len(declared.key))
        return bins_of(key, events.keys(declared.key), self.recipe.bins, self.strings)

    def _messages(self, emitted: Emitted, owners: Sequence[int]) -> list[BinMessage]:
        """Return the rows as messages to the bins of the next operator, or to the driver after the last one."""
        count = len(emitted.events)
        if not count:
            return []
        if self.stage == len(self.chain):
            return [BinMessage(0, self.number, EVENTS, "", pack_rows(emitted, np.arange(count), self.strings))]
        where = self._bins(self.chain[self.stage], emitted.events)
        return [
            BinMessage(self.stage + 1, owners[b] + self.recipe.slots * b, EVENTS, "",
                       pack_rows(emitted, np.flatnonzero(where == b), self.strings))
            for b in np.unique(where).tolist()
        ]  # fmt: skip

    def _copy(self, target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            self.table.save(Path(work))
            (Path(work) / STATE).replace(target)


def located(error: StateError) -> StateError:
    """Return the error of a callback with the line that has raised. The exception itself stays in this process.

    The line is the last one in the file of the operator, so it is not in a library that the callback calls.
    """
    if error.__cause__ is None:
        return error
    _, *frames = traceback.extract_tb(error.__cause__.__traceback__)  # the first one is the kit's call
    if not frames:
        return error
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return StateError(f"{error}; it was raised by line {last.lineno} of {Path(last.filename).name}, in {last.name}()")


def _below(rank: Any, parents: list[tuple[Any, int]]) -> Any:
    """Return the rank of a row: if it follows from an input row, that row's rank and position decide."""
    kind, position, *_ = (0, rank) if isinstance(rank, int) else rank
    if kind:
        return rank
    parent, number = parents[position]
    return [0, [full_rank(parent), number]]


def read_input(file: Path, *columns: str) -> pa.Table:
    """Read some or all columns of an input file. Raises OSError if it is missing or no Parquet file."""
    try:
        names = pyarrow.parquet.read_schema(file).names
    except pa.ArrowException as error:
        raise OSError(f"{file} is no Parquet file ({error})") from error
    return files.read_columns(file, [name for name in names if not columns or name.lower() in columns])
