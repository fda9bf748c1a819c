"""Builds the tables of a recording, which show pieces of state as rows, as groups, or as an arrangement's batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..changelog.changes import value_order
from ..plan.nodes import Column
from ..storage.batch import Batch, distinct
from ..storage.encoding import Words
from .recording import ArrangementState, Bag, Group, Key, OperatorState, ReaderPosition, RecordedBatch, Row, Table
from .rows import Content, MarkedRows, decode, paired
from .state import PieceHistory, StateHistory
from .structure import Piece, ReduceTables, Snapshot, Structure

BAG_VALUES = 40
"""The maximum number of values of a group that are listed."""
KEPT = 3_000_000
"""The cache of consolidated rows is cleared when it exceeds this number of rows."""


class Tables:
    """Builds the state of every operator after a step, from the history of a run."""

    def __init__(self, history: StateHistory, operators: Sequence[str], kind: str) -> None:
        self._history, self._operators, self._kind = history, operators, kind
        self._strings = history.strings
        self._contents: dict[Any, Content] = {}
        self._arrangements = ArrangementStates(history)

    def state(self, step: int) -> dict[str, OperatorState]:
        """Return the state of each operator after a step, by the operator's name.

        The state of an operator that is not installed at that step is empty.
        """
        s = self._history.structure(step)
        return {name: self._operator(name, s, step) for name in self._operators}

    def _operator(self, name: str, s: Structure, step: int) -> OperatorState:
        described = s.operators.get(name, {"tables": (), "kind": ""})
        snaps = {t: snap for t in described["tables"] if (snap := self._history.pieces[t].at(step)) is not None}
        shape = s.reduces.get(name)
        tables: list[Table] = []
        if shape is not None:
            parts = tuple(snaps)
            if parts or self._kind == "full":
                tables += self._grouped(name, shape, parts, s, step)
        else:
            tables += [self._table(snap, s, step, len(snaps) > 1) for snap in snaps.values()]
        between = [q for q in self._history.asked if q[0] == name and q[1] <= step and (q[2] is None or step < q[2])]
        reads = [q for q in self._history.reads if q[0] == name and q[1] <= step and (q[2] is None or step < q[2])]
        return OperatorState(
            name,
            tuple(tables),
            sum(x.rows for x in snaps.values()),
            sum(x.bytes for x in snaps.values()),
            any(x.piece.base for x in snaps.values()),
            tuple(k for q in between for k in q[3]),
            tuple(k for q in reads for k in q[3]),
        )

    # --- contents ---------------------------------------------------------------

    def _content(self, batches: Sequence[Batch], snap: Snapshot) -> Content:
        key = (id(snap.layout), tuple(map(id, batches)))
        found = self._contents.get(key)
        if found is None:
            if sum(map(len, self._contents.values())) > KEPT:
                self._contents.clear()
            found = self._contents[key] = Content.of(batches, snap.layout, self._strings)
            # The history keeps the batches alive, so their ids stay unique.
        return found

    def _marked(self, name: str, step: int) -> MarkedRows:
        """Return the rows of a piece, marked with the changes that a step and its message made."""
        past = self._history.pieces[name]
        snap = past.at(step)
        assert snap is not None
        held, change = self._content(snap.runs, snap), self._change(past, snap, step)
        return MarkedRows.of(held, change, self._content(past.inserts.get(step, []), snap), self._strings)

    def _change(self, past: PieceHistory, snap: Snapshot, step: int) -> Content:
        """Return the changes of a piece from the start of a step's message up to the step."""
        since = [b for s, batches in past.inserts.items() if self._history.start(step) < s <= step for b in batches]
        return self._content(since, snap)

    def _looked(self, name: str, step: int, marked: MarkedRows) -> npt.NDArray[np.bool_]:
        """Return which rows of a piece were read in a step, bool[n]."""
        out = np.zeros(len(marked.counts), dtype=bool)
        if not step:
            return out
        for piece, key, words in self._history.drafts[step - 1].reads:
            if piece == name:
                lines = marked.rows if key is None else marked.rows[list(key)]
                out |= _among(lines, words)
        return out

    # --- rows -------------------------------------------------------------------

    def _table(self, snap: Snapshot, s: Structure, step: int, several: bool) -> Table:
        piece = snap.piece
        marked = self._marked(piece.name, step)
        looked = self._looked(piece.name, step, marked)
        chosen = marked.chosen(looked, self._strings)
        rows = marked.decoded(chosen, looked, self._strings)
        unique = s.unique.get(piece.owner)
        if unique is not None and piece.name == piece.owner:
            columns = s.view_columns.get(piece.owner, tuple(range(len(piece.columns))))
            rows = paired(rows, [columns[i] for i in unique])
        ruled = self._kind == "shared"
        change = self._change(self._history.pieces[piece.name], snap, step)
        caption = ""
        if piece.name in s.join_sides:
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
            arrangement=self._arrangements.state(snap, s, step, change) if ruled else None,
            parts=(piece.name,),
            stored=snap.rows,
            bytes=snap.bytes,
            **self._holes(snap, marked, step),
        )
        return _selected(made, s) if piece.name in s.view_columns else made

    def _holes(self, snap: Snapshot, marked: MarkedRows, step: int) -> dict[str, Any]:
        """Return the fields of `Table` that describe a partial table's keys without rows; {} for other tables."""
        if snap.filled is None:
            return {}
        name, history = snap.piece.name, self._history
        past = history.pieces[name]
        key = list(snap.layout.key)
        present = marked.counts > 0
        rows = set(decode(marked.rows[key].compress(present, axis=1), snap.layout.key_types, self._strings))
        now = history.keys(snap, snap.filled)
        earlier = [past.at(at) for at in (history.start(step), step - 1 if step else 0)]
        was, last = (history.keys(x, x.filled) if x is not None else {} for x in earlier)
        empty = [k for k in now if k not in rows]
        met = [(at, k) for at, k in history.met.get(name, []) if at <= step and k not in now]
        start = history.start(step)
        out = [Key(k, True, k not in last, k not in was) for k in empty]
        out += [Key(k, False, k in last or at == step, k in was or at > start) for at, k in met]
        return {"partial": True, "keys": tuple(sorted(out, key=_sorted)), "filled": len(now)}

    # --- groups -----------------------------------------------------------------

    def _grouped(self, name: str, shape: ReduceTables, parts: tuple[str, ...], s: Structure, step: int) -> list[Table]:
        lines = self._history.pieces
        if shape.counts:
            snap = lines[shape.counts].at(step)
            main = lines[shape.output].at(step)
            if snap is None or main is None:
                return []
            table = self._table(snap, s, step, False)
            held = self._sizes(parts, step)
            holes = self._holes(main, self._marked(shape.output, step), step)
            arrangement = {"form": "rows", "arrangement": None} | holes
            return [replace(table, name=name, parts=parts, **held, **arrangement)]
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
        rows = paired(marked.decoded(chosen, looked, self._strings), range(k))
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
        snaps = [snap for p in parts if (snap := self._history.pieces[p].at(step)) is not None]
        return {"stored": sum(x.rows for x in snaps), "bytes": sum(x.bytes for x in snaps)}

    def _split(self, part: str, bag: MarkedRows, keys: Words, step: int) -> list[tuple[tuple[Row, ...], int]]:
        """Return, for each group in int64[k, q], the values to list and the number of all values."""
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
            mine, seen = bag.at(places), looked[places]
            items = mine.decoded(mine.chosen(seen, self._strings, BAG_VALUES), seen, self._strings)
            single = tuple(Row(r.values[k:], r.count, r.before, None, r.now, r.looked_up) for r in items)
            out.append((single, int(np.maximum(mine.counts, 0).sum())))
        return out


