"""Runs every side over every course, in turn, each time in a fresh process, and gathers what they hand back.

A course is one stream with the sides that take it. A round is all courses and all
their sides once; rounds are repeated so that a median can be taken, every other one in
reverse order, so that a machine that slows down does not slow the same side always.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import child, measure
from bench.rust.side import SIDES
from bench.shopping.record import Record
from bench.shopping.stream import Shop, Stream, Window, draw, schedule

OURS = ("full", "shared", "partial")
DUCKDB, PATHWAY = "DuckDB", "Pathway"
RUST = tuple(SIDES)

COSTS = {PATHWAY: (3.0, 14e-6, 25e-3), DUCKDB: (1.0, 3e-6, 8e-3)}
"""Seconds to start, for a row and for an epoch, roughly: for the time left that is shown, nothing else."""
OUR_COST = (1.5, 3e-6, 2e-3)


@dataclass(frozen=True)
class Course:
    """A stream to draw, and who takes it."""

    name: str
    shop: Shop
    levels: Sequence[int]
    windows: Mapping[int, Window]
    sides: Sequence[str]
    fill: int = 50_000

    def stream(self) -> Stream:
        """Its rows."""
        return draw(self.shop, *schedule(self.levels, self.windows, deletes=self.shop.deletes, fill=self.fill))


@dataclass
class Gathered:
    """What was measured: records by course and side, one a round; and why a side has none."""

    streams: dict[str, Stream] = field(default_factory=dict)
    records: dict[str, dict[str, list[Record]]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    rounds: int = 0


def gather(
    courses: Sequence[Course], rounds: int, *, python: Path | None, within: float | None = None, log: Path
) -> Gathered:
    """Measure everything ``rounds`` times, or fewer where the next round would end later than ``within`` seconds.

    ``python`` is that of Pathway's environment, None where there is none. A side that
    fails is left out from then on, and the end of its log kept as the reason.
    """
    gathered = Gathered()
    with tempfile.TemporaryDirectory(prefix="sharedstate-bench-") as scratch:
        for course in courses:
            stream = gathered.streams[course.name] = course.stream()
            (Path(scratch) / course.name).mkdir()
            stream.save(Path(scratch) / course.name)
            gathered.records[course.name] = {side: [] for side in course.sides}
        turns = [(c, s) for c in courses for s in c.sides if s != PATHWAY or python is not None]
        order = [turn for number in range(rounds) for turn in (turns if number % 2 == 0 else turns[::-1])]
        weights = [(f"{c.name}, {s}", _weight(gathered.streams[c.name], s)) for c, s in order]
        progress = measure.Progress(weights)
        longest, began = 0.0, measure.clock()
        for number, (course, side) in enumerate(order):
            if number and number % len(turns) == 0:
                gone = measure.clock() - began
                longest = gone / (number / len(turns))
                if within is not None and gone + longest > within:
                    break
            if side not in gathered.absent:
                try:
                    record = _run(side, Path(scratch), course.name, python, log, progress, number)
                    gathered.records[course.name][side].append(record)
                except child.Failed as failure:
                    gathered.absent[side] = str(failure)
            gathered.rounds = number // len(turns) + 1
        progress.clear()
    return gathered


def _weight(stream: Stream, side: str) -> float:
    start, row, epoch = COSTS.get(side, OUR_COST)
    timed = sum(s.last - s.first for s in stream.stretches if s.kind != "trim")
    return start + row * (len(stream.product) + len(stream.gone)) + epoch * timed


def _run(
    side: str, scratch: Path, course: str, python: Path | None, log: Path, progress: measure.Progress, task: int
) -> Record:
    """One side, once. Raises child.Failed."""
    stream, out = scratch / course, scratch / "record"
    out.mkdir()
    commands: dict[str, list[str | Path]] = {
        DUCKDB: [sys.executable, "-m", "bench.shopping.duck", stream, out],
        PATHWAY: [python or "", "-m", "bench.pathway.side", stream, out],
    }
    commands |= {name: [sys.executable, "-m", "bench.rust.side", name, stream, out] for name in RUST}
    command = commands.get(side, [sys.executable, "-m", "bench.shopping.ours", side, stream, out])
    progress.at(task, 0)
    try:
        child.run(command, log / f"{course}-{side}.log", lambda line: progress.at(task, float(line)))
        return Record.load(out)
    finally:
        shutil.rmtree(out)


def windows(stream: Stream) -> Iterator[tuple[int, int, slice, slice | None]]:
    """Each timed window: its level, its rows an epoch, its epochs, and those of the pipelined one after it."""
    for place, stretch in enumerate(stream.stretches):
        if stretch.kind == "timed":
            after = stream.stretches[place + 1 : place + 2]
            piped = [slice(s.first, s.last) for s in after if s.kind == "pipelined"]
            yield stretch.level, stretch.rows, slice(stretch.first, stretch.last), piped[0] if piped else None
