"""The state of each operator after each step, as JSON (docs/recording.md).

Every batch is decoded once. A table is a bag of tuples, and its marks are the difference of two bags: the rows after
the step, and those before the message. Values become texts at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..storage.batch import Batch
from .messages import Values
from .state import StateHistory, decode
from .structure import ReduceTables, Snapshot, Structure
from .texts import BAG, counted, few, shown

MOST = 5_000
"""A table with more rows is counted, and not listed."""

Data = dict[str, Any]
Bag = Counter[Values]


@dataclass(frozen=True)
class Row:
    """A row after a step: its multiplicity now and before the message, and the values that it replaced.

    ``now``: it changed in this step; ``looked``: it was read in this step.
    """

    values: Values
    count: int
    before: int
    old: Values | None = None
    now: bool = False
    looked: bool = False
    time: str | None = None

    @property
    def marked(self) -> bool:
        """Whether the row has a mark."""
        return self.old is not None or self.count != self.before or self.looked

    def data(self) -> Data:
        """Return the row as JSON. ``count`` is left out if it is 1, and ``before`` if it is equal to it."""
        out: Data = {"values": [*map(shown, self.values)]}
        out |= {} if self.count == 1 else {"count": self.count}
        out |= {} if self.before == self.count else {"before": self.before}
        out |= {} if self.old is None else {"old": [*map(shown, self.old)]}
        out |= {"now": True} if self.now else {}
        out |= {"looked": True} if self.looked else {}
        return out | ({} if self.time is None else {"time": self.time})


class States:
    """The states of the operators of a run."""

    def __init__(self, history: StateHistory, operators: Sequence[tuple[str, str]], kind: str) -> None:
        """``operators``: the name and the title of each."""
        self._history, self._operators, self._kind = history, operators, kind
        self._strings = history.strings
        self._decoded: dict[int, list[tuple[Values, int, int]]] = {}

    def __call__(self, step: int) -> dict[str, Data]:
        """Return the state of each operator after a step, by its name. One that is not installed has no tables."""
        s = self._history.structure(step)
        return {name: self._operator(name, title.lower(), s, step) for name, title in self._operators}

    def _operator(self, name: str, title: str, s: Structure, step: int) -> Data:
        own = s.operators.get(name, {"tables": ()})["tables"]
        snaps = {part: snap for part in own if (snap := self._snap(part, step)) is not None}
        shape = s.reduces.get(name)
        if shape is None:
            tables = [self._table(snap, s, step, len(snaps) > 1) for snap in snaps.values()]
        elif not snaps and self._kind != "full" or self._snap(shape.output, step) is None:
            tables = []
        elif shape.counts:
            tables = [self._counted(shape, s, step)] if self._snap(shape.counts, step) is not None else []
        else:
            tables = [self._groups(shape, step, "min(" in title and "max(" not in title)]
        parts = [[*snaps]] if shape is not None else [[part] for part in snaps]
        tables = [table | {"parts": names} for table, names in zip(tables, parts, strict=False)]
        sizes = {"rows": sum(x.rows for x in snaps.values()), "bytes": sum(x.bytes for x in snaps.values())}
        return {**sizes, "tables": tables, "waits": self._waits(name, step)}

    def _waits(self, name: str, step: int) -> list[str]:
        """The lines about upqueries and reads that wait at an operator for an answer."""
        history = self._history

        def open_(asked: Iterable[tuple[str, int, int | None, tuple[Values, ...]]]) -> list[Values]:
            return [k for of, a, b, keys in asked if of == name and a <= step and (b is None or step < b) for k in keys]

        keys, reads = open_(history.asked), open_(history.reads)
        out = [f"in flight: ? {_several(keys)}"] if keys else []
        return out + ([f"{counted(len(reads), 'read')} waiting: {_several(reads)}"] if reads else [])

    # --- contents ---------------------------------------------------------------

    def _snap(self, name: str, step: int) -> Snapshot | None:
        past = self._history.pieces.get(name)
        return None if past is None else past.at(step)

    def _rows(self, batch: Batch, snap: Snapshot) -> list[tuple[Values, int, int]]:
        """The rows of a batch, each with its difference and its time. The history keeps the batch, so its id stays."""
        if id(batch) not in self._decoded:
            n = snap.layout.columns
            values = decode(batch.body[1 : 1 + n], snap.layout.types, self._strings)
            lines = zip(values, batch.body[1 + n].tolist(), batch.times().tolist(), strict=True)
            self._decoded[id(batch)] = list(lines)
        return self._decoded[id(batch)]

    def _bag(self, batches: Iterable[Batch], snap: Snapshot) -> Bag:
        out: Bag = Counter()
        for batch in batches:
            for values, diff, _ in self._rows(batch, snap):
                out[values] += diff
        return Counter({values: n for values, n in out.items() if n})

    def _change(self, snap: Snapshot, first: int, last: int) -> Bag:
        """The changes of a piece in the steps from ``first`` to ``last``."""
        inserts = self._history.pieces[snap.piece.name].inserts
        return self._bag([b for n, batches in inserts.items() if first <= n <= last for b in batches], snap)

    def _marked(self, snap: Snapshot, step: int) -> list[Row]:
        """The rows of a piece, by value and NULL last, with those that the message has deleted."""
        held, change = self._bag(snap.runs, snap), self._change(snap, self._history.start(step) + 1, step)
        now, looked = self._change(snap, step, step) if step else Counter(), self._looked(snap, step)
        rows = [
            Row(v, held[v], held[v] - change[v], now=v in now and v in change, looked=looked(v))
            for v in sorted({**held, **change}, key=_order)
        ]
        return rows

    def _looked(self, snap: Snapshot, step: int) -> Callable[[Values], bool]:
        types, wanted = snap.layout.types, []
        for piece, key, words in self._history.drafts[step - 1].reads if step else ():
            if piece == snap.piece.name:
                found = decode(words, types if key is None else [types[i] for i in key], self._strings)
                wanted.append((key, set(found)))
        return lambda values: any((values if k is None else tuple(values[i] for i in k)) in each for k, each in wanted)

    # --- tables -----------------------------------------------------------------

    def _table(self, snap: Snapshot, s: Structure, step: int, several: bool) -> Data:
        piece = snap.piece
        name, columns, key = piece.name, piece.columns, snap.layout.key
        caption = _side(snap, s) if name in s.join_sides else name.rsplit(".", 1)[-1] if several else ""
        turned = s.view_columns.get(name, tuple(range(len(columns))))
        if name in s.view_columns:
            columns = tuple(c.name for c in s.schemas[name])
        out: Data = {"caption": caption, "columns": list(columns)}
        if self._kind == "shared":
            return {"form": "arrangement", **out, **self._arrangement(snap, s, step, turned)}
        rows = self._marked(snap, step) if snap.rows <= MOST else []
        unique = s.unique.get(piece.owner) if name == piece.owner else None
        if unique is not None:
            at = s.view_columns.get(piece.owner, turned)
            rows = paired(rows, [at[i] for i in unique])
        listed = few([_turned(row, turned) for row in rows], lambda row: row.marked)
        total = sum(row.count > 0 for row in rows) if rows else snap.rows
        out |= {"form": "rows", "rows": [row.data() for row in listed]}
        out |= {"total": total, "listed": sum(row.count > 0 for row in listed)}
        return out | self._holes(snap, rows, [columns[turned.index(i)] for i in key], step)

    def _counted(self, shape: ReduceTables, s: Structure, step: int) -> Data:
        """DISTINCT: the number of copies of each row, and the holes of its output."""
        counts, output = self._snap(shape.counts, step), self._snap(shape.output, step)
        assert counts is not None and output is not None
        rows = self._marked(counts, step) if counts.rows <= MOST else []
        listed = few(rows, lambda row: row.marked)
        out: Data = {"form": "rows", "caption": "", "columns": list(counts.piece.columns)}
        out |= {"rows": [row.data() for row in listed], "listed": sum(row.count > 0 for row in listed)}
        out |= {"total": sum(row.count > 0 for row in rows) if rows else counts.rows}
        names = [counts.piece.columns[i] for i in counts.layout.key]
        return out | self._holes(output, self._marked(output, step), names, step)

    def _groups(self, shape: ReduceTables, step: int, least: bool) -> Data:
        """An aggregation: each group with its result and, under full state, the values that MAX or MIN stores."""
        output, k = self._snap(shape.output, step), len(shape.keys)
        assert output is not None
        parts = [(label, snap) for label, part in shape.bags if (snap := self._snap(part, step)) is not None]
        rows = self._marked(output, step) if output.rows + sum(snap.rows for _, snap in parts) <= MOST else []
        inside: list[dict[Values, list[Row]]] = [{} for _ in parts]
        for bag, (_, snap) in zip(inside, parts if rows else (), strict=False):
            for row in self._marked(snap, step):
                bag.setdefault(row.values[:k], []).append(replace(row, values=row.values[k:]))
        groups = [(row, [bag.get(row.values[:k], []) for bag in inside]) for row in paired(rows, range(k))]
        listed = few(groups, lambda each: each[0].marked or any(item.marked for bag in each[1] for item in bag))
        out: Data = {"form": "groups", "caption": "", "columns": [*shape.keys, *shape.results], "keys": k}
        out |= {
            "measures": [label for label, _ in parts],
            "total": sum(row.count > 0 for row in rows) if rows else output.rows,
        }
        out |= {"groups": [_group(row, bags, k, least) for row, bags in listed]}
        out["listed"] = sum(row.count > 0 for row, _ in listed)
        return out | self._holes(output, rows, list(shape.keys), step)

    def _holes(self, snap: Snapshot, rows: Sequence[Row], key: list[str], step: int) -> Data:
        """The keys of a partial table without rows: the filled ones, and holes that a message has met."""
        if snap.filled is None:
            return {}
        history, start = self._history, self._history.start(step)
        past = history.pieces[snap.piece.name]
        now, was, last = (
            {} if each is None else history.keys(each, each.filled)
            for each in (snap, past.at(start), past.at(max(step - 1, 0)))
        )
        present = {tuple(row.values[i] for i in snap.layout.key) for row in rows if row.count > 0}
        found = [(k, True, k not in last, k not in was) for k in now if k not in present]
        met = [(at, k) for at, k in history.met.get(snap.piece.name, []) if at <= step and k not in now]
        found += [(k, False, k in last or at == step, k in was or at > start) for at, k in met]
        listed = few(sorted(found, key=lambda each: _order(each[0])), lambda each: each[2] or each[3])
        fields = ("filled", "now", "new")
        keys = [{"key": [*map(shown, k)]} | dict(zip(fields, facts, strict=True)) for k, *facts in listed]
        return {"holes": keys, "key": key}

    # --- arrangements -----------------------------------------------------------

    def _arrangement(self, snap: Snapshot, s: Structure, step: int, turned: Sequence[int]) -> Data:
        """The batches of an arrangement, oldest first, its frontiers before and after the step, and its readers."""
        past, start = self._history.pieces[snap.piece.name], self._history.start(step)
        was, change = past.at(step - 1) if step else snap, self._change(snap, start + 1, step)
        known, old = {id(b) for b in was.runs} if was is not None else set(), was or snap
        came = past.since(start, step)
        edges, batches = [0, *(b.lower for b in snap.runs[1:]), snap.upper], []
        for n, batch in enumerate(snap.runs):
            rows = list(self._batch(batch, snap, change, came.get(id(batch)), step)) if len(batch) <= MOST else []
            listed = few([_turned(row, turned) for row in rows], lambda row: row.marked)
            part = {"lower": edges[n], "upper": edges[n + 1], "rows": [row.data() for row in listed]}
            fresh = id(batch) not in known and step > 0
            batches.append(part | {"total": len(batch), "listed": len(listed), "fresh": fresh})
        readers = [
            {"reader": b, "time": self._reached(b, step), "before": self._reached(b, step - 1) if step else None}
            for a, b, kind in s.edges
            if a == snap.piece.owner and kind == "read"
        ]
        before = dict(was.handles) if was is not None else {}
        readers += [{"reader": r, "time": t, "before": before.get(r), "outside": True} for r, t in snap.handles]
        frontiers = {"since": [old.since, snap.since], "upper": [old.upper, snap.upper]}
        return {"batches": batches, "readers": readers, **frontiers}

    def _batch(self, batch: Batch, snap: Snapshot, change: Bag, came: int | None, step: int) -> Iterator[Row]:
        """The rows of a batch. ``came`` is the step of this message that added it, or None: then it is older or merged.

        Rows that a merge has copied are not new, unless the message has changed them.
        """
        last, looked = snap.upper - 1, self._looked(snap, step)
        for values, diff, time in sorted(self._rows(batch, snap), key=lambda line: _order(line[0])):
            mine = time == last or snap.since >= last
            before = 0 if came is not None else diff - change[values] * mine
            epoch = f"≤{max(time, snap.since)}" if time <= snap.since else str(time)
            yield Row(values, diff, before, now=came == step, looked=looked(values), time=epoch)

    def _reached(self, operator: str, step: int) -> int:
        """The epoch up to which an operator has read its inputs: the current one once it has acted in it."""
        played = self._history.played(step)
        if played is None:
            return 0
        first, last = self._history.spans[played.number]
        acted = any(draft.operator == operator for draft in self._history.drafts[first - 1 : step])
        return played.epoch if acted or step == last else self._reached(operator, first - 1)


def paired(rows: Sequence[Row], key: Sequence[int]) -> list[Row]:
    """Merge each deleted row into the inserted row with the same unique key, as the values that it replaced."""

    def of(row: Row) -> Values:
        return tuple(row.values[i] for i in key)

    gone = {of(row): row for row in rows if row.before and not row.count}
    came = {of(row) for row in rows if row.count and not row.before}
    out = [row for row in rows if not (of(row) in came and gone.get(of(row)) is row)]
    return [replace(row, old=gone[of(row)].values) if not row.before and of(row) in gone else row for row in out]


def _group(row: Row, bags: Sequence[Sequence[Row]], k: int, least: bool) -> Data:
    old = None if row.old is None else row.old[k:]
    result = replace(row, values=row.values[k:], old=old).data()
    return {"key": [*map(shown, row.values[:k])], "bags": [_stored(bag, least) for bag in bags], "result": result}


def _stored(bag: Sequence[Row], least: bool) -> Data:
    """The values that a group stores for MAX (the greatest are listed) or for MIN (the least), and all with a mark."""
    near = bag[:BAG] if least else bag[-BAG:]
    items = [item for item in bag if item in near or item.marked]
    count = sum(max(item.count, 0) for item in bag) - sum(max(item.count, 0) for item in items)
    return {"items": [item.data() for item in items], "more": count}


def _turned(row: Row, columns: Sequence[int]) -> Row:
    """A row with its values in the order of a view's SELECT list."""
    old = None if row.old is None else tuple(row.old[c] for c in columns)
    return replace(row, values=tuple(row.values[c] for c in columns), old=old)


def _side(snap: Snapshot, s: Structure) -> str:
    """The caption of a side of a join: its input and, if two sides have the same, also the key or the position."""
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


def _several(keys: Sequence[Values]) -> str:
    return (", ".join(map(shown, keys[0])) or "all") if len(keys) == 1 else counted(len(keys), "key")


def _order(values: Values) -> tuple[Any, ...]:
    """A sort key that puts NULL last."""
    return tuple((value is None, 0 if value is None else value) for value in values)
