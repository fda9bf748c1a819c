"""The engine for partial state: rows are computed when a key is read, and cached until the key is evicted.

This module builds the graph, reads and evicts keys, and enforces the budget. :mod:`.scheduler` delivers the messages.
Base tables store all rows, with an index for each set of columns by which they are queried. Only the state of the
operators below them is partial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..changelog.changes import Changes, sorted_frame
from ..engine import view_rules
from ..engine.engine import EpochInput
from ..engine.state_tables import CACHED, DURABLE, WORKING, StatePart
from ..errors import Error, RowError, ViewError, is_integer, shorten
from ..plan.nodes import Type
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import Words
from ..system.notes import note_once
from . import build, chains, describe
from .budget import Budget
from .filled_keys import FilledKeys
from .join import JoinNode
from .messages import PendingResult
from .nodes import BaseNode
from .scheduler import MessageScheduler

FIXES = ("rule18", "rule20", "rule22")


class Partial(MessageScheduler):
    """The engine for partial state.

    ``max_rows`` and ``max_bytes`` limit the size of the cached answers. ``seed`` determines the
    random keys that :meth:`evict` chooses if ``n`` is given. ``without`` switches off the fixes of rules 18, 20 or 22,
    to show the wrong results that they prevent.
    """

    kind = "partial"
    joins = ("auto", "linear")
    join_node: type[JoinNode] = JoinNode

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
        named = list(without) if isinstance(without, Iterable) and not isinstance(without, str) else [without]
        if not all(fix in FIXES for fix in named):
            raise ViewError(f"without={shorten(without)} is not valid; it can contain {', '.join(FIXES)}")
        if not is_integer(seed) or seed < 0:
            raise ViewError(f"seed={shorten(seed)} is not valid; a seed must be an integer of at least 0")
        self._start(named)
        self.budget = Budget(max_rows, max_bytes)
        self.seed = int(seed)
        self._told: set[str] = set()
        """The views about which a note was logged."""
        self.random = np.random.default_rng(self.seed)
        super().__init__(views, join, _like=_like)
        if _like is not None:
            self.clock, self.random.bit_generator.state = _like["clock"], _like["random"]

    # --- the protocol -----------------------------------------------------------

    def step(self, inputs: EpochInput) -> Any:
        """Apply one epoch; see :meth:`~..engine.engine.Engine.step`.

        While the engine is paused, this returns a :class:`~.messages.PendingResult`.
        """
        self._check_open()
        op, again = self._begin(), dict[str, Any]()
        try:
            return self._step(op, inputs, self.drain, again)
        except RowError:
            if not again:
                raise
        # An intermediate result overflowed. Run the epoch again with combined changes, because this can succeed.
        return self._step(op, again, self._advance, {})

    def _step(self, op: int, inputs: EpochInput, carry: Callable[[], None], again: dict[str, Any]) -> Any:
        """Run one epoch; ``carry`` delivers its messages. If that raises RowError, save the input in ``again``."""
        with self._atomic():
            deltas = self._read_epoch(inputs)
            self.now = self.epoch + 1
            if self.paused:
                self._pending[op] = PendingResult(self.in_flight, op, lambda: self._emitted(op))
            for relation, delta in deltas.items():
                node = self.nodes.get(relation)
                if isinstance(node, BaseNode) and len(delta.diffs):
                    node.publish(delta, self.epoch + 1)
            if not self.paused:
                try:
                    carry()
                except RowError:
                    again |= self._tables(deltas)
                    raise
            self._commit()
            if self.paused:
                return self._pending[op]
            out = self._emitted(op)
            self._within_budget()
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return out

    def read(self, view: str | View, key: Any = None, at: int | None = None) -> Any:
        """Return the rows of one key, or of all filled keys if ``key`` is None.

        If no key is filled, a note says so, once for each view.

        While the engine is paused, a read of a hole returns a :class:`~.messages.PendingResult`. See also
        :meth:`~..engine.engine.Engine.read`.
        """
        if key is None:
            found = super().read(view, None, at)
            if not len(self.reader(shown := self._view(view)).filled):
                note_once(self._told, shown.name, describe.unread(shown.name))
            return found
        self._check_open()
        shown = self._view(view)
        self._check_time(shown.name, at)
        reader = self.reader(shown)
        op = self._begin()
        with self._atomic(structure=True):
            words = view_rules.key_words(shown, key, self.strings)
            if reader.filled.mask(words, self.strings).all():
                self.trace.record("hit", reader.name, rows=1)
                chains.touch(reader, words)
                return self._frame(shown, words)
            self.trace.record("hole", reader.name, rows=1)
            self.send("upquery", reader.inputs[0], keys=words, tag=self.tag(), asked=self.epoch)
            if self.paused:
                self._pending[op] = PendingResult(self.in_flight, op, None, reader, words)
                return self._pending[op]
            try:
                self.drain()
            except RowError as error:
                raise view_rules.read_error(shown, words, self.strings, error) from error
            out = self._frame(shown, words)
            self._within_budget()
            return out

    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Evict one key of a view, ``n`` random keys, or all keys if neither is given. Return the keys by operator.

        The result includes the keys that were evicted from operators below. Operators are named as in ``state()``,
        where a join has one name for each cached side. Raises ViewError or RowError.
        """
        self._check_open()
        shown = self._view(view)
        if key is not None and n is not None:
            raise ViewError(f"evict({shown.name!r}): pass either key or n, not both")
        if n is not None and (not is_integer(n) or n < 0):
            raise ViewError(f"evict({shown.name!r}, n={shorten(n)}): n must be an integer of at least 0")
        reader = self.reader(shown)
        self._begin()
        with self._atomic(structure=True):
            start = chains.top_of_chain(reader)
            assert start.filled is not None
            if key is not None:
                words = view_rules.key_words(shown, key, self.strings)
            elif n is None:
                words = start.filled.keys
            else:
                pick = self.random.choice(len(reader.filled), size=min(n, len(reader.filled)), replace=False)
                words = reader.filled.keys.take(np.sort(pick), axis=1)
            with self._evictions() as evicted:
                start.evict(words)
                if not self.paused:
                    self.drain()
            self.settle(start)
            return evicted

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Return the sorted filled keys of a view, an aggregate, or a side of a join. Raises ViewError."""
        self._check_open()
        known = describe.filled_parts(self.nodes.values())
        if not isinstance(operator, str) or operator not in known:
            raise ViewError(f"there is no partial operator named {operator}; partial operators: {', '.join(known)}")
        return self._tuples(known[operator].keys, known[operator])

    def compact(self) -> None:
        """Merge batches; see :meth:`~..engine.engine.Engine.compact`. Raises Error if the engine is paused."""
        self._check_idle("compact")
        super().compact()

    def install(self, view: str | View) -> Changes:
        """Install a view; see :meth:`~..engine.engine.Engine.install`. Raises Error if the engine is paused.

        The returned change is empty, because none of the view's keys are filled yet.
        """
        self._check_idle("install")
        return super().install(view)

    def drop(self, view: str | View) -> None:
        """Remove a view; see :meth:`~..engine.engine.Engine.drop`. Raises Error if the engine is paused."""
        self._check_idle("drop")
        super().drop(view)

    def checkpoint(self, path: Any) -> None:
        """Write a checkpoint; see :meth:`~..engine.engine.Engine.checkpoint`. Raises Error if the engine is paused."""
        self._check_idle("checkpoint")
        super().checkpoint(path)

    def insert_bases(self, deltas: dict[str, Delta]) -> None:
        super().insert_bases(deltas)
        for (relation, _), arrangement in self.indexes.items():
            if arrangement is not self.bases.get(relation) and relation in deltas:
                arrangement.insert(deltas[relation].rows, deltas[relation].diffs, self.strings)

    def _within_budget(self) -> None:
        if self.budget.set:
            self.budget.keep(self)

    # --- for the base class -------------------------------------------------

    def _add(self, view: View) -> None:
        build.add(self, view)
        self.views[view.name] = view

    def _remove(self, view: View) -> None:
        build.remove(self, view)

    def settings(self) -> dict[str, Any]:
        """Return the options and choices for a checkpoint; see :meth:`~..engine.engine.Engine.settings`."""
        options = {
            "max_rows": self.budget.rows,
            "max_bytes": self.budget.bytes,
            "seed": self.seed,
            "without": sorted(self.without),
        }
        found = super().settings()
        return found | {
            "options": found["options"] | options,
            "clock": self.clock,
            "random": self.random.bit_generator.state,
        }

    def filled_sets(self) -> dict[str, FilledKeys]:
        """Return the sets of filled keys by name; see :meth:`~..engine.engine.Engine.filled_sets`."""
        return {
            describe.identity(node, part[0]): part[3]
            for node in self.nodes.values()
            for part in node.parts()
            if part[3] is not None
        }

    def resume_at(self, epoch: int) -> None:
        """Set the current epoch after a checkpoint has been loaded; see :meth:`~..engine.engine.Engine.resume_at`."""
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

    def base_parts(self) -> Iterator[StatePart]:
        """Return the base tables, and then their further indexes. The ones that have lookups are working state."""
        names = {relation: tuple(c.name for c in self.catalog.schema(relation)) for relation in self.bases}
        looked_up = {id(index) for index in self.indexes.values()}
        for relation, base in self.bases.items():
            bill = (DURABLE, WORKING) if id(base) in looked_up else (DURABLE,)
            yield StatePart(base.name, relation, "base", base, names[relation], bill)
        for (relation, _), index in self.indexes.items():
            if index is not self.bases[relation]:
                yield StatePart(index.name, relation, "index", index, names[relation])

    def state_parts(self) -> Iterator[StatePart]:
        yield from self.base_parts()
        for node in self.nodes.values():
            for name, (arrangement, kind, columns, filled) in zip(describe.part_names(node), node.parts(), strict=True):
                extra = filled.nbytes if filled is not None else 0
                yield StatePart(
                    name,
                    describe.relation_of(node),
                    kind,
                    arrangement,
                    columns,
                    (CACHED,),
                    extra,
                    describe.identity(node, arrangement),
                )

    def all_arrangements(self) -> list[Arrangement]:
        if self._arrangements is None:
            self._arrangements = list(dict.fromkeys([*super().all_arrangements(), *self.indexes.values()]))
        return self._arrangements

    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the operators and the edges between them; see :meth:`~..engine.engine.Engine.graph`."""
        self._check_open()
        return describe.graph_frames(self.nodes.values(), [(p.relation, p.operator) for p in self.base_parts()])

    def epoch_arrangements(self) -> list[Arrangement]:
        # The times of all other arrangements count messages and not epochs.
        return list(dict.fromkeys([*self.bases.values(), *self.indexes.values()]))

    def view_rows(self, view: View, key: Words | None, at: int | None) -> Delta:
        rows = self.reader(view).rows
        if key is None:
            return rows.contents(strings=self.strings)
        _, found, diffs = rows.match(key, self.strings)
        return rows.layout.delta(rows.layout.body(found, diffs[0], self.strings))

    def view_contents(self, view: View) -> Delta:
        return Delta.empty(len(view.schema))

    def _frame(self, view: View, words: Words) -> pd.DataFrame:
        return sorted_frame(view, self.view_rows(view, words, None), self.strings)

    def _save(self) -> Callable[[], None]:
        nodes = [(name, n, n.save(), list(n.outputs), [e.at for e in n.inputs]) for name, n in self.nodes.items()]
        pending = [(op, p, p.mark()) for op, p in self._pending.items()]
        rest = (
            dict(self.indexes),
            list(self.in_flight.queue),
            self._paused_at,
            self.now,
            self.random.bit_generator.state,
        )
        # This is not a closure, because a deep copy of a paused engine must restore its own state.
        return partial(self._restore_all, super()._save(), nodes, pending, rest)

    def _restore_all(
        self, back: Callable[[], None], nodes: list[Any], pending: list[Any], rest: tuple[Any, ...]
    ) -> None:
        back()
        self.nodes = {name: node for name, node, *_ in nodes}
        for _, node, kept, outputs, at in nodes:
            node.restore(kept)
            node.outputs = outputs
            for edge, position in zip(node.inputs, at, strict=True):
                edge.at = position
        self._pending = {op: p for op, p, _ in pending}
        for _, p, mark in pending:
            p.restore(mark)
        self.indexes, self.in_flight.queue, self._paused_at, self.now, self.random.bit_generator.state = rest

    def _codes(self) -> Iterable[Words]:
        for node in self.nodes.values():
            for _, _, _, filled in node.parts():
                if filled is not None:
                    yield from (
                        line for line, kind in zip(filled.keys, filled.types, strict=True) if kind is Type.STRING
                    )

    def _recode(self, moved: Words) -> None:
        for node in self.nodes.values():
            node.recode(moved)

    def _check_idle(self, what: str) -> None:
        self._check_open()
        if self.paused:
            raise Error(
                f"{what}: the engine is paused with {len(self.in_flight)} messages in flight; call resume() first"
            )
