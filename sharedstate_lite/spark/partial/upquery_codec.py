"""Questions that are still open, as text: what a bin must not forget between two micro-batches.

While a question travels, the operators that it has passed hold it: the keys, the halves
of an answer, changes that wait for partners. A worker may be gone before the answer
comes, so all of it goes into the state store with the rest of the bin.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...partial.join import JoinNode, JoinUpquery
from ...partial.nodes import LinearNode, PartialEdge, PartialNode, UnionNode, UnionUpquery
from ...partial.reduce import ReduceNode, ReduceUpquery
from ...plan.nodes import Type
from ...storage import wire
from ...storage.batch import Delta
from ...storage.encoding import Strings, Words
from .nodes import RemoteEdge, StatefulJoinNode, schema_of

Find = Callable[[int, int | None], PartialEdge]
"""(number, bin or None) -> the edge that a question came over."""


class UpqueryCodec:
    """Writes and reads the open questions of nodes; ``find`` gives edges back."""

    def __init__(self, strings: Strings, find: Find) -> None:
        self.strings, self.find = strings, find

    def words(self, words: Words, types: Sequence[Type]) -> list[Any]:
        """Words with the texts of their strings."""
        return [words.shape[1], base64.b64encode(wire.encode(list(words), types, self.strings)).decode()]

    def words_of(self, told: list[Any]) -> Words:
        """What :meth:`words` wrote."""
        lines = wire.decode(base64.b64decode(told[1]), self.strings)
        return lines if len(lines) else np.empty((0, told[0]), dtype=np.int64)

    def delta(self, delta: Delta | None, types: Sequence[Type]) -> list[Any] | None:
        """Rows with their diffs, or None."""
        return None if delta is None else self.words(np.concatenate([delta.rows, delta.diffs[None]]), types)

    def delta_of(self, told: list[Any] | None) -> Delta | None:
        """What :meth:`delta` wrote."""
        lines = None if told is None else self.words_of(told)
        return None if lines is None else Delta(lines[:-1], lines[-1])

    @staticmethod
    def edge(edge: PartialEdge) -> list[int | None]:
        """An edge by its number, and the bin at its far end."""
        return [edge.number, edge.bin if isinstance(edge, RemoteEdge) else None]

    def write(self, node: PartialNode) -> Any:
        """What a node holds open; None for nothing."""
        plan, keys = node.plan, schema_of(node.plan, node.ask)
        rows = tuple(c.type for c in plan.schema)
        if isinstance(node, LinearNode):
            return {str(t): self.edge(e) for t, e in node.askers.items()} or None
        if isinstance(node, UnionNode):
            return {
                str(t): [self.edge(q.edge), self.words(q.keys, keys), q.asked, self._answers(q, rows), self._tags(q)]
                for t, q in node.open_upqueries.items()
            } or None
        if isinstance(node, ReduceNode):
            waiting = {
                str(t): [self.edge(w.edge), self.words(w.keys, keys), w.asked] for t, w in node.open_upqueries.items()
            }
            again = [[self.words(k, keys), self.delta(known, rows)] for k, known in node.rereads]
            return [waiting, again] if waiting or again else None
        if isinstance(node, StatefulJoinNode):
            sides = [tuple(c.type for c in below.schema) for below in node.plan.inputs]
            first = node.route.primary
            questions = {
                str(t): [
                    self.edge(q.edge),
                    self.words(q.keys, keys),
                    q.asked,
                    self._tags(q),
                    self.delta(q.primary, sides[first]),
                    self.delta(q.other, sides[1 - first]),
                    None if q.covered is None else self.words(q.covered, node.types),
                ]
                for t, q in node.open_upqueries.items()
            }
            late = len(node.late.diffs) or node.wanted.shape[1]
            if not questions and not late:
                return None
            return [questions, self.delta(node.late, sides[first]), self.words(node.wanted, node.types)]
        assert not isinstance(node, JoinNode)
        return None

    def read(self, node: PartialNode, told: Any) -> None:
        """Take up what :meth:`write` gave; None empties."""
        if isinstance(node, LinearNode):
            node.askers = {int(t): self.find(*e) for t, e in (told or {}).items()}
        elif isinstance(node, UnionNode):
            node.open_upqueries = {
                int(t): UnionUpquery(
                    self.find(*e), self.words_of(k), asked, [self.delta_of(a) for a in answers], _numbers(tags)
                )
                for t, (e, k, asked, answers, tags) in (told or {}).items()
            }
        elif isinstance(node, ReduceNode):
            waiting, again = told or ({}, [])
            node.open_upqueries = {
                int(t): ReduceUpquery(self.find(*e), self.words_of(k), asked) for t, (e, k, asked) in waiting.items()
            }
            node.rereads = [(self.words_of(k), self._some(known)) for k, known in again]
        elif isinstance(node, StatefulJoinNode):
            questions, late, wanted = told or ({}, None, None)
            node.open_upqueries = {
                int(t): JoinUpquery(
                    self.find(*e),
                    self.words_of(k),
                    asked,
                    _numbers(tags),
                    self.delta_of(primary),
                    self.delta_of(other),
                    None if covered is None else self.words_of(covered),
                )
                for t, (e, k, asked, tags, primary, other, covered) in questions.items()
            }
            node.late = Delta.empty(len(node.late.rows)) if late is None else self._some(late)
            node.wanted = node.wanted[:, :0] if wanted is None else self.words_of(wanted)

    def _some(self, told: list[Any]) -> Delta:
        found = self.delta_of(told)
        assert found is not None
        return found

    def _answers(self, question: UnionUpquery, types: Sequence[Type]) -> list[Any]:
        return [self.delta(a, types) for a in question.answers]

    @staticmethod
    def _tags(question: UnionUpquery | JoinUpquery) -> dict[str, int]:
        return {str(t): n for t, n in question.tags.items()}


def _numbers(tags: dict[str, int]) -> dict[int, int]:
    return {int(t): n for t, n in tags.items()}


__all__ = ["UpqueryCodec"]
