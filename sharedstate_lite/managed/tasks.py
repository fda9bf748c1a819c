"""Task state: one value for each worker, whatever the keys of its rows.

The offsets of a source are an example: they belong to the worker that reads the partition, not to a key. The kit cannot
know which part of such a value belongs to which key, so the declaration says what to do when workers are added or
removed:

    "split"      the entries of all workers' maps or lists are divided among the new workers
    "union"      each new worker receives the entries of all of them, and keeps what it needs
    "broadcast"  each worker has the same value, and a new one receives a copy

Task state exists in one process only. On Spark, every state has a key.

Source: Flink's operator state (even-split and union redistribution, broadcast state).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..errors import StateError, shorten
from .types import Collection, checked, copied, parse_type


class TaskState:
    """One value for each worker. It is a MAP or a LIST for "split" and "union", and of any type for "broadcast".

    >>> from sharedstate_lite import managed as m
    >>> class Offsets(m.Operator):
    ...     offset = m.Task("MAP<STRING, BIGINT>", spread="split")
    ...     def row(self, key, row, out):
    ...         self.offset.set({**(self.offset.get() or {}), row["part"]: row["n"]})
    >>> run = m.run(Offsets(), m.source("log", "part STRING, n BIGINT", key="part"))
    >>> _ = run.step([("p1", 1), ("p2", 1), ("p1", 2)])
    >>> run.read("offset")
       worker              offset
    0       0  {'p1': 2, 'p2': 1}
    """

    name = ""

    def __init__(self, kind: str, spread: str) -> None:
        self.kind, self.spread = parse_type(kind), spread
        if spread not in ("split", "union", "broadcast"):
            raise StateError(f"spread={shorten(spread)} is unknown; it is 'split', 'union' or 'broadcast'")
        if spread != "broadcast" and (not isinstance(self.kind, Collection) or self.kind.length):
            raise StateError(f"spread='{spread}' divides entries, so it needs a MAP or a LIST, not {self.kind}")
        self.operator = ""
        self.stored: Any = None
        self.pending: Any = None
        self.active = False

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            raise StateError(f"{owner.__name__}.{name} and {self.name} are one object; declare each state by itself")
        self.name = name

    def describe(self) -> dict[str, Any]:
        """Return what a checkpoint compares."""
        return {"state": "Task", "type": str(self.kind), "spread": self.spread}

    def bind(self, operator: str) -> TaskState:
        """Return the copy that an operator uses on a worker."""
        bound = copy.copy(self)
        bound.operator = operator
        return bound

    def get(self) -> Any:
        """Return this worker's value, or None."""
        self._check()
        return copied(self.kind, self.pending)

    def set(self, value: Any) -> None:
        """Replace this worker's value."""
        self._check()
        try:
            self.pending = checked(self.kind, value)
        except (TypeError, ValueError) as error:
            raise StateError(f"{self.operator}.{self.name}: {error}") from error

    def _check(self) -> None:
        if not self.active:
            raise StateError(
                f"state {self.name} was used outside its operator; use it in a callback of a running operator"
            )


def spread(state: TaskState, values: Sequence[Any], workers: int) -> list[Any]:
    """Return the value of each of the new workers, from those of the old ones. Raises StateError if they contradict.

    >>> spread(TaskState("MAP<STRING, BIGINT>", "split"), [{"a": 1, "b": 2}, {"c": 3}], 2)
    [{'a': 1, 'b': 2}, {'c': 3}]
    >>> spread(TaskState("LIST<INT>", "union"), [[1], [2]], 3)
    [[1, 2], [1, 2], [1, 2]]
    """
    if state.spread == "broadcast":
        if any(value != values[0] for value in values):
            raise StateError(
                f"{state.operator}.{state.name}: the workers' values differ, but copies of a broadcast are equal; "
                "set the same value on every worker"
            )
        return [copied(state.kind, values[0]) for _ in range(workers)]
    if all(value is None for value in values):
        return [None] * workers
    assert isinstance(state.kind, Collection)
    is_map = state.kind.key is not None
    entries = [entry for value in values for entry in ((value or {}).items() if is_map else value or [])]
    if is_map:
        if len({key for key, _ in entries}) < len(entries):
            raise StateError(
                f"{state.operator}.{state.name}: two workers have an entry for one map key, so the maps cannot be put "
                "together; use each map key on one worker only"
            )
        entries.sort()
    edges = [-(-len(entries) * at // workers) for at in range(workers + 1)]
    parts = [entries[a:b] if state.spread == "split" else entries for a, b in zip(edges, edges[1:], strict=False)]
    return [copied(state.kind, dict(part) if is_map else list(part)) for part in parts]
