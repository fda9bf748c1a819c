"""Draws state tables with marks for what happened to their rows, in a layout that all steps share.

A `TableBlock` is one table at one step; `block` makes it from a recorded table. A `TableLayout` has the room that all
steps of a table need: the widths of columns with their widest marks, the largest number of lines, and the notes below.
Every block is drawn in the layout of its table, so nothing moves between steps. If there is not enough room for all
rows, marked rows are preferred, and the hidden rows are counted (``195 more rows``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...replay.recording import Bag, Group, Key, ReaderPosition, Row, Table
from ..svg import clean, rect, text
from ..table import CAPTION, HEADER, counted, shown
from ..text import fit, width
from .cells import BagField, BagItem, Cell, Changed, Field, FieldGroup, Hole, columns_width
from .glyphs import band, mark
from .time_axis import HandleMark, TimeAxis

MOST = 8
"""The largest number of rows that a table shows."""
PAD, GUTTER, BETWEEN, SPREAD = 7.0, 12.0, 12.0, 22.0
ROW, SLAB_ROW, SLAB_GAP = 18.0, 16.0, 5.0
NOTHING = "no rows"


@dataclass(frozen=True)
class TableLine:
    """A row of a table: its fields, its mark, and whether it changed in this step (``now``).

    If it has fewer fields than the table has columns, the last field spans the remaining columns. In an arrangement,
    ``slab`` is the span of the row's batch.
    """

    fields: tuple[Field, ...]
    mark: str = ""
    now: bool = False
    slab: str = ""
    under: Field | None = None
    """A field below the row, across all columns. In the narrow form, it shows the group's bags."""
    marked: bool = False
    """Whether the row has a mark or a changed field. Such rows are preferred if there is not enough room for all."""


@dataclass(frozen=True)
class TableBlock:
    """One table at one step. ``more`` is the number of rows that are not shown in ``lines``."""

    head: tuple[str, ...]
    right: tuple[bool, ...]
    lines: tuple[TableLine, ...]
    more: int = 0
    unit: str = "row"
    caption: str = ""
    notes: tuple[str, ...] = ()
    axis: TimeAxis | None = None
    tight: bool = False
    """Whether the first of two columns loses its heading if the heading is wider than the column's values."""

    def cut(self, most: int) -> tuple[tuple[TableLine, ...], str]:
        """Return at most ``most`` lines, and a note that counts the other rows and takes the place of one line."""
        total = len(self.lines) + self.more
        if total <= most and not self.more:
            return self.lines, ""
        room = max(most - 1, 0)
        first = [n for n, line in enumerate(self.lines) if line.marked]
        others = [n for n, line in enumerate(self.lines) if not line.marked]
        kept = sorted([*first, *others][:room])
        hidden = total - len(kept)
        what = f"more {self.unit}" if kept else self.unit
        return tuple(self.lines[n] for n in kept), counted(hidden, what)

    @property
    def least(self) -> int:
        """The number of lines that are needed to show the complete block."""
        return len(self.lines) + (1 if self.more else 0)


