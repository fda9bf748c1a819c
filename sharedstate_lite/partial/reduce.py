"""GROUP BY and DISTINCT under partial state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels.aggregate import ReduceState
from ..plan.nodes import Node, Reduce
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat, distinct_rows
from ..storage.encoding import Words
from .filled_keys import FilledKeys
from .nodes import InnerNode, PartialEdge, Position, Services


@dataclass
class ReduceUpquery:
    """An upquery that waits until all of its keys are filled."""

    edge: PartialEdge
    keys: Words
    asked: int


class ReduceNode(InnerNode):
    """A GROUP BY or a DISTINCT, which has state only for the filled keys.

    If the current MAX or MIN is retracted, the new one cannot be computed from the change alone. In this case, the key
    becomes a hole and is read again from above (rule 21). Until the response arrives, ``rereads`` contains the rows
    that were emitted for the key, so that the correction can be sent as a change.
    """

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        assert isinstance(plan, Reduce)
        self.groups = ReduceState(plan, name, 1)
        types = tuple(plan.schema[i].type for i in ask)
        self.filled: FilledKeys = FilledKeys(types)
        self._rows = self.groups.output
        if ask != self.groups.output.layout.key:
            self._rows = Arrangement(f"{name}.by", Layout(tuple(c.type for c in plan.schema), ask))
        self.open_upqueries: dict[int, ReduceUpquery] = {}
        self.rereads: list[tuple[Words, Delta]] = []

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.filled.touch(keys, self.flow.strings, self.flow.clock)
        self.open_upqueries[tag] = ReduceUpquery(edge, keys, asked)
        hit = bool(self.filled.mask(keys, self.flow.strings).all())
        self.flow.trace.record("hit" if hit else "hole", self.name, rows=keys.shape[1])
        self._answer(tag)

    def _answer(self, tag: int) -> None:
        """Answer an upquery if all its keys are filled. Otherwise, ask the operator above for the holes."""
        upquery = self.open_upqueries[tag]
        holes = upquery.keys.compress(~self.filled.mask(upquery.keys, self.flow.strings), axis=1)
        if holes.shape[1]:
            self.flow.send("upquery", self.inputs[0], keys=holes, tag=tag, asked=upquery.asked)
            return
        del self.open_upqueries[tag]
        self.flow.send(
            "response", upquery.edge, keys=upquery.keys, delta=self._output(upquery.keys), tag=tag, at=self.at()
        )

    def _output(self, keys: Words) -> Delta:
        """Return the consolidated output rows of these keys."""
        _, rows, diffs = self._rows.match(keys, self.flow.strings)
        return self._net(Delta(rows, diffs[0]))

    def _net(self, delta: Delta) -> Delta:
        layout = Layout(tuple(c.type for c in self.plan.schema), tuple(range(len(self.plan.schema))))
        return layout.delta(layout.body(delta.rows, delta.diffs, self.flow.strings))

    def _reduce(self, delta: Delta) -> tuple[Delta, Words]:
        body = self.groups.plan.input.body(delta.rows, delta.diffs, self.flow.strings)
        change = self.groups.reduce_core(body, None, self.flow.strings)
        if self._rows is not self.groups.output:
            self._rows.insert(change.delta.rows, change.delta.diffs, self.flow.strings)
        self.flow.wrote(self, change.delta)
        return change.delta, change.lost

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        delta = self.keep_filled(self.filled, delta, edge)
        if not len(delta.diffs):
            return
        out, lost = self._reduce(delta)
        self.send_change(out)
        if lost.shape[1]:
            # The output starts with the group columns, so a key column has the same number in both.
            self._read_again(lost[list(self.ask)])

    def _read_again(self, keys: Words) -> None:
        keys = distinct_rows(keys, self.filled.types, self.flow.strings)
        known = self._output(keys)
        self.drop(keys)
        self.rereads.append((keys, known))
        tag = self.flow.tag()
        self.flow.send("upquery", self.inputs[0], keys=keys, tag=tag, asked=self.flow.now)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        strings = self.flow.strings
        fresh = keys.compress(~self.filled.mask(keys, strings), axis=1)
        if fresh.shape[1]:
            self._reduce(delta.take(self.flow.among(delta.rows[list(edge.ask)], fresh)))
            self.filled.add(fresh, strings, self.flow.clock)
            self._correct(fresh)
        if tag in self.open_upqueries:
            self._answer(tag)

    def _correct(self, fresh: Words) -> None:
        """Send the difference between the current rows and those emitted before, for keys that were read again."""
        rest = []
        for keys, known in self.rereads:
            back = self.flow.among(keys, fresh)
            mine = keys.compress(back, axis=1)
            if mine.shape[1]:
                wanted = self.flow.among(known.rows[list(self.ask)], mine)
                old, new = known.take(wanted), self._output(mine)
                self.send_change(self._net(concat([Delta(old.rows, -old.diffs), new], len(self.plan.schema))))
                keys, known = keys.compress(~back, axis=1), known.take(~wanted)
            if keys.shape[1]:
                rest.append((keys, known))
        self.rereads = rest

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        if keys is None:
            keys = np.concatenate([self.filled.keys, *(k for k, _ in self.rereads)], axis=1)
        self.rereads = [(k.compress(~self.flow.among(k, keys), axis=1), known) for k, known in self.rereads]
        self.evict(keys)

    def drop(self, keys: Words) -> Words:
        evicted = self.filled.remove(keys, self.flow.strings)
        if evicted.shape[1]:
            output = self._output(evicted)
            if self._rows is not self.groups.output:
                self._rows.insert(output.rows, -output.diffs, self.flow.strings)
            groups = output.rows[: len(self.plan.keys)]  # type: ignore[attr-defined]
            self.groups.forget(groups if len(groups) else evicted[:, :1], self.flow.strings)
        return evicted

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        assert isinstance(self.plan, Reduce)
        names = tuple(c.name for c in self.plan.schema)
        keys = names[: len(self.plan.keys)]
        inner = [(a, "aggregate", (*keys, "window")[: a.layout.columns], None) for a in self.groups.arrangements[:-1]]
        out: list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]] = [
            *inner,
            (self.groups.output, "aggregate", names, None),
        ]
        if self._rows is not self.groups.output:
            out.append((self._rows, "aggregate", names, None))
        return [*out[:-1], (*out[-1][:3], self.filled)]

    def save(self) -> Any:
        return self.filled.copy(), dict(self.open_upqueries), list(self.rereads)

    def restore(self, saved: Any) -> None:
        self.filled, self.open_upqueries, self.rereads = saved
