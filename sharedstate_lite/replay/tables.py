"""A piece of state as a table of a recording: rows, groups, or an arrangement in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..storage.batch import Batch, distinct
from ..storage.encoding import Words
from .parts import Shape, Snap, Structure
from .recording import Bag, Group, Key, Row, State, Table
from .rows import Content, Marked, decode, paired
from .ruler import Rulers
from .state import History, Line

BAG = 40
"""Values of a group that are given, beside those that are marked."""
KEPT = 3_000_000
"""Rows of consolidated contents that are remembered."""


class Tables:
    """Makes what every operator holds after a step."""

    def __init__(self, history: History, operators: Sequence[str], kind: str) -> None:
        self._history, self._operators, self._kind = history, operators, kind
        self._strings = history.strings
        self._contents: dict[Any, Content] = {}
        self._rulers = Rulers(history)

    def state(self, step: int) -> dict[str, State]:
        """Operator -> what it holds after a step; those that are not there yet hold nothing."""
        s = self._history.structure(step)
        return {name: self._operator(name, s, step) for name in self._operators}

    def _operator(self, name: str, s: Structure, step: int) -> State:
        told = s.operators.get(name, {"tables": (), "kind": ""})
        snaps = {t: snap for t in told["tables"] if (snap := self._history.lines[t].at(step)) is not None}
        shape = s.shapes.get(name)
        tables: list[Table] = []
        if shape is not None:
            parts = tuple(snaps)
            if parts or self._kind == "full":
                tables += self._grouped(name, shape, parts, s, step)
        else:
            tables += [self._table(snap, s, step, len(snaps) > 1) for snap in snaps.values()]
        between = [q for q in self._history.asked if q[0] == name and q[1] <= step and (q[2] is None or step < q[2])]
        reads = [q for q in self._history.reads if q[0] == name and q[1] <= step and (q[2] is None or step < q[2])]
        return State(
            name,
            tuple(tables),
            sum(x.stored for x in snaps.values()),
            sum(x.bytes for x in snaps.values()),
            any(x.piece.base for x in snaps.values()),
            tuple(k for q in between for k in q[3]),
            tuple(k for q in reads for k in q[3]),
        )

    # --- contents ---------------------------------------------------------------

    def _content(self, batches: Sequence[Batch], snap: Snap) -> Content:
        key = (id(snap.layout), tuple(map(id, batches)))
        found = self._contents.get(key)
        if found is None:
            if sum(map(len, self._contents.values())) > KEPT:
                self._contents.clear()
            found = self._contents[key] = Content.of(batches, snap.layout, self._strings)
            # The batches are kept by the history, so an id stays what it is.
        return found

    def _marked(self, name: str, step: int) -> Marked:
        """The rows of a piece with what became of them in the message of a step."""
        line = self._history.lines[name]
        snap = line.at(step)
        assert snap is not None
        held, change = self._content(snap.runs, snap), self._change(line, snap, step)
        return Marked.of(held, change, self._content(line.inserts.get(step, []), snap), self._strings)

    def _change(self, line: Line, snap: Snap, step: int) -> Content:
        """What a piece was given since the message of a step began."""
        since = [b for s, batches in line.inserts.items() if self._history.start(step) < s <= step for b in batches]
        return self._content(since, snap)

    def _looked(self, name: str, step: int, marked: Marked) -> npt.NDArray[np.bool_]:
        """Which rows of a piece were looked up in a step."""
        out = np.zeros(len(marked.counts), dtype=bool)
        if not step:
            return out
        for piece, key, words in self._history.drafts[step - 1].looks:
            if piece == name:
                lines = marked.rows if key is None else marked.rows[list(key)]
                out |= _among(lines, words)
        return out

    # --- rows -------------------------------------------------------------------

    def _table(self, snap: Snap, s: Structure, step: int, several: bool) -> Table:
        piece = snap.piece
        marked = self._marked(piece.name, step)
        looked = self._looked(piece.name, step, marked)
        chosen = marked.chosen(looked, self._strings)
        rows = marked.told(chosen, looked, self._strings)
        unique = s.unique.get(piece.owner)
        if unique is not None and piece.name == piece.owner:
            columns = s.read.get(piece.owner, tuple(range(len(piece.columns))))
            rows = paired(rows, [columns[i] for i in unique])
        ruled = self._kind == "shared"
        change = self._change(self._history.lines[piece.name], snap, step)
        caption = ""
        if piece.name in s.sides:
            caption = _side(snap, s)
        elif several:
            caption = piece.name.rsplit(".", 1)[-1]
        made = Table(
            piece.name,
            "arrangement" if ruled else "rows",
            caption,
            piece.columns,
            tuple(piece.columns[i] for i in snap.layout.key),
            tuple(rows),
            int((marked.counts > 0).sum()),
            ruler=self._rulers.ruler(snap, s, step, change) if ruled else None,
            parts=(piece.name,),
            stored=snap.stored,
            bytes=snap.bytes,
            **self._holes(snap, marked, step),
        )
        return _selected(made, s) if piece.name in s.read else made

    def _holes(self, snap: Snap, marked: Marked, step: int) -> dict[str, Any]:
        """Keys without rows, of a table where keys may be holes."""
        if snap.filled is None:
            return {}
        name, history = snap.piece.name, self._history
        line = history.lines[name]
        key = list(snap.layout.key)
        present = marked.counts > 0
        rows = set(decode(marked.rows[key].compress(present, axis=1), snap.layout.key_types, self._strings))
        now = history.keys(snap, snap.filled)
        earlier = [line.at(at) for at in (history.start(step), step - 1 if step else 0)]
        was, last = (history.keys(x, x.filled) if x is not None else {} for x in earlier)
        empty = [k for k in now if k not in rows]
        met = [(at, k) for at, k in history.met.get(name, []) if at <= step and k not in now]
        start = history.start(step)
        out = [Key(k, True, k not in last, k not in was) for k in empty]
        out += [Key(k, False, k in last or at == step, k in was or at > start) for at, k in met]
        return {"partial": True, "keys": tuple(sorted(out, key=_sorted)), "filled": len(now)}

    # --- groups -----------------------------------------------------------------

    def _grouped(self, name: str, shape: Shape, parts: tuple[str, ...], s: Structure, step: int) -> list[Table]:
        lines = self._history.lines
        if shape.counts:
            snap = lines[shape.counts].at(step)
            main = lines[shape.output].at(step)
            if snap is None or main is None:
                return []
            table = self._table(snap, s, step, False)
            held = self._sizes(parts, step)
            holes = self._holes(main, self._marked(shape.output, step), step)
            ruler = {"form": "rows", "ruler": None} | holes
            return [replace(table, name=name, parts=parts, **held, **ruler)]
        main = lines[shape.output].at(step)
        if main is None:
            return []
        marked = self._marked(shape.output, step)
        looked = np.zeros(len(marked.counts), dtype=bool)
        bags = [(label, part, self._marked(part, step)) for label, part in shape.bags if lines[part].at(step)]
        k = len(shape.keys)
        touched = np.zeros(len(marked.counts), dtype=bool)
        for _, part, bag in bags:
            changed = (bag.counts != bag.before) | self._looked(part, step, bag)
            touched |= _among(marked.rows[:k], bag.rows[:k].compress(changed, axis=1))
        chosen = marked.chosen(looked | touched, self._strings)
        rows = paired(marked.told(chosen, looked, self._strings), range(k))
        split = [self._split(part, bag, marked.rows[:k].take(chosen, axis=1), step) for _, part, bag in bags]
        values = decode(marked.rows[:k].take(chosen, axis=1), marked.layout.types[:k], self._strings)
        own = {key: [Bag(label, *each[n]) for (label, _, _), each in zip(bags, split, strict=True)]
               for n, key in enumerate(values)}  # fmt: skip
        groups = tuple(_group(row, k, own[row.values[:k]]) for row in rows)
        return [
            Table(
                name,
                "groups",
                "",
                (*shape.keys, *shape.results),
                shape.keys,
                total=int((marked.counts > 0).sum()),
                groups=groups,
                measures=tuple(label for label, _, _ in bags),
                results=shape.results,
                parts=parts,
                **self._sizes(parts, step),
                **self._holes(main, marked, step),
            )
        ]

    def _sizes(self, parts: Sequence[str], step: int) -> dict[str, Any]:
        snaps = [snap for p in parts if (snap := self._history.lines[p].at(step)) is not None]
        return {"stored": sum(x.stored for x in snaps), "bytes": sum(x.bytes for x in snaps)}

    def _split(self, part: str, bag: Marked, keys: Words, step: int) -> list[tuple[tuple[Row, ...], int]]:
        """The values of some groups int64[k, q]: the rows to give, and how many there are, for each."""
        k = len(keys)
        looked = self._looked(part, step, bag)
        _, kinds = distinct(np.concatenate([keys, bag.rows[:k]], axis=1), bag.layout.types[:k], self._strings)
        ours, theirs = kinds[: keys.shape[1]], kinds[keys.shape[1] :]
        order = np.argsort(theirs, kind="stable")
        starts = np.searchsorted(theirs[order], ours)
        ends = np.searchsorted(theirs[order], ours, side="right")
        out = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            places = order[start:end]
            mine, seen = bag.taken(places), looked[places]
            items = mine.told(mine.chosen(seen, self._strings, BAG), seen, self._strings)
            single = tuple(Row(r.values[k:], r.count, r.before, None, r.now, r.looked) for r in items)
            out.append((single, int(np.maximum(mine.counts, 0).sum())))
        return out


def _group(row: Row, k: int, bags: Sequence[Bag]) -> Group:
    old = None if row.old is None else row.old[k:]
    return Group(row.values[:k], tuple(bags), Row(row.values[k:], row.count, row.before, old, row.now, row.looked))


def _side(snap: Snap, s: Structure) -> str:
    """What a piece of a join is called: by what it is rows of, and where that is not enough, by key or side."""
    piece = snap.piece
    rows = s.sides[piece.name]
    others = [p for n, p in s.pieces.items() if n != piece.name and p.owner == piece.owner and s.sides.get(n) == rows]
    if not others:
        return f"{rows} side"
    if all(p.arrangement.layout.key != snap.layout.key for p in others):
        return f"{rows} by {', '.join(piece.columns[i] for i in snap.layout.key)}"
    part = piece.name.rsplit(".", 1)[-1]
    return f"{rows}, {part} side" if part in ("left", "right") else f"{rows}, {part.replace('input', 'input ')}"


def _selected(table: Table, s: Structure) -> Table:
    """A view's table with its columns in SELECT order and under their names."""
    columns = s.read[table.name]
    names = tuple(c.name for c in s.schemas[table.name])
    key = tuple(names[columns.index(table.columns.index(k))] for k in table.key)
    if columns == tuple(range(len(table.columns))):
        return replace(table, columns=names, key=key)

    def turned(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(
            replace(
                r,
                values=tuple(r.values[c] for c in columns),
                old=None if r.old is None else tuple(r.old[c] for c in columns),
            )
            for r in rows
        )

    ruler = table.ruler
    if ruler is not None:
        ruler = replace(ruler, spans=tuple(replace(x, rows=turned(x.rows)) for x in ruler.spans))
    return replace(table, columns=names, key=key, rows=turned(table.rows), ruler=ruler)


def _sorted(key: Key) -> tuple[Any, ...]:
    return tuple((v is None, v if v is not None else 0) for v in key.key)


def _among(lines: Words, wanted: Words) -> npt.NDArray[np.bool_]:
    """Which of the columns of lines int64[k, n] are among those of wanted int64[k, q]; bool[n]."""
    if not wanted.shape[1] or not lines.shape[1]:
        return np.zeros(lines.shape[1], dtype=bool)
    if not len(lines):
        return np.ones(lines.shape[1], dtype=bool)
    out = np.isin(lines[0], wanted[0])
    if len(lines) > 1 and out.any():
        known = set(zip(*wanted.tolist(), strict=True))
        some = np.flatnonzero(out)
        good = [row in known for row in zip(*lines.take(some, axis=1).tolist(), strict=True)]
        out[some] = good
    return out
