"""Draws a run as a table: a step a row, with its message between the processes, a sentence, and the values after it.

Each row has a piece of one sequence diagram, with a column for each process. Positions across are shares of the width,
so the drawing stretches with the page, and its texts do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..words import row, safe, table

_LINE, _TEXT = 34, 24
"""Where a row has its arrow, and the text above it, in px from its top."""
_LONG = 26
"""The most characters of a text above an arrow. The sentence has the rest."""
_HEADS = {True: "M0 0l-9-4.5v9z", False: "M0 0l9-4.5v9z"}
_CROSS, _UP = "M-6-6L6 6M6-6L-6 6", "M-7 5h14L0-8z"
Json = Mapping[str, Any]


def lanes(steps: Sequence[Json]) -> list[str]:
    """Return the processes that take part, in the order in which they first do."""
    names = (name for step in steps for name in (step["from"], step["to"], *step["processes"]))
    return list(dict.fromkeys(filter(None, names)))


def drawn(case: Json) -> str:
    """Return the run of a case as HTML."""
    steps, names = case["steps"], lanes(case["steps"])
    things = [value["thing"] for value in case["values"]] if any(step["values"] for step in steps) else []
    heads = "".join(f"<b>{safe(name, 24)}</b>" for name in names)
    columns = [f"<div class='lanes' style='--n:{len(names)}'>{heads}</div>", "What happened", *map(safe, things)]
    rows = [row("Step", *columns, kind="th", classes=("no", "draw", "say", *["val"] * len(things)))]
    before = {value["thing"]: value["before"] for value in case["values"]}
    rows += [_ending("before", "before", before, things)] if things else []
    down, last = dict.fromkeys(names, False), dict(before)
    for number, step in enumerate(steps, 1):
        picture = f"<svg aria-hidden='true'>{''.join(_piece(step, names, down))}</svg>"
        tag = f"<b class='by'>{step['by']}</b> " if step["by"] else ""
        said = safe(step["says"].replace("   ", ": ", 1).replace(" -> ", " → "))
        cells = [str(number), picture, f"{tag}<span>{said}</span>"]
        values = step["values"] or {}
        marks = ["val new" if values.get(thing, last[thing]) != last[thing] else "val" for thing in things]
        cells += [_cell(thing, values[thing]) if thing in values else "" for thing in things]
        rows.append(row(*cells, classes=("no", "draw", "say", *marks), mark=step["by"]))
        last |= values
    if things:
        wrong = {value["thing"] for value in case["values"] if value["should_be"] not in (None, value["is"])}
        found = {value["thing"]: value["is"] for value in case["values"]}
        due = found | {value["thing"]: value["should_be"] for value in case["values"] if value["thing"] in wrong}
        rows += [_ending("is", "is, in the end", found, things, wrong), _ending("due", "should be", due, things)]
    style = f"--n:{len(names)};--v:{len(things)}"
    return f"<div style='{style}' class='scroll'><div class='sized'>{table('run', *rows)}</div></div>"


def _cell(thing: str, value: object) -> str:
    said = "not read" if value is None else f"{value:,}" if isinstance(value, int) else safe(value, 24)
    return f"<i>{safe(thing)}</i> <span>{said}</span>"


def _ending(kind: str, words: str, values: Json, things: Sequence[str], wrong: set[str] | None = None) -> str:
    cells = [_cell(thing, values[thing]) for thing in things]
    marks = ["val wrong" if thing in (wrong or ()) else "val new" for thing in things]
    return row("", "", f"<span>{words}</span>", *cells, classes=("no", "draw", "say", *marks), mark=f"end {kind}")


def _piece(step: Json, names: Sequence[str], down: dict[str, bool]) -> list[str]:
    """Return the drawing of one step. ``down``: the processes that are killed, which a step can change."""
    at = {name: round(100 * (n + 0.5) / len(names), 2) for n, name in enumerate(names)}
    parts = []
    for name in names:
        was = down[name]
        if name in step["processes"] and step["mark"] in ("killed", "started"):
            down[name] = step["mark"] == "killed"
        for begin, end, off in (("0", f"{_LINE}", was), (f"{_LINE}", "100%", down[name])):
            kind = "off" if off else "life"
            parts.append(f"<line x1='{at[name]}%' x2='{at[name]}%' y1='{begin}' y2='{end}' class='{kind}'/>")
    mark = str(step["mark"])
    if mark in ("killed", "started", "gave up"):
        sign = _UP if mark == "started" else _CROSS
        for name in step["processes"]:
            parts.append(_sign(at[name], sign, f"big {mark.split()[0]}"))
            parts.append(_text(at[name], _TEXT - 8, "kill -9" if mark == "killed" else mark))
        return parts
    start, stop = at[step["from"]], at[step["to"]]
    cut = {"lost": 0.6, "unheard": 0.9}.get(mark, 1.0)
    far, kind = round(start + cut * (stop - start), 2), "answer" if mark == "unheard" else mark
    parts.append(f"<line x1='{start}%' x2='{far}%' y1='{_LINE}' y2='{_LINE}' class='way {kind}'/>")
    sign = _HEADS[stop > start] if cut == 1.0 else _CROSS
    parts.append(_sign(far, sign, f"{'head' if cut == 1.0 else 'big'} {kind}"))
    late = " (late)" * (mark == "late")
    parts.append(_text(round((start + stop) / 2, 2), _TEXT, safe(step["word"], _LONG - len(late)) + late))
    return parts


def _sign(at: float, path: str, kind: str) -> str:
    return f"<svg x='{at}%' y='{_LINE}'><path d='{path}' class='{kind}'/></svg>"


def _text(at: float, y: int, said: str) -> str:
    return f"<text x='{at}%' y='{y}' text-anchor='middle'>{said}</text>"


__all__ = ["drawn", "lanes"]