@dataclass
class TableLayout:
    """The room that all steps of one table need. It grows block by block."""

    head: tuple[str, ...] = ()
    right: tuple[bool, ...] = ()
    widths: list[float] = field(default_factory=list)
    caption: str = ""
    lines: int = 0
    notes: int = 0
    below: float = 0.0
    slabs: int = 0
    label: float = 0.0
    axis: bool = False
    arrangement: float = 0.0
    unit: str = "row"
    gutter: float = 0.0
    row: float = ROW
    capacity: int = MOST

    def grow(self, block: TableBlock) -> None:
        """Make the layout large enough for a block."""
        if not self.head:
            self.head, self.right, self.widths = block.head, block.right, [width(h) for h in block.head]
            if block.axis is not None:
                self.widths = [0.0] * len(block.head)  # the time axis takes the place of the headings
            elif block.tight and len(block.head) == 2:
                self.widths[0] = 0.0
        self.right = tuple(a and b for a, b in zip(self.right, block.right, strict=False))
        self.caption = max(self.caption, block.caption, key=width)
        self.lines = max(self.lines, min(block.least, MOST))
        self.unit = block.unit
        self.notes = max(self.notes, len(block.notes))
        below = [NOTHING, *block.notes]
        if block.least > 2:
            below.append(counted(len(block.lines) + block.more, f"more {block.unit}"))
        self.below = max(self.below, *(width(n) for n in below))
        self.axis = self.axis or block.axis is not None
        self.arrangement = max(self.arrangement, block.axis.width if block.axis is not None else 0.0)
        spans = dict.fromkeys(line.slab for line in block.lines if line.slab)
        self.slabs = max(self.slabs, len(spans))
        self.label = max([self.label, *(width(s, mono=True) for s in spans)])
        for line in block.lines:
            if line.mark:
                self.gutter = GUTTER
            if line.under is not None:
                self.row = 2 * ROW
                self.below = max(self.below, line.under.width)
            alone = line.fields[:-1] if len(line.fields) < len(self.head) else line.fields
            for n, each in enumerate(alone):
                self.widths[n] = max(self.widths[n], each.width)
            if len(line.fields) < len(self.head):
                left = columns_width(self.widths[: len(alone)], self._between)
                self.below = max(self.below, left + self._between + line.fields[-1].width)

    def suits(self, block: TableBlock) -> bool:
        """Return whether a block that was not passed to `grow` fits into the layout."""
        grown = replace(self, widths=list(self.widths))
        grown.grow(block)
        return (grown.widths, grown.label, grown.gutter, grown.row, grown.arrangement) == (
            self.widths,
            self.label,
            self.gutter,
            self.row,
            self.arrangement,
        ) and grown.below <= max(self.below, self.width - 2 * PAD - self._before())

    def _before(self) -> float:
        """Return the width before the first column, in px."""
        return (self.label + 10 if self.axis else 0) + self.gutter

    @property
    def _between(self) -> float:
        return 9.0 if self.axis else BETWEEN

    @property
    def width(self) -> float:
        """The smallest width of a block in this layout."""
        body = self._before() + columns_width(self.widths, self._between)
        body = max(body, self._before() + self.below, width(self.caption))
        return max(body + 2 * PAD, self.arrangement)

    def height_of(self, capacity: int) -> float:
        """Return the height with room for ``capacity`` lines."""
        return (
            (CAPTION if self.caption else 0)
            + (TimeAxis.HEIGHT if self.axis else HEADER)
            + min(max(self.lines, 1), capacity) * (SLAB_ROW if self.axis else self.row)
            + (SLAB_GAP * min(self.slabs, capacity) + 2 if self.axis else 0)
            + 17 * self.notes
            + 5
        )

    @property
    def height(self) -> float:
        """The height at the current capacity."""
        return self.height_of(self.capacity)

    def lefts(self, x: float, wide: float) -> list[float]:
        """Return the left edge of each column in a block at ``x``. Spare width is distributed between the columns."""
        spare = wide - 2 * PAD - self._before() - columns_width(self.widths, self._between)
        step = max(min(spare / max(len(self.widths) - 1, 1), SPREAD), 0.0) if len(self.widths) > 1 else 0.0
        at, out = x + PAD + self._before(), []
        for w in self.widths:
            out.append(at)
            at += w + self._between + step
        return out

    def draw(self, block: TableBlock | None, x: float, y: float, wide: float) -> str:
        """Return the SVG of the block in a panel of width ``wide``, with its upper left corner at (x, y)."""
        out = []
        if self.caption:
            out.append(text((x + PAD, y + 14), block.caption if block else self.caption, kind="m"))
            y += CAPTION
        lefts = self.lefts(x, wide)
        if self.axis:
            if block is not None and block.axis is not None:
                out.append(block.axis.draw(x, y, wide))
            y += TimeAxis.HEIGHT
        else:
            out.append(self._heads(lefts, x, y, wide))
            y += HEADER
        if block is None:
            return "".join(out)
        lines, more = block.cut(min(max(self.lines, 1), self.capacity))
        y = self._slabs(lines, x, y, wide, lefts, out) if self.axis else self._rows(lines, x, y, wide, lefts, out)
        quiet = not lines and not more and not block.notes
        for note in [*([more] if more else []), *([NOTHING] if quiet else []), *block.notes]:
            out.append(text((lefts[0] if lefts else x + PAD, y + 13), note, kind="m i"))
            y += 17
        return "".join(out)

    def _heads(self, lefts: Sequence[float], x: float, y: float, wide: float) -> str:
        out = [rect(x + PAD, y + HEADER - 1, wide - 2 * PAD, 1, fill="hairline")]
        for left, w, name, right in zip(lefts, self.widths, self.head, self.right, strict=True):
            if width(name) > w + 0.5:
                continue
            at = (left + w, y + 14) if right else (left, y + 14)
            out.append(text(at, name, kind="m", anchor="end" if right else "start"))
        return "".join(out)

    def _rows(
        self, lines: Sequence[TableLine], x: float, y: float, wide: float, lefts: Sequence[float], out: list[str]
    ) -> float:
        for line in lines:
            if line.now:
                out.append(band(line.mark, x + 1, y + 0.5, wide - 2, self.row - 1))
            out.append(mark(line.mark, x + 3 + GUTTER / 2, y + 9))
            out.append(self._fields(line, y, x + wide - PAD, lefts))
            if line.under is not None:
                out.append(line.under.draw(lefts[0], y + ROW - 1, x + wide - PAD - lefts[0], False))
            y += self.row
        return y

    def _slabs(
        self, lines: Sequence[TableLine], x: float, y: float, wide: float, lefts: Sequence[float], out: list[str]
    ) -> float:
        """Draw the batches, each with its span at the left and its rows together. Returns the y below them."""
        at = 0
        while at < len(lines):
            label = lines[at].slab
            end = at
            while end < len(lines) and lines[end].slab == label:
                end += 1
            high = SLAB_ROW * (end - at) + 1
            out.append(rect(x + 4, y, wide - 8, high + 1, fill="page", stroke="hairline", radius=2))
            out.append(text((x + PAD + 2, y + 12), label, kind="m mono"))
            out.append(rect(x + PAD + self.label + 7, y + 2, 1, high - 3, fill="hairline"))
            for line in lines[at:end]:
                if line.now:
                    out.append(band(line.mark, x + 5 + self.label + 11, y + 1, wide - self.label - 21, SLAB_ROW - 1))
                out.append(mark(line.mark, x + PAD + self.label + 9 + GUTTER / 2, y + 8.5))
                out.append(self._fields(line, y - 1, x + wide - PAD, lefts))
                y += SLAB_ROW
            y += SLAB_GAP
            at = end
        return y

    def _fields(self, line: TableLine, y: float, end: float, lefts: Sequence[float]) -> str:
        out = []
        spans = len(line.fields) < len(self.head)
        for n, each in enumerate(line.fields):
            last = spans and n == len(line.fields) - 1
            w = max(end - lefts[n], 0) if last else self.widths[n]
            shown = _looked(each, line) if not isinstance(each, Hole) else each
            out.append(shown.draw(lefts[n], y, w, self.right[n] and not last))
        return "".join(out)


