"""The driver's half of partial state over bins: the protocol, in lookups, epochs and orders.

The driver holds no rows: which keys are filled, what was asked, and the rows are in the
bins; base tables are beside them (:mod:`.base`). It sees the keys of questions that are under way,
and knows how much each bin holds, so that a budget is kept over all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...changelog import validate
from ...changelog.changes import Changes, sorted_frame
from ...engine.engine import EpochInput
from ...errors import Error, TimeError, ViewError, is_integer, shorten
from ...partial import build
from ...partial.nodes import BaseNode
from ...plan.view import View
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Delta, Layout, concat
from ...storage.encoding import Strings, Words
from ..bins import tables
from ..bins.blueprint import Blueprint
from ..bins.messages import BinMessage
from ..driver.driver import EngineDriver
from .base import BaseTables
from .keys import joined, order, tuples
from .messages import ASK, COMMAND, COMPACT, GRAPH, BaseUpquery, DecodedMessage, decode_message, encode_message, split
from .nodes import schema_of
from .placement import Placement
from .scheduler import EpochRequest, ExclusiveRequest, LookupRequest, RoundScheduler


class PartialDriver(RoundScheduler, EngineDriver):
    """See the module. A context manager."""

    _route: Placement  # type: ignore[assignment]
    _turns = staticmethod(nullcontext)  # the desk says whose turn it is

    def __init__(self, plan: Blueprint, bins: int) -> None:
        RoundScheduler.__init__(self)
        EngineDriver.__init__(self, plan, bins)

    def _use(self, plan: Blueprint, route: Any) -> None:
        super()._use(plan, route)
        self._held: dict[tuple[int, int], dict[str, Any]] = {}

    @property
    @abstractmethod
    def _base(self) -> BaseTables:
        """The base tables."""

    # --- the protocol -----------------------------------------------------------

    def _do(self, job: Any) -> Any:
        done = super()._do(job)
        self._interrupted()
        return done

    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch; see :meth:`~sharedstate_lite.engine.engine.Engine.step`."""
        self._check_open()
        strings = Strings()
        try:
            deltas = {r: self._netted(r, d, strings) for r, d in validate.epoch(inputs, self.catalog, strings).items()}
            job = self._do(EpochRequest(deltas=deltas, strings=strings))
        except Error as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            raise
        self.trace.epoch = job.number
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._changed_rows(view, job.out, job.number) for name, view in self.views.items()}

    def read(self, view: str, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """The rows of a key of a view, filled if it is a hole; without a key, those of all filled keys."""
        self._check_open()
        shown = self._blueprint._view(view)
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {view}: partial state is the last epoch's, {self.epoch}; a read at {shorten(at)} needs the shared "
                "engine in one process"
            )
        strings = Strings()
        return self._look_up(shown, None if key is None else validate.key_words(shown, key, strings), strings)

    def lookup(self, view: str, keys: Sequence[Any]) -> pd.DataFrame:
        """The rows of several keys of a view, as one frame: they share the rounds that answer them."""
        self._check_open()
        shown, strings = self._blueprint._view(view), Strings()
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise ViewError(f"lookup({view!r}): {keys!r} are no keys; give a list of them, or use read(view, key=...)")
        words = [validate.key_words(shown, key, strings) for key in keys]
        if not words:
            return sorted_frame(shown, Delta.empty(len(shown.schema)), strings)
        return self._look_up(shown, np.concatenate(words, axis=1), strings)

    def _look_up(self, view: View, words: Words | None, strings: Strings) -> pd.DataFrame:
        types, stage = schema_of(view.plan, view.key), self._stage(view)
        if words is not None:
            words = np.unique(words, axis=1) if len(words) else words[:, :1]

        def rows(number: int, clock: int) -> list[BinMessage]:
            head = {"id": number, "view": view.name, "c": clock, "d": self._draws, "now": self.epoch}
            if words is None:
                return [encode_message((stage, where, ASK), head, strings) for where in range(self.bins)]
            return [
                encode_message((stage, where, ASK), head, strings, some, types)
                for where, some in split(words, types, self.bins, strings)
            ]

        job = self._do(LookupRequest(messages=rows))
        return sorted_frame(view, _delta(view, job.out, strings), strings)

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Make holes of one key, all, or ``n`` drawn by seed; returns {operator: [keys]}, downstream included."""
        self._check_open()
        shown = self._blueprint._view(view)
        if key is not None and n is not None:
            raise ViewError(f"evict({view!r}): give a key or n, not both")
        if n is not None and (not is_integer(n) or n < 0):
            raise ViewError(f"evict({view!r}, n={shorten(n)}): n is a number of keys, 0 or more")
        strings = Strings()
        words = None if key is None else validate.key_words(shown, key, strings)
        found: dict[str, list[Any]] = self._do(
            ExclusiveRequest(run=lambda: self._evict(shown, words, n, strings))
        ).result
        return found

    def _evict(self, view: View, words: Words | None, n: int | None, strings: Strings) -> dict[str, list[Any]]:
        graph = self._route.engine
        start = build.top_of_chain(graph.reader(view))
        stage, types = self._route.stage_of[start], schema_of(view.plan, view.key)
        if n is not None:
            there = self._filled_words(view.name, strings)
            self._draws += bool(n and there.shape[1])
            draw = np.random.default_rng([graph.seed, self._draws])
            words = there.take(np.sort(draw.choice(there.shape[1], min(n, there.shape[1]), replace=False)), axis=1)
        self.clock += 1
        head = {"o": "evict", "node": start.name, "c": self.clock, "d": self._draws}
        if words is None:
            orders = [encode_message((stage, where, COMMAND), head, strings) for where in range(self.bins)]
        else:
            cut = split(words, types, self.bins, strings)
            orders = [encode_message((stage, where, COMMAND), head, strings, some, types) for where, some in cut]
        self._gone = []
        if orders:
            self._turn_all(orders, "order")
        return self._names_of_gone()

    def _names_of_gone(self) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {}
        strings = Strings()
        for message in self._gone:
            letter = decode_message(message, strings)
            name = letter.head["o"]
            assert letter.keys is not None
            out.setdefault(name, []).extend(tuples(letter.keys, self._route.filled(name)[2].types, strings))
        self._gone = []
        return {name: sorted(keys, key=order) for name, keys in out.items()}

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """The filled keys, sorted, of an operator that keeps them: a reader, an aggregate, a join's side."""
        self._check_open()
        strings = Strings()
        _, _, known = self._route.filled(operator)
        return sorted(tuples(self._filled_words(operator, strings), known.types, strings), key=order)

    def _filled_words(self, operator: str, strings: Strings) -> Words:
        stage, _, known = self._route.filled(operator)
        return joined(self._blobs(stage, f"{operator} keys"), known.types, strings)

    def compact(self) -> None:
        """Merge all runs of all bins, and the files of base tables."""
        self._check_open()
        self._do(ExclusiveRequest(run=self._compact))

    def _compact(self) -> None:
        every = [
            encode_message((stage, where, COMPACT), {}, Strings())
            for stage in range(1, self._route.stages + 1)
            for where in range(self.bins)
        ]
        self._turn_all(every, "compaction")
        self._base.compact()

    # --- views that come and go -----------------------------------------------------

    def install(self, view: View) -> Changes:
        """Add a view: at once, and empty. The keys of the other views that are filled are looked up again."""
        self._check_open()
        more = validate.installed(view, self.views, self.catalog)
        self._change_views([*self.views.values(), *more])
        return self._changed_rows(view, [], self.epoch)

    def _change_views(self, views: list[View]) -> list[BinMessage]:
        plan = Blueprint(self.kind, views, self.join, self._plan.options, self._plan.place)
        route = plan.checked()

        def change() -> dict[str, tuple[Words, Strings]]:
            strings = Strings()
            kept = {v.name: (self._filled_words(v.name, strings), strings) for v in views if v.name in self.views}
            self._rebuild(plan, route)
            self._use(plan, route)
            # Letters name edges, and those are others now.
            self._lazy = []
            return kept

        kept = self._do(ExclusiveRequest(run=change)).result
        for name, (words, strings) in kept.items():
            if words.shape[1]:
                self._look_up(self.views[name], words, strings)
        return []

    # --- what the desk asks -----------------------------------------------------------

    def _epoch_begins(self, job: EpochRequest, epoch: int) -> list[BinMessage]:
        for relation, delta in job.deltas.items():
            self._checked(relation, delta, epoch - 1, job.strings)
        self._base.append(job.deltas, epoch, job.strings)
        return self._letters_of(job.deltas, job.strings, epoch)

    def _checked(self, relation: str, delta: Delta, upto: int, strings: Strings) -> None:
        """Raise RowError, as in process, for a retraction of what the base table does not hold."""
        schema = self.catalog.schema(relation)
        gone = delta.take(delta.diffs < 0)
        if len(gone.diffs):
            layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
            there = self._base.there(relation, gone, upto, strings)
            table = Arrangement(relation, layout)
            table.insert(there.rows, there.diffs, strings)
            validate.check(table, schema, relation, layout.body(gone.rows, gone.diffs, strings), strings)

    def _take_back(self, epoch: int, late: bool) -> None:
        self._base.take_back(epoch)

    def _answers(self, asked: list[BaseUpquery], upto: int, rest: list[BinMessage]) -> list[BinMessage] | Path:
        return self._base.answers(asked, self._as_of(asked, upto), rest, self._route)

    def _as_of(self, asked: list[BaseUpquery], upto: int) -> int:
        """Rule 18: a base table answers for all that it has sent; without the rule, as of when it was asked."""
        return min(a.asked for a in asked) if "rule18" in self._blueprint.without else upto  # type: ignore[attr-defined]

    def _letters_of(self, deltas: dict[str, Delta], strings: Strings, epoch: int) -> list[BinMessage]:
        """An epoch as letters to those who read base tables."""
        out = []
        for edge in self._route.edges.values():
            relation = edge.source.name_of_relation if isinstance(edge.source, BaseNode) else ""
            if relation in deltas:
                types = tuple(c.type for c in edge.source.plan.schema)
                head = {"e": edge.number, "k": "change", "n": [epoch, 0], "c": self.clock, "now": epoch}
                stage = self._route.stage_of[edge.target]
                for where, part in wire.split(deltas[relation], self._route.route(edge), types, self.bins, strings):
                    out.append(encode_message((stage, where, GRAPH), head, strings, delta=part, types=types))
        return out

    def _orders(self, what: str, **more: Any) -> list[BinMessage]:
        head = {"o": what, "c": self.clock, **more}
        return [
            encode_message((stage, where, COMMAND), head, Strings())
            for stage in range(1, self._route.stages + 1)
            for where in range(self.bins)
        ]

    def _noted(self, letter: DecodedMessage, place: tuple[int, int]) -> None:
        for name, source, target, rows, note in letter.head["trace"]:
            self.trace.record(name, source, target, rows, note)
        if "rows" in letter.head:
            self._held[place] = dict(letter.head)

    def _keep_budget(self) -> None:
        """Make holes of the keys whose last use lies furthest back, until the budget is kept."""
        budget = self._blueprint.budget  # type: ignore[attr-defined]
        if not budget.set:
            return
        if len(self._held) < self._route.stages * self.bins:
            self._turn_all(self._orders("shed", limit=-1), "order")
        merged = False
        while (over := self._excess()) > 0:
            ages = sorted((a, n) for told in self._held.values() for a, n in told["ages"])
            if merged and not ages:
                return
            limit, left = -1, max(1, int(sum(n for _, n in ages) * over * 0.5))
            for age, count in ages if merged else ():
                limit, left = age, left - count
                if left <= 0:
                    break
            # Rows that cancel count until they are merged away; merge first, evict then.
            self._turn_all(self._orders("shed", limit=limit), "order")
            merged = True

    def _excess(self) -> float:
        budget = self._blueprint.budget  # type: ignore[attr-defined]
        over = 0.0
        for name, bound in (("rows", budget.rows), ("bytes", budget.bytes)):
            held = sum(told[name] for told in self._held.values())
            if bound is not None and held > bound:
                over = max(over, 1 - bound / held)
        return over

    def _recall(self) -> None:
        """Take up counting where the bins say that it has got."""
        heads = self._heads().values()
        self.clock = max((head.get("clock", 0) for head in heads), default=0)
        self._draws = max((head.get("draws", 0) for head in heads), default=0)

    # --- small services -----------------------------------------------------------------

    def _stage(self, view: View) -> int:
        return self._route.stage_of[self._route.engine.nodes["reader", view.name]]

    def _netted(self, relation: str, delta: Delta, strings: Strings) -> Delta:
        types = tuple(c.type for c in self.catalog.schema(relation))
        layout = Layout(types, tuple(range(len(types))))
        body = layout.body(delta.rows, delta.diffs, strings)
        return Delta(body[1 : 1 + layout.columns], body[1 + layout.columns])

    def _changed_rows(self, view: View, out: Sequence[BinMessage], epoch: int) -> Changes:
        strings = Strings()
        unique = view.key if view.unique else None
        return Changes.consolidated(view.schema, _delta(view, out, strings), epoch, strings, unique)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """What is held, and the base tables; see :meth:`~sharedstate_lite.engine.engine.Engine.state`."""
        self._check_open()
        bases = {h.operator: h for h in self._route.engine.state_parts() if h.base}
        if operator in bases:
            return self._base.shown(bases[operator])
        if operator is not None:
            stage, place = tables.find(self._route, operator)
            return tables.state_rows(place, self._blobs(stage, operator))
        out = tables.state_table(self._route, self._heads())
        for at, name in enumerate(out.operator):
            if name in bases:
                out.loc[at, ["rows", "bytes"]] = self._base.size(bases[name].relation)
        return out


def _delta(view: View, out: Sequence[BinMessage], strings: Strings) -> Delta:
    letters = (decode_message(m, strings) for m in out)
    parts = [x.delta for x in letters if x.head["view"] == view.name and x.delta is not None]
    return concat(parts, len(view.schema))
