"""The page of ``sharedstate price --html``: a chart of the bill, and the tables of its numbers. It needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from html import escape
from typing import Any

from ..engine.state_tables import BILL, CACHED, DURABLE, TOTAL, WORKING
from ..show.palette import FAMILY, style
from ..show.svg import Drawing, Picture, rect, text

BARS = {
    (DURABLE,): BILL[DURABLE],
    (DURABLE, WORKING): "durable and working",
    (WORKING,): BILL[WORKING],
    (CACHED,): BILL[CACHED],
}
"""The name of a bar, by the columns of the bill in which its parts are."""
HUES = dict(zip([*BARS.values(), "strings"], ("frame", "inserted", "handle", "upquery", "deleted"), strict=True))
LEFT, WIDE, HIGH = 130.0, 560.0, 26.0
LOOK = (
    ":root{color-scheme:light dark}"
    f"body{{max-width:960px;margin:16px auto;padding:0 12px;font:15px/1.5 {FAMILY}}}"
    "table{border-collapse:collapse;margin:12px 0;display:block;overflow-x:auto}"
    "caption{text-align:left;font-weight:bold}th,td{padding:2px 10px;text-align:right}"
    "th:first-child,td:first-child,td.t{text-align:left}tr+tr{border-top:1px solid #8884}"
)


def chart(told: Mapping[str, Any]) -> Picture:
    """Return bars of the bytes of each strategy: predicted, and measured below. Each part is in one bar.

    ``told`` is the object of docs/price.schema.json.
    """
    bars = []
    for kind, strategy in told["strategies"].items():
        for what in ("predicted", "measured"):
            if strategy["parts"] and strategy["bill"][TOTAL]["bytes"][what] is not None:
                sizes = dict.fromkeys(HUES, 0) | {"strings": strategy["bill"]["strings"]["bytes"][what]}
                for part in strategy["parts"]:
                    sizes[BARS[tuple(part["bill"])]] += part["bytes"][what]
                bars.append((f"{kind}, {what}", sizes, mark(strategy["parts"], strategy["unable"])))
    most = max([1, *(sum(sizes.values()) for _, sizes, _ in bars)])
    out, x = [], 0.0
    for name, hue in HUES.items():
        out += [rect(x, 4, 12, 12, fill=hue), text((x + 18, 15), name)]
        x += 150
    for row, (name, sizes, star) in enumerate(bars):
        y, x = 34 + row * HIGH, LEFT
        out.append(text((0, y + 13), name))
        for bar, size in sizes.items():
            long = WIDE * size / most
            out.append(rect(x, y, long, 17, fill=HUES[bar]))
            x += long
        out.append(text((x + 6, y + 13), f"{sum(sizes.values()) / 1e6:,.2f} MB{star}"))
    words = ["Bytes of each strategy", *(f"  {name}: {sum(sizes.values()):,}{star}" for name, sizes, star in bars)]
    return Picture("\n".join(words), Drawing(LEFT + WIDE + 90, 44 + len(bars) * HIGH, "".join(out)))


def mark(parts: Sized, unable: Sized) -> str:
    """Return the mark of a strategy with parts whose sum leaves out views that it is unable to maintain."""
    return " *" if parts and unable else ""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table. Numbers get commas, and None is empty."""

    def cell(value: object) -> str:
        if isinstance(value, str) or value is None:
            return f'<td class="t">{escape(value or "")}</td>'
        return f"<td>{value:,}</td>"

    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def body(told: Mapping[str, Any], words: str, parts: bool = True) -> str:
    """Return the chart, the guesses that were worst, the bill, and all parts. ``words`` say of what."""
    sides = ("predicted", "measured", "q")
    heads = [f"{unit} {side}" for unit in ("rows", "bytes") for side in sides]
    bill, rows, unable = [], [], []
    for kind, strategy in told["strategies"].items():
        star = mark(strategy["parts"], strategy["unable"])
        for name, amounts in strategy["bill"].items():
            line = f"{name}{star}" if name == TOTAL else name
            bill.append([f"{kind}: {line}", *(amounts[unit][side] for unit in ("rows", "bytes") for side in sides)])
        for part in strategy["parts"]:
            sizes = [part[unit][side] for unit in ("rows", "bytes") for side in sides]
            rows.append([f"{kind} {part['operator']}", *sizes, part["cause"]])
        for name, why in strategy["unable"].items():
            unable.append(f"<p>{kind}{star} without {escape(name)}: {escape(why)}</p>")
    sized = ("q", "unit", "predicted", "measured", "cause")
    worst = [[f"{w['strategy']} {w['operator']}", *(w[each] for each in sized)] for w in told["worst"]]
    tables = [
        table("Guessed worst", ["part", *sized], worst) if worst else "",
        table("The bill", ["", *heads], bill),
        *unable,
        table("All parts", ["part", *heads, "most doubtful for"], rows) if parts else "",
    ]
    q = "q = max(predicted / measured, measured / predicted), both plus one."
    return f"<p>{escape(words)}. {q}</p>{chart(told)._repr_html_()}{''.join(tables)}"


def page(told: Mapping[str, Any], words: str) -> str:
    """Return the page. ``told`` is the object of docs/price.schema.json, and ``words`` say of what."""
    title = escape(f"What {', '.join(told['views'])} cost")
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{LOOK}{style()}</style>'
    )
    return f"{head}<h1>{title}</h1>{body(told, words)}</html>"
