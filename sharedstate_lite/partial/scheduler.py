"""Delivering the messages of a partial graph, either automatically or one at a time.

Normally, a call delivers all messages, oldest first, before it returns. Between :meth:`MessageScheduler.pause` and
:meth:`MessageScheduler.resume`, messages wait, and :meth:`MessageScheduler.deliver` delivers one of them. They can be
delivered in any order that keeps each edge first in, first out. In this way, tests can reproduce race conditions.

On a paused engine, a step writes its rows to the base tables before the operators process them. If a row then causes an
overflow in an operator, its message cannot be delivered. For this reason, the call that sent the message is rolled back
together with all calls after it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ..changelog.changes import Changes
from ..changelog.convert import to_arrow
from ..engine import view_rules
from ..engine.engine import Engine
from ..errors import Error, RowError, is_integer, shorten
from ..kernels.join import Matches
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat
from ..storage.encoding import Dictionary, Words
from . import describe
from .base_reads import fetch
from .filled_keys import FilledKeys, Mask
from .messages import InFlight, Message, MessageInfo, PendingResult
from .nodes import ApplyLinear, PartialEdge, PartialNode, Position, ReaderNode


class MessageScheduler(Engine):
    """An engine whose operators exchange messages. It implements :class:`~.nodes.Services` for them."""

    def _start(self, without: Iterable[str]) -> None:
        self.without = frozenset(without)
        self.nodes: dict[Any, PartialNode] = {}
        self.indexes: dict[tuple[str, tuple[int, ...]], Arrangement] = {}
        self.in_flight = InFlight()
        self.clock = self.op = 0
        self.tag_count = self._edges = 0
        self._paused_at: int | None = None
        self._holds: list[Any] = []
        self._pending: dict[int, PendingResult] = {}
        self._before: dict[int, Callable[[], None]] = {}
        self._evicted: dict[str, list[Words]] | None = None

    @abstractmethod
    def _within_budget(self) -> None:
        """Evict keys until the state is within the budget."""

    @abstractmethod
    def _frame(self, view: View, words: Words) -> pd.DataFrame:
        """Return the rows of one key of a view as a data frame."""

    # --- message by message -----------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether messages wait until :meth:`deliver` or :meth:`resume` is called."""
        return self._paused_at is not None

    def pause(self) -> None:
        """Make messages wait until :meth:`deliver` or :meth:`resume` is called. Pausing again has no effect.

        The inputs of a join then receive an epoch one after the other. In a self-join, a read can therefore return rows
        that include an epoch on only one side, until all messages are delivered.
        """
        self._check_open()
        if self._paused_at is None:
            self._paused_at = self.epoch
            self._holds = [a.handle(self.epoch) for a in self.indexes.values()]

    def messages(self) -> list[MessageInfo]:
        """Return the messages in flight, in the order in which they were sent."""
        self._check_open()
        return [MessageInfo.of(m, lambda w, e: self._decode(w, e.source.plan.schema, e.ask)) for m in self.in_flight]

    def deliver(self, i: int) -> None:
        """Deliver message ``i`` of :meth:`messages`. Raises Error unless it is the oldest on its edge.

        Raises RowError in the same case as :meth:`resume`.
        """
        self._check_open()
        if not self.paused:
            raise Error("deliver: the engine is not paused; call pause() first, then step or read")
        if not is_integer(i) or not 0 <= i < len(self.in_flight):
            raise Error(f"deliver({shorten(i)}): {len(self.in_flight)} messages are in flight, numbered from 0")
        message = self.in_flight.queue[i]
        first = self.in_flight.blocked_by(message)
        if first is not None:
            at = self.in_flight.queue.index(first)
            raise Error(
                f"deliver({i}): the edge {message.ends[0]} -> {message.ends[1]} is first in, first out; "
                f"deliver message {at} first"
            )
        with self._rolling_back(), self._atomic(structure=True):
            self._deliver(message)

    def resume(self) -> None:
        """Deliver all messages, oldest first, and end the pause.

        Raises RowError if a row causes an overflow. The call that inserted the row and all calls after it are then
        rolled back, and the engine stays paused.
        """
        self._check_open()
        with self._rolling_back(), self._atomic(structure=True):
            self.drain()
            self._paused_at = None
            self._within_budget()
        for hold in self._holds:
            hold.close()
        self._holds, self._before = [], {}

    @contextmanager
    def _rolling_back(self) -> Iterator[None]:
        """If a RowError is raised, roll back the call whose message was being delivered, and all calls after it."""
        try:
            yield
        except RowError as error:
            if self.op not in self._before:
                raise
            lost = [p for op, p in self._pending.items() if op >= self.op]
            cause, call = str(error), "the call with this row"
            first = self._pending.get(self.op)
            if first is not None and first.reader is not None and first.keys is not None:
                view = self.views[first.reader.view]
                cause, call = view_rules.unreadable(view, first.keys, self.strings, error), "this call"
            self._before[self.op]()
            self._before = {op: back for op, back in self._before.items() if op < self.op}
            for arrangement in self.epoch_arrangements():
                for handle in arrangement.handles:
                    handle.time = min(handle.time, self.epoch)
            # New strings stay in the dictionary until compact(), because a result that was returned may contain them.
            why = (
                f"{cause}; {call} and all calls after it were rolled back, and the engine is paused at "
                f"epoch {self.epoch}; step without the row, or call resume() again"
            )
            for pending in lost:
                pending.refuse(RowError(why))
            raise RowError(why) from error

    def close(self) -> None:
        """Release all state; see :meth:`~..engine.engine.Engine.close`.

        Results that are not available yet then raise Error.
        """
        super().close()
        for pending in self._pending.values():
            if not pending.answered:
                pending.refuse(Error("the engine was closed before this result was available"))
        self.nodes, self.indexes, self.in_flight, self._holds = {}, {}, InFlight(), []
        self._pending, self._before, self._paused_at = {}, {}, None

    # --- services for operators ----------------------------------------------------

    @property
    def strings(self) -> Dictionary:
        """The current string dictionary of the engine."""
        return self.dictionary.strings

    now = 0
    """The last epoch whose rows are in the base tables. This can be an epoch in progress."""

    def number(self) -> int:
        """Return a new number for an edge."""
        self._edges += 1
        return self._edges

    def tag(self) -> int:
        """Return a new tag for an upquery."""
        self.tag_count += 1
        return self.tag_count

    def send(self, kind: str, edge: PartialEdge, **what: Any) -> None:
        """Send a message along an edge."""
        message = Message(0, kind, edge, self.op, **what)
        self.in_flight.send(message)
        rows = (
            len(message.delta.diffs)
            if message.delta is not None
            else 0
            if message.keys is None
            else message.keys.shape[1]
        )
        name = {"change": "message", "evict": "message"}.get(kind, kind)
        self.trace.record(
            name, *message.ends, rows, note="evict" if kind == "evict" else "", payload=lambda: self._shown(message)
        )

    def among(self, keys: Words, wanted: Words) -> Mask:
        """Return which of the keys int64[k, n] are in ``wanted``, int64[k, q], as bool[n]."""
        # Equal words are equal values, so the types do not matter.
        known = FilledKeys((Type.BIGINT,) * len(keys))
        known.add(wanted, self.strings, 0)
        return known.mask(keys, self.strings)

    def index(self, relation: str, columns: tuple[int, ...]) -> Arrangement:
        """Return the index of a base table by these columns. It is created on first use."""
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

    def fetch(
        self, edge: PartialEdge, columns: tuple[int, ...], keys: Words, at: Position, linear: ApplyLinear
    ) -> Matches:
        """Look up rows of a stateless operator by any columns, as of a position; see :func:`~.base_reads.fetch`."""
        floor = None if "rule18" in self.without else self._paused_at if self._paused_at is not None else self.epoch
        plan, view = edge.source.plan, edge.target.view
        return fetch(plan, edge, columns, keys, at, self.index, floor, self.strings, view, linear)

    def changes(self, schema: Schema, delta: Delta, some: Mask) -> Callable[[], Changes]:
        """Return a function that converts some rows of a delta to Changes, for the trace."""
        return lambda: Changes.consolidated(schema, delta.take(some), self.trace.epoch, self.strings)

    def wrote(self, node: PartialNode, delta: Delta) -> None:
        """Record that an operator wrote state."""
        if len(delta.diffs):
            self.trace.record("state", node.name, rows=len(delta.diffs))

    def evicted(self, node: PartialNode, keys: Words, part: str) -> None:
        """Record that keys became holes in a part of an operator's state (see :func:`~.describe.part_names`)."""
        self.trace.record("evicted", node.name, rows=keys.shape[1])
        if self._evicted is not None:
            self._evicted.setdefault(part, []).append(keys)

    def answered(self, reader: ReaderNode, keys: Words) -> None:
        """Set the results of all pending reads whose keys are now filled in ``reader``."""
        for pending in self._pending.values():
            if pending.reader is reader and pending.keys is not None and not pending.answered:
                if reader.filled.mask(pending.keys, self.strings).all():
                    pending.answer(self._frame(self.views[reader.view], pending.keys))

    def unfinished(self) -> set[int]:
        """Return the number of the current call, and of each call that has messages in flight."""
        return {self.op, *(m.op for m in self.in_flight)}

    # --- of an epoch ------------------------------------------------------------

    def reader(self, view: View) -> ReaderNode:
        """Return the reader of a view."""
        node = self.nodes["reader", view.name]
        assert isinstance(node, ReaderNode)
        return node

    def _emitted(self, op: int) -> dict[str, Changes]:
        out = {}
        for name, view in self.views.items():
            reader = self.reader(view)
            parts = reader.emitted.pop(op, [])
            delta, layout = concat(parts, len(view.schema)), reader.rows.layout
            if len(parts) > 1:  # each part is consolidated, but one can retract rows of another
                delta = layout.delta(layout.body(delta.rows, delta.diffs, self.strings))
            out[name] = self._changes(view, delta)
        return out

    def _tables(self, deltas: Mapping[str, Delta]) -> dict[str, Any]:
        """Return the changes of an epoch as Arrow tables, which stay valid if a rollback removes new string codes."""
        return {
            relation: Changes(self.catalog.schema(relation), delta, self.now, self.strings).to_arrow()
            for relation, delta in deltas.items()
        }

    # --- delivering -------------------------------------------------------------

    def _begin(self) -> int:
        self.clock += 1
        self.op = self.clock
        if self.paused:
            self._before[self.op] = self._save()
        return self.op

    def drain(self) -> None:
        while len(self.in_flight):
            self._deliver(self.in_flight.queue[0])

    def _advance(self) -> None:
        """Deliver the changes of an epoch so that each operator receives one combined change for each edge.

        If the changes of two base tables are delivered one by one, a join can form pairs of rows that never existed at
        the same time, and a sum can include both inserted rows and rows that are not retracted yet. Such intermediate
        results can overflow even if the result of the entire epoch does not.
        """
        while len(self.in_flight):
            before, message = self.in_flight.joined()
            for each in before:
                self._arrived(each, "change, with the next")
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        self.in_flight.queue.remove(message)
        self.op = message.op
        self._arrived(message, message.kind)
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
        self.settle(edge.target)

    def _arrived(self, message: Message, note: str) -> None:
        if self.trace.keep_rows:
            self.trace.record("delivered", *message.ends, note=note, payload=lambda: message.number)

    def settle(self, node: PartialNode) -> None:
        """Complete the batches that a message wrote to a node's state, so that the next message writes new batches."""
        for arrangement, _, _, _ in node.parts():
            if arrangement.runs and arrangement.runs[-1].lower >= arrangement.upper:
                arrangement.commit(arrangement.upper + 1)

    @contextmanager
    def _evictions(self) -> Iterator[dict[str, list[Any]]]:
        self._evicted = {}
        out: dict[str, list[Any]] = {}
        try:
            yield out
            for part, filled in describe.filled_parts(self.nodes.values()).items():
                if part in self._evicted:
                    out[part] = self._tuples(np.concatenate(self._evicted[part], axis=1), filled)
        finally:
            self._evicted = None

    # --- showing ------------------------------------------------------------------

    def _decode(self, words: Words, schema: Schema, columns: tuple[int, ...]) -> list[tuple[Any, ...]]:
        lines = [to_arrow(w, schema[i].type, self.strings).to_pylist() for w, i in zip(words, columns, strict=True)]
        return list(zip(*lines, strict=True)) if lines else [()] * words.shape[1]

    def _tuples(self, words: Words, filled: FilledKeys) -> list[tuple[Any, ...]]:
        schema = tuple(Column(str(i), kind) for i, kind in enumerate(filled.types))
        keys = self._decode(words, schema, tuple(range(len(schema))))
        return sorted(keys, key=lambda key: tuple((v is None, v) if v is not None else (True, 0) for v in key))

    def _shown(self, message: Message) -> Mapping[str, Any]:
        edge = message.edge
        key = None if message.keys is None else self._decode(message.keys, edge.source.plan.schema, edge.ask)
        delta = message.delta
        schema = edge.source.plan.schema
        rows = None if delta is None else Changes.consolidated(schema, delta, self.trace.epoch, self.strings)
        by = tuple(schema[i].name for i in edge.ask)
        return {"number": message.number, "tag": message.tag, "kind": message.kind, "by": by, "key": key, "rows": rows}
