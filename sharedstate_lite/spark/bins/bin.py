"""One bin of one stage: an in-process engine that receives only the rows of its keys.

A bin uses the same operators, kernels and arrangements as full and shared state in process. It differs in two ways: its
messages are blobs, and the runs of its arrangements are also in a state store (:mod:`..rounds.runs`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...dataflow.dataflow import Dataflow
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import Dictionary
from ..rounds.bin import Bin, Recipe
from ..rounds.message import BinMessage
from ..rounds.runs import RunsBin
from ..rounds.strings import worker_strings
from . import files
from .channels import ASK, COMPACT, INIT_GLOBAL, OUT
from .route import Channel, Port, Route


@dataclass
class ViewRecipe(Recipe):
    """The recipe of full and shared state: ``make`` builds the route, with an engine that has no rows."""

    make: Callable[[], Any]

    def build(self, stage: int, number: int) -> Bin:
        """See `Recipe.build`."""
        return ViewBin(self, stage, number)

    def close(self) -> None:
        """Drop the input files that are in memory."""
        files.clear()


@dataclass
class ViewBin(RunsBin):
    """Runs the operators of one stage for the keys of one bin; see the module's docstring."""

    recipe: ViewRecipe
    engine: Dataflow = field(init=False)
    route: Route = field(init=False)

    def __post_init__(self) -> None:
        self.route = self.recipe.make()
        self.engine = self.route.engine
        self.engine.dictionary.strings = worker_strings.strings
        self.parts = self.route.parts(self.stage)
        self.stored = {part: [] for part in self.parts}
        self.order = self.route.at(self.stage)
        for held in self.engine.state_parts():
            # A global aggregate starts with one row, but only the bin that receives INIT_GLOBAL must have this row.
            held.arrangement.runs.clear()

    @property
    def strings(self) -> Dictionary:
        """The dictionary of this process."""
        return self.engine.dictionary.strings

    # --- an epoch ---------------------------------------------------------------

    def step(self, messages: list[BinMessage]) -> list[BinMessage]:
        """See `Bin.step`. Raises the kernels' errors."""
        out: list[BinMessage] = []
        waiting: dict[Port, list[Delta]] = {}
        # A sender that does not know whether an epoch is the first one sends INIT_GLOBAL every time. Only the first
        # INIT_GLOBAL has an effect.
        global_stages = self.time == 0 and any(m.channel == INIT_GLOBAL for m in messages)
        by: dict[int, list[Delta]] = {}
        for message in messages:
            if message.channel > 0:
                delta, counts = files.rows_for_bin(message, self.route, self.recipe.bins, self.strings)
                if len(delta.diffs):
                    by.setdefault(message.channel, []).append(delta)
                out += counts
        self.changed = bool(by) or any(m.channel in (COMPACT, INIT_GLOBAL) for m in messages)
        if by or global_stages:
            before, now = self.time, self.time + 1
            for held in self.parts.values():
                held.arrangement.upper = now
            for number in sorted(by):
                self._receive(self.route.channels[number - 1], by[number], waiting)
            forced = set(self.route.globals()) if global_stages else set()
            for n in self.order:
                self._run(n, before, n in forced, waiting, out)
            self._update_readers(waiting, out)
            self.time = now
            for held in self.parts.values():
                held.arrangement.commit(now + 1)
        for message in messages:
            if message.channel == COMPACT:
                for held in self.parts.values():
                    held.arrangement.compact()
            elif message.channel == ASK:
                out += self._read_view(message)
        return out

    def _receive(self, channel: Channel, parts: list[Delta], waiting: dict[Port, list[Delta]]) -> None:
        delta = concat(parts, len(channel.types))
        relation = self.route.relation(channel)
        if channel.base and relation is not None:
            netted = {relation: delta}
            # This consolidates the rows, and raises RowError if a retracted row is not in the base table.
            self.engine.insert_bases(netted)
            delta = netted[relation]
        for chain, port in channel.takers:
            waiting.setdefault(port, []).append(self.route.apply(chain, delta, self.strings))

    def _run(self, n: int, before: int, forced: bool, waiting: dict[Port, list[Delta]], out: list[BinMessage]) -> None:
        operator = self.route.operators[n]
        given = [concat(waiting.pop((n, at), []), below.width) for at, below in enumerate(operator.inputs)]
        if not forced and not any(len(delta.diffs) for delta in given):
            return
        change = operator.step(given, before)
        if not len(change.diffs):
            return
        for chain, port in self.route.local.get(n, []):
            waiting.setdefault(port, []).append(self.route.apply(chain, change, self.strings))
        for chain, view in self.route.exits.get(n, []):
            self._emit(view, self.route.apply(chain, change, self.strings), out)
        out += self.route.operator_messages(n, change, self.recipe.bins, self.strings)

    def _update_readers(self, waiting: dict[Port, list[Delta]], out: list[BinMessage]) -> None:
        for number, name in enumerate(self.route.views):
            parts = waiting.pop((-1 - number, 0), [])
            reader = self.engine.readers[name]
            if any(len(part.diffs) for part in parts):
                delta = concat(parts, len(reader.columns))
                body = reader.arrangement.insert(delta.rows, delta.diffs, self.strings)
                k = len(reader.columns)
                self._emit(number, Delta(body[1 : 1 + k], body[1 + k]), out)

    def _emit(self, view: int, delta: Delta, out: list[BinMessage]) -> None:
        if len(delta.diffs):
            name = self.route.views[view]
            types = [c.type for c in self.engine.views[name].schema]
            out.append(BinMessage(0, self.number, OUT, name, wire.pack(delta, types, self.strings)))

    def _read_view(self, message: BinMessage) -> list[BinMessage]:
        """Return this bin's rows of the view or key that ``message`` asks for, as a list of messages to the driver."""
        name = message.what
        number = self.route.views.index(name)
        if self.route.reader_stage[number] != self.stage:
            return []
        key = wire.decode(message.blob, self.strings) if message.blob else None
        out: list[BinMessage] = []
        self._emit(number, self.engine.view_rows(self.engine.views[name], key, None), out)
        return out