def _looked(each: Field, line: TableLine) -> Field:
    """Return a plain value in the style of its row's mark.

    It is bold if it was inserted, struck through if it was deleted, and underlined if it was looked up.
    """
    if not isinstance(each, Cell) or each.style:
        return each
    if line.mark == "inserted":
        return replace(each, style="b" if line.now else "")
    if line.mark == "deleted":
        return replace(each, style="m s")
    return replace(each, style="u") if line.mark == "looked" else each


@dataclass(frozen=True)
class StepperLimits:
    """How much of a table is drawn: the width of a value in px, the number of columns, and of items in a bag.

    ``tight`` selects the narrow form of tables.
    """

    cell: float = 120
    columns: int = 5
    items: int = 4
    tight: bool = False


ROOMY, NARROW, TIGHT = StepperLimits(), StepperLimits(96, 4, 3, True), StepperLimits(54, 3, 2, True)


@dataclass(frozen=True)
class TableTraits:
    """Properties of a table over all steps: if it has a column of multiplicities, and which columns are numeric."""

    times: bool
    numbers: tuple[bool, ...]


def few(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that can be shown: all marked rows, and the first `MOST` of the others."""
    out, plain = [], 0
    for row in rows:
        if row.looked_up or row.count != row.before or row.old is not None:
            out.append(row)
        elif plain < MOST:
            out.append(row)
            plain += 1
    return out


def traits(tables: Sequence[Table]) -> TableTraits:
    """Return the traits of one table over all its steps."""
    rows = [r for t in tables for r in few(_rows(t))]
    times = any(r.count not in (0, 1) or r.before not in (0, 1) for r in rows)
    wide = max((len(t.columns) for t in tables), default=0)
    numbers = tuple(_numeric([r.values[c] for r in rows if c < len(r.values)]) for c in range(wide))
    return TableTraits(times, numbers)


def _rows(table: Table) -> list[Row]:
    return [r for s in table.arrangement.batches for r in s.rows] if table.arrangement else list(table.rows)


def _numeric(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def block(
    table: Table, limits: StepperLimits, known: TableTraits, letters: Mapping[str, str], smallest: bool
) -> TableBlock:
    """Return a table as a block. ``letters`` has the letter of each reader.

    ``smallest`` is True if the smallest value in a bag determines the result (MIN), and False for the largest (MAX).
    """
    if table.form == "groups":
        return _groups(table, limits, smallest)
    at = _kept(len(table.columns), limits)
    head = [fit(clean(table.columns[c]), limits.cell) for c in at]
    right = [c < len(known.numbers) and known.numbers[c] for c in at]
    if len(at) < len(table.columns):
        head, right = [*head, f"+{len(table.columns) - len(at)} columns"], [*right, False]
    cut = len(at) < len(table.columns)
    if table.arrangement is not None:
        lines, more = _spans(table, at, cut, limits, known)
        if not limits.tight:  # in the narrow form, only the span of the batch shows the times
            head, right = [*head, "time"], [*right, False]
            if known.times:
                head, right = [*head, "diff"], [*right, True]
        return TableBlock(tuple(head), tuple(right), lines, more, caption=table.caption, axis=_axis(table, letters))
    if known.times:
        head, right = [*head, "times"], [*right, True]
    rows = few(table.rows)
    lines = tuple(_line(r, at, cut, limits, known.times) for r in rows)
    keys = tuple(_key(k, table, at, limits) for k in table.keys)
    more = max(table.total - sum(r.count > 0 for r in rows), 0)
    return TableBlock(
        tuple(head), tuple(right), (*lines, *keys), more, caption=table.caption, notes=_notes(table), tight=limits.tight
    )


def _notes(table: Table) -> tuple[str, ...]:
    if not table.partial:
        return ()
    if table.key == () and (table.rows or table.groups or table.keys):
        return ()
    known = table.rows or table.groups or table.keys
    return ("all other keys: holes",) if known else ("all keys: holes",)


def _kept(columns: int, limits: StepperLimits) -> list[int]:
    return list(range(columns if columns <= limits.columns else limits.columns - 1))


def _cell(value: Any, limits: StepperLimits) -> Cell:
    whole = shown(value)
    return Cell(fit(whole, limits.cell, bold=True), "i m" if whole == "NULL" else "", whole)


def _against(value: Any, old: Any, limits: StepperLimits, now: bool) -> Field:
    """Return the field of a value, or of a change if the old value is different."""
    cell = _cell(value, limits)
    if shown(old) == shown(value):
        return cell
    half = limits.cell * 0.6
    return Changed(fit(shown(old), half), fit(shown(value), half, bold=True), limits.tight, now)


def _line(row: Row, at: Sequence[int], cut: bool, limits: StepperLimits, times: bool) -> TableLine:
    changed = row.mark == "changed"
    if changed and row.old is not None:
        fields: list[Field] = [_against(row.values[c], row.old[c], limits, row.now) for c in at]
    else:
        fields = [_cell(row.values[c], limits) for c in at]
    if cut:
        fields.append(Cell("…", "m"))
    if times:
        count = row.before if row.mark == "deleted" else row.count
        fields.append(
            Changed(str(row.before), str(row.count), limits.tight, row.now)
            if changed and row.old is None
            else Cell(str(count))
        )
    sign = row.mark if row.mark in ("inserted", "deleted") else "looked" if row.looked_up else ""
    return TableLine(tuple(fields), sign, row.now, marked=bool(row.mark or row.looked_up))


def _key(key: Key, table: Table, at: Sequence[int], limits: StepperLimits) -> TableLine:
    """Return the line of a key that has no rows. Such a key is either filled or a hole."""
    names = [shown(v) for v in key.key]
    leading = table.columns[: len(names)] == table.key and len(names) < len(at)
    what: Field
    if leading:
        cells: list[Field] = [_cell(v, limits) for v in key.key]
        what = Cell("no rows", "i m") if key.filled else Hole(key.now)
        return TableLine((*cells, what), marked=key.now)
    words = fit(", ".join(names), limits.cell, bold=True)
    what = Cell(f"{words}: no rows" if words else "no rows", "i m") if key.filled else Hole(key.now, words)
    return TableLine((what,), marked=key.now)


# --- groups ---------------------------------------------------------------------


def _groups(table: Table, limits: StepperLimits, smallest: bool) -> TableBlock:
    keys = len(table.key) if not table.groups else len(table.groups[0].key)
    measures = () if limits.tight else table.measures
    head = [*table.key[:keys], *measures, *table.results]
    right = [*[False] * (keys + len(measures)), *[True] * len(table.results)]
    groups = _few_groups(table.groups)
    lines = tuple(_group(g, table, limits, smallest) for g in groups)
    more = max(table.total - sum(g.result is None or g.result.count > 0 for g in groups), 0)
    holes = tuple(_key(k, table, range(len(head)), limits) for k in table.keys)
    names = tuple(fit(clean(h), limits.cell) for h in head)
    notes = _notes(table)
    return TableBlock(names, tuple(right), (*lines, *holes), more, "group", table.caption, notes, tight=limits.tight)


def _few_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that can be shown: all groups with a mark, and the first `MOST` of the others."""
    out, plain = [], 0
    for group in groups:
        rows = [*([group.result] if group.result else []), *(i for b in group.bags for i in b.items)]
        if any(r.looked_up or r.mark for r in rows):
            out.append(group)
        elif plain < MOST:
            out.append(group)
            plain += 1
    return out


def _group(group: Group, table: Table, limits: StepperLimits, smallest: bool) -> TableLine:
    fields: list[Field] = [_cell(v, limits) for v in group.key]
    bags: list[Field] = [_bag(b, limits, smallest) for b in group.bags]
    under = FieldGroup(tuple(bags)) if limits.tight and bags else None
    if not limits.tight:
        fields += [*bags, *[Cell("")] * (len(table.measures) - len(bags))]
    result, mark, now = group.result, "", False
    if result is None:
        fields += [Cell("")] * len(table.results)
    else:
        values = result.values[-len(table.results) :] if table.results else ()
        old = None if result.old is None else result.old[-len(table.results) :]
        for n, value in enumerate(values):
            fields.append(_cell(value, limits) if old is None else _against(value, old[n], limits, result.now))
        mark = result.mark if result.mark in ("inserted", "deleted") else ""
        now = result.now
    items = [i for b in group.bags for i in b.items]
    looked = bool(result and result.looked_up) or any(i.looked_up for i in items)
    marked = bool(mark) or looked or bool(result and result.mark) or any(i.mark for i in items)
    return TableLine(tuple(fields), mark or ("looked" if looked else ""), now, under=under, marked=marked)


def _bag(bag: Bag, limits: StepperLimits, smallest: bool) -> BagField:
    """Return the marked values of a bag, and the values at the end that determines the result."""
    order = list(range(len(bag.items)))
    end = order[: limits.items] if smallest else order[-limits.items :]
    marked = [n for n in order if bag.items[n].mark]
    kept = sorted(set(end) | set(marked[: limits.items]))
    while len(kept) > limits.items and any(n not in marked for n in kept):
        spare = [n for n in kept if n not in marked]
        kept.remove(spare[-1] if smallest else spare[0])
    hidden = max(bag.total - sum(bag.items[n].count > 0 for n in kept), 0)
    items = tuple(_item(bag.items[n], limits) for n in kept)
    return BagField(items, 0 if smallest else hidden, hidden if smallest else 0)


def _item(row: Row, limits: StepperLimits) -> BagItem:
    words = fit(shown(row.values[-1]), limits.cell * 0.6, bold=True)
    words += f"×{row.count}" if row.count > 1 else ""
    mark = row.mark if row.mark in ("inserted", "deleted") else ""
    if row.mark == "changed":
        mark = "inserted" if row.count > row.before else "deleted" if not row.count else ""
    return BagItem(words, mark or ("looked" if row.looked_up else ""), row.now)


# --- arrangements ---------------------------------------------------------------


def _spans(
    table: Table, at: Sequence[int], cut: bool, limits: StepperLimits, known: TableTraits
) -> tuple[tuple[TableLine, ...], int]:
    """Return the rows of the batches, newest batch first, and the number of rows that are left out."""
    lines, more = [], 0
    assert table.arrangement is not None
    for span in reversed(table.arrangement.batches):
        label = f"[{span.lower},{span.upper})"
        rows = few(span.rows)
        more += max(span.total - len(rows), 0)
        for row in rows:
            fields: list[Field] = [_cell(row.values[c], limits) for c in at]
            if cut:
                fields.append(Cell("…", "m"))
            when = "" if row.time is None else f"≤{row.time}" if row.compacted else str(row.time)
            mark = row.mark if row.mark in ("inserted", "deleted") else "looked" if row.looked_up else ""
            marked = bool(mark)
            if limits.tight:
                fields, mark = _tight(fields, row.count, mark)
            else:
                fields.append(Cell(when, "m"))
            if known.times and not limits.tight:
                fields.append(Cell(f"{row.count:+d}".replace("-", "−"), "m"))
            lines.append(TableLine(tuple(fields), mark, row.now, label, marked=marked))
    return tuple(lines), more


def _tight(fields: list[Field], count: int, mark: str) -> tuple[list[Field], str]:
    """Return the fields and the mark of a batch's row in the narrow form, which has no diff column.

    A retraction is drawn as a deleted row. If the diff is larger than 1, it follows the last value.
    """
    out = list(fields)
    if abs(count) > 1 and isinstance(last := out[-1], Cell):
        out[-1] = Cell(f"{last.words} ×{abs(count)}", last.style, last.tip)
    if count < 0:
        return [Cell(f.words, f.style or "m", f.tip) if isinstance(f, Cell) else f for f in out], "deleted"
    return out, mark


def _axis(table: Table, letters: Mapping[str, str]) -> TimeAxis:
    arrangement = table.arrangement
    assert arrangement is not None
    handles = tuple(_handle(p, letters) for p in arrangement.readers)
    spans = tuple((s.lower, s.upper, s.fresh) for s in arrangement.batches)
    return TimeAxis(
        spans, arrangement.since, arrangement.upper, arrangement.since_before, arrangement.upper_before, handles
    )


def _handle(reader: ReaderPosition, letters: Mapping[str, str]) -> HandleMark:
    return HandleMark(letters.get(reader.reader, "?"), reader.time, reader.before, reader.external)
