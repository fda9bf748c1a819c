"""From records to the rows that are printed: rates, growth with the state, bytes.

Every number is the median over the rounds. A rate is rows over the seconds of the whole
window, so the merging that one epoch does for others is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.measure import Row, compared
from bench.rust.side import SIDES
from bench.shopping.record import Mark, Record
from bench.shopping.sides import DUCKDB, PATHWAY, windows
from bench.shopping.told import Told

TARGETS = {100: 4.0, 10_000: 10.0}
"""Times Pathway's rate on the way to the largest level, by rows an epoch."""
FLOORS = {100: 2.0, 10_000: 6.0}
"""Times Pathway's rate at every level by itself."""
TICKS = 2
"""Rows that Pathway takes beside an epoch's own."""
LINES = ("durable inputs", "working state", "cached answers", "strings", "stored in all")
"""The lines of an engine's bill."""
HEAP = "heap of a fresh process"
CLOSE = 0.9
"""The heap is to be at most 1 / CLOSE times the bytes that the bill names."""
LOGARITHM = "a logarithm of the state"
QUANTILES = {"median ms": 0.5, "p99 ms": 0.99, "max ms": 1.0}


@dataclass(frozen=True)
class Timed:
    """A window: epochs of ``rows`` visits each, timed one by one, and after them those that were pipelined, if any."""

    rows: int
    total: int
    """Rows of all the epochs, those of other relations too."""
    epochs: slice
    piped: slice | None

    @property
    def count(self) -> int:
        """How many epochs were timed one by one."""
        return int(self.epochs.stop - self.epochs.start)

    def rate(self, record: Record, more: int = 0) -> float:
        """Rows a second; ``more`` is what the side took with each epoch beside its rows."""
        return float((self.total + more * self.count) / record.seconds[self.epochs].sum())

    def pipelined(self, record: Record) -> float | None:
        """Pathway's rows a second where it did not wait."""
        if self.piped is None:
            return None
        return float((self.rows + TICKS) * (self.piped.stop - self.piped.start) / record.together[self.piped.start])

    def sampled(self, record: Record) -> int:
        """After how many of the timed epochs the side recomputed."""
        return sum(self.epochs.start <= epoch < self.epochs.stop for epoch in record.sampled)


def timed(told: Told) -> list[tuple[int, Timed]]:
    """Every window with its level of visits."""
    found = []
    for level, rows, epochs, piped in windows(told.stream):
        total = sum(told.stream.rows(epoch) for epoch in range(epochs.start, epochs.stop))
        found.append((level, Timed(rows, total, epochs, piped)))
    return found


def rates(told: Told, sizes: Sequence[int], also: str = "") -> list[Row]:
    """Updates a second by epochs of the ``sizes``: on the way to the largest level, then at every level.

    ``also`` is what is special about the course. Pathway's epochs cost more the more is held, and the way
    has every size once. It is the run itself where the shop was filled in epochs of that
    size, and otherwise computed from the levels, which the row says.
    """
    found = []
    for size in sizes:
        windows = {level: window for level, window in timed(told) if window.rows == size}
        if len(windows) > 1:
            what = f"{size:,}-row epochs, on the way to {max(windows):,} visits"
            if told.fill == size:
                found += _filling(told, f"{what}{also}", windows, TARGETS.get(size))
            else:
                found += _rates(told, f"{what}, computed from {len(windows)} sizes{also}", windows, TARGETS.get(size))
        for level, window in windows.items():
            what = f"{size:,}-row epochs, {level:,} visits held{also}"
            found += _rates(told, what, {level: window}, None if also else FLOORS.get(size))
    return found


def _filling(told: Told, what: str, windows: dict[int, Timed], target: float | None) -> list[Row]:
    """Updates a second over every epoch that filled the shop; DuckDB, which did not recompute in each, computed."""
    fills = [range(s.first, s.last) for s in told.stream.stretches if s.kind == "fill"]
    total, epochs = sum(told.stream.rows(e) for fill in fills for e in fill), sum(map(len, fills))

    def rate(record: Record, more: int = 0) -> float:
        seconds = sum(float(record.seconds[fill.start : fill.stop].sum()) for fill in fills)
        return (total + more * epochs) / seconds

    peers = {told.pathway: told.over(PATHWAY, lambda record: rate(record, TICKS))}
    for record in told.records.get(DUCKDB, ())[:1]:
        name = f"{record.version} recomputing, computed from {len(windows)} sizes"
        peers[name] = told.over(DUCKDB, lambda record: on_the_way({n: w.rate(record) for n, w in windows.items()}))
    found = []
    for side in told.ours:
        value, equal = told.over(side, rate), told.equal(side)
        named = told.what(side, what)
        found.append(compared(named, value, "updates/s", peers, against=told.pathway, target=target, equal=equal))
    return found


