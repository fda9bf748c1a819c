"""Draws the latency chart of a run, and makes the table of the speed phase.

The chart is an SVG that stretches with the page. Its labels are HTML text, so their size does not depend on the width
of the page or on whether it is printed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..record import Record
from ..terms import GOODPUT, SLOWEST_MS, Kind, done
from ..verdict import Judgement
from ..verdict.story import fault_of, faults
from .words import counted, row, seconds, table

BOTTOM, TOP = 1.0, 10_000.0
"""Milliseconds at the lower and upper edges of the chart."""
GOAL = 10_000
"""The rate that scores all points for speed, in checkouts per second."""
MOST_BINS = 300
"""The maximum number of bins along the time axis. Bins are wider if the run is longer."""
NARROW = 4.0
"""Labels closer together than 1.5 times this percentage of the chart's width are merged."""


def _height(ms: float) -> float:
    """Return the vertical position of a latency in the chart, from 0 at the top to 1000 at the bottom."""
    share = math.log10(max(BOTTOM, min(TOP, ms)) / BOTTOM) / math.log10(TOP / BOTTOM)
    return round(1000 * (1 - share), 1)


def _path(xs: list[float], ys: list[float], bins: list[int]) -> str:
    """Return an SVG path that connects adjacent bins. A bin without neighbors becomes a short dash."""
    parts = []
    for n, (x, y) in enumerate(zip(xs, ys, strict=True)):
        joined = n > 0 and bins[n] == bins[n - 1] + 1
        parts.append(f"L{x} {y}" if joined else f"M{x} {y}h2")
    return "".join(parts)


def _binned(record: Record, end: float, width: float) -> tuple[list[int], list[float], list[float]]:
    history = record.history
    mine = (history["kind"] == Kind.CHECKOUT) & (history["attempt"] == 1) & (history["done"] > 0)
    mine &= done(history["status"])
    due: NDArray[Any] = history["due"][mine]
    waits = (history["done"][mine] - due) / 1e6
    place = np.clip((due / 1e9 / width).astype(np.int64), 0, int(end / width))
    order = np.argsort(place, kind="stable")
    place, waits = place[order], waits[order]
    bins, begins = np.unique(place, return_index=True)
    pieces = np.split(waits, begins[1:]) if len(bins) else []
    p50, p99 = ([float(np.percentile(piece, q)) for piece in pieces] for q in (50, 99))
    return [int(b) for b in bins], p50, p99


def _guilty(record: Record, judgement: Judgement, known: list[tuple[float, str]]) -> set[int]:
    """Return the indexes of the faults that are nearest in time to the orders that broke a rule."""
    orders = np.unique([v.order for v in judgement.violations if v.order >= 0 and v.phase == "faults"])
    if not known or not len(orders):
        return set()
    history = record.history
    mine = (history["kind"] == Kind.CHECKOUT) & np.isin(history["subject"], orders)
    place = np.searchsorted(orders, history["subject"][mine])
    first, last = np.full(len(orders), np.iinfo(np.int64).max), np.zeros(len(orders), dtype=np.int64)
    np.minimum.at(first, place, history["due"][mine])
    np.maximum.at(last, place, history["done"][mine])
    return {fault_of(known, int(a), int(b)) for a, b in zip(first, last, strict=True)} - {-1}


