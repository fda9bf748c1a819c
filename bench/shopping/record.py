"""What a side hands back: seconds of every epoch, what it emitted, what it answered, what it holds.

Categories are written as numbers, as in the stream, because each side has its own
strings. ``Emitted`` has a row for each change: epoch, category, max_length, diff.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass
class Mark:
    """What a side holds when exactly ``level`` visits are live, in bytes; None where it has no such number."""

    level: int
    bill: dict[str, int] | None = None
    """Bytes by line of ``engine.bill()``."""
    resident: int | None = None
    """Growth of the process's resident memory since before the first row."""


@dataclass
class Record:
    """One run of one side."""

    version: str
    seconds: npt.NDArray[np.float64]
    """By epoch; NaN where the epoch was not timed by itself."""
    emitted: Ints
    """Changes, shape (n, 4): epoch, category, max_length, diff."""
    answers: dict[int, Ints]
    """Contents after an epoch, shape (n, 2): category, max_length; by epoch."""
    marks: list[Mark] = field(default_factory=list)
    together: dict[int, float] = field(default_factory=dict)
    """Seconds of a pipelined stretch as a whole, by the number of its first epoch."""
    sampled: list[int] = field(default_factory=list)
    """Epochs after which a side that answers only now and then did answer."""
    filled: list[int] | None = None
    """Partial: the categories that were read, at the end of ``filled_at``; its changes are of these alone."""
    filled_at: int = -1

    def save(self, folder: Path) -> None:
        """Write it down."""
        told: dict[str, Any] = {
            "version": self.version,
            "marks": [vars(mark) for mark in self.marks],
            "together": {str(epoch): seconds for epoch, seconds in self.together.items()},
            "sampled": self.sampled,
            "filled": self.filled,
            "filled_at": self.filled_at,
        }
        (folder / "record.json").write_text(json.dumps(told))
        arrays: dict[str, Any] = {f"answer{epoch}": rows for epoch, rows in self.answers.items()}
        np.savez(folder / "record.npz", seconds=self.seconds, emitted=self.emitted, **arrays)

    @staticmethod
    def load(folder: Path) -> Record:
        """The record that was saved there."""
        told = json.loads((folder / "record.json").read_text())
        with np.load(folder / "record.npz") as arrays:
            seconds, emitted = arrays["seconds"], arrays["emitted"]
            answers = {int(n.removeprefix("answer")): arrays[n] for n in arrays.files if n.startswith("answer")}
        return Record(
            version=told["version"],
            seconds=seconds,
            emitted=emitted,
            answers=answers,
            marks=[Mark(**mark) for mark in told["marks"]],
            together={int(epoch): value for epoch, value in told["together"].items()},
            sampled=told["sampled"],
            filled=told["filled"],
            filled_at=told["filled_at"],
        )


NULL = -(1 << 62)
"""What stands for a NULL: no side should ever answer one, and one that does is to be told so, not to fail."""


def changes(rows: Sequence[tuple[int, int, int | None, int]]) -> Ints:
    """Tuples as an array of shape (n, 4), also where there are none."""
    return np.array([(e, c, NULL if v is None else v, d) for e, c, v, d in rows], np.int64).reshape(-1, 4)


def contents(columns: Mapping[str, Sequence[Any]]) -> Ints:
    """The view's columns, as Python values, as an array of shape (n, 2)."""
    pairs = zip(columns["category"], columns["max_length"], strict=True)
    return np.array([(code(c), NULL if v is None else v) for c, v in pairs], np.int64).reshape(-1, 2)


def names(kind: str, count: int) -> list[str]:
    """The strings that stand for numbers: category-7, product-42, user-0."""
    return [f"{kind}-{number}" for number in range(count)]


def code(name: str) -> int:
    """The number of a name."""
    return int(name.rsplit("-", 1)[1])
