"""The protocol that every strategy keeps: step, read, state, install, drop, and the rest.

Holds what the three share: taking in an epoch, checking it against the base tables,
undoing it when anything refuses, and telling what is held. A strategy says how a change
reaches the views (:meth:`Engine.step`) and what state that leaves (:meth:`Engine.state_parts`).

An engine never prints, sleeps or reads the clock; time comes in with the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pandas as pd

from ..changelog import validate
from ..changelog.changes import Changes, sorted_frame
from ..errors import Error, TimeError, ViewError, is_integer, shorten
from ..plan.nodes import Schema
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout
from ..storage.encoding import Dictionary, Strings, Words
from ..storage.string_gc import sweep, truncate
from . import checkpoint, view_rules
from .state_tables import Handles, StatePart, check_names, state_html, state_rows, state_table
from .trace import Trace

EpochInput = Mapping[str, Any]
"""Relation name -> rows with diffs, a pandas or Arrow table with a ``diff`` column, or Changes."""


class Engine(ABC):
    """A set of views kept up to date under one strategy. A context manager."""

    kind = ""
    joins: tuple[str, ...] = ("auto", "linear")

    def __init__(self, views: Sequence[View], join: str = "auto", *, _like: Mapping[str, Any] | None = None) -> None:
        if isinstance(views, View) or not isinstance(views, Iterable) or not (views := list(views)):
            raise ViewError("ss.engine takes a list of at least one view; write [view], made by catalog.view(...)")
        strangers = [type(v).__name__ for v in views if not isinstance(v, View)]
        if strangers:
            raise ViewError(f"ss.engine takes views made by catalog.view(...), not {strangers[0]}")
        if join not in self.joins:
            raise ViewError(f"join={join!r}: the {self.kind} engine joins {', '.join(self.joins)}")
        self.join = join
        self.epoch = 0
        self.trace = Trace()
        self.views: dict[str, View] = {}
        self.catalog = views[0].catalog
        self.bases: dict[str, Arrangement] = {}
        self.dictionary = Dictionary()
        self._open = True
        self._every: list[Arrangement] | None = None
        self._like = _like
        self._restoring = _like is not None
        for relation, key in (_like or {}).get("bases", {}).items():
            self.base(relation, tuple(key))
        for view in view_rules.missing_views(views, self.views, self.catalog):
            self._add(view)
        self._changed()
        if _like is None:
            check_names(list(self.state_parts()), self.catalog.relations)
        self._restoring = False
        # What these hold is emitted in step 1; a view installed later returns it.
        self.initial = frozenset(self.views if _like is None else _like["initial"])

    # --- the protocol ---------------------------------------------------------

    @abstractmethod
    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch to all its relations at once; returns the change of every installed view.

        Rows that cancel within it are not stored; where others do not, all its strings are, until compact().
        Raises RelationError, RowError or TimeError for bad input, naming relation, row and
        rule; the engine is then as it was before the call.
        """

    def read(self, view: str, key: Any = None, at: int | None = None) -> Any:
        """The rows of a view, or of one key of it, as a frame sorted by all columns with NULL last.

        ``key`` is a tuple in the order of the view's key, or a scalar for a key of one
        column. ``at`` is a time with since <= at < upper. Raises ViewError, RowError, TimeError.
        """
        self._check_open()
        shown = self._view(view)
        self._check_time(view, at)
        mark = len(self.dictionary.strings)
        try:
            words = None if key is None else view_rules.key_words(shown, key, self.dictionary.strings)
            delta = self.view_rows(shown, words, at)
            return sorted_frame(shown, delta, self.dictionary.strings)
        finally:
            # A key that is nowhere must not stay in the dictionary.
            self.dictionary.strings.truncate(mark)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """What is held: operator, relation, key, rows, bytes, kind, base. With an operator: its rows and their diff."""
        self._check_open()
        held, strings = list(self.state_parts()), self.dictionary.strings
        return state_table(held, strings) if operator is None else state_rows(operator, held, strings)

    def install(self, view: View) -> Changes:
        """Add a view, and those it is built on; returns its contents as Changes (empty under partial state)."""
        self._check_open()
        more = view_rules.views_to_install(view, self.views, self.catalog)
        with self._undoing(structure=True):
            for each in more:
                self._add(each)
            self._changed()
            check_names(list(self.state_parts()), self.catalog.relations)
        return self._changes(view, self.view_contents(view))

    def drop(self, view: str | View) -> None:
        """Remove a view and what only it needed. Raises ViewError if another view stands on it."""
        self._check_open()
        gone, before = view_rules.view_to_drop(view, self.views, self.catalog), self.all_arrangements()
        with self._undoing(structure=True):
            del self.views[gone.name]
            self._remove(gone)
            self._changed()
            # Should it be installed again before step 1, install returns what it holds.
            self.initial -= {gone.name}
        for arrangement in set(before) - set(self.all_arrangements()):
            for handle in list(arrangement.handles):
                handle.close()

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Make keys of a view holes; only partial state can."""
        raise ViewError(
            f"evict({view!r}): {self.kind} state has no holes, every key is always there; use the partial engine"
        )

    def checkpoint(self, path: str | Path) -> None:
        """Write all state to a new or empty folder, atomically. Raises CheckpointError."""
        self._check_open()
        checkpoint.write(self, checkpoint.folder(path))

    def compact(self) -> None:
        """Merge all batches that may be merged, and forget strings that no row uses."""
        self._check_open()
        with self._undoing(structure=True):
            for held in self.all_arrangements():
                held.compact()
            moved = sweep(self.dictionary, self.all_arrangements(), self._codes())
            if moved is not None:
                self._recode(moved)

    def handle(self, time: int | None = None) -> Handles:
        """Hold every arrangement at ``time`` (default: the last epoch), view outputs included."""
        self._check_open()
        when = self.epoch if time is None else time
        arrangements = self.epoch_arrangements()
        for arrangement in arrangements:
            arrangement.check(when)
        return Handles([a.handle(when) for a in arrangements], when)

    def arrangements(self) -> list[Arrangement]:
        """The arrangements, as objects with batches, since, upper and handle(t)."""
        self._check_open()
        return [h.arrangement for h in self.state_parts() if h.kind == "arrangement"]

    @abstractmethod
    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The operators and the edges between them, as two frames; see :mod:`..plan.graph`."""

    def close(self) -> None:
        """Let go of all state; a second call does nothing. Changes that it emitted, and its trace, stay readable."""
        self._open = False
        self.views, self.bases, self._every = {}, {}, None
        self.dictionary = Dictionary()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what a strategy gives ------------------------------------------------

    @abstractmethod
    def state_parts(self) -> Iterable[StatePart]:
        """All state, base tables first."""

    @abstractmethod
    def _add(self, view: View) -> None:
        """Build what a view needs, from the base tables if they hold rows."""

    @abstractmethod
    def _remove(self, view: View) -> None:
        """Let go of what only this view needed."""

    @abstractmethod
    def view_rows(self, view: View, key: Words | None, at: int | None) -> Delta:
        """The view's rows, or those of one key int64[len(key), 1], at a time."""

    @abstractmethod
    def view_contents(self, view: View) -> Delta:
        """A view's contents, as its change from nothing."""

    def _save(self) -> Callable[[], None]:
        """What takes the engine back to now: batches are immutable, so that is going back to lists."""
        marks = [(a, a.mark()) for a in self.all_arrangements()]
        rest = self.initial, self.dictionary.strings
        return partial(self._back, dict(self.views), dict(self.bases), self.epoch, marks, rest)

    def _back(self, views: Any, bases: Any, epoch: int, marks: list[Any], rest: tuple[frozenset[str], Strings]) -> None:
        self.views, self.bases = views, bases
        for arrangement, mark in marks:
            arrangement.rollback(mark)
        self.epoch = self.trace.epoch = epoch
        self.initial, self.dictionary.strings = rest
        self._changed()

    # --- for checkpoints ------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What :func:`~.checkpoint.restore` needs to build an engine like this one."""
        bases = {relation: list(base.layout.key) for relation, base in self.bases.items()}
        return {"options": {"join": self.join}, "bases": bases, "initial": sorted(self.initial)}

    def parts(self) -> dict[str, Arrangement]:
        """Every arrangement under a name that another engine with the same views gives it too. Raises ViewError."""
        held = list(self.state_parts())
        named = {h.identity or h.operator: h.arrangement for h in held}
        if len(named) < len(held):  # of an older checkpoint: a new engine refuses it at once
            check_names(held, {})
        return named

    def filled_sets(self) -> dict[str, Any]:
        """Sets of filled keys; only partial state has them."""
        return {}

    def resume_at(self, epoch: int) -> None:
        """Go on after ``epoch``: all state has been filled in."""
        self.epoch = self.trace.epoch = epoch
        for arrangement in self.all_arrangements():
            arrangement.commit(epoch + 1)

    # --- an epoch -------------------------------------------------------------

    def _relation(self, name: object) -> tuple[str, Schema]:
        return validate.relation(self.catalog, name)

    def base(self, relation: str, key: tuple[int, ...] | None = None) -> Arrangement:
        if relation not in self.bases:
            _, schema = self._relation(relation)
            layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))) if key is None else key)
            by = ", ".join(schema[i].name for i in layout.key)
            self.bases[relation] = Arrangement(f"{relation}[{by}]", layout, self.epoch + 1)
            self._changed()
        return self.bases[relation]

    def _take_in(self, inputs: EpochInput) -> dict[str, Delta]:
        """Read an epoch in, check it and write it to the base tables; returns the net changes."""
        length = len(self.dictionary.strings)
        deltas = validate.epoch(inputs, self.catalog, self.dictionary.strings)
        self.insert_bases(deltas)
        if not any(len(delta.diffs) for delta in deltas.values()):
            self.dictionary.strings.truncate(length)  # all that came cancelled
        return deltas

    def insert_bases(self, deltas: dict[str, Delta]) -> None:
        for relation, delta in deltas.items():
            if not len(delta.diffs):
                continue
            base = self.base(relation)
            body = base.layout.body(delta.rows, delta.diffs, self.dictionary.strings)
            validate.check(base, self._relation(relation)[1], relation, body, self.dictionary.strings)
            base.insert_body(body)
            deltas[relation] = base.layout.delta(body)

    def _commit(self) -> None:
        self.epoch += 1
        self.trace.epoch = self.epoch
        for arrangement in self.all_arrangements():
            arrangement.commit(self.epoch + 1)

    @contextmanager
    def _undoing(self, structure: bool = False) -> Any:
        """Run a change of state that either happens or leaves everything as it was."""
        length, back = len(self.dictionary.strings), self._save()
        self.trace.epoch = self.epoch + (0 if structure else 1)
        try:
            yield
        except BaseException as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            back()
            truncate(self.dictionary, length, shown=self.trace.keep_rows)
            raise

    # --- small services -------------------------------------------------------

    def all_arrangements(self) -> list[Arrangement]:
        """Every arrangement once, base tables included."""
        if self._every is None:
            self._every = list(dict.fromkeys([*self.bases.values(), *(h.arrangement for h in self.state_parts())]))
        return self._every

    def epoch_arrangements(self) -> list[Arrangement]:
        """The arrangements whose times are epochs."""
        return self.all_arrangements()

    def _changed(self) -> None:
        """Arrangements came or went."""
        self._every = None

    def _view(self, name: object) -> View:
        return view_rules.view_named(name, self.views)

    def _check_time(self, view: str, at: int | None) -> None:
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {view}: {self.kind} state is the last epoch's, {self.epoch}; "
                f"a read at {shorten(at)} needs the shared engine"
            )

    def _changes(self, view: View, delta: Delta) -> Changes:
        """A view's change, consolidated already, as the caller sees it."""
        return Changes(view.schema, delta, self.epoch, self.dictionary.strings, view.key if view.unique else None)

    def _codes(self) -> Iterable[Words]:
        """Codes of strings that are held outside arrangements."""
        return ()

    def _recode(self, moved: Words) -> None:  # noqa: B027  (most strategies hold no codes elsewhere)
        """Strings have new codes outside arrangements."""

    def _check_open(self) -> None:
        if not self._open:
            raise Error("this engine is closed; make a new one, or restore a checkpoint")

    def __repr__(self) -> str:
        return f"<{self.kind} engine, epoch {self.epoch}, views: {', '.join(self.views)}>"

    def _repr_html_(self) -> str:
        return (
            "<p>closed engine</p>"
            if not self._open
            else state_html(f"{self.kind} engine, epoch {self.epoch}", self.state())
        )
