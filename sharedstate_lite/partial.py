"""Partial state: nothing is computed until somebody asks, and only what was asked for is kept.

The engine: builds the graph of :mod:`.upquery` and :mod:`.upjoin` operators, carries
their messages, answers reads, evicts. By itself it delivers every message before a call
returns, oldest first. Between :meth:`Partial.pause` and :meth:`Partial.resume` messages
wait, and :meth:`Partial.deliver` hands over one at a time, in any order that keeps each
edge first in, first out: that is how a race is written down as a test.

After Noria (Gjengset et al., OSDI 2018). Base tables are full, with an index for each
way they are asked; what is partial lies above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from . import graph
from .arrangement import Arrangement
from .batch import Delta, Layout, concat
from .budget import Budget
from .changes import Changes, sorted_frame
from .engine import Engine, Held, Input
from .errors import Error, TimeError, ViewError
from .holes import Filled
from .kernels import Matches
from .plan import Schema, View
from .upjoin import JoinNode, fetch
from .upquery import BaseNode, Node_, ReaderNode
from .wires import Edge, Message, Pending, Position, Sent, Wires
from .words import Strings, Words

FIXES = ("rule18", "rule20", "rule22")


class Partial(Engine):
    """See the module. Options: ``max_rows`` or ``max_bytes`` (own state, base tables aside), ``seed``, ``without``."""

    kind = "partial"
    joins = ("auto", "linear")

    def __init__(
        self,
        views: Sequence[View],
        join: str = "auto",
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        seed: int = 0,
        without: Iterable[str] = (),
        _like: Mapping[str, Any] | None = None,
    ) -> None:
        self.without = frozenset([without] if isinstance(without, str) else without)
        if not self.without <= set(FIXES):
            raise ViewError(f"without={sorted(self.without)}: the fixes that can be switched off are {', '.join(FIXES)}")
        self.budget = Budget(max_rows, max_bytes)
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.nodes: dict[Any, Node_] = {}
        self.indexes: dict[tuple[str, tuple[int, ...]], Arrangement] = {}
        self.wires = Wires()
        self.clock = 0
        self.op = 0
        self._tags = self._edges = 0
        self._paused_at: int | None = None
        self._holds: list[Any] = []
        self._pending: dict[int, Pending] = {}
        self._gone: dict[str, list[Words]] | None = None
        super().__init__(views, join, _like=_like)
        if _like is not None:
            self.clock, self.random.bit_generator.state = _like["clock"], _like["random"]

    # --- the protocol -----------------------------------------------------------

    def step(self, inputs: Input) -> Any:
        """See :meth:`~.engine.Engine.step`; while paused, a Pending of the same answer."""
        self._check_open()
        op = self._begin()
        with self._undoing():
            deltas = self._read_in(inputs)
            self._insert_bases(deltas)
            self.now = self.epoch + 1
            if self.paused:
                self._pending[op] = Pending(self.wires, op, lambda: self._emitted(op))
            for relation, delta in deltas.items():
                node = self.nodes.get(relation)
                if isinstance(node, BaseNode) and len(delta.diffs):
                    node.publish(delta, self.epoch + 1)
            if not self.paused:
                self._drain()
            self._commit()
            if self.paused:
                return self._pending[op]
            out = self._emitted(op)
            self._within_budget()
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return out

    def read(self, view: str, key: Any = None, at: int | None = None) -> Any:
        """See :meth:`~.engine.Engine.read`. Without a key: the filled keys. A hole is asked for; while paused, a Pending."""
        if key is None:
            return super().read(view, None, at)
        self._check_open()
        shown = self._view(view)
        self._check_time(view, at)
        reader = self.reader(shown)
        op = self._begin()
        with self._undoing(structure=True):
            words = self._key_words(shown, key)
            if reader.filled.mask(words, self.strings).all():
                self.trace.record("hit", reader.name, rows=1)
                graph.touch(reader, words)
                return self._frame(shown, words)
            self.trace.record("hole", reader.name, rows=1)
            self.send("upquery", reader.inputs[0], keys=words, tag=self.tag(), asked=self.epoch)
            if self.paused:
                self._pending[op] = Pending(self.wires, op, None, reader, words)
                return self._pending[op]
            self._drain()
            out = self._frame(shown, words)
            self._within_budget()
            return out

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Make holes: one key, all keys, or ``n`` keys drawn by seed; returns {operator: [keys]}, downstream included."""
        self._check_open()
        shown = self._view(view)
        if key is not None and n is not None:
            raise ViewError(f"evict({view!r}): give a key or n, not both")
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
            raise ViewError(f"evict({view!r}, n={n!r}): n is a number of keys, 0 or more")
        reader = self.reader(shown)
        self._begin()
        with self._undoing(structure=True):
            start = graph.top_of_chain(reader)
            assert start.filled is not None
            if key is not None:
                words = self._key_words(shown, key)
            elif n is None:
                words = start.filled.keys
            else:
                pick = self.random.choice(len(reader.filled), size=min(n, len(reader.filled)), replace=False)
                words = reader.filled.keys.take(np.sort(pick), axis=1)
            with self._evictions() as gone:
                start.evict(words)
                if not self.paused:
                    self._drain()
            self._settle(start)
            return gone

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """The filled keys of an operator that ``state()`` lists, sorted; every other key is a hole."""
        self._check_open()
        for node in self.nodes.values():
            for name, (_, _, _, filled) in zip(graph.part_names(node), node.parts(), strict=True):
                if name == operator and filled is not None:
                    return self._tuples(filled.keys, filled)
        known = [n for node in self.nodes.values() for n, p in zip(graph.part_names(node), node.parts(), strict=True) if p[3] is not None]
        raise ViewError(f"no partial operator is called {operator}; there are: {', '.join(known)}")

    def compact(self) -> None:
        """See :meth:`~.engine.Engine.compact`. Raises while messages are under way."""
        self._check_idle("compact")
        super().compact()

    def install(self, view: View) -> Changes:
        """See :meth:`~.engine.Engine.install`: at once, and empty."""
        self._check_idle("install")
        return super().install(view)

    def drop(self, view: str | View) -> None:
        """See :meth:`~.engine.Engine.drop`."""
        self._check_idle("drop")
        super().drop(view)

    def checkpoint(self, path: Any) -> None:
        """See :meth:`~.engine.Engine.checkpoint`. Raises while messages are under way."""
        self._check_idle("checkpoint")
        super().checkpoint(path)

    # --- message by message -----------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether messages wait to be delivered by hand."""
        return self._paused_at is not None

    def pause(self) -> None:
        """From now on messages wait. A second call does nothing."""
        self._check_open()
        if self._paused_at is None:
            self._paused_at = self.epoch
            self._holds = [a.handle(self.epoch) for a in self.indexes.values()]

    def messages(self) -> list[Sent]:
        """What is under way, in the order sent: edge (sender, receiver), kind, view, key (a list of keys), rows."""
        self._check_open()
        return [Sent.of(m, lambda w, e: self._decode(w, e.source.plan.schema, e.ask)) for m in self.wires]

    def deliver(self, i: int) -> None:
        """Hand over message ``i`` of :meth:`messages`. Raises Error unless it is the oldest on its edge."""
        self._check_open()
        if not self.paused:
            raise Error("deliver: nothing waits; call pause() first, then step or read")
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < len(self.wires):
            raise Error(f"deliver({i!r}): there are {len(self.wires)} messages under way, numbered from 0")
        message = self.wires.waiting[i]
        first = self.wires.blocked_by(message)
        if first is not None:
            at = self.wires.waiting.index(first)
            raise Error(
                f"deliver({i}): the edge {message.ends[0]} -> {message.ends[1]} is first in, first out; message {at} comes before it"
            )
        with self._undoing(structure=True):
            self._deliver(message)

    def resume(self) -> None:
        """Deliver all that waits, oldest first, and go on by itself."""
        self._check_open()
        with self._undoing(structure=True):
            self._drain()
            self._paused_at = None
            self._within_budget()
        for hold in self._holds:
            hold.close()
        self._holds = []

    # --- what operators call ----------------------------------------------------

    @property
    def strings(self) -> Strings:
        """The dictionary of the engine's strings."""
        return self._names.strings

    now = 0
    """The last epoch that the base tables hold, the one in hand included."""

    def tag(self) -> int:
        """A new name for a question."""
        self._tags += 1
        return self._tags

    def send(self, kind: str, edge: Edge, **what: Any) -> None:
        """Put a message on an edge."""
        message = Message(0, kind, edge, self.op, **what)
        self.wires.send(message)
        rows = len(message.delta.diffs) if message.delta is not None else 0 if message.keys is None else message.keys.shape[1]
        name = {"change": "message", "evict": "message"}.get(kind, kind)
        self.trace.record(name, *message.ends, rows, note="evict" if kind == "evict" else "", payload=lambda: self._shown(message))

    def among(self, keys: Words, wanted: Words, schema: Schema, columns: tuple[int, ...]) -> Any:
        """Which of keys int64[k, n] are in ``wanted`` int64[k, q]; bool[n]."""
        known = Filled(tuple(schema[i].type for i in columns))
        known.add(wanted, self.strings, 0)
        return known.mask(keys, self.strings)

    def index(self, relation: str, columns: tuple[int, ...]) -> Arrangement:
        """The base table by columns, made when it is first needed."""
        found = self.indexes.get((relation, columns))
        if found is None:
            _, schema = self._relation(relation)
            base = self.bases.get(relation)
            if base is not None and base.layout.key == columns:
                found = base
            else:
                name = f"{relation}[{', '.join(schema[i].name for i in columns)}]"
                found = Arrangement(name, Layout(tuple(c.type for c in schema), columns), self.epoch + 1)
                if base is not None:
                    rows = base.contents(strings=self.strings)
                    found.load(found.layout.body(rows.rows, rows.diffs, self.strings))
                self.bases.setdefault(relation, found)
            self.indexes[relation, columns] = found
            self._changed()
        return found

    def fetch(self, edge: Edge, columns: tuple[int, ...], keys: Words, at: Position) -> Matches:
        """Rows of a stateless operator by any columns, as of a position (see :func:`~.upjoin.fetch`)."""
        floor = None if "rule18" in self.without else self._paused_at if self._paused_at is not None else self.epoch
        return fetch(edge.source.plan, edge, columns, keys, at, self.index, floor, self.strings, edge.target.view)

    def wrote(self, node: Node_, delta: Delta) -> None:
        """Note that an operator's state changed."""
        if len(delta.diffs):
            self.trace.record("state", node.name, rows=len(delta.diffs))

    def evicted(self, node: Node_, keys: Words) -> None:
        """Note that keys of an operator became holes."""
        self.trace.record("evicted", node.name, rows=keys.shape[1])
        if self._gone is not None:
            self._gone.setdefault(node.name, []).append(keys)

    def answered(self, reader: ReaderNode, keys: Words) -> None:
        """Keys of a reader are filled: reads that waited for them have their answer."""
        for pending in self._pending.values():
            if pending.reader is reader and pending.keys is not None and not pending.answered:
                if reader.filled.mask(pending.keys, self.strings).all():
                    pending.answer(self._frame(self.views[reader.view], pending.keys))

    # --- delivering -------------------------------------------------------------

    def _begin(self) -> int:
        self.clock += 1
        self.op = self.clock
        return self.op

    def _drain(self) -> None:
        while len(self.wires):
            self._deliver(self.wires.waiting[0])

    def _deliver(self, message: Message) -> None:
        self.wires.waiting.remove(message)
        self.op = message.op
        edge, keys, delta = message.edge, message.keys, message.delta
        if message.kind == "upquery":
            assert keys is not None
            edge.source.on_upquery(edge, message.tag, keys, message.asked)
            return
        before = edge.at
        edge.at = message.at
        if message.kind == "change":
            assert delta is not None
            edge.target.on_change(edge, delta, before)
        elif message.kind == "response":
            assert keys is not None and delta is not None
            edge.target.on_response(edge, message.tag, keys, delta)
        else:
            edge.target.on_evict(edge, keys)
        self._settle(edge.target)

    def _settle(self, node: Node_) -> None:
        """Seal what a message wrote, so that the next one is told apart from it."""
        for arrangement, _, _, _ in node.parts():
            if arrangement.runs and arrangement.runs[-1].lower >= arrangement.upper:
                arrangement.commit(arrangement.upper + 1)

    def _commit(self) -> None:
        self.epoch += 1
        self.trace.epoch = self.epoch
        for arrangement in dict.fromkeys([*self.bases.values(), *self.indexes.values()]):
            arrangement.commit(self.epoch + 1)

    def _insert_bases(self, deltas: dict[str, Delta]) -> None:
        super()._insert_bases(deltas)
        for (relation, _), arrangement in self.indexes.items():
            if arrangement is not self.bases.get(relation) and relation in deltas:
                arrangement.insert(deltas[relation].rows, deltas[relation].diffs, self.strings)

    def _emitted(self, op: int) -> dict[str, Changes]:
        out = {}
        for name, view in self.views.items():
            parts = self.reader(view).emitted.pop(op, [])
            out[name] = self._changes(view, concat(parts, len(view.schema)))
        return out

    @contextmanager
    def _evictions(self) -> Iterator[dict[str, list[Any]]]:
        self._gone = {}
        out: dict[str, list[Any]] = {}
        try:
            yield out
            for node in self.nodes.values():
                if node.name in self._gone and node.filled is not None:
                    out[node.name] = self._tuples(np.concatenate(self._gone[node.name], axis=1), node.filled)
                elif node.name in self._gone and isinstance(node, JoinNode):
                    held = next(h for h in node.held if h is not None)
                    out[node.name] = self._tuples(np.concatenate(self._gone[node.name], axis=1), held[2])
        finally:
            self._gone = None

    def _within_budget(self) -> None:
        if self.budget.set:
            self.budget.keep(self)

    # --- what the base class asks -------------------------------------------------

    def reader(self, view: View) -> ReaderNode:
        """The reader of a view."""
        node = self.nodes["reader", view.name]
        assert isinstance(node, ReaderNode)
        return node

    def _add(self, view: View) -> None:
        graph.add(self, view)
        self.views[view.name] = view

    def _remove(self, view: View) -> None:
        graph.remove(self, view)

    def _advance(self, deltas: dict[str, Delta]) -> dict[str, Delta]:
        raise NotImplementedError("partial state is driven by messages; see step")

    def settings(self) -> dict[str, Any]:
        """See :meth:`~.engine.Engine.settings`."""
        options = {"max_rows": self.budget.rows, "max_bytes": self.budget.bytes, "seed": self.seed, "without": sorted(self.without)}
        found = super().settings()
        return found | {"options": found["options"] | options, "clock": self.clock, "random": self.random.bit_generator.state}

    def filled_sets(self) -> dict[str, Filled]:
        """See :meth:`~.engine.Engine.filled_sets`."""
        return {
            graph.identity(node, part[0]): part[3] for node in self.nodes.values() for part in node.parts() if part[3] is not None
        }

    def resume_at(self, epoch: int) -> None:
        """See :meth:`~.engine.Engine.resume_at`."""
        for (relation, _), index in self.indexes.items():
            base = self.bases[relation]
            if index is not base:
                rows = base.contents(strings=self.strings)
                index.upper = epoch + 1
                index.load(index.layout.body(rows.rows, rows.diffs, self.strings))
        super().resume_at(epoch)
        self.now = epoch
        for node in self.nodes.values():
            for edge in node.inputs:
                edge.at = dict.fromkeys(edge.at, epoch)

    def held(self) -> Iterator[Held]:
        for relation, base in self.bases.items():
            names = tuple(c.name for c in self.catalog.schema(relation))
            more = sum(a.nbytes for (r, _), a in self.indexes.items() if r == relation and a is not base)
            yield Held(base.name, relation, "base", base, names, True, more)
        for node in self.nodes.values():
            for name, (arrangement, kind, columns, filled) in zip(graph.part_names(node), node.parts(), strict=True):
                extra = filled.nbytes if filled is not None else 0
                yield Held(name, graph.relation_of(node), kind, arrangement, columns, False, extra, graph.identity(node, arrangement))

    def _all(self) -> list[Arrangement]:
        if self._every is None:
            self._every = list(dict.fromkeys([*super()._all(), *self.indexes.values()]))
        return self._every

    def _rows(self, view: View, key: Words | None, at: int | None) -> Delta:
        rows = self.reader(view).rows
        if key is None:
            return rows.contents(strings=self.strings)
        _, found, diffs = rows.match(key, self.strings)
        body = rows.layout.body(found, diffs[0], self.strings)
        return Delta(body[1 : 1 + len(found)], body[1 + len(found)])

    def _whole(self, view: View) -> Delta:
        return Delta.empty(len(view.schema))

    def _frame(self, view: View, words: Words) -> pd.DataFrame:
        return sorted_frame(view.schema, self._rows(view, words, None), self.strings)

    def _save(self) -> Callable[[], None]:
        back = super()._save()
        nodes, indexes = dict(self.nodes), dict(self.indexes)
        saved = [(n, n.save(), list(n.outputs)) for n in nodes.values()]
        edges = [(e, e.at) for n in nodes.values() for e in n.inputs]
        waiting, pending, state = list(self.wires.waiting), dict(self._pending), self.random.bit_generator.state
        paused, now = self._paused_at, self.now

        def all_back() -> None:
            back()
            self.nodes, self.indexes = nodes, indexes
            for node, kept, outputs in saved:
                node.back(kept)
                node.outputs = outputs
            for edge, at in edges:
                edge.at = at
            self.wires.waiting, self._pending, self._paused_at = waiting, pending, paused
            self.random.bit_generator.state, self.now = state, now

        return all_back

    def _codes(self) -> Iterable[Words]:
        from .plan import Type

        for node in self.nodes.values():
            for _, _, _, filled in node.parts():
                if filled is not None:
                    yield from (line for line, kind in zip(filled.keys, filled.types, strict=True) if kind is Type.STRING)

    def _recode(self, moved: Words) -> None:
        for node in self.nodes.values():
            node.recode(moved)

    def _check_idle(self, what: str) -> None:
        self._check_open()
        if self.paused:
            raise Error(f"{what}: the engine is paused with {len(self.wires)} messages under way; call resume() first")

    def _check_time(self, view: str, at: int | None) -> None:
        if at is not None and at != self.epoch:
            raise TimeError(f"view {view}: partial state is the last epoch's, {self.epoch}; a read at {at} needs the shared engine")

    # --- showing ------------------------------------------------------------------

    def _decode(self, words: Words, schema: Schema, columns: tuple[int, ...]) -> list[tuple[Any, ...]]:
        from .columns import to_arrow

        lines = [to_arrow(w, schema[i].type, self.strings).to_pylist() for w, i in zip(words, columns, strict=True)]
        return list(zip(*lines, strict=True)) if lines else [()] * words.shape[1]

    def _tuples(self, words: Words, filled: Filled) -> list[tuple[Any, ...]]:
        from .plan import Column

        schema = tuple(Column(str(i), kind) for i, kind in enumerate(filled.types))
        keys = self._decode(words, schema, tuple(range(len(schema))))
        return sorted(keys, key=lambda key: tuple((v is None, v) if v is not None else (True, 0) for v in key))

    def _shown(self, message: Message) -> Mapping[str, Any]:
        edge = message.edge
        key = None if message.keys is None else self._decode(message.keys, edge.source.plan.schema, edge.ask)
        delta = message.delta
        rows = None if delta is None else Changes.consolidated(edge.source.plan.schema, delta, self.epoch, self.strings)
        return {"kind": message.kind, "key": key, "rows": rows}