def _rates(told: Told, what: str, windows: dict[int, Timed], target: float | None) -> list[Row]:
    def along(rate: Callable[[Timed, Record], float | None]) -> Callable[[Record], float | None]:
        return lambda record: on_the_way({level: rate(window, record) for level, window in windows.items()})

    peers = {told.pathway: told.over(PATHWAY, along(lambda w, record: w.rate(record, TICKS)))}
    if all(w.piped is not None for w in windows.values()) and peers[told.pathway] is not None:
        peers[f"{told.pathway}, pipelined"] = told.over(PATHWAY, along(lambda w, record: w.pipelined(record)))
    for record in told.records.get(DUCKDB, ())[:1]:
        counts = [sum(w.sampled(record) for w in windows.values()), sum(w.count for w in windows.values())]
        name = f"{record.version} recomputing ({counts[0]} of {counts[1]} epochs)"
        peers[name] = told.over(DUCKDB, along(lambda w, record: w.rate(record)))
    for peer, (version, *_) in SIDES.items():
        if peer in told.records or peer in told.absent:
            reason = f" (absent: {told.absent[peer].splitlines()[-1]})" if peer in told.absent else ""
            peers[version + reason] = told.over(peer, along(lambda w, record: w.rate(record)))
    found = []
    for side in told.ours:
        value = told.over(side, along(lambda w, record: w.rate(record)))
        named, equal = told.what(side, what), told.equal(side)
        found.append(compared(named, value, "updates/s", peers, against=told.pathway, target=target, equal=equal))
    return found


def on_the_way(rates: Mapping[int, float | None]) -> float | None:
    """Updates a second over a fill from nothing to the largest level, from those at the levels.

    The seconds of one update are taken to change evenly from a level to the next, and
    below the smallest to be those at the smallest.
    """
    levels = sorted(rates)
    costs = [1 / rate for level in levels if (rate := rates[level])]
    if len(costs) < len(levels):
        return None
    area = np.trapezoid([costs[0], *costs], [0, *levels])
    return float(levels[-1] / area)


def growth(told: Told) -> list[Row]:
    """How the median epoch grows from the smallest level to the largest, against the growth of a `logarithm`."""
    found = []
    for size in sorted({window.rows for _, window in timed(told)}):
        spans = {level: window.epochs for level, window in timed(told) if window.rows == size}
        least, most = min(spans), max(spans)
        if least == most:
            continue

        def grown(record: Record, low: slice = spans[least], high: slice = spans[most]) -> float:
            return float(np.median(record.seconds[high]) / np.median(record.seconds[low]))

        peers = {LOGARITHM: logarithm(least, most, size), told.pathway: told.over(PATHWAY, grown)}
        for side in told.ours:
            what = told.what(side, f"growth of the median {size:,}-row epoch, {least:,} to {most:,} visits")
            value, equal = told.over(side, grown), told.equal(side)
            row = compared(what, value, "times", peers, against=LOGARITHM, target=1.0, less=True, equal=equal)
            ladder = [{"visits": float(level), **_milliseconds(told, side, spans[level])} for level in sorted(spans)]
            found.append(replace(row, ladder=ladder))
    return found


def logarithm(least: int, most: int, size: int) -> float:
    """How much the logarithm of the state in epochs, plus one, grows from one level to another.

    It is the number of times a row is merged in a spine whose runs double, which is what an epoch pays for at most.
    """
    return (1 + math.log2(max(most / size, 2))) / (1 + math.log2(max(least / size, 2)))


def _milliseconds(told: Told, side: str, epochs: slice) -> dict[str, float | None]:
    def quantile(record: Record, at: float) -> float:
        return float(np.quantile(record.seconds[epochs], at)) * 1e3

    return {name: told.over(side, lambda record, at=at: quantile(record, at)) for name, at in QUANTILES.items()}  # type: ignore[misc]


def sizes(told: Told) -> list[Row]:
    """Bytes of working state and cached answers at every level, the rest of the bill, and the processes' growth."""
    found = []
    for level in dict.fromkeys(stretch.level for stretch in told.stream.stretches):

        def mark(side: str, of: Callable[[Mark], int | None], level: int = level) -> float | None:
            return told.over(side, lambda record: next((of(m) for m in record.marks if m.level == level), None))

        def kept(mark: Mark) -> int | None:
            return None if mark.bill is None else mark.bill["working state"] + mark.bill["cached answers"]

        for side in told.ours:
            value, full = mark(side, kept), mark("full", kept)
            peers = {
                **{line: mark(side, lambda m, line=line: m.bill and m.bill[line]) for line in LINES},  # type: ignore[misc]
                "growth of the process": mark(side, lambda m: m.resident),
                f"{told.pathway}, growth of the process": mark(PATHWAY, lambda m: m.resident),
            }
            against = None
            what = f"state at {level:,} visits"
            if side == "partial":
                against, peers = "full", {"full": full, **peers}
                what += ", a tenth of the keys read"
            what, equal = told.what(side, what), told.equal(side)
            found.append(compared(what, value, "bytes", peers, against=against, less=True, equal=equal))
    return found


def heaps(told: Mapping[str, Mapping[str, int]], visits: int) -> list[Row]:
    """The bytes that each strategy's bill names in all, beside the heap that was measured (see `heap`)."""
    found = []
    for side, numbers in told.items():
        what = f"{side}: stored in all at {visits:,} visits"
        peers = {HEAP: numbers["heap"], **{line: numbers[line] for line in LINES[:-1]}}
        row = compared(what, numbers[LINES[-1]], "bytes", peers, against=HEAP, target=CLOSE)
        found.append(replace(row, holds=row.ratio is not None and CLOSE <= row.ratio <= 1 / CLOSE))
    return found
