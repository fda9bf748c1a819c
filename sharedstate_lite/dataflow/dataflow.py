"""The graph of operators of full and shared state, built from plans and run once per epoch in topological order.

A strategy decides three things: which arrangements a join reads, where a reduce finds the values for MAX and MIN, and
whether two views with an equal plan node share its operator.

All changes of an epoch are available before the first operator runs, and each operator runs once per epoch. Therefore,
changes that arrive on different inputs do not have to be aligned.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from ..changelog.changes import Changes
from ..engine.engine import Engine, EpochInput
from ..engine.state_tables import CACHED, DURABLE, StatePart
from ..plan.nodes import Col, Filter, Join, Map, Node, Reduce, Scan, Union
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout
from ..storage.encoding import Words
from . import describe
from .operators import Input, Linear, Operator, Reader, ReduceCore, UnionAll


class Dataflow(Engine):
    """An engine whose operators process every change. The base class of the full and the shared engine."""

    def __init__(self, views: Sequence[View], join: str = "auto", **like: Any) -> None:
        self.operators: list[Operator] = []
        self.readers: dict[str, Reader] = {}
        self._fresh: list[Operator] = []
        super().__init__(views, join, **like)

    # --- decided by a strategy ----------------------------------------------

    def _plan(self, view: View) -> Node:
        """Return the plan from which the operators of ``view`` are built."""
        return view.plan

    @abstractmethod
    def _known(self, node: Node, view: View) -> Operator | None:
        """Return an existing operator that computes ``node`` and that ``view`` can share, or None."""

    @abstractmethod
    def _join(self, node: Join, view: View) -> Operator:
        """Build the operator of a join."""

    @abstractmethod
    def _reduce(self, node: Reduce, view: View) -> Operator:
        """Build the operator of a reduce, and the arrangements from which it reads MAX and MIN."""

    # --- building ---------------------------------------------------------------

    def _add(self, view: View) -> None:
        self._fresh = []
        root = self._build(self._plan(view), view)
        for node in view.plan.walk():
            if isinstance(node, Scan):
                self.base(node.relation)
        self.views[view.name] = view
        for operator in self._fresh:
            operator.load()
        self.readers[view.name] = self._reader(view, root)
        self._mark(root, view.name)

    def _build(self, node: Node, view: View) -> Operator:
        known = self._known(node, view)
        if known is not None:
            return known
        if isinstance(node, Scan):
            return self._scan(node, view)
        if isinstance(node, Filter | Map):
            below = self._build(node.input, view)
            return self._new(Linear(self._name(view, node), node, [below], self.dictionary))
        if isinstance(node, Union):
            parts = [self._build(p, view) for p in node.parts]
            return self._new(UnionAll(self._name(view, node), node, parts, self.dictionary))
        if isinstance(node, Join):
            return self._join(node, view)
        assert isinstance(node, Reduce)
        return self._reduce(node, view)

    def _scan(self, node: Scan, view: View) -> Operator:
        found = next((o for o in self.operators if isinstance(o, Input) and o.node == node), None)
        if found is None:
            found = Input(node.relation, node, [], self.dictionary)
            found.base = lambda: self.bases.get(node.relation)
            self._new(found)
        return found

    def _new(self, operator: Operator) -> Operator:
        self.operators.append(operator)
        self._fresh.append(operator)
        return operator

    def _name(self, view: View, node: Node, what: str | None = None) -> str:
        """Return a new operator name that is unique in this engine."""
        stem = f"{view.name}.{what or type(node).__name__.lower()}"
        taken = {o.name for o in self.operators}
        number = next(n for n in range(1, len(taken) + 2) if f"{stem}{n}" not in taken)
        return f"{stem}{number}"

    def _reader(self, view: View, root: Operator) -> Reader:
        columns = _same_columns(view.plan)
        if columns is not None:
            under = root if isinstance(root, ReduceCore) else root.inputs[0]
            assert isinstance(under, ReduceCore)
            return Reader(root, under.groups.output, columns, False)
        layout = Layout(tuple(c.type for c in view.schema), view.key)
        arrangement = Arrangement(view.name, layout, self.epoch + 1)
        delta = root.contents()
        arrangement.load(layout.body(delta.rows, delta.diffs, self.dictionary.strings))
        return Reader(root, arrangement, tuple(range(len(view.schema))), True)

    def _mark(self, operator: Operator, view: str) -> None:
        if view not in operator.users:
            operator.users.add(view)
            for below in operator.inputs:
                self._mark(below, view)

    def _remove(self, view: View) -> None:
        del self.readers[view.name]
        for operator in list(self.operators):
            operator.users.discard(view.name)
            if not operator.users:
                self.operators.remove(operator)

    def _save(self) -> Callable[[], None]:
        back = super()._save()
        operators, readers = list(self.operators), dict(self.readers)
        users = [(o, set(o.users)) for o in operators]

        def all_back() -> None:
            back()
            self.operators, self.readers = operators, readers
            for operator, names in users:
                operator.users = names

        return all_back

    def close(self) -> None:
        """Release all state; see :meth:`~..engine.engine.Engine.close`."""
        super().close()
        self.operators, self.readers, self._fresh = [], {}, []

    # --- running ----------------------------------------------------------------

    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch; see :meth:`~..engine.engine.Engine.step`."""
        self._check_open()
        with self._atomic():
            deltas = self._read_epoch(inputs)
            out = self._advance({r: d for r, d in deltas.items() if len(d.diffs)})
            self._commit()
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._changes(self.views[name], out[name]) for name in self.views}

    def _advance(self, deltas: dict[str, Delta]) -> dict[str, Delta]:
        """Run all operators for an epoch whose rows are already in the base tables. Return the change of each view."""
        out: dict[int, Delta] = {}
        record = self.trace.record
        read = describe.read_by(self.readers)
        for operator in self.operators:
            if not operator.inputs:  # an Input
                given = [deltas.get(operator.name, Delta.empty(operator.width))]
                rows = len(given[0].diffs)
            else:
                given, rows = [], 0
                for below in operator.inputs:
                    delta = out[id(below)]
                    given.append(delta)
                    if n := len(delta.diffs):
                        rows += n
                        record("message", below.name, operator.name, n, payload=partial(self._payload, below, delta))
            if not rows and not operator.eager:
                out[id(operator)] = Delta.empty(operator.width)
                continue
            change = operator.step(given, self.epoch)
            out[id(operator)] = change
            if len(change.diffs):
                for arrangement, _ in operator.arrangements():
                    newest = arrangement.runs[-1] if arrangement.runs else None
                    if newest is not None and newest.lower >= arrangement.upper:
                        record("state", operator.name, read.get(id(arrangement), arrangement.name), len(newest))
        result = {}
        for name, reader in self.readers.items():
            change = out[id(reader.root)]
            if reader.own:
                body = reader.arrangement.insert(change.rows, change.diffs, self.dictionary.strings)
                change = reader.arrangement.layout.delta(body)
            if self.epoch == 0 and name in self.initial:
                # Step 1 emits all rows of a view, including those that existed before the first input.
                change = self.view_rows(self.views[name], None, None)
            if len(change.diffs):
                payload = partial(self._payload, reader.root, change)
                record("message", reader.root.name, name, len(change.diffs), payload=payload)
                if reader.own:
                    record("state", name, name, len(change.diffs))
            result[name] = change
        return result

    def _payload(self, operator: Operator, delta: Delta) -> Changes:
        return Changes.consolidated(operator.node.schema, delta, self.epoch + 1, self.dictionary.strings)

    # --- state and graph --------------------------------------------------------

    def state_parts(self) -> Iterator[StatePart]:
        for relation, base in self.bases.items():
            schema = tuple(c.name for c in self.catalog.schema(relation))
            yield StatePart(base.name, relation, self._base_kind, base, schema, self._base_bill(base))
        bases = {id(base) for base in self.bases.values()}
        yield from describe.operator_parts(self.operators, self.readers, bases, self._identity)
        for name, reader in self.readers.items():
            if reader.own:
                schema = tuple(c.name for c in self.views[name].schema)
                yield StatePart(name, name, "reader", reader.arrangement, schema, (CACHED,))

    _base_kind = "base"

    def _base_bill(self, base: Arrangement) -> tuple[str, ...]:
        """Return the columns of the bill for a base table."""
        return (DURABLE,)

    def _identity(self, operator: Operator, arrangement: Arrangement) -> str:
        """Return the ``identity`` of an arrangement; see :class:`~..engine.state_tables.StatePart`."""
        return arrangement.name

    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the operators and the edges between them; see :meth:`~..engine.engine.Engine.graph`."""
        self._check_open()
        names = {id(p.arrangement): p.operator for p in self.state_parts()}
        return describe.graph_frames(self.operators, self.readers, names)

    # --- reading ----------------------------------------------------------------

    def view_rows(self, view: View, key: Words | None, at: int | None) -> Delta:
        reader = self.readers[view.name]
        strings = self.dictionary.strings
        if key is None:
            delta = reader.arrangement.contents(at, strings)
        else:
            wanted = tuple(reader.columns[i] for i in view.key)
            if wanted == reader.arrangement.layout.key:
                _, rows, diffs = reader.arrangement.match(key, strings, at)
                layout = reader.arrangement.layout
                delta = layout.delta(layout.body(rows, diffs[0], strings))
            else:
                delta = reader.arrangement.contents(at, strings)
                delta = delta.take((delta.rows[list(wanted)] == key).all(axis=0))
        return Delta(delta.rows[list(reader.columns)], delta.diffs)

    def view_contents(self, view: View) -> Delta:
        return self.view_rows(view, None, None)


def _same_columns(plan: Node) -> tuple[int, ...] | None:
    """Return the column of the last reduce that each output column copies.

    Returns None if the plan above the last reduce does more than rename or reorder its columns.
    """
    if isinstance(plan, Reduce):
        return tuple(range(len(plan.schema)))
    if isinstance(plan, Map) and isinstance(plan.input, Reduce) and all(isinstance(e, Col) for e in plan.exprs):
        columns = tuple(e.index for e in plan.exprs if isinstance(e, Col))
        if sorted(columns) == list(range(len(plan.input.schema))):
            return columns
    return None
