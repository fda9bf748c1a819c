"""What the driver decides before each micro-batch and logs with its input: files, watermarks, owners and moves.

A micro-batch is an epoch, with the rows of a file or without rows, or it only moves bins. Each entry of the log has

    file             the name of the input file, or None
    epoch            the number of the last epoch
    before, after    the watermarks, in microseconds
    first, rows      the number of the epoch's first row in the run, and how many rows it has
    late             how many late rows were dropped since the start
    owners           the slot of each bin
    copied           the bins that move: [bin, new slot, file], of which each old owner writes its state to the file
    steps            the moves that are still to be made, as [bin, new slot], in steps

A restart continues from the last entry and has no other state. This module needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...errors import RowError, StateError, shorten
from ...plan.nodes import Column, Type
from ...spark.rounds import input_files
from ...spark.rounds.inbox import InboxEntry
from ...spark.rounds.message import BinMessage
from ...storage.encoding import NULL, Dictionary
from .. import bins as placement
from ..declare import Declared, EventSource
from ..events import words_of
from .bin import COPY, DROP, GIVE, TICK, read_input

REMEDY = "correct the file or the operator, or remove the file, and call run_available() again"


class BatchLog:
    """The entries of a job's micro-batches, and the messages that the next one sends to the bins.

    ``entries`` is the log of the query's inbox, which grows. ``owners`` are the slots of the bins at the start. Input
    files are linked in ``location/rows``, so that a batch can be run again, and bins are copied to ``location/moved``.
    """

    def __init__(
        self,
        chain: Sequence[Declared],
        source: EventSource,
        location: Path,
        entries: list[InboxEntry],
        owners: list[int],
        slots: int,
    ) -> None:
        self.stages, self.source, self.location, self.slots = len(chain), source, location, slots
        self._entries, self._start = entries, owners
        for name in ("rows", "moved"):
            (location / name).mkdir(exist_ok=True)
        self.steps: list[list[list[int]]] = self.last["steps"]

    @property
    def done(self) -> list[InboxEntry]:
        """The entries whose micro-batches were not refused."""
        return [entry for entry in self._entries if not entry.void]

    @property
    def last(self) -> dict[str, Any]:
        """What the last entry says."""
        start = {"file": None, "epoch": 0, "after": NULL, "first": 0, "rows": 0, "late": 0, "owners": self._start,
                 "copied": [], "steps": []}  # fmt: skip
        return self.done[-1].about if self.done else start

    @property
    def moving(self) -> bool:
        """Whether bins are moving, or will move in the next micro-batches."""
        return bool(self.steps or self.last["copied"])

    def rescale(self, workers: int, migration: str | placement.Migration) -> int:
        """Decide on the moves to ``workers`` slots, and return the number of steps. See `ManagedJob.rescale`."""
        if self.moving:
            raise StateError("bins are moving already; run_available() completes the move")
        if not isinstance(workers, int) or not 1 <= workers <= self.slots:
            raise StateError(f"cannot rescale to {shorten(workers)} workers: there are {self.slots} slots; pass a "
                             "number from 1 to theirs")  # fmt: skip
        owners = self.last["owners"]
        moving = placement.moves(owners, placement.assign(owners, workers))
        self.steps = [[[each.bin, each.target] for each in step] for step in placement.steps(moving, migration)]
        return len(self.steps)

    def begin(self, blobs: Iterable[Sequence[bytes]], about: dict[str, Any]) -> tuple[list[BinMessage], dict[str, Any]]:
        """Return the messages of a first micro-batch, which gives state to the bins, and its entry.

        ``blobs`` has for each bin the state of each operator.
        """
        messages = []
        for bin, (slot, each) in enumerate(zip(self._start, blobs, strict=True)):
            name = self._copy(0, bin)
            for stage, blob in enumerate(each, 1):
                Path(f"{name}-{stage}").write_bytes(blob)
            messages += self._to(bin, slot, GIVE, name)
        return messages, self.last | about

    def next(self, file: Path | None, tick: int, clock: Any) -> tuple[list[BinMessage], dict[str, Any]]:
        """Return the messages of the next micro-batch, and its entry: the rows of a file, a tick, or neither.

        Raises RowError if the file cannot be read, or has rows that the source refuses.
        """
        last, number = self.last, len(self._entries)
        here: Path | None = None
        about: dict[str, Any]
        about = {"file": None, "epoch": last["epoch"], "before": last["after"], "after": max(last["after"], tick),
                 "first": last["first"] + last["rows"], "rows": 0, "late": last["late"]}  # fmt: skip
        if file is not None:
            here = input_files.kept(file, self.location / "rows", f"{number:08d}.parquet")
            about |= {"file": file.name} | self._times(file, here, about)
        owners, messages = list(last["owners"]), []
        for bin, target, name in last["copied"]:
            messages += self._to(bin, owners[bin], DROP) + self._to(bin, target, GIVE, name)
            owners[bin] = target
        if file is not None or tick != NULL:
            about["epoch"] += 1
            what = json.dumps({**about, "file": here and str(here), "clock": clock, "owners": owners})
            messages += [each for bin, slot in enumerate(owners) for each in self._to(bin, slot, TICK, what)]
        step, *rest = self.steps or [[]]
        copied: list[Any] = [[bin, target, self._copy(number, bin)] for bin, target in step]
        messages += [each for bin, _, name in copied for each in self._to(bin, owners[bin], COPY, name)]
        return messages, about | {"owners": owners, "copied": copied, "steps": rest}

    def clean(self) -> None:
        """Delete the links and copies that no batch needs any more. Spark may run the last batch again."""
        for name in ("rows", "moved"):
            input_files.clean(self.location / name, len(self._entries) - 2)

    def _copy(self, number: int, bin: int) -> str:
        return str(self.location / "moved" / f"{number:08d}-{bin}")

    def _to(self, bin: int, slot: int, channel: int, what: str = "") -> list[BinMessage]:
        """Return a message to the bin of each operator at a slot. A file has the number of the operator at its end."""
        number = slot + self.slots * bin
        ends = [f"-{stage}" if channel in (COPY, GIVE) else "" for stage in range(1, self.stages + 1)]
        return [BinMessage(stage, number, channel, what + end, b"") for stage, end in enumerate(ends, 1)]

    def _times(self, file: Path, here: Path, about: dict[str, Any]) -> dict[str, int]:
        """Return the watermark after a file, and how many of its rows are late and not. Reads only the time column."""
        source, before, strings = self.source, about["before"], Dictionary()
        try:
            table = read_input(here, (source.time or "").lower())
            if source.time is None:
                return {}
            found = [name for name in table.column_names if name.lower() == source.time.lower()]
            column = Column(source.time, Type.TIMESTAMP)
            times = words_of(table[found[0]], column, source.name, strings) if found else None
            late = None if times is None else source.is_late(times, before)
            if late is None or (late.any() and source.late == "error"):
                source.read(read_input(here), before, strings)  # raises
        except OSError as error:
            raise RowError(f"{file} cannot be read ({error}); {REMEDY}") from error
        except RowError as error:
            error.add_note(f"in {file}: {REMEDY}")
            raise
        assert times is not None and late is not None
        after = source.advanced(times[~late], before)
        return {"after": after, "rows": int((~late).sum()), "late": about["late"] + int(late.sum())}
