"""A program in Rust takes the stream: ``python -m bench.rust.side "DBSP" STREAM RECORD``.

The program is given a file of numbers, from which it makes its strings, untimed. Timed is handing over an epoch's rows,
running the circuit, and collecting its changes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from bench import child
from bench.rust.build import program
from bench.shopping.record import Mark, Record, changes
from bench.shopping.stream import Stream

SIDES = {
    "DBSP": ("DBSP 0.349", "dbsp"),
    "differential, hierarchy": ("differential dataflow 0.26, MAX by a hierarchy", "differential", "hierarchy"),
    "differential, one reduce": ("differential dataflow 0.26, MAX by one reduce", "differential", "reduce"),
}
"""The names of the sides, what rows call them, and the programs with their arguments."""


def write(stream: Stream, path: Path) -> None:
    """Write the stream as the programs read it. Raises ValueError where products change their category."""
    parts, counts = [], []
    for epoch in range(stream.epochs):
        part = stream.recategorised(epoch)
        if part.start != part.stop:
            raise ValueError(f"epoch {epoch} changes info, which the programs in Rust read once")
        come, gone = stream.visits(epoch)
        ids = np.concatenate([come, gone])
        counts.append(len(ids))
        signs = np.repeat([1, -1], [len(come), len(gone)])
        parts.append(np.stack([stream.product[ids], stream.user[ids], stream.length[ids], signs], axis=1))
    shop = stream.shop
    with path.open("wb") as file:
        for numbers in ([shop.products, stream.epochs], stream.category, counts, *parts):
            file.write(np.asarray(numbers).astype(np.int32).tobytes())


def run(side: str, stream: Stream, folder: Path) -> Record:
    """Let a program take the whole stream."""
    version, name, *arguments = SIDES[side]
    write(stream, folder / "stream")
    command = [program(name), folder / "stream", folder, *arguments]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            child.tell(float(line))
    if process.returncode:
        raise RuntimeError(f"{name} ended with status {process.returncode}")
    epochs = np.fromfile(folder / "epochs").reshape(-1, 2)
    emitted = np.fromfile(folder / "changes", np.int32).astype(np.int64).reshape(-1, 4)
    record = Record(version, epochs[:, 0].copy(), np.concatenate([changes([]), emitted]), {})
    for stretch in stream.stretches:
        if stretch.kind == "fill":
            record.marks.append(Mark(stretch.level, None, int(epochs[stretch.last - 1, 1])))
    return record


if __name__ == "__main__":
    child.side(lambda: run(sys.argv[1], Stream.load(Path(sys.argv[2])), Path(sys.argv[3])).save(Path(sys.argv[3])))
