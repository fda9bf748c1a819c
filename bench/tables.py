"""Writes what is measured into pages, from the records of bench/records.

    python bench/tables.py

It writes docs/measurements.md, and in other pages the lines between ``<!-- record NAME -->`` and ``<!-- end -->``.
`tests/bench/test_bench_records.py` holds the pages to the records.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure, without  # noqa: E402
from sharedstate_lite.lessons.records import FOLDER, SIZES, PageRecord  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "measurements.md"
FRONT = """# Measurements

The figures that the lessons show, each from a dated record. `python bench/all.py --only NAME` makes a record, and
`python bench/tables.py` writes this page. If you run a notebook, your own figures stand beside these.

Each record says how busy other programs were just before or after it.
[bench/README.md](../bench/README.md) describes the other benchmarks, and how their sides are fed and timed.
"""


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a record."""
    return list(PageRecord(name).about["rows"])


_RATE = re.compile(r"(\w+): ([\d,]+)-row epochs, ([\d,]+) visits held")


def views() -> str:
    """Updates a second at each size of an epoch and of the shop: the strategies, and the fastest of all peers."""
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows_of("views"):
        if found := _RATE.fullmatch(row["what"]):
            cells.setdefault((found[2], found[3]), {})[found[1]] = row
    sides = ("full", "shared", "partial")
    lines = [f"| rows an epoch | visits held | {' | '.join(sides)} | the fastest peer | shared / it |\n|{'---|' * 7}"]
    for (size, held), rows in cells.items():
        value, peer = max((value, peer) for peer, value in rows["shared"]["peers"].items() if value is not None)
        ours = [measure.number(rows[side]["value"]) for side in sides]
        ratio = measure.number(rows["shared"]["value"] / value)
        lines.append(f"| {' | '.join([size, held, *ours, f'{peer}: {measure.number(value)}', ratio])} |")
    return "\n".join(lines)


def growth() -> str:
    """How an epoch and a visit cost more as the shop fills: a column for each size."""
    parts = []
    for row in rows_of("growth"):
        units = [unit for unit in row["ladder"][0] if unit != "visits"]
        sizes = [f"{measure.number(step['visits'])} visits" for step in row["ladder"]]
        lines = [[row["what"], *sizes], ["---", *["---"] * len(sizes)]]
        lines += [[unit, *(measure.number(step[unit]) for step in row["ladder"])] for unit in units]
        grown, (peer, allowed) = measure.number(row["value"]), next(iter(row["peers"].items()))
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts.append(
            f"From the first size to the last, the epoch grows {grown} times; {peer}, {measure.number(allowed)} times."
        )
    return "\n\n".join(parts)


def price() -> str:
    """How far predictions of state are from measurements: a line for each data set."""
    told = {row["what"]: measure.number(row["value"]) for row in rows_of("price")}
    sets = list(dict.fromkeys(what.partition(":")[0] for what in told))
    lines = ["| data set | q, median | q, 95th percentile |", "|---|---|---|"]
    shares = ("median", "95th percentile")
    lines += [f"| {' | '.join([name, *(told[f'{name}: totals, the {s}'] for s in shares)])} |" for name in sets]
    return "\n".join(lines)


BLOCKS: dict[str, tuple[str, Callable[[], str]]] = {
    "19": ("labs/checkout/fast/README.md", lambda: without.table(rows_of("19"))),
    "views": ("README.md", views),
}
"""By record: a page that has a table of it, and the table."""


def tables(name: str) -> Iterator[str]:
    """Each chart or table of a page's record, in Markdown."""
    of: dict[str, dict[str, dict[str, list[str]]]] = {}
    for row in rows_of(name):
        if row["of"] == SIZES:
            continue
        place = f"{row['at']:g}: " if "at" in row else ""
        lines = of.setdefault(row["of"].removesuffix(f", {row['unit']}"), {})
        lines.setdefault(row["what"], {}).setdefault(row["unit"], []).append(place + measure.number(row["value"]))
    for title, lines in of.items():
        units = list(dict.fromkeys(unit for cells in lines.values() for unit in cells))
        yield f"| {' | '.join([title, *units])} |\n|{'---|' * (1 + len(units))}"
        for what, cells in lines.items():
            yield f"| {' | '.join([what, *(', '.join(cells.get(unit, [])) for unit in units)])} |"
        yield ""


def measurements() -> str:
    """The page, from all records that there are."""
    parts = [FRONT]
    for path in sorted(FOLDER.glob("*.json")):
        name = path.stem
        notebook = next((ROOT / "notebooks").glob(f"{name}-*.ipynb"), None)
        if notebook:
            title = json.loads(notebook.read_text("utf-8"))["cells"][0]["source"][0].strip("# \n")
            parts.append(
                f"## {title}\n\nOf [its notebook](../notebooks/{notebook.name}). {PageRecord(name).markdown()}\n"
            )
        else:
            parts.append(f"## bench/{name}.py\n\n{PageRecord(name).markdown()}\n")
        own = {"growth": growth, "price": price, **{record: table for record, (_, table) in BLOCKS.items()}}
        parts += [own[name]() + "\n"] if name in own else tables(name)
    return "\n".join(parts)


def written(text: str, name: str) -> str:
    """A page with its block of a record made anew. Raises ValueError if it has no such block."""
    start, end = f"<!-- record {name} -->\n", "<!-- end -->"
    block = f"{start}{PageRecord(name).markdown()}\n\n{BLOCKS[name][1]()}\n{end}"
    made, count = re.subn(f"{re.escape(start)}.*?{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page has {count} blocks of record {name}")
    return made


def main() -> None:
    """Write all pages."""
    PAGE.write_text(measurements(), "utf-8")
    for name, (path, _) in BLOCKS.items():
        if (FOLDER / f"{name}.json").exists():
            (ROOT / path).write_text(written((ROOT / path).read_text("utf-8"), name), "utf-8")


if __name__ == "__main__":
    main()
