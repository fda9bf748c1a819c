"""The folder that a query reads: one file a micro-batch, and a log of what was put there.

    log.jsonl         one line a file: number, kind, epoch, SHA-256; and one for each that was voided
    staged/NNNNNNNN   a file that is written and logged, and not yet handed to Spark
    in/NNNNNNNN       a file that Spark may read; removed when two later ones have been read

A file is staged, then logged, then renamed into ``in``: at every moment each line of the
log has its file in one place or the other, until its batch is committed. So a file that
is in neither was lost, and that is noticed; Spark by itself would read a lost file as an
empty one. Spark reads files in the order of their times, so each is stamped two
seconds after the one before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ...errors import CheckpointError
from ..bins.messages import BinMessage

_FIELDS: Any = {
    "bin": pa.int32(),
    "stage": pa.int32(),
    "channel": pa.int32(),
    "what": pa.string(),
    "blob": pa.binary(),
}
SCHEMA = pa.schema(_FIELDS)
STEP_SECONDS = 2
KEPT = 2
"""Files that stay after their batch was committed: Spark may run the last one again."""


@dataclass
class Entry:
    """A line of the log."""

    number: int
    kind: str
    epoch: int
    sha256: str
    void: bool = False


class Inbox:
    """See the module. ``began`` is the time, in seconds, of the first file."""

    def __init__(self, folder: Path, began: int) -> None:
        self.folder, self.began = folder, began
        self.entries: list[Entry] = []
        log = folder / "log.jsonl"
        for line in log.read_text().splitlines() if log.exists() else []:
            self._take(json.loads(line))

    def prepare(self) -> None:
        """Make the folders."""
        for name in ("staged", "in"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        """What Spark reads."""
        return self.folder / "in"

    @property
    def epoch(self) -> int:
        """The last epoch that was put in and not voided."""
        return max((e.epoch for e in self.entries if not e.void), default=0)

    def put(self, messages: Iterable[BinMessage] | Path, kind: str, epoch: int) -> int:
        """Hand one micro-batch, or a file that holds one, to Spark; returns its number."""
        number = len(self.entries)
        staged = self.folder / "staged" / self._name(number)
        if isinstance(messages, Path):
            messages.replace(staged)
            sha256 = hashlib.sha256(staged.read_bytes()).hexdigest()
        else:
            sha256 = write(table(messages), staged)
        self._log({"number": number, "kind": kind, "epoch": epoch, "sha256": sha256})
        self._hand_over(number)
        for old in range(max(0, number - KEPT - 8), number - KEPT):
            (self.path / self._name(old)).unlink(missing_ok=True)
        return number

    def skip(self, kind: str) -> None:
        """Note a micro-batch that Spark has made by itself, and that has no file."""
        self._log({"number": len(self.entries), "kind": kind, "epoch": self.epoch, "sha256": ""})

    def disown(self, epoch: int) -> None:
        """Note that an epoch whose batch is done was refused after all, in a later batch."""
        for entry in self.entries:
            if entry.kind == "epoch" and entry.epoch == epoch and not entry.void:
                # Its batch is done, so its file is compared with nothing any more.
                self._log({"number": entry.number, "void": True, "sha256": ""})

    def void(self, number: int) -> None:
        """Exchange a file for one without rows: its batch was refused, and Spark will run it again."""
        staged = self.folder / "staged" / self._name(number)
        sha256 = write(table([]), staged)
        self._log({"number": number, "void": True, "sha256": sha256})
        self._hand_over(number)

    def check(self, committed: int) -> None:
        """Before a query starts: every file from batch ``committed`` on is there, and what was written."""
        for entry in self.entries[committed:]:
            staged = self.folder / "staged" / self._name(entry.number)
            if staged.exists():
                self._hand_over(entry.number)
            file = self.path / self._name(entry.number)
            told = f"epoch {entry.epoch}" if entry.kind == "epoch" else f"a {entry.kind}"
            try:
                data = file.read_bytes()
            except OSError as error:
                raise CheckpointError(
                    f"{file}: the input file of {told} is lost ({error.strerror}) and its batch is not done; "
                    "put it back, or restore another checkpoint"
                ) from error
            if hashlib.sha256(data).hexdigest() != entry.sha256:
                raise CheckpointError(
                    f"{file}: the input file of {told} is not what was written (SHA-256 differs); put the right one "
                    "back, or restore another checkpoint"
                )

    def _take(self, line: dict[str, Any]) -> None:
        if line.get("void"):
            entry = self.entries[line["number"]]
            entry.void, entry.sha256 = True, line["sha256"]
        else:
            self.entries.append(Entry(**line))

    def _log(self, line: dict[str, Any]) -> None:
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(line)

    def _hand_over(self, number: int) -> None:
        staged = self.folder / "staged" / self._name(number)
        at = self.began + STEP_SECONDS * number
        os.utime(staged, (at, at))
        staged.replace(self.path / self._name(number))

    @staticmethod
    def _name(number: int) -> str:
        return f"{number:08d}.parquet"


def table(messages: Iterable[BinMessage]) -> pa.Table:
    """Messages as the table that a file holds."""
    rows = [(m.bin, m.stage, m.channel, m.what, m.blob) for m in messages]
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def write(rows: pa.Table, file: Path) -> str:
    """Write a table of messages; returns the SHA-256 of the file."""
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(rows, sink, compression="none", use_dictionary=False, write_statistics=False)
    data = sink.getvalue()
    with file.open("wb") as out:
        out.write(data)
    return hashlib.sha256(data).hexdigest()
