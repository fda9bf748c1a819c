"""The driver's half of partial state in bins: it turns calls into lookups, epochs and commands for the bins.

The driver does not store rows. Rows, filled keys and open upqueries are in the bins, and base tables are outside the
bins (`base`). The driver receives only the keys of upqueries that reach a base table, and reports of how much each bin
stores. It uses these reports to keep all bins together within the budget.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...changelog import validate
from ...changelog.changes import Changes, sorted_frame
from ...engine import view_rules
from ...engine.engine import EpochInput
from ...errors import Error, RowError, TimeError, ViewError, is_integer, shorten
from ...partial import chains
from ...partial.describe import unread
from ...partial.nodes import BaseNode
from ...plan.view import View
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Delta, Layout, concat
from ...storage.encoding import Dictionary, Words
from ...system.notes import note_once
from ..bins import tables
from ..bins.engine_spec import EngineSpec
from ..driver.driver import EngineDriver
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from .base import BaseTables
from .keys import decode_keys, sorted_keys
from .messages import (
    COMMAND,
    COMPACT,
    GRAPH,
    LOOKUP,
    BaseUpquery,
    DecodedMessage,
    decode_message,
    encode_message,
    split_keys,
)
from .nodes import types_of
from .placement import Placement
from .scheduler import EpochRequest, ExclusiveRequest, LookupRequest, R, RoundScheduler


class PartialDriver(EngineDriver, RoundScheduler):
    """An `EngineDriver` for partial state; see the module's docstring. A context manager, which closes the engine."""

    _route: Placement  # type: ignore[assignment]
    _make_lock = staticmethod(nullcontext)  # not needed, because the scheduler orders the calls

    def __init__(self, spec: EngineSpec, bins: int) -> None:
        RoundScheduler.__init__(self)
        EngineDriver.__init__(self, spec, bins)

    def _use(self, spec: EngineSpec, route: Any) -> None:
        super()._use(spec, route)
        self._stored: dict[tuple[int, int], dict[str, Any]] = {}
        """(stage, bin) -> the bin's last report of how much it stores."""

    @property
    @abstractmethod
    def base_tables(self) -> BaseTables:
        """The base tables of the engine."""

    # --- the engine interface ---------------------------------------------------

    def _submit(self, request: R) -> R:
        done = super()._submit(request)
        self._query.raise_interrupt()
        return done

    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch; see `sharedstate_lite.engine.engine.Engine.step`."""
        self._check_open()
        strings = Dictionary()
        try:
            deltas = {r: self._net(r, d, strings) for r, d in validate.epoch(inputs, self.catalog, strings).items()}
            epoch = self._submit(EpochRequest(deltas=deltas, strings=strings))
        except Error as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            raise
        self.trace.epoch = epoch.number
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._view_changes(view, epoch.out, epoch.number) for name, view in self.views.items()}

    def read(self, view: str | View, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """Return the rows of one key of a view, after filling the key if it is a hole.

        Without a key, return the rows of all filled keys. If there are none, a note says so, once for each view.
        """
        self._check_open()
        shown = self._empty_engine._view(view)
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {shown.name}: with partial state, only the last epoch, {self.epoch}, can be read, "
                f"not {shorten(at)}; to read earlier epochs, use the shared engine in one process"
            )
        strings = Dictionary()
        found = self._look_up(shown, None if key is None else view_rules.key_words(shown, key, strings), strings)
        if key is None and not (len(found) or shown.name in self._told or self.filled(shown.name)):
            note_once(self._told, shown.name, unread(shown.name))
        return found

    def lookup(self, view: str | View, keys: Sequence[Any]) -> pd.DataFrame:
        """Return the rows of several keys of a view as one frame. All holes are filled in the same rounds."""
        self._check_open()
        shown, strings = self._empty_engine._view(view), Dictionary()
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise ViewError(
                f"lookup({shown.name!r}): keys={keys!r} is not a list; pass a list, or use read(view, key=...)"
            )
        words = [view_rules.key_words(shown, key, strings) for key in keys]
        if not words:
            return sorted_frame(shown, Delta.empty(len(shown.schema)), strings)
        return self._look_up(shown, np.concatenate(words, axis=1), strings)

    def _look_up(self, view: View, words: Words | None, strings: Dictionary) -> pd.DataFrame:
        types, stage = types_of(view.plan, view.key), self._route.stage_of[self._route.engine.reader(view)]
        if words is not None:
            words = np.unique(words, axis=1) if len(words) else words[:, :1]

        def messages(number: int, clock: int) -> list[BinMessage]:
            head = {"id": number, "view": view.name, "c": clock, "d": self._draws, "now": self.epoch}
            if words is None:
                return [encode_message((stage, bin_, LOOKUP), head, strings) for bin_ in range(self.bins)]
            by_bin = split_keys(words, types, self.bins, strings)
            return [encode_message((stage, bin_, LOOKUP), head, strings, some, types) for bin_, some in by_bin]

        try:
            answer = self._submit(LookupRequest(messages=messages))
        except RowError as error:
            assert words is not None  # filled keys are read without computing anything
            raise view_rules.read_error(view, words, strings, error) from error
        return sorted_frame(view, _rows_of(view, answer.out, strings), strings)

    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Evict one key of a view, or all keys, or ``n`` keys that are drawn with the engine's ``seed``.

        Returns the evicted keys by operator, including operators downstream. Raises ViewError.
        """
        self._check_open()
        shown = self._empty_engine._view(view)
        if key is not None and n is not None:
            raise ViewError(f"evict({shown.name!r}): pass a key or n, not both")
        if n is not None and (not is_integer(n) or n < 0):
            raise ViewError(f"evict({shown.name!r}, n={shorten(n)}): n must be a number of keys, 0 or more")
        strings = Dictionary()
        words = None if key is None else view_rules.key_words(shown, key, strings)
        request = ExclusiveRequest(run=lambda: self._evict(shown, words, n, strings))
        evicted: dict[str, list[Any]] = self._submit(request).result
        return evicted

    def _evict(self, view: View, words: Words | None, n: int | None, strings: Dictionary) -> dict[str, list[Any]]:
        graph = self._route.engine
        first = chains.top_of_chain(graph.reader(view))
        stage, types = self._route.stage_of[first], types_of(view.plan, view.key)
        if n is not None:
            filled = self._filled_words(view.name, strings)
            self._draws += bool(n and filled.shape[1])
            draw = np.random.default_rng([graph.seed, self._draws])
            words = filled.take(np.sort(draw.choice(filled.shape[1], min(n, filled.shape[1]), replace=False)), axis=1)
        self.clock += 1
        head = {"o": "evict", "node": first.name, "c": self.clock, "d": self._draws}
        if words is None:
            commands = [encode_message((stage, bin_, COMMAND), head, strings) for bin_ in range(self.bins)]
        else:
            by_bin = split_keys(words, types, self.bins, strings)
            commands = [encode_message((stage, bin_, COMMAND), head, strings, some, types) for bin_, some in by_bin]
        self._evicted = []
        if commands:
            self._run_rounds(commands, RoundKind.COMMAND)
        return self._take_evicted()

    def _take_evicted(self) -> dict[str, list[Any]]:
        strings, words = Dictionary(), dict[str, list[Words]]()
        for message in self._evicted:
            decoded = decode_message(message, strings)
            assert decoded.keys is not None
            words.setdefault(decoded.head["o"], []).append(decoded.keys)
        self._evicted = []
        return {
            name: sorted_keys(np.concatenate(keys, axis=1), self._route.find_filled(name)[1].types, strings)
            for name, keys in words.items()
        }

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Return the filled keys of a view, an aggregate or one side of a join, sorted. Raises ViewError."""
        self._check_open()
        strings = Dictionary()
        _, known = self._route.find_filled(operator)
        return sorted_keys(self._filled_words(operator, strings), known.types, strings)

    def _filled_words(self, operator: str, strings: Dictionary) -> Words:
        stage, known = self._route.find_filled(operator)
        return decode_keys(self._query.blobs(stage, [part := f"{operator} keys"])[part], known.types, strings)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """Return the state after the last micro-batch, including base tables; see `EngineDriver.state`."""
        self._check_open()
        bases = {part.operator: part for part in self._route.engine.state_parts() if part.base}
        if operator in bases:
            return self.base_tables.state_rows(bases[operator])
        if operator is not None:
            stage, part = tables.find(self._route, operator)
            return tables.state_rows(part, self._query.blobs(stage, [operator])[operator])
        table = tables.state_table(self._route, self._query.heads(), self._query.blobs)
        for row, name in enumerate(table.operator):
            if name in bases:
                table.loc[row, ["rows", "bytes"]] = self.base_tables.size(bases[name].relation)
        return table

    def compact(self) -> None:
        """Merge the runs in all bins, and the files of each base table."""
        self._check_open()
        self._submit(ExclusiveRequest(run=self._compact))

    def _compact(self) -> None:
        self._run_rounds(self._to_all_bins(COMPACT, {}), RoundKind.COMPACTION)
        self.base_tables.compact()

    def _to_all_bins(self, channel: int, head: dict[str, Any]) -> list[BinMessage]:
        places = [(stage, bin_) for stage in range(1, self._route.stages + 1) for bin_ in range(self.bins)]
        return [encode_message((*place, channel), head, Dictionary()) for place in places]

    # --- installing and dropping views ----------------------------------------------

    def install(self, view: str | View) -> Changes:
        """Add a view and the views that it reads. Its keys are holes, so the returned Changes are empty.

        Keys of the existing views are filled again if they were filled before. Raises ViewError.
        """
        self._check_open()
        more = view_rules.views_to_install(view, self.views, self.catalog)
        self._change_views([*self.views.values(), *more])
        return self._view_changes(more[-1], [], self.epoch)

    def _change_views(self, views: list[View]) -> list[BinMessage]:
        spec = replace(self._spec, views=views)
        route = spec.checked_route()

        def change() -> dict[str, tuple[Words, Dictionary]]:
            strings = Dictionary()
            filled = {v.name: (self._filled_words(v.name, strings), strings) for v in views if v.name in self.views}
            self._rebuild(spec, route)
            self._use(spec, route)
            # These messages refer to edges by number, and the numbers have changed.
            self._touches = []
            return filled

        filled = self._submit(ExclusiveRequest(run=change)).result
        for name, (words, strings) in filled.items():
            if words.shape[1]:
                self._look_up(self.views[name], words, strings)
        return []

    # --- for the scheduler ------------------------------------------------------------

    def _begin_epoch(self, request: EpochRequest, epoch: int) -> list[BinMessage]:
        for relation, delta in request.deltas.items():
            self._check_retractions(relation, delta, epoch - 1, request.strings)
        self.base_tables.append(request.deltas, epoch, request.strings)
        out = []
        for edge in self._route.edges.values():
            relation = edge.source.name_of_relation if isinstance(edge.source, BaseNode) else ""
            if relation in request.deltas:
                types, columns = tuple(c.type for c in edge.source.plan.schema), self._route.route(edge)
                head = {"e": edge.number, "k": "change", "n": [epoch, 0], "c": self.clock, "now": epoch}
                stage, strings = self._route.stage_of[edge.target], request.strings
                for bin_, part in wire.split(request.deltas[relation], columns, types, self.bins, strings):
                    out.append(encode_message((stage, bin_, GRAPH), head, strings, delta=part, types=types))
        return out

    def _check_retractions(self, relation: str, delta: Delta, epoch: int, strings: Dictionary) -> None:
        """Raise the same RowError as an in-process engine if a retracted row is not in the base table."""
        schema = self.catalog.schema(relation)
        retracted = delta.take(delta.diffs < 0)
        if len(retracted.diffs):
            layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
            found = self.base_tables.count(relation, retracted, epoch, strings)
            table = Arrangement(relation, layout)
            table.insert(found.rows, found.diffs, strings)
            validate.check(table, schema, relation, layout.body(retracted.rows, retracted.diffs, strings), strings)

    def _take_back(self, epoch: int, started: bool) -> None:
        self.base_tables.take_back(epoch)

    def _answer_upqueries(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage]
    ) -> list[BinMessage] | Path:
        if "rule18" in self._route.engine.without:
            # Deliberately wrong: answer as of the epoch in which the first upquery was sent, and omit later changes.
            epoch = min(upquery.asked for upquery in upqueries)
        return self.base_tables.answer(upqueries, epoch, messages, self._route)

    def _commands(self, command: str, **more: Any) -> list[BinMessage]:
        return self._to_all_bins(COMMAND, {"o": command, "c": self.clock, **more})

    def _on_report(self, report: DecodedMessage, place: tuple[int, int]) -> None:
        for name, source, target, rows, note in report.head["trace"]:
            self.trace.record(name, source, target, rows, note)
        if "rows" in report.head:
            self._stored[place] = dict(report.head)

    def _keep_budget(self) -> None:
        """Evict the least recently used keys until all bins together are within the budget.

        In process, `Budget.keep` evicts keys directly. The driver has only histograms of the keys' ages, so it sends an
        age limit to the bins, and they evict older keys.
        """
        if not self._route.engine.budget.set:
            return
        if len(self._stored) < self._route.stages * self.bins:
            self._run_rounds(self._commands("shed", limit=-1), RoundKind.COMMAND)
        merged = False
        while (share := self._share_over_budget()) > 0:
            ages = sorted((age, n) for report in self._stored.values() for age, n in report["ages"])
            if merged and not ages:
                return
            limit, left = -1, max(1, int(sum(n for _, n in ages) * share * 0.5))
            for age, count in ages if merged else ():
                limit, left = age, left - count
                if left <= 0:
                    break
            # Rows that cancel each other are counted until they are merged, so the first command only merges.
            self._run_rounds(self._commands("shed", limit=limit), RoundKind.COMMAND)
            merged = True

    def _share_over_budget(self) -> float:
        rows, size = (sum(report[name] for report in self._stored.values()) for name in ("rows", "bytes"))
        return self._route.engine.budget.share_over(rows, size)

    def _recall_counters(self) -> None:
        """Set the clock and the number of draws to the largest values that the bins have stored."""
        heads = self._query.heads().values()
        self.clock = max((head["clock"] for head in heads), default=0)
        self._draws = max((head["draws"] for head in heads), default=0)

    # --- helpers ------------------------------------------------------------------------

    def _net(self, relation: str, delta: Delta, strings: Dictionary) -> Delta:
        types = tuple(c.type for c in self.catalog.schema(relation))
        layout = Layout(types, tuple(range(len(types))))
        return layout.delta(layout.body(delta.rows, delta.diffs, strings))

    def _view_changes(self, view: View, out: Sequence[BinMessage], epoch: int) -> Changes:
        strings = Dictionary()
        unique = view.key if view.unique else None
        return Changes.consolidated(view.schema, _rows_of(view, out, strings), epoch, strings, unique)


def _rows_of(view: View, out: Sequence[BinMessage], strings: Dictionary) -> Delta:
    decoded = (decode_message(message, strings) for message in out)
    parts = [x.delta for x in decoded if x.head["view"] == view.name and x.delta is not None]
    return concat(parts, len(view.schema))
