"""Lookups for a partial join: choosing the side to ask first, and reading base tables as of a position.

A join does not store a copy of an input that reads base tables only through stateless operators. It reads the base
tables instead, by any columns, as of the position that the input has reached. Noria requires the inputs of a join to be
materialized. Here, this is not necessary, because the base tables keep their recent history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.join import Matches, half_join
from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan, Union
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary, Words
from ..storage.multiplicity import add_up
from .nodes import ApplyLinear, PartialEdge, Position, traced


def stateless(node: Node) -> bool:
    """Return whether the node reads base tables only through stateless operators."""
    return not any(isinstance(n, Reduce) for n in node.walk())


@dataclass(frozen=True)
class UpqueryRoute:
    """How a join answers an upquery by columns ``ask``. It first asks side ``primary`` by this side's ``columns``.

    ``answers`` are the positions in ``ask`` that correspond to ``columns``.
    """

    primary: int
    columns: tuple[int, ...]
    answers: tuple[int, ...]
    rest: tuple[int, ...] = ()
    """The positions in ``ask`` for which the primary side does not have a column."""


def plan_upquery(node: Join, ask: tuple[int, ...]) -> UpqueryRoute:
    """Choose the primary side, which has more of the columns ``ask``. The columns of the join key are on both sides."""
    wide = len(node.left.schema)
    options = []
    for side in (0, 1):
        if side == 1 and node.outer:
            continue
        own, other = (node.left_keys, node.right_keys) if side == 0 else (node.right_keys, node.left_keys)
        columns, answers = [], []
        for position, column in enumerate(ask):
            there, local = (0, column) if column < wide else (1, column - wide)
            if there != side:
                if node.outer or local not in other:
                    continue
                local = own[other.index(local)]
            columns.append(local)
            answers.append(position)
        rest = tuple(i for i in range(len(ask)) if i not in answers)
        options.append(UpqueryRoute(side, tuple(columns), tuple(answers), rest))
    inputs = node.inputs
    return min(options, key=lambda o: (len(o.rest), not stateless(inputs[o.primary]), o.primary))


class JoinSide:
    """A side of a join as the kernels read it, either with or without the current change."""

    stored = None

    def __init__(self, columns: int, find: Callable[[Words, bool], Matches]) -> None:
        self.columns, self._find = columns, find

    def match(self, keys: Words, at: int | None) -> Matches:
        """Find the rows with these keys. Unless ``at`` is None, the current change is left out.

        See :meth:`~..kernels.join.Side.match`.
        """
        return self._find(keys, at is not None)


Index = Callable[[str, tuple[int, ...]], Arrangement]


def fetch(
    node: Node,
    edge: PartialEdge,
    columns: tuple[int, ...],
    keys: Words,
    at: Position,
    index: Index,
    floor: int | None,
    strings: Dictionary,
    view: str,
    linear: ApplyLinear,
) -> Matches:
    """Look up rows of a stateless operator by any of its columns, in the base tables as of position ``at``.

    ``edge`` is the edge out of ``node``. If a position is before the epoch ``floor``, the table is read at ``floor``
    instead. If ``floor`` is None, the newest contents are read, because the fix of rule 18 is switched off.
    ``linear`` applies the Filters and Maps. It decides whether a row for which one of them fails raises RowError.
    """
    if isinstance(node, Scan):
        time = None if floor is None else max(at.get(edge.number, 0), floor)
        return index(node.relation, columns).match(keys, strings, time)

    def below(slot: int, by: tuple[int, ...], wanted: Words) -> Matches:
        return fetch(node.inputs[slot], edge.source.inputs[slot], by, wanted, at, index, floor, strings, view, linear)

    if isinstance(node, Filter | Map):
        by = columns if isinstance(node, Filter) else traced(node, columns, view)
        return linear(node, below(0, by, keys), strings)
    if isinstance(node, Union):
        parts = [below(slot, columns, keys) for slot in range(len(node.inputs))]
        owners, rows_, diffs_ = zip(*parts, strict=True)
        return np.concatenate(owners), np.concatenate(rows_, axis=1), np.concatenate(diffs_, axis=1)
    assert isinstance(node, Join)
    route = plan_upquery(node, columns)
    side, own, other = route.primary, node.left_keys, node.right_keys
    if side:
        own, other = other, own
    owner, rows, diffs = below(side, route.columns, keys[list(route.answers)])
    look = JoinSide(len(node.inputs[1 - side].schema), lambda k, _: below(1 - side, other, k))
    # The number of each row travels with it, beside the columns of the other side.
    number = np.arange(len(owner))[None, :]
    tagged = np.concatenate([number, rows] if side == 0 else [rows, number])
    by = tuple(column + 1 for column in own) if side == 0 else own
    joined, products = half_join(Delta(tagged, diffs[0]), by, look, None, strings, last=side == 1)
    who, out = (joined[0], joined[1:]) if side == 0 else (joined[-1], joined[:-1])
    mine = owner[who]
    if node.outer:
        # A row has a match unless the diffs of its matches add up to 0.
        alone = add_up(who, products, len(owner)) == 0
        nulls = np.full((look.columns, int(alone.sum())), NULL, dtype=np.int64)
        out = np.concatenate([out, np.concatenate([rows.compress(alone, axis=1), nulls])], axis=1)
        mine, products = np.concatenate([mine, owner[alone]]), np.concatenate([products, diffs[0][alone]])
    good = (out[list(columns)] == keys[:, mine]).all(axis=0)
    return mine[good], out.compress(good, axis=1), products[None, good]