def _group(row: Row, k: int, bags: Sequence[Bag]) -> Group:
    old = None if row.old is None else row.old[k:]
    return Group(row.values[:k], tuple(bags), Row(row.values[k:], row.count, row.before, old, row.now, row.looked_up))


def _side(snap: Snapshot, s: Structure) -> str:
    """Return the caption of one side of a join.

    It names the input and, if two sides have the same input, also the key or the position.
    """
    piece = snap.piece
    rows = s.join_sides[piece.name]
    others = [
        p for n, p in s.pieces.items() if n != piece.name and p.owner == piece.owner and s.join_sides.get(n) == rows
    ]
    if not others:
        return f"{rows} side"
    if all(p.arrangement.layout.key != snap.layout.key for p in others):
        return f"{rows} by {', '.join(piece.columns[i] for i in snap.layout.key)}"
    part = piece.name.rsplit(".", 1)[-1]
    return f"{rows}, {part} side" if part in ("left", "right") else f"{rows}, {part.replace('input', 'input ')}"


def _selected(table: Table, s: Structure) -> Table:
    """Return a view's table with the columns in the order, and under the names, of its SELECT list."""
    columns = s.view_columns[table.name]
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

    arrangement = table.arrangement
    if arrangement is not None:
        arrangement = replace(arrangement, batches=tuple(replace(x, rows=turned(x.rows)) for x in arrangement.batches))
    return replace(table, columns=names, key=key, rows=turned(table.rows), arrangement=arrangement)


