"""The folder that a query reads: one file per micro-batch, and a log of the files.

    log.jsonl         one line per file (number, kind, epoch, SHA-256), and one line per file that was voided
    staged/NNNNNNNN   a file that is not yet visible to Spark
    in/NNNNNNNN       a file that Spark can read; deleted after two later batches are committed

A file is written to ``staged`` and synced, then logged, and then renamed into ``in``. Until its batch is committed, a
file in the log must therefore be in one of the two folders. If it is in neither, it is lost, and the kit raises an
error. Spark would read a lost file as an empty one. Spark reads files in the order of their modification times, so each
file gets a time that is two seconds after that of the previous file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ...errors import CheckpointError
from ...system.folders import flush
from .message import BinMessage

_FIELDS: Any = {
    "bin": pa.int32(),
    "stage": pa.int32(),
    "channel": pa.int32(),
    "what": pa.string(),
    "blob": pa.binary(),
}
SCHEMA = pa.schema(_FIELDS)
COLUMNS = [*_FIELDS]
STEP_SECONDS = 2
KEPT = 2
"""How many files are kept after their batches are committed, because Spark may run the last batch again."""


class RoundKind(StrEnum):
    """Why the driver ran a round."""

    EPOCH = "epoch"
    """New input. The number of the epoch is greater by 1."""
    ROUND = "round"
    """Messages that bins sent in the rounds before, and that belong to the same epoch or read."""
    READ = "read"
    """A read starts. It changes no row of a base table or a view."""
    COMMAND = "command"
    """A command to bins, such as one to evict keys, starts."""
    COMPACTION = "compaction"
    """All bins merge their runs."""
    LOAD = "load"
    """The first round of a new generation, whose input is the state of the one before."""
    MOVE = "move"
    """Bins move, or receive state. There are no rows."""
    RECOVERY = "recovery"
    """Bins drop what belongs to a round that was refused."""
    RESCALE = "rescale"
    """Spark moved the state to another number of partitions. There is no file."""


@dataclass
class InboxEntry:
    """One file of the inbox. ``void`` is True if its batch was refused, so that a file without rows has replaced it.

    ``about`` is what the writer of the file has noted on it.
    """

    number: int
    kind: RoundKind
    epoch: int
    sha256: str
    void: bool = False
    about: dict[str, Any] = field(default_factory=dict)


class Inbox:
    """The inbox of a query, in ``folder``. ``began`` is the modification time of the first file, in seconds."""

    def __init__(self, folder: Path, began: int) -> None:
        self.folder, self.began = folder, began
        self.entries: list[InboxEntry] = []
        log = folder / "log.jsonl"
        for line in log.read_text().splitlines() if log.exists() else []:
            self._apply(json.loads(line))

    def prepare(self) -> None:
        """Create the folders."""
        for name in ("staged", "in"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        """The folder that Spark reads."""
        return self.folder / "in"

    @property
    def epoch(self) -> int:
        """The last epoch that was not voided."""
        return max((e.epoch for e in self.entries if not e.void), default=0)

    def last(self, before: int | None = None) -> InboxEntry | None:
        """Return the last entry with messages that was not voided, of all or of those before a number."""
        numbers = reversed(range(len(self.entries) if before is None else before))
        entries = (self.entries[number] for number in numbers)
        return next((e for e in entries if not e.void and e.kind is not RoundKind.RESCALE), None)

    def put(
        self, messages: Iterable[BinMessage] | Path, kind: RoundKind, epoch: int, about: dict[str, Any] | None = None
    ) -> int:
        """Pass one micro-batch to Spark, as messages or as a file that contains them, and return its number.

        ``about``, of values for JSON, is logged with the file.
        """
        number = len(self.entries)
        staged = self.folder / "staged" / self._name(number)
        if isinstance(messages, Path):
            messages.replace(staged)
            sha256 = hashlib.sha256(staged.read_bytes()).hexdigest()
        else:
            sha256 = write(to_table(messages), staged)
        for each in (staged, staged.parent):
            flush(each)
        line = {"number": number, "kind": kind, "epoch": epoch, "sha256": sha256}
        self._log(line | ({"about": about} if about else {}))
        self._publish(number)
        for old in range(max(0, number - KEPT - 8), number - KEPT):
            (self.path / self._name(old)).unlink(missing_ok=True)
        return number

    def skip(self, kind: RoundKind) -> None:
        """Log a micro-batch that Spark ran without a file from the inbox."""
        self._log({"number": len(self.entries), "kind": kind, "epoch": self.epoch, "sha256": ""})

    def void_epoch(self, epoch: int) -> None:
        """Log that an epoch was refused by a later batch, after the epoch's own batch was committed."""
        for entry in self.entries:
            if entry.epoch == epoch and not entry.void:
                # The file itself need not be replaced, because the file of a committed batch is not verified again.
                self._log({"number": entry.number, "void": True, "sha256": ""})

    def void(self, number: int) -> None:
        """Replace the file of a refused batch by one without rows, because Spark will run the batch again."""
        staged = self.folder / "staged" / self._name(number)
        sha256 = write(to_table([]), staged)
        for each in (staged, staged.parent):
            flush(each)
        self._log({"number": number, "void": True, "sha256": sha256})
        self._publish(number)

    def check(self, committed: int) -> None:
        """Verify the files of all batches that are not committed, before a query starts.

        ``committed`` is the number of committed batches. Raises CheckpointError if a file is lost or was changed.
        """
        for entry in self.entries[committed:]:
            staged = self.folder / "staged" / self._name(entry.number)
            if staged.exists():
                self._publish(entry.number)
            file = self.path / self._name(entry.number)
            what = f"epoch {entry.epoch}" if entry.kind is RoundKind.EPOCH else f"a {entry.kind}"
            whole = file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == entry.sha256
            if not whole:
                how = "was changed (SHA-256 differs)" if file.exists() else "is lost"
                raise CheckpointError(
                    f"{file}: the input file of {what} {how}, and its batch is not committed; put the original back, "
                    "or restore another checkpoint"
                )

    def _apply(self, line: dict[str, Any]) -> None:
        if line.get("void"):
            entry = self.entries[line["number"]]
            entry.void, entry.sha256 = True, line["sha256"]
        else:
            self.entries.append(InboxEntry(**line | {"kind": RoundKind(line["kind"])}))

    def _log(self, line: dict[str, Any]) -> None:
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._apply(line)

    def _publish(self, number: int) -> None:
        staged = self.folder / "staged" / self._name(number)
        at = self.began + STEP_SECONDS * number
        os.utime(staged, (at, at))
        staged.replace(self.path / self._name(number))
        flush(self.path)

    @staticmethod
    def _name(number: int) -> str:
        return f"{number:08d}.parquet"


def to_table(messages: Iterable[BinMessage]) -> pa.Table:
    """Return messages as a table with the schema ``SCHEMA``."""
    rows = [(m.bin, m.stage, m.channel, m.what, m.blob) for m in messages]
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def write(rows: pa.Table, file: Path) -> str:
    """Write a table of messages to ``file`` as Parquet, and return the SHA-256 of the file."""
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(rows, sink, compression="none", use_dictionary=False, write_statistics=False)
    data = sink.getvalue()
    with file.open("wb") as out:
        out.write(data)
    return hashlib.sha256(data).hexdigest()
