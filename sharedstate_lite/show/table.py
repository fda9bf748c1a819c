"""Cuts state tables to the size for which a picture has room, measures them and draws them.

A long value is cut with an ellipsis, and its full text is in a tooltip. Rows and columns that are left out are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from .palette import LEAST
from .svg import clean, line, rect, text
from .text import fit, width

ROW = 18
HEADER = 19
CAPTION = 18
PAD = 8
BETWEEN = 14


@dataclass(frozen=True)
class Limits:
    """How much of a table is drawn: the number of rows and columns, and the width of values and of the title in px."""

    rows: int = 8
    columns: int = 5
    cell: float = 120
    title: float = 230


@dataclass(frozen=True)
class DrawnTable:
    """A table that is cut and ready to be drawn. ``cells`` are the values as drawn, ``whole`` is their full text."""

    caption: str
    head: list[str]
    cells: list[list[str]]
    whole: list[list[str]]
    right: list[bool]
    notes: list[str] = field(default_factory=list)
    hole: bool = False
    """Whether a slot at the end shows that all other keys are holes."""

    @property
    def widths(self) -> list[float]:
        """The width of each column, in px."""
        columns = (
            zip(self.head, zip(*self.cells, strict=True), strict=True) if self.cells else ((h, ()) for h in self.head)
        )
        # Bold is the widest style, so a mark on a row cannot widen its column.
        return [max([width(h), *(width(c, bold=True) for c in cells)]) for h, cells in columns]

    @property
    def width(self) -> float:
        """The smallest width that fits all columns, the caption and the notes, in px."""
        body = sum(self.widths) + BETWEEN * max(len(self.head) - 1, 0)
        other = [width(self.caption), *(width(n) for n in self.notes)]
        return max([body, *other]) + 2 * PAD

    @property
    def height(self) -> float:
        """The height of the table, including its caption and notes, in px."""
        lines = len(self.cells) + len(self.notes)
        return (
            (CAPTION if self.caption else 0) + (HEADER if self.head else 0) + ROW * lines + 6 + (16 if self.hole else 0)
        )

    def draw(self, x: float, y: float, wide: float) -> str:
        """Return the SVG of the table, stretched to ``wide`` px, with its upper left corner at (x, y)."""
        out = []
        if self.caption:
            out.append(text((x + PAD, y + 14), self.caption, kind="m"))
            y += CAPTION
        lefts = self._lefts(x, wide)
        if self.head:
            out += self._line(lefts, y + 14, self.head, self.head, "m")
            out.append(rect(x + PAD, y + HEADER - 1, wide - 2 * PAD, 1, fill="hairline"))
            y += HEADER
        for cells, whole in zip(self.cells, self.whole, strict=True):
            out += self._line(lefts, y + 14, cells, whole, "")
            y += ROW
        for note in self.notes:
            out.append(text((x + PAD, y + 14), note, kind="m i"))
            y += ROW
        if self.hole:
            out.append(slot(x + PAD, y + 4, wide - 2 * PAD))
        return "".join(out)

    def _lefts(self, x: float, wide: float) -> list[tuple[float, float]]:
        spare = wide - 2 * PAD - sum(self.widths) - BETWEEN * max(len(self.head) - 1, 0)
        step = min(spare / max(len(self.head) - 1, 1), 24) if len(self.head) > 1 else 0
        lefts, at = [], x + PAD
        for w in self.widths:
            lefts.append((at, w))
            at += w + BETWEEN + step
        return lefts

    def _line(
        self, lefts: list[tuple[float, float]], y: float, cells: list[str], whole: list[str], kind: str
    ) -> list[str]:
        out = []
        for (left, w), cell, all_of_it, right in zip(lefts, cells, whole, self.right, strict=True):
            faint = f"{kind} i m".strip() if cell == "NULL" and not kind else kind
            at = (left + w, y) if right else (left, y)
            out.append(text(at, cell, kind=faint, anchor="end" if right else "start", tip=all_of_it))
        return out


def slot(x: float, y: float, wide: float) -> str:
    """Return the SVG of the symbol for a hole: a slot whose upper edge is in shadow."""
    lip = line([(x, y + 6), (x, y), (x + wide, y), (x + wide, y + 6)], "muted", wide=2, radius=6)
    return rect(x, y, wide, 12, fill="page", stroke="hairline", radius=6) + lip


def shown(value: Any) -> str:
    """Return the text of a value in a cell: NULL for a missing value, and quotes around a blank string."""
    if value is None or value is pd.NA or (isinstance(value, float) and value != value) or value is pd.NaT:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    words = clean(str(value))
    return words if words.strip() else f"'{words}'"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``, ``1,200 rows``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def cut(
    frame: pd.DataFrame, total: int, limits: Limits, caption: str = "", notes: Sequence[str] = (), hole: bool = False
) -> DrawnTable:
    """Cut a state table to its first rows and columns.

    ``frame`` contains rows and their ``diff``. If a shown row has a multiplicity other than 1, a column ``times`` shows
    the multiplicities. ``total`` is the number of rows in the table. ``frame`` can contain fewer rows; a note counts
    the others.
    """
    # Columns are selected by position, because two of them can have the same name.
    columns = [i for i, c in enumerate(frame.columns) if c != "diff"]
    times = [
        int(str(frame.iat[r, i]))
        for i, c in enumerate(frame.columns)
        if c == "diff"
        for r in range(min(len(frame), limits.rows))
    ]
    at = columns if len(columns) <= limits.columns else columns[: limits.columns - 1]
    rows = min(len(frame), limits.rows if total <= limits.rows else limits.rows - 1)
    whole = [[shown(frame.iat[r, c]) for c in at] for r in range(rows)]
    head = [clean(str(frame.columns[c])) for c in at]
    right = [pd.api.types.is_numeric_dtype(frame.dtypes.iloc[c]) for c in at]
    if len(at) < len(columns):
        head, right = [*head, f"+{len(columns) - len(at)} columns"], [*right, False]
        whole = [[*r, "…"] for r in whole]
    if any(t != 1 for t in times[:rows]):
        head, right = [*head, "times"], [*right, True]
        whole = [[*r, str(t)] for r, t in zip(whole, times, strict=False)]
    cells = [[fit(c, limits.cell, LEAST, bold=True) for c in r] for r in whole]
    if not rows:
        head, right = (head, right) if total else ([], [])
    more = [f"{counted(total - rows, 'more row')}"] if total > rows and rows else []
    if not rows and not hole and not notes:
        more = [counted(total, "row")] if total else ["no rows"]
    return DrawnTable(caption, [fit(h, limits.cell) for h in head], cells, whole, right, [*more, *notes], hole)


def grouped(frame: pd.DataFrame, key: int) -> pd.DataFrame:
    """Return the values of each group under MAX or MIN, one row per group: its key, then its values in order.

    The first ``key`` columns of ``frame`` are the key; the value and its ``diff`` follow. If a group has more than four
    values, only the first two and the last two are shown.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in frame.itertuples(index=False):
        times = int(row[key + 1])
        groups.setdefault(tuple(row[:key]), []).append(shown(row[key]) + (f"×{times}" if times != 1 else ""))
    name = str(frame.columns[key])
    out = [(*k, _several(values)) for k, values in groups.items()]
    head = [*(str(c) for c in frame.columns[:key]), name]
    result = pd.DataFrame(out, columns=range(key + 1))
    result.columns = pd.Index(head)
    return result


def _several(values: Sequence[str]) -> str:
    if len(values) <= 4:
        return "  ".join(values)
    return f"{values[0]}  {values[1]} … {values[-2]}  {values[-1]}"
