"""Partial state over bins without Spark: the driver's half and the bins are the real ones, base tables are lists.

The messages of a bin arrive in a random order, as on Spark, and two worker "processes" take turns (see `rehearsal`).
``between`` is called between any two micro-batches, where on Spark another thread could act.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sharedstate_lite.changelog import validate
from sharedstate_lite.engine import state_tables
from sharedstate_lite.spark.bins import engine_spec
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.partial.base import BaseTables
from sharedstate_lite.spark.partial.bin import PartialRecipe
from sharedstate_lite.spark.partial.driver import PartialDriver
from sharedstate_lite.spark.partial.messages import BaseUpquery, response_heads, response_rows
from sharedstate_lite.spark.partial.placement import Placement, place
from sharedstate_lite.spark.partial.scheduler import EpochRequest
from sharedstate_lite.spark.rounds import home
from sharedstate_lite.spark.rounds.inbox import RoundKind
from sharedstate_lite.spark.rounds.local import LocalRounds
from sharedstate_lite.spark.rounds.message import BinMessage
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Delta, Layout, concat
from sharedstate_lite.storage.encoding import Dictionary


class ListBase(BaseTables):
    """Base tables as blobs with the numbers of their epochs; counts how often upqueries read them."""

    def __init__(self, driver: PartialRehearsal) -> None:
        self.driver = driver
        self.blobs: dict[str, list[tuple[int, bytes]]] = {}
        self.reads = 0

    def _types(self, relation: str) -> tuple[Any, ...]:
        return tuple(c.type for c in self.driver.catalog.schema(relation))

    def rows(self, relation: str, upto: int, strings: Dictionary) -> Delta:
        """All rows of a relation as of an epoch."""
        parts = [wire.unpack(b, strings) for e, b in self.blobs.get(relation, []) if e <= upto]
        return concat(parts, len(self._types(relation)))

    def append(self, deltas: Mapping[str, Delta], epoch: int, strings: Dictionary) -> None:
        for relation, delta in deltas.items():
            blob = wire.pack(delta, self._types(relation), strings)
            self.blobs.setdefault(relation, []).append((epoch, blob))

    def take_back(self, epoch: int) -> None:
        self.blobs = {r: [(e, b) for e, b in found if e <= epoch] for r, found in self.blobs.items()}

    def count(self, relation: str, rows: Delta, epoch: int, strings: Dictionary) -> Delta:
        return self.rows(relation, epoch, strings)

    def answer(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage], placement: Placement
    ) -> list[BinMessage] | Path:
        self.reads += 1
        driver, strings = self.driver, self.driver.key_strings
        out = [*messages, *response_heads(upqueries, placement, strings)]
        for relation in {placement.edges[u.edge].source.name for u in upqueries}:
            mine = [u for u in upqueries if placement.edges[u.edge].source.name == relation]
            out += response_rows(mine, self.rows(relation, epoch, strings), placement, driver.bins, strings)
        return out

    def compact(self) -> None:
        """One blob a relation, netted."""
        for relation, found in self.blobs.items():
            strings = Dictionary()
            rows = self.driver._net(relation, self.rows(relation, self.driver.epoch, strings), strings)
            blob = wire.pack(rows, self._types(relation), strings)
            self.blobs[relation] = [(found[-1][0], blob)] if len(rows.diffs) else []

    def size(self, relation: str) -> tuple[int, int]:
        rows = self.driver._net(relation, self.rows(relation, self.driver.epoch, strings := Dictionary()), strings)
        return len(rows.diffs), sum(len(b) for _, b in self.blobs.get(relation, []))

    def state_rows(self, part: state_tables.StatePart) -> pd.DataFrame:
        strings = Dictionary()
        shown = Arrangement(part.arrangement.name, Layout(self._types(part.relation), part.arrangement.layout.key))
        rows = self.rows(part.relation, self.driver.epoch, strings)
        shown.insert(rows.rows, rows.diffs, strings)
        of = state_tables.StatePart(part.operator, part.relation, part.kind, shown, part.schema, part.bill)
        return state_tables.state_rows(part.operator, [of], strings)


class PartialRehearsal(PartialDriver):
    """See the module."""

    made = 0
    _query: LocalRounds

    def __init__(self, views: Any, bins: int = 3, lose: int = 0, seed: int = 0, **options: Any) -> None:
        super().__init__(EngineSpec("partial", views, "auto", options, place), bins)
        self.tables = ListBase(self)
        self.lose, self.seed, self.micro_batches = lose, seed, 0
        self.between: Callable[[], None] | None = None
        self._open_stores(self._spec, self._route)

    @property
    def base_tables(self) -> ListBase:
        return self.tables

    def _open_stores(self, spec: EngineSpec, route: Any) -> None:
        PartialRehearsal.made += 1
        name = f"partial rehearsal {PartialRehearsal.made}"
        recipe = PartialRecipe(name, self.bins, spec.route, budget=self._empty_engine.budget.set)
        self._query = LocalRounds(recipe, route.stages, self.lose, self.seed)

    def _rebuild(self, spec: EngineSpec, route: Any) -> list[BinMessage]:
        self._open_stores(spec, route)
        return []

    def checkpoint(self, path: Path) -> None:
        """Write the specification, the stores and the base tables, without the processes' memory, to a new folder."""
        self._check_open()
        path.mkdir()
        options = {"join": self.join, "bins": self.bins, "lose": self.lose, "strategy": self._spec.options}
        engine_spec.write(path, self._empty_engine, self.kind, options)
        (path / "stores").write_bytes(pickle.dumps((self.epoch, self._query.stores, self.tables.blobs)))

    @classmethod
    def restore(cls, path: Path) -> PartialRehearsal:
        """The engine that was written to ``path``, in new processes."""
        told = home.read(path, "views")
        spec, options = engine_spec.parse(told, path, place), told["options"]
        out = cls(spec.views, options["bins"], options["lose"], **spec.options)
        out.epoch, out._query.stores, out.tables.blobs = pickle.loads((path / "stores").read_bytes())
        out._recall_counters()
        return out

    def clear_count(self) -> None:
        """Set the counts of micro-batches and of reads of base tables to 0."""
        self.micro_batches = self.tables.reads = 0

    def forget_processes(self) -> None:
        """Continue in new processes."""
        for each in self._query.workers:
            each.clear()

    def later(self, inputs: Any) -> EpochRequest:
        """Queue an epoch, as another thread would; it starts between two micro-batches."""
        strings = Dictionary()
        given = validate.epoch(inputs, self.catalog, strings)
        job = EpochRequest(deltas={r: self._net(r, d, strings) for r, d in given.items()}, strings=strings)
        self._queue.append(job)
        return job

    def _run(self, messages: Any, kind: RoundKind, epoch: int) -> list[BinMessage]:
        self.micro_batches += 1
        out = super()._run(messages, kind, epoch)
        assert all(m.stage <= self._route.stages for m in out)
        if self.between is not None:
            self.between()
        return out


__all__ = ["ListBase", "PartialRehearsal"]
