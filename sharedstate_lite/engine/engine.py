"""The interface of every engine: step, read, state, install, drop, evict, compact and checkpoint.

The base class contains the code that all strategies share. It reads an epoch, checks it against the base tables, and
rolls it back if an exception is raised. A strategy implements how a change reaches the views (:meth:`Engine.step`), and
lists the state that it stores (:meth:`Engine.state_parts`).

An engine never prints, sleeps or reads the clock. All times come from the data.
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
from ..storage.encoding import Dictionary, DictionaryRef, Words
from ..storage.string_gc import sweep, truncate
from ..why import Why, WhyNot
from ..why import why as explain_row
from ..why import why_not as explain_missing
from . import checkpoint, view_rules
from .events import EventLog
from .state_tables import Handles, StatePart, bill_table, check_names, state_html, state_rows, state_table

EpochInput = Mapping[str, Any]
"""The input of an epoch: for each relation, (row, diff) pairs, a pandas or Arrow table with a ``diff`` column, or
Changes."""


class Engine(ABC):
    """A set of views that is maintained under one strategy. Used as a context manager, it closes itself on exit."""

    kind = ""
    joins: tuple[str, ...] = ("auto", "linear")

    def __init__(self, views: Sequence[View], join: str = "auto", *, _like: Mapping[str, Any] | None = None) -> None:
        if isinstance(views, View) or not isinstance(views, Iterable) or not (views := list(views)):
            raise ViewError("ss.engine needs a list of at least one view; pass [view], made by catalog.view(...)")
        others = [type(v).__name__ for v in views if not isinstance(v, View)]
        if others:
            raise ViewError(f"ss.engine needs views made by catalog.view(...), not {others[0]}")
        if join not in self.joins:
            raise ViewError(f"join={join!r} is not valid; the {self.kind} engine supports {', '.join(self.joins)}")
        self.join = join
        self.epoch = 0
        self.trace = EventLog()
        self.views: dict[str, View] = {}
        self.catalog = views[0].catalog
        self.bases: dict[str, Arrangement] = {}
        self.dictionary = DictionaryRef()
        self._open = True
        self._arrangements: list[Arrangement] | None = None
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
        # Step 1 emits the initial contents of these views. For a view that is added later, install returns them.
        self.initial = frozenset(self.views if _like is None else _like["initial"])

    # --- the interface ---------------------------------------------------------

    @abstractmethod
    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply the changes of one epoch atomically, and return the change of each installed view.

        Raises RelationError, RowError or TimeError for invalid input, and leaves the engine as it was before the call.
        Strings of rows that cancel within the epoch can stay in the dictionary until :meth:`compact`.
        """

    def read(self, view: str | View, key: Any = None, at: int | None = None) -> Any:
        """Return the rows of a view, or of one key, as a data frame that is sorted by all columns with NULL last.

        ``view`` is an installed view or its name. ``key`` is a tuple in the order of the view's key columns, or a
        scalar if there is only one. ``at`` is an epoch with ``since <= at < upper`` (default: the last epoch). Raises
        ViewError, RowError or TimeError.
        """
        self._check_open()
        shown = self._view(view)
        self._check_time(shown.name, at)
        mark = len(self.dictionary.strings)
        try:
            words = None if key is None else view_rules.key_words(shown, key, self.dictionary.strings)
            delta = self.view_rows(shown, words, at)
            return sorted_frame(shown, delta, self.dictionary.strings)
        finally:
            # Remove the strings of the key from the dictionary if they are new.
            self.dictionary.strings.truncate(mark)

    def why(self, view: str | View, row: Sequence[Any], at: int | None = None, force: bool = False) -> Why:
        """Return the reasons of a row of a view: the smallest bags of base rows that give it; see :mod:`..why`.

        ``row`` has a value for each column of the view. It is explained from the base tables, under every strategy, as
        of epoch ``at`` (default: the last one). Raises ViewError if the view does not have the row, and Error if more
        than a million rows would have to be computed, unless ``force`` is true.
        """
        if isinstance(row, Sequence) and any(value is ... for value in row):
            raise ViewError("why() explains one row, and ... is any value; why_not() lists the rows that match")
        explained: Why | None = self._explain(explain_row, view, row, at, force)
        if explained is None:
            raise ViewError(
                f"view {self._view(view).name} has no row {shorten(tuple(row))}; why_not() says where it ended"
            )
        return explained

    def why_not(self, view: str | View, row: Sequence[Any], at: int | None = None, force: bool = False) -> WhyNot:
        """Return where the candidates of a row ended that a view does not have; see :mod:`..why`.

        In ``row``, ``...`` stands for any value, and None is NULL. ``at`` and ``force`` are as for :meth:`why`.
        """
        missing: WhyNot = self._explain(explain_missing, view, row, at, force)
        return missing

    def _explain(
        self, how: Callable[..., Any], view: str | View, row: Sequence[Any], at: int | None, force: bool
    ) -> Any:
        self._check_open()
        shown, strings = self._view(view), self.dictionary.strings
        self._check_time(shown.name, at)
        mark = len(strings)
        try:
            words = view_rules.row_words(shown, row, strings)
            bases = view_rules.base_rows(shown, self.bases, at, strings)
            return how(shown, words, bases, self.epoch if at is None else at, strings, force)
        finally:
            strings.truncate(mark)  # removes the strings of the row, and of the plan's constants, if they are new

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """Return the stored state as a data frame with columns operator, relation, key, rows, bytes, kind and bill.

        If ``operator`` is given, return the rows and diffs of this operator instead.
        """
        self._check_open()
        parts, strings = list(self.state_parts()), self.dictionary.strings
        return state_table(parts, strings) if operator is None else state_rows(operator, parts, strings)

    def bill(self) -> pd.DataFrame:
        """Return the rows and bytes of durable inputs, working state and cached answers, and of all state.

        The rule is the same for every strategy (see :mod:`.state_tables`), so these numbers can be compared.
        """
        return bill_table(self.state(), self.dictionary.strings.nbytes)

    def install(self, view: str | View) -> Changes:
        """Install a view and the views that it reads, and return its rows. Raises ViewError.

        ``view`` is a view of the engine's catalog or its name. A partial engine returns an empty change, because the
        view does not have any filled keys yet.
        """
        self._check_open()
        more = view_rules.views_to_install(view, self.views, self.catalog)
        with self._atomic(structure=True):
            for each in more:
                self._add(each)
            self._changed()
            check_names(list(self.state_parts()), self.catalog.relations)
        return self._changes(more[-1], self.view_contents(more[-1]))

    def drop(self, view: str | View) -> None:
        """Remove a view and the state that only this view needs. Raises ViewError if another view reads it."""
        self._check_open()
        dropped, before = view_rules.view_to_drop(view, self.views, self.catalog), self.all_arrangements()
        with self._atomic(structure=True):
            del self.views[dropped.name]
            self._remove(dropped)
            self._changed()
            # If the view is installed again before step 1, install returns its contents, so step 1 must not emit them.
            self.initial -= {dropped.name}
        for arrangement in set(before) - set(self.all_arrangements()):
            for handle in list(arrangement.handles):
                handle.close()

    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Raise ViewError, because only the partial engine, which overrides this method, can evict keys."""
        raise ViewError(f"evict(): a {self.kind} engine stores all keys; only the partial engine evicts keys")

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Raise ViewError, because only the partial engine, which overrides this method, has keys that are holes."""
        raise ViewError(f"filled(): a {self.kind} engine stores every key; only the partial engine has holes")

    def _no_messages(self, *_: Any) -> Any:
        """Raise ViewError, because only the partial engine, which overrides these methods, sends messages."""
        raise ViewError(
            f"pause(), messages(), deliver(i) and resume(): a {self.kind} engine runs each step to its end; use "
            "ss.engine('partial', ...), whose messages can be delivered one at a time"
        )

    pause = messages = deliver = resume = _no_messages

    def checkpoint(self, path: str | Path) -> None:
        """Write the state of the engine atomically to a folder that is new or empty. Raises CheckpointError."""
        self._check_open()
        checkpoint.write(self, checkpoint.checked_path(path))

    def compact(self) -> None:
        """Merge batches as far as open handles allow, and remove unused strings from the dictionary."""
        self._check_open()
        with self._atomic(structure=True):
            for arrangement in self.all_arrangements():
                arrangement.compact()
            moved = sweep(self.dictionary, self.all_arrangements(), self._codes())
            if moved is not None:
                self._recode(moved)

    def handle(self, time: int | None = None) -> Handles:
        """Return handles that keep every arrangement readable at ``time`` (default: the last epoch).

        Raises TimeError if an arrangement cannot be read at that time.
        """
        self._check_open()
        when = self.epoch if time is None else time
        arrangements = self.epoch_arrangements()
        for arrangement in arrangements:
            arrangement.check(when)
        return Handles([a.handle(when) for a in arrangements], when)

    def arrangements(self) -> list[Arrangement]:
        """Return the arrangements of a shared engine. Other engines return an empty list."""
        self._check_open()
        return [h.arrangement for h in self.state_parts() if h.kind == "arrangement"]

    @abstractmethod
    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the operators, and the edges between them, as two data frames; see :mod:`..plan.graph`."""

    def close(self) -> None:
        """Release all state. Closing an engine again has no effect. Emitted Changes and the trace stay readable."""
        self._open = False
        self.views, self.bases, self._arrangements = {}, {}, None
        self.dictionary = DictionaryRef()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- implemented by a strategy ------------------------------------------------

    @abstractmethod
    def state_parts(self) -> Iterable[StatePart]:
        """Return the parts of the state, starting with the base tables."""

    @abstractmethod
    def _add(self, view: View) -> None:
        """Build the operators of a view, and fill their state from the base tables."""

    @abstractmethod
    def _remove(self, view: View) -> None:
        """Remove the operators that only this view needs."""

    @abstractmethod
    def view_rows(self, view: View, key: Words | None, at: int | None) -> Delta:
        """Return the rows of a view, or of one key int64[len(key), 1], as of epoch ``at`` (None: the current rows)."""

    @abstractmethod
    def view_contents(self, view: View) -> Delta:
        """Return all rows of a view as the change from an empty view. Under partial state, the change is empty."""

    def _save(self) -> Callable[[], None]:
        """Return a function that restores the current state.

        Batches are immutable, so it is enough to save and restore the lists that contain them.
        """
        marks = [(a, a.mark()) for a in self.all_arrangements()]
        rest = self.initial, self.dictionary.strings
        return partial(self._restore, dict(self.views), dict(self.bases), self.epoch, marks, rest)

    def _restore(
        self, views: Any, bases: Any, epoch: int, marks: list[Any], rest: tuple[frozenset[str], Dictionary]
    ) -> None:
        self.views, self.bases = views, bases
        for arrangement, mark in marks:
            arrangement.rollback(mark)
        self.epoch = self.trace.epoch = epoch
        self.initial, self.dictionary.strings = rest
        self._changed()

    # --- for checkpoints ------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return the options and choices that :func:`~.checkpoint.read` needs to build an identical engine."""
        bases = {relation: list(base.layout.key) for relation, base in self.bases.items()}
        return {"options": {"join": self.join}, "bases": bases, "initial": sorted(self.initial)}

    def parts(self) -> dict[str, Arrangement]:
        """Return the arrangements by name. All engines with the same views use the same names. Raises ViewError.

        An index of a base table is left out, because :meth:`resume_at` makes it from the table.
        """
        parts = [p for p in self.state_parts() if p.kind != "index"]
        named = {p.identity or p.operator: p.arrangement for p in parts}
        if len(named) < len(parts):  # can only happen in an engine restored from an older checkpoint
            check_names(parts, {})
        return named

    def filled_sets(self) -> dict[str, Any]:
        """Return the sets of filled keys by name. Only a partial engine has such sets."""
        return {}

    def resume_at(self, epoch: int) -> None:
        """Set the current epoch to ``epoch``, after the state has been loaded from a checkpoint."""
        self.epoch = self.trace.epoch = epoch
        for arrangement in self.all_arrangements():
            arrangement.commit(epoch + 1)

    # --- an epoch -------------------------------------------------------------

    def _relation(self, name: object) -> tuple[str, Schema]:
        return validate.relation(self.catalog, name)

    def base(self, relation: str, key: tuple[int, ...] | None = None) -> Arrangement:
        """Return the base table of a relation. It is created on first use, keyed by columns ``key`` (default: all)."""
        if relation not in self.bases:
            _, schema = self._relation(relation)
            layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))) if key is None else key)
            by = ", ".join(schema[i].name for i in layout.key)
            self.bases[relation] = Arrangement(f"{relation}[{by}]", layout, self.epoch + 1)
            self._changed()
        return self.bases[relation]

    def _read_epoch(self, inputs: EpochInput) -> dict[str, Delta]:
        """Read and check an epoch, write it to the base tables, and return the consolidated changes."""
        length = len(self.dictionary.strings)
        deltas = validate.epoch(inputs, self.catalog, self.dictionary.strings)
        self.insert_bases(deltas)
        if not any(len(delta.diffs) for delta in deltas.values()):
            self.dictionary.strings.truncate(length)  # all changes cancelled
        return deltas

    def insert_bases(self, deltas: dict[str, Delta]) -> None:
        """Check deltas against the base tables and insert them. ``deltas`` is updated with the consolidated deltas."""
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
        for arrangement in self.epoch_arrangements():
            arrangement.commit(self.epoch + 1)

    @contextmanager
    def _atomic(self, structure: bool = False) -> Any:
        """Run the body of a ``with`` statement, and roll back all its changes to the state if it raises."""
        length, back = len(self.dictionary.strings), self._save()
        self.trace.epoch = self.epoch + (0 if structure else 1)
        try:
            yield
        except BaseException as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            back()
            truncate(self.dictionary, length, shown=self.trace.keep_rows)
            raise

    # --- helpers -------------------------------------------------------

    def all_arrangements(self) -> list[Arrangement]:
        """Return every arrangement once, including the base tables."""
        if self._arrangements is None:
            self._arrangements = list(
                dict.fromkeys([*self.bases.values(), *(p.arrangement for p in self.state_parts())])
            )
        return self._arrangements

    def epoch_arrangements(self) -> list[Arrangement]:
        """Return the arrangements whose times are epochs. In a partial engine, all others count messages instead."""
        return self.all_arrangements()

    def _changed(self) -> None:
        """Discard the cached list of arrangements."""
        self._arrangements = None

    def _view(self, view: object) -> View:
        return view_rules.installed_view(view, self.views, self.catalog)

    def _check_time(self, view: str, at: int | None) -> None:
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {view}: {self.kind} state can only be read at the last epoch, {self.epoch}, not at "
                f"{shorten(at)}; use the shared engine to read earlier epochs"
            )

    def _changes(self, view: View, delta: Delta) -> Changes:
        """Return a consolidated change of a view as Changes."""
        return Changes(view.schema, delta, self.epoch, self.dictionary.strings, view.key if view.unique else None)

    def _codes(self) -> Iterable[Words]:
        """Return the string codes that are stored outside arrangements."""
        return ()

    def _recode(self, moved: Words) -> None:  # noqa: B027  (most strategies do not store codes elsewhere)
        """Replace the string codes that are stored outside arrangements."""

    def _check_open(self) -> None:
        if not self._open:
            raise Error("this engine is closed; create a new one, or restore a checkpoint")

    def __repr__(self) -> str:
        return f"<{self.kind} engine, epoch {self.epoch}, views: {', '.join(self.views)}>"

    def _repr_html_(self) -> str:
        return (
            "<p>closed engine</p>"
            if not self._open
            else state_html(f"{self.kind} engine, epoch {self.epoch}", self.bill(), self.state())
        )