def waiting(record: Record, judgement: Judgement) -> str:
    """Return the latency chart as HTML, or "" if no checkout was done."""
    end = max((notes.end_s or 0.0 for notes in record.phases.values()), default=0.0) or 1.0
    width = max(end / MOST_BINS, min(1.0, end / 30))
    bins, p50, p99 = _binned(record, end, width)
    if not bins:
        return ""
    xs = [round(min(1000.0, 1000 * (b + 0.5) * width / end), 1) for b in bins]
    svg, labels = [], []
    for number, (name, notes) in enumerate(sorted(record.phases.items(), key=lambda pair: pair[1].begin_s or 0.0)):
        begin, stop = (min(1000.0, 1000 * (at or 0.0) / end) for at in (notes.begin_s, notes.end_s))
        if number % 2 == 0:
            svg.append(f"<rect x='{begin:.1f}' y='0' width='{max(0.0, stop - begin):.1f}' height='1000' class='zone'/>")
        if stop - begin > 11 * len(name):
            tight = " tight" if stop - begin < 30 * len(name) else ""
            labels.append(f"<span class='lb phase{tight}' style='left:{(begin + stop) / 20:.1f}%'>{name}</span>")
    for ms in (10.0, 100.0, SLOWEST_MS):
        y = _height(ms)
        svg.append(f"<line x1='0' x2='1000' y1='{y}' y2='{y}' class='grid'/>")
    for ms in (BOTTOM, 10.0, 100.0, SLOWEST_MS, TOP):
        labels.append(f"<span class='lb y' style='top:{_height(ms) / 10:.1f}%'>{_short(ms)}</span>")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        labels.append(f"<span class='lb x' style='left:{100 * share:.0f}%'>{_clock(share * end)}</span>")
    known = faults(record)
    guilty = _guilty(record, judgement, known)
    for n, (at, _) in enumerate(known):
        x = round(min(1000.0, 1000 * at / end), 1)
        svg.append(
            f"<line x1='{x}' x2='{x}' y1='{0 if n in guilty else 930}' y2='1000' "
            f"class='{'hurt' if n in guilty else 'fault'}'/>"
        )
    svg.append(f"<path d='{_path(xs, [_height(v) for v in p99], bins)}' class='p99'/>")
    svg.append(f"<path d='{_path(xs, [_height(v) for v in p50], bins)}' class='p50'/>")
    marks = _marks(known, guilty, end)
    told = (
        f"The marks at the bottom show {counted(len(known), 'fault')} (kills and pauses). "
        + ("A red mark with a cross and a number is a fault that led to violations." if guilty else "")
        if known
        else "This run had no faults."
    )
    return (
        f"<figure><div class='legend'><span><i class='i50'></i>p50: half are faster</span><span><i class='i99'></i>"
        f"p99: 99% are faster</span></div><div class='chart' role='img' aria-label='Latency over the run'>"
        f"<div class='plot'><svg viewBox='0 0 1000 1000' preserveAspectRatio='none' aria-hidden='true'>"
        f"{''.join(svg)}</svg>"
        f"{''.join(labels)}</div></div>{marks}<figcaption>Latency of first attempts that were answered 2xx, measured "
        f"from the time when each was due, in bins of {seconds(width)}. Each grid line is ten times the one below it. "
        f"{told}</figcaption></figure>"
    )


def _marks(known: list[tuple[float, str]], guilty: set[int], end: float) -> str:
    """Return the numbers of the faults that led to violations, as HTML. Numbers that are close together are merged."""
    spans: list[tuple[float, list[int]]] = []
    for n in sorted(guilty):
        x = min(97.0, max(3.0, 100 * known[n][0] / end))
        if spans and x - spans[-1][0] < NARROW * 1.5:
            spans[-1][1].append(n)
        else:
            spans.append((x, [n]))
    if not spans:
        return ""
    told = (
        f"<span class='lb' style='left:{x:.1f}%'>✕ {ns[0] + 1}{f'–{ns[-1] + 1}' if len(ns) > 1 else ''}</span>"
        for x, ns in spans
    )
    return f"<div class='marks'>{''.join(told)}</div>"


def _short(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.0f} s"


def _clock(at: float) -> str:
    return f"{at:.0f} s" if at < 120 else f"{at / 60:.1f} min"


def steps(judgement: Judgement) -> str:
    """Return the table of the rates that were tried, as HTML, or "" if there are none."""
    found = judgement.phases["speed"].figures.get("steps") or []
    if not found:
        return ""
    held = [step["offered_per_s"] for step in found if step["held"]]
    best = max(held) if held else None
    top = max(GOAL, *(step["offered_per_s"] for step in found))
    rows = [row("Offered per second", f"<span class='goal' style='left:{100 * GOAL / top:.1f}%'>goal {GOAL:,}</span>",
                "Done", "Share", "p50", "p99", "Cores", "Sustained?", kind="th",
                classes=("num", "bars", "num", "num", "num opt", "num", "num opt", ""))]  # fmt: skip
    for step in sorted(found, key=lambda s: float(s["offered_per_s"])):
        full, done = (100 * min(float(step[k]), top) / top for k in ("offered_per_s", "done_per_s"))
        share, p99 = f"{100 * step['share']:.1f}%", seconds(step["p99_ms"] / 1000)
        share = share if step["share"] >= GOODPUT else f"<b>{share}</b>"
        p99 = p99 if step["p99_ms"] <= SLOWEST_MS else f"<b>{p99}</b>"
        bars = f"<i class='off' style='width:{full:.1f}%'></i><i class='in' style='width:{done:.1f}%'></i>"
        bars += f"<i class='mark' style='left:{100 * GOAL / top:.1f}%'></i>"
        chosen = step["offered_per_s"] == best
        word = "yes, the highest" if chosen else "yes" if step["held"] else "no"
        rows.append(
            row(f"{step['offered_per_s']:,.0f}", bars, f"{step['done_per_s']:,.0f}", share,
                seconds(step["p50_ms"] / 1000), p99, f"{step['cores']:.2f}", word,
                classes=("num", "bars", "num", "num", "num opt", "num", "num opt", ""),
                mark="best" if chosen else "" if step["held"] else "over")
        )  # fmt: skip
    return table("steps", *rows)
