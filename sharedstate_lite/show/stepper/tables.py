"""From a recorded table to the lines of a block: which values, marks, bags, holes and times stand in it.

Values are cut to ``limits``; nothing is computed here that the recording does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...replay.recording import Bag as Kept
from ...replay.recording import Group, Key, ReaderPosition, Row, Table
from ..svg import clean
from ..table import shown
from ..text import fit
from .blocks import MOST, Block, Line
from .fields import Bag, Cell, Changed, Field, Hole, Item, Several
from .ruler import Axis, Handle


@dataclass(frozen=True)
class Limits:
    """How much of a table is drawn: px of a value, columns, items of a bag; ``tight`` leaves arrows out."""

    cell: float = 120
    columns: int = 5
    items: int = 4
    tight: bool = False


ROOMY, NARROW, TIGHT = Limits(), Limits(96, 4, 3, True), Limits(54, 3, 2, True)


@dataclass(frozen=True)
class Traits:
    """What a table needs in some step of the history: a column of counts or diffs, and which columns are numbers."""

    times: bool
    numbers: tuple[bool, ...]


def few(rows: Sequence[Row]) -> list[Row]:
    """The rows of which some will be seen: those that are marked, and the first of the others."""
    out, plain = [], 0
    for row in rows:
        if row.looked_up or row.count != row.before or row.old is not None:
            out.append(row)
        elif plain < MOST:
            out.append(row)
            plain += 1
    return out


def traits(tables: Sequence[Table]) -> Traits:
    """The traits of one table over its history."""
    rows = [r for t in tables for r in few(_rows(t))]
    times = any(r.count not in (0, 1) or r.before not in (0, 1) for r in rows)
    wide = max((len(t.columns) for t in tables), default=0)
    numbers = tuple(_numeric([r.values[c] for r in rows if c < len(r.values)]) for c in range(wide))
    return Traits(times, numbers)


def _rows(table: Table) -> list[Row]:
    return [r for s in table.arrangement.spans for r in s.rows] if table.arrangement else list(table.rows)


def _numeric(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def block(table: Table, limits: Limits, known: Traits, letters: Mapping[str, str], smallest: bool) -> Block:
    """The table as lines; ``letters`` name readers, ``smallest`` says which end of a bag matters."""
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
        if not limits.tight:  # a batch says its times too, as a span
            head, right = [*head, "time"], [*right, False]
            if known.times:
                head, right = [*head, "diff"], [*right, True]
        return Block(tuple(head), tuple(right), lines, more, caption=table.caption, axis=_axis(table, letters))
    if known.times:
        head, right = [*head, "times"], [*right, True]
    rows = few(table.rows)
    lines = tuple(_line(r, at, cut, limits, known.times) for r in rows)
    keys = tuple(_key(k, table, at, limits) for k in table.keys)
    more = max(table.total - sum(r.count > 0 for r in rows), 0)
    return Block(
        tuple(head), tuple(right), (*lines, *keys), more, caption=table.caption, notes=_notes(table), tight=limits.tight
    )


def _notes(table: Table) -> tuple[str, ...]:
    if not table.partial:
        return ()
    if table.key == () and (table.rows or table.groups or table.keys):
        return ()
    known = table.rows or table.groups or table.keys
    return ("all other keys: holes",) if known else ("every key: a hole",)


def _kept(columns: int, limits: Limits) -> list[int]:
    return list(range(columns if columns <= limits.columns else limits.columns - 1))


def _cell(value: Any, limits: Limits) -> Cell:
    whole = shown(value)
    return Cell(fit(whole, limits.cell, bold=True), "i m" if whole == "NULL" else "", whole)


def _against(value: Any, old: Any, limits: Limits, now: bool) -> Field:
    """A value, or the change from another one."""
    cell = _cell(value, limits)
    if shown(old) == shown(value):
        return cell
    half = limits.cell * 0.6
    return Changed(fit(shown(old), half), fit(shown(value), half, bold=True), limits.tight, now)


def _line(row: Row, at: Sequence[int], cut: bool, limits: Limits, times: bool) -> Line:
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
    return Line(tuple(fields), sign, row.now, marked=bool(row.mark or row.looked_up))


def _key(key: Key, table: Table, at: Sequence[int], limits: Limits) -> Line:
    """A key without rows: filled and empty, or a hole."""
    names = [shown(v) for v in key.key]
    leading = table.columns[: len(names)] == table.key and len(names) < len(at)
    what: Field
    if leading:
        cells: list[Field] = [_cell(v, limits) for v in key.key]
        what = Cell("no rows", "i m") if key.filled else Hole(key.now)
        return Line((*cells, what), marked=key.now)
    words = fit(", ".join(names), limits.cell, bold=True)
    what = Cell(f"{words}: no rows" if words else "no rows", "i m") if key.filled else Hole(key.now, words)
    return Line((what,), marked=key.now)


# --- groups ---------------------------------------------------------------------


def _groups(table: Table, limits: Limits, smallest: bool) -> Block:
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
    return Block(names, tuple(right), (*lines, *holes), more, "group", table.caption, notes, tight=limits.tight)


def _few_groups(groups: Sequence[Group]) -> list[Group]:
    """As :func:`few`, for groups."""
    out, plain = [], 0
    for group in groups:
        rows = [*([group.result] if group.result else []), *(i for b in group.bags for i in b.items)]
        if any(r.looked_up or r.mark for r in rows):
            out.append(group)
        elif plain < MOST:
            out.append(group)
            plain += 1
    return out


def _group(group: Group, table: Table, limits: Limits, smallest: bool) -> Line:
    fields: list[Field] = [_cell(v, limits) for v in group.key]
    bags: list[Field] = [_bag(b, limits, smallest) for b in group.bags]
    under = Several(tuple(bags)) if limits.tight and bags else None
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
    return Line(tuple(fields), mark or ("looked" if looked else ""), now, under=under, marked=marked)


def _bag(bag: Kept, limits: Limits, smallest: bool) -> Bag:
    """The end of the bag that decides, and whatever is marked."""
    order = list(range(len(bag.items)))
    end = order[: limits.items] if smallest else order[-limits.items :]
    marked = [n for n in order if bag.items[n].mark]
    kept = sorted(set(end) | set(marked[: limits.items]))
    while len(kept) > limits.items and any(n not in marked for n in kept):
        spare = [n for n in kept if n not in marked]
        kept.remove(spare[-1] if smallest else spare[0])
    hidden = max(bag.total - sum(bag.items[n].count > 0 for n in kept), 0)
    items = tuple(_item(bag.items[n], limits) for n in kept)
    return Bag(items, 0 if smallest else hidden, hidden if smallest else 0)


def _item(row: Row, limits: Limits) -> Item:
    words = fit(shown(row.values[-1]), limits.cell * 0.6, bold=True)
    words += f"×{row.count}" if row.count > 1 else ""
    mark = row.mark if row.mark in ("inserted", "deleted") else ""
    if row.mark == "changed":
        mark = "inserted" if row.count > row.before else "deleted" if not row.count else ""
    return Item(words, mark or ("looked" if row.looked_up else ""), row.now)


# --- arrangements ---------------------------------------------------------------


def _spans(table: Table, at: Sequence[int], cut: bool, limits: Limits, known: Traits) -> tuple[tuple[Line, ...], int]:
    """The batches' rows, newest batch first."""
    lines, more = [], 0
    assert table.arrangement is not None
    for span in reversed(table.arrangement.spans):
        label = f"[{span.lower},{span.upper})"
        rows = few(span.rows)
        more += max(span.total - len(rows), 0)
        for row in rows:
            fields: list[Field] = [_cell(row.values[c], limits) for c in at]
            if cut:
                fields.append(Cell("…", "m"))
            when = "" if row.time is None else f"≤{row.time}" if row.folded else str(row.time)
            mark = row.mark if row.mark in ("inserted", "deleted") else "looked" if row.looked_up else ""
            marked = bool(mark)
            if limits.tight:
                fields, mark = _tight(fields, row.count, mark)
            else:
                fields.append(Cell(when, "m"))
            if known.times and not limits.tight:
                fields.append(Cell(f"{row.count:+d}".replace("-", "−"), "m"))
            lines.append(Line(tuple(fields), mark, row.now, label, marked=marked))
    return tuple(lines), more


def _tight(fields: list[Field], count: int, mark: str) -> tuple[list[Field], str]:
    """A batch's row without a column for its diff: a retraction has a minus before it, several a number behind."""
    out = list(fields)
    if abs(count) > 1 and isinstance(last := out[-1], Cell):
        out[-1] = Cell(f"{last.words} ×{abs(count)}", last.look, last.tip)
    if count < 0:
        return [Cell(f.words, f.look or "m", f.tip) if isinstance(f, Cell) else f for f in out], "deleted"
    return out, mark


def _axis(table: Table, letters: Mapping[str, str]) -> Axis:
    ruler = table.arrangement
    assert ruler is not None
    handles = tuple(_handle(p, letters) for p in ruler.pins)
    spans = tuple((s.lower, s.upper, s.fresh) for s in ruler.spans)
    return Axis(spans, ruler.since, ruler.upper, ruler.since_before, ruler.upper_before, handles)


def _handle(pin: ReaderPosition, letters: Mapping[str, str]) -> Handle:
    return Handle(letters.get(pin.reader, "?"), pin.time, pin.before, pin.held)


__all__ = ["NARROW", "ROOMY", "TIGHT", "Limits", "Traits", "block", "traits"]
