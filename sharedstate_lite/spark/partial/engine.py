"""Partial state on Spark, for one caller at a time: a `SparkEngine` whose calls are rounds until no message is left.

    g-.../base/    the base tables (`base`)

The driver does not store rows. Filled keys, their rows and open upqueries are in the bins. A call sends messages to the
bins, and each round is a micro-batch: bins send messages down to later stages in the same round, and up in the next
one. The driver answers the upqueries that reach a base table.

State in the bins is a cache. If an epoch fails after its first round, or the driver is killed between two rounds, the
bins forget it: all keys become holes, and no row is lost, because the base tables have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

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
from ..driver.engine import SparkEngine
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from . import state as shown_state
from .base import BaseTables
from .bin import PartialRecipe
from .messages import (
    ANSWER,
    COMMAND,
    EVICTED,
    GRAPH,
    LOOKUP,
    OUT,
    REPORT,
    UPQUERY,
    decode_message,
    encode_message,
    split_keys,
)
from .nodes import types_of
from .placement import Placement

C = TypeVar("C", bound=Callable[..., Any])


def one_caller(method: C) -> C:
    """Decorate a method that runs rounds. Raises Error if another thread is in such a method."""

    @wraps(method)
    def call(self: PartialSparkEngine, *given: Any, **named: Any) -> Any:
        if not self._call_lock.acquire(blocking=False):
            raise Error(
                f"{method.__name__}(): another thread is calling this engine, but partial state on Spark serves one "
                "caller at a time; wait until that call returns, or give each thread an ss.engine('partial', views)"
            )
        try:
            self._check_open()
            self._recover()
            result = method(self, *given, **named)
            self._query.raise_interrupt()
            return result
        finally:
            self._call_lock.release()

    return cast(C, call)


class PartialSparkEngine(SparkEngine):
    """A partial engine on Spark, created by `sharedstate_lite.spark.engine` or ``restore``; see the module's docstring.

    A context manager, which closes the engine.
    """

    _route: Placement  # type: ignore[assignment]
    recipe_class = PartialRecipe

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        try:
            entries = self._query.inbox.entries
            self._begin(BaseTables(self._query.folder / "base", self.catalog.relations, entries))
            self._base.take_back(self.epoch)
            if (last := self._query.inbox.last()) is not None:
                refused = any(entry.void for entry in entries[last.number :])
                if refused or any(map(_undelivered, self._query.output(last.number))):
                    self._left = "forget"
                    self._recover()
        except BaseException:
            self.close()
            raise

    def _begin(self, base: BaseTables) -> None:
        self._base = base
        self.rounds = 0
        self._left = ""
        """The command by which the bins drop what a call has left that failed after its first round; see `_obey`."""
        self._random = np.random.default_rng(self._route.engine.seed)
        self._told: set[str] = set()
        """The views about which a note was logged."""

    # --- the engine interface ---------------------------------------------------

    @one_caller
    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch; see `sharedstate_lite.engine.engine.Engine.step`."""
        return super().step(inputs)

    def _processed(self, inputs: EpochInput) -> tuple[dict[str, Delta], list[BinMessage]]:
        strings = Dictionary()
        deltas = {r: self._net(r, d, strings) for r, d in validate.epoch(inputs, self.catalog, strings).items()}
        out = self._apply(deltas, strings)
        self.epoch = self.trace.epoch = self.epoch + 1
        return deltas, out

    @one_caller
    def read(self, view: str | View, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """Return the rows of one key of a view, after filling the key if it is a hole.

        Without a key, return the rows of all filled keys. If there are none, a note says so, once for each view.
        """
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

    @one_caller
    def lookup(self, view: str | View, keys: Sequence[Any]) -> pd.DataFrame:
        """Return the rows of several keys of a view as one frame. All holes are filled in the same rounds."""
        shown, strings = self._empty_engine._view(view), Dictionary()
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise ViewError(
                f"lookup({shown.name!r}): keys={keys!r} is not a list; pass a list, or use read(view, key=...)"
            )
        words = [view_rules.key_words(shown, key, strings) for key in keys]
        if not words:
            return sorted_frame(shown, Delta.empty(len(shown.schema)), strings)
        return self._look_up(shown, np.concatenate(words, axis=1), strings)

    @one_caller
    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Evict one key of a view, or all keys, or ``n`` keys that are drawn with the engine's ``seed``.

        Returns the evicted keys by operator, including operators downstream. A restart draws from the beginning again.
        Raises ViewError.
        """
        shown = self._empty_engine._view(view)
        if key is not None and n is not None:
            raise ViewError(f"evict({shown.name!r}): pass a key or n, not both")
        if n is not None and (not is_integer(n) or n < 0):
            raise ViewError(f"evict({shown.name!r}, n={shorten(n)}): n must be a number of keys, 0 or more")
        strings, first = Dictionary(), chains.top_of_chain(self._route.engine.reader(shown))
        words = None if key is None else view_rules.key_words(shown, key, strings)
        if n is not None:
            filled = shown_state.filled_words(self._route, self._query, shown.name, strings)
            drawn = self._random.choice(filled.shape[1], min(n, filled.shape[1]), replace=False)
            words = filled.take(np.sort(drawn), axis=1)
        head = {"o": "evict", "node": first.name}
        messages = self._to_bins((self._route.stage_of[first], COMMAND), head, shown, words, strings)
        gone: dict[str, list[Words]] = {}
        for message in self._deliver(messages, RoundKind.COMMAND, self.epoch) if messages else ():
            if message.channel == EVICTED:
                decoded = decode_message(message, strings)
                assert decoded.keys is not None
                gone.setdefault(decoded.head["o"], []).append(decoded.keys)
        return {
            name: shown_state.sorted_keys(np.concatenate(keys, axis=1), self._route, name, strings)
            for name, keys in gone.items()
        }

    @one_caller
    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Return the filled keys of a view, an aggregate or one side of a join, sorted. Raises ViewError."""
        return shown_state.filled(self._route, self._query, operator)

    @one_caller
    def state(self, operator: str | None = None) -> pd.DataFrame:
        """Return the state after the last micro-batch, including base tables; see `EngineDriver.state`."""
        return shown_state.state(self._route, self._query, self._base, operator)

    @one_caller
    def compact(self) -> None:
        """Merge the runs in all bins; see `EngineDriver.compact`."""
        super().compact()

    def _change_views(self, views: list[View]) -> list[BinMessage]:
        raise ViewError(
            "install() and drop(): partial state on Spark keeps the views that it was started with; start an engine "
            "with the other views in a new folder, or use ss.engine('partial', views) in one process"
        )

    # --- calls as messages ------------------------------------------------------

    def _apply(self, deltas: Mapping[str, Delta], strings: Dictionary) -> list[BinMessage]:
        """Run an epoch of net changes. Returns the messages to the driver. If it fails, no base table has its rows."""
        epoch = self.epoch + 1
        for relation, delta in deltas.items():
            self._check_retractions(relation, delta, strings)
        try:
            about = {"base": self._base.append(epoch, deltas, strings)}
            return self._deliver(self._changed(deltas, strings), RoundKind.EPOCH, epoch, about)
        except BaseException:
            self._undo(epoch)
            raise

    def _undo(self, epoch: int) -> None:
        self._base.take_back(epoch - 1)
        self._query.inbox.void_epoch(epoch)

    def _check_retractions(self, relation: str, delta: Delta, strings: Dictionary) -> None:
        """Raise the same RowError as an in-process engine if a retracted row is not in the base table."""
        schema = self.catalog.schema(relation)
        retracted = delta.take(delta.diffs < 0)
        if len(retracted.diffs):
            layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
            found = self._base.rows(relation, strings, layout.key, retracted.rows)
            table = Arrangement(relation, layout)
            table.insert(found.rows, found.diffs, strings)
            validate.check(table, schema, relation, layout.body(retracted.rows, retracted.diffs, strings), strings)

    def _changed(self, deltas: Mapping[str, Delta], strings: Dictionary) -> list[BinMessage]:
        """Return the messages that carry the changes of base tables to the operators below them."""
        out: list[BinMessage] = []
        for edge in self._route.edges.values():
            relation = edge.source.name_of_relation if isinstance(edge.source, BaseNode) else ""
            if relation in deltas:
                types, columns = tuple(c.type for c in edge.source.plan.schema), self._route.route(edge)
                stage = self._route.stage_of[edge.target]
                for number, part in wire.split(deltas[relation], columns, types, self.bins, strings):
                    head = {"e": edge.number, "k": "change", "n": len(out), "now": self.epoch + 1}
                    out.append(encode_message((stage, number, GRAPH), head, strings, delta=part, types=types))
        return out

    def _look_up(self, view: View, words: Words | None, strings: Dictionary) -> pd.DataFrame:
        """Return the rows of some keys of a view, or of all filled keys if ``words`` is None."""
        if words is not None:
            words = np.unique(words, axis=1) if len(words) else words[:, :1]
        stage, head = self._route.stage_of[self._route.engine.reader(view)], {"view": view.name, "now": self.epoch}
        messages = self._to_bins((stage, LOOKUP), head, view, words, strings)
        try:
            out = self._deliver(messages, RoundKind.READ, self.epoch)
        except RowError as error:
            assert words is not None  # filled keys are read without computing anything
            raise view_rules.read_error(view, words, strings, error) from error
        answers = [message for message in out if message.channel == ANSWER]
        assert len(answers) == len(messages), "no message is left, but a bin has not answered"
        return sorted_frame(view, _rows(view, answers, strings), strings)

    def _to_bins(
        self, to: tuple[int, int], head: dict[str, Any], view: View, words: Words | None, strings: Dictionary
    ) -> list[BinMessage]:
        """Return messages to the bins of (stage, channel) that have some keys of a view, or to all if None."""
        (stage, channel), types = to, types_of(view.plan, view.key)
        if words is None:
            return [encode_message((stage, number, channel), head, strings) for number in range(self.bins)]
        by_bin = split_keys(words, types, self.bins, strings)
        return [encode_message((stage, number, channel), head, strings, some, types) for number, some in by_bin]

    # --- rounds -----------------------------------------------------------------

    def _deliver(
        self, messages: list[BinMessage], kind: RoundKind, epoch: int, about: dict[str, Any] | None = None
    ) -> list[BinMessage]:
        """Run rounds until no message is left, at least one. Returns the messages that they have sent."""
        left, out = "forget" if kind is RoundKind.EPOCH else "abandon", list[BinMessage]()

        def take(sent: list[BinMessage]) -> list[BinMessage]:
            self.rounds += 1
            self._left = left if any(map(_undelivered, sent)) else ""
            out.extend(sent)
            for message in sent:
                if message.channel == REPORT:
                    for name, source, target, rows, note in decode_message(message, Dictionary()).head["trace"]:
                        self.trace.record(name, source, target, rows, note)
            answers = [self._answered(m, n) for n, m in enumerate(sent) if m.channel == UPQUERY]
            return [m for m in sent if m.stage > 0] + answers

        try:
            self._query.settle(messages, kind, epoch, take, about)
        except Error:
            # If another thread has closed the engine or stopped the session, report that instead.
            self._check_open()
            raise
        return out

    def _answered(self, message: BinMessage, number: int) -> BinMessage:
        """Return the response of a base table to an upquery, with the rows that belong to the bin that asked."""
        strings, placement = Dictionary(), self._route
        asked = decode_message(message, strings)
        assert asked.keys is not None
        edge = placement.edges[asked.head["e"]]
        plan = edge.source.plan
        # Without the fix of rule 18, the response has the rows of the epoch in which the upquery was first sent.
        upto = asked.head["a"] if "rule18" in placement.engine.without else None
        rows = self._base.rows(edge.source.name, strings, edge.ask, asked.keys, upto)
        types = tuple(c.type for c in plan.schema)
        mine = wire.bin_of(rows.rows, placement.route(edge), types, self.bins, strings) == message.bin
        head = {"e": edge.number, "k": "response", "t": asked.head["t"], "n": number}
        to = (placement.stage_of[edge.target], message.bin, GRAPH)
        return encode_message(to, head, strings, asked.keys, types_of(plan, edge.ask), rows.take(mine), types)

    def _recover(self) -> None:
        """Make the bins drop what an earlier call has left: open upqueries, or all state."""
        if self._left:
            head, strings = {"o": self._left}, Dictionary()
            commands = [encode_message((*place, COMMAND), head, strings) for place in self._places()]
            self._run(commands, RoundKind.RECOVERY, self.epoch)
            self._left = ""

    # --- helpers ------------------------------------------------------------------

    def _net(self, relation: str, delta: Delta, strings: Dictionary) -> Delta:
        types = tuple(c.type for c in self.catalog.schema(relation))
        layout = Layout(types, tuple(range(len(types))))
        return layout.delta(layout.body(delta.rows, delta.diffs, strings))

    def _delta(self, view: View, out: Sequence[BinMessage], strings: Dictionary) -> Delta:
        return _rows(view, [message for message in out if message.channel == OUT], strings)


def _undelivered(message: BinMessage) -> bool:
    """Return whether a round has sent the message to a bin or to a base table, so that the next round delivers it."""
    return message.stage > 0 or message.channel == UPQUERY


def _rows(view: View, messages: Iterable[BinMessage], strings: Dictionary) -> Delta:
    decoded = (decode_message(message, strings) for message in messages)
    parts = [x.delta for x in decoded if x.head["view"] == view.name and x.delta is not None]
    return concat(parts, len(view.schema))