def _sorted(key: Key) -> tuple[Any, ...]:
    """Return a sort key that puts NULL last."""
    return tuple((v is None, v if v is not None else 0) for v in key.key)


def _among(lines: Words, wanted: Words) -> npt.NDArray[np.bool_]:
    """Return which columns of ``lines``, int64[k, n], occur in ``wanted``, int64[k, q], as bool[n]."""
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


BATCH_ROWS = 60
"""The maximum number of rows of a batch that are listed."""


class ArrangementStates:
    """Builds the state of the arrangements in a history."""

    def __init__(self, history: StateHistory) -> None:
        self._history, self._strings = history, history.strings

    def state(self, snap: Snapshot, s: Structure, step: int, change: Content) -> ArrangementState:
        """Return the arrangement of a piece of state after a step.

        ``change`` contains the changes that the current message has made so far.
        """
        past = self._history.pieces[snap.piece.name]
        before = past.at(step - 1) if step else snap
        known = {id(b) for b in before.runs} if before is not None else set()
        lowers = [0, *(b.lower for b in snap.runs[1:])]
        uppers = [*(b.lower for b in snap.runs[1:]), snap.upper]
        own = past.since(self._history.start(step), step)
        batches = tuple(
            self._batch(b, lower, upper, snap, own.get(id(b), -1), step, id(b) not in known, change)
            for b, lower, upper in zip(snap.runs, lowers, uppers, strict=False)
        )
        old = snap if before is None else before
        readers = (*self._readers(snap.piece, s, step), *_handles(snap, before))
        return ArrangementState(batches, snap.since, snap.upper, old.since, old.upper, readers)

    def _batch(
        self, batch: Batch, lower: int, upper: int, snap: Snapshot, came: int, step: int, fresh: bool, change: Content
    ) -> RecordedBatch:
        """Describe a batch.

        ``came`` is the step of the current message that added it, or -1 if it is older or was merged.
        """
        columns = snap.layout.columns
        rows, diffs, times = batch.body[1 : 1 + columns], batch.body[1 + columns], batch.times()
        order = value_order(tuple(Column("", t) for t in snap.layout.types), rows, self._strings)[:BATCH_ROWS]
        given = rows.take(order, axis=1)
        before = np.zeros(len(order), dtype=np.int64)
        if came < 0:
            # Rows copied by a merge are not new, unless the current message changed them.
            places = change.places(given, self._strings)
            before = diffs[order].copy()
            last = snap.upper - 1
            mine = (places >= 0) & ((times[order] == last) | (snap.since >= last))
            before[mine] -= change.counts[places[mine]]
        facts = zip(
            decode(given, snap.layout.types, self._strings),
            diffs[order].tolist(),
            before.tolist(),
            times[order].tolist(),
            strict=True,
        )
        described = [
            Row(v, d, b, None, came == step, False, max(t, snap.since) if t <= snap.since else t, t <= snap.since)
            for v, d, b, t in facts
        ]
        return RecordedBatch(lower, upper, tuple(described), len(batch), fresh and bool(step))

    def _readers(self, piece: Piece, s: Structure, step: int) -> list[ReaderPosition]:
        """Return the positions of the operators that read an arrangement.

        An operator is at the current epoch if it has already acted in it, and at the previous epoch otherwise.
        """
        readers = [b for a, b, kind in s.edges if a == piece.owner and kind == "read"]
        return [
            ReaderPosition(r, self._reached(r, step), self._reached(r, step - 1) if step else None) for r in readers
        ]

    def _reached(self, operator: str, step: int) -> int:
        """Return the epoch up to which an operator has read its inputs."""
        played = self._history.played(step)
        if played is None:
            return 0
        first, last = self._history.spans[played.number]
        acted = any(d.operator == operator for d in self._history.drafts[first - 1 : step])
        return played.epoch if acted or step == last else self._reached(operator, first - 1)


def _handles(snap: Snapshot, before: Snapshot | None) -> list[ReaderPosition]:
    was = dict(before.handles) if before is not None else {}
    return [ReaderPosition(reader, time, was.get(reader), True) for reader, time in snap.handles]
