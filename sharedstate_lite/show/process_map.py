"""Draws the processes of a Spark job in Python: driver, executor, Python workers and the runtime of a host.

>>> from sharedstate_lite import show
>>> show.process_map("Who runs where").words
'Who runs where'
"""

from __future__ import annotations

from collections.abc import Mapping

from .svg import Drawing, Picture, Point, line, rect, text

_WIDE, _TALL, _MAPPED_TALL = 668, 296, 346
_WORKERS = ((1, 72.0), (2, 140.0))
"""The number and the top of each Python worker."""
_RUNTIME = 208.0


def process_map(
    title: str, *, copied: bool = False, mapped: bool = False, pools: Mapping[str, int] | None = None
) -> Picture:
    """Return a picture of a host with two tasks, and of the driver.

    If ``copied`` is True, the driver, the executor and each worker have a copy of a graph. If ``mapped`` is True, there
    is one graph in sealed memory, and dashed lines lead to it from the processes that map it. ``pools`` has the number
    of connections to PostgreSQL that each of the ``"workers"``, or the ``"runtime"``, keeps in a pool.
    """
    owners = {"workers": [top for _, top in _WORKERS], "runtime": [_RUNTIME]}
    kept = [(top, count) for owner, count in (pools or {}).items() for top in owners[owner]]
    out = [text((14, 22), title, kind="b", size=14)]
    out += [rect(184, 40, 470, 290 if mapped else 240, fill="none", stroke="frame", radius=6)]
    out += [text((198, 60), "host: a machine that runs tasks", kind="m")]
    out += [_box(14, 72, 146, 84, "driver", "Python: this notebook")]
    out += [_box(198, 72, 168, 192, "executor", "a JVM process")]
    out += [_line((160, 100), (198, 100)), _line((616, 90), (616, 226), (602, 226))]
    for number, top in _WORKERS:
        out += [_box(424, top, 178, 56, f"Python worker {number}", "a process")]
        out += [_box(208, top + 50, 148, 28, f"task {number}: a thread")]
        out += [_line((356, top + 64), (390, top + 64), (390, top + 28), (424, top + 28))]
        out += [_line((602, top + 18), (616, top + 18))]
        out += [_graph(536, top + 30)] if copied else []
        out += [_line((602, top + 38), (634, top + 38), mapped=True)] if mapped else []
    out += [_box(424, _RUNTIME, 178, 56, "runtime", "owns shared resources")]
    for top, count in kept:
        out += [_tag(536, top + 4, f"pool: {count}")]
        out += [line([(602, top + 14), (634, top + 14), (634, 318), (602, 318)], "inserted", wide=2)]
    if kept:
        connections = " + ".join(str(count) for _, count in kept)
        out += [_box(424, 296, 178, 44, "PostgreSQL", f"{connections} connections")]
    out += [_graph(24, 128), _graph(300, 236)] if copied else []
    if mapped:
        out += [_box(424, 280, 178, 40, "sealed memory"), _graph(536, 290)]
        out += [_line((634, 110), (634, 300), (602, 300), mapped=True)]
        out += [_line((87, 156), (87, 300), (424, 300), mapped=True)]
    return Picture(title, Drawing(_WIDE, _MAPPED_TALL if mapped or kept else _TALL, "".join(out)))


def _box(x: float, y: float, wide: float, high: float, title: str, note: str = "") -> str:
    words = text((x + 10, y + 19), title, kind="b") + text((x + 10, y + 36), note, kind="m")
    return rect(x, y, wide, high, fill="panel", stroke="frame", radius=4) + words


def _graph(x: float, y: float) -> str:
    return _tag(x, y, "graph")


def _tag(x: float, y: float, words: str) -> str:
    shape = rect(x, y, 56, 20, fill="inserted-tint", stroke="inserted", radius=3)
    return shape + text((x + 28, y + 14), words, anchor="middle")


def _line(*points: Point, mapped: bool = False) -> str:
    return line(points, "inserted" if mapped else "muted", dashes="5 3" if mapped else "")


__all__ = ["process_map"]
