"""Patterns over the events of a key, as SASE and Flink CEP find them: ``"a b+ c"`` within 24 hours.

A pattern is a sequence of variables. Each has a condition, a Python function of the event and of the events taken so
far. A variable can repeat: ``b+``, ``b?``, ``b{2}``, ``b{2,}``, ``b{2,4}``. ``!x`` between two variables: no event
between them satisfies x.

`Automaton` compiles the text. Its states are *runs*: partial matches. Each event advances every run, and can start a
new one. `pattern` makes an operator of it, whose state are the runs of each key and the events that they have taken.
Which events a run may pass over is the contiguity:

    strict    none: the events of a match are neighbours
    next      those that it cannot take
    any       all; a run that could take an event continues both with it and without it

Source: Agrawal et al., Efficient Pattern Matching over Event Streams (SASE+), SIGMOD 2008; Apache Flink, FlinkCEP.
"""

from __future__ import annotations

import datetime
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import StateError, shorten
from .declare import EventSource, StatefulOperator, does_nothing
from .handles import ListState, MapState, TimerState
from .types import duration

CONTIGUITIES = ("strict", "next", "any")
MOST_RUNS = 10_000
"""The number of partial matches of a key that is an error. ``any`` can double them with each event."""
_TOKEN = re.compile(r"!([A-Za-z_]\w*)|([A-Za-z_]\w*)(?:(\+|\?)|\{(\d+)(,?)(\d*)\})?")

Condition = Callable[[Any, Mapping[str, Sequence[Any]]], bool]


class Variable(NamedTuple):
    """A variable of a pattern: how often it repeats, and which conditions no event before it may satisfy."""

    name: str
    least: int
    most: int | None
    never: tuple[str, ...]


class PartialMatch(NamedTuple):
    """A run of the automaton: it has taken ``repeats`` events for variable number ``at``."""

    at: int
    repeats: int
    seen: int
    """Bit i is set if an event since the last taken one satisfies negated condition i."""
    since: Any
    """The time of the first event."""
    taken: tuple[tuple[int, int], ...]
    """(variable, event) for each event taken, in order."""


_START = PartialMatch(-1, 0, 0, None, ())


class Automaton:
    """A compiled pattern. Raises StateError if the text, a condition or an option is wrong.

    >>> late = Automaton("a b", {"a": lambda e, _: e >= 60, "b": lambda e, _: e >= 60})
    >>> runs, events, found = [], {}, []
    >>> for number, delay in enumerate([70, 5, 80, 90]):
    ...     events[number] = delay
    ...     runs, matches = late.advance(runs, number, number, events)
    ...     found += [late.bindings(match) for match in matches]
    >>> found
    [{'a': [2], 'b': [3]}]
    """

    def __init__(self, text: str, where: Mapping[str, Condition], within: Any = None, by: str = "strict") -> None:
        self.text, self.where, self.within, self.by = text, dict(where), within, by
        if by not in CONTIGUITIES:
            raise StateError(f"pattern {text!r}: by={by!r} is unknown; it is one of {', '.join(CONTIGUITIES)}")
        self.variables = _parse(text)
        self.negated = [name for variable in self.variables for name in variable.never]
        names = [variable.name for variable in self.variables] + self.negated
        if twice := [name for name in names if names.count(name) > 1]:
            raise StateError(f"pattern {text!r}: {twice[0]} occurs twice; give the second one a name of its own")
        if sorted(names) != sorted(n for n, each in where.items() if callable(each) and not does_nothing(each)):
            raise StateError(f"pattern {text!r}: where has conditions for {', '.join(where)}, but the variables are "
                             f"{', '.join(names)}; pass one plain function (event, taken) for each")  # fmt: skip
        if by == "any" and within is None and any(variable.most is None for variable in self.variables):
            raise StateError(
                f"pattern {text!r}: with by='any' and no within, the partial matches of an unbounded repetition double "
                "with each event; set within, or a largest number such as b{1,5}"
            )

    def advance(
        self, runs: Sequence[PartialMatch], number: int, time: Any, events: Mapping[int, Any]
    ) -> tuple[list[PartialMatch], list[PartialMatch]]:
        """Return the runs after event ``number``, and the runs that are matches and end with it, by their start.

        ``events`` maps the numbers of this event and of all taken ones to the events.
        """
        kept, matches = [], []
        event = events[number]
        for run in [*runs, _START]:
            if run is not _START and self.within is not None and time - run.since > self.within:
                continue
            taken = {v.name: [events[n] for at, n in run.taken if at == i] for i, v in enumerate(self.variables)}
            took = False
            for at, count in self._options(run):
                if self.where[self.variables[at].name](event, taken):
                    took = True
                    since = time if run is _START else run.since
                    longer = PartialMatch(at, count, 0, since, (*run.taken, (at, number)))
                    if self._complete(longer):
                        matches.append(longer)
                    if any(self._options(longer)):
                        kept.append(longer)
            if run is not _START and (self.by == "any" or (self.by == "next" and not took)):
                seen = sum(1 << i for i, name in enumerate(self.negated) if self.where[name](event, taken))
                passed = run._replace(seen=run.seen | seen)
                if any(self._options(passed)):
                    kept.append(passed)
        matches.sort(key=lambda match: [n for _, n in match.taken])
        return kept, matches

    def bindings(self, match: PartialMatch) -> dict[str, list[int]]:
        """Return the numbers of the events that each variable has taken."""
        return {v.name: [n for at, n in match.taken if at == i] for i, v in enumerate(self.variables)}

    def _options(self, run: PartialMatch) -> Iterator[tuple[int, int]]:
        """Yield (variable, its count then) for each variable that can take the next event."""
        if run.at >= 0:
            variable = self.variables[run.at]
            if variable.most is None or run.repeats < variable.most:
                yield run.at, run.repeats + 1
            if run.repeats < variable.least:
                return
        for at in range(run.at + 1, len(self.variables)):
            variable = self.variables[at]
            if any(run.seen >> self.negated.index(name) & 1 for name in variable.never):
                return
            yield at, 1
            if variable.least:
                return

    def _complete(self, run: PartialMatch) -> bool:
        rest = self.variables[run.at + 1 :]
        return run.repeats >= self.variables[run.at].least and not any(variable.least for variable in rest)


def _parse(text: str) -> tuple[Variable, ...]:
    found: list[Variable] = []
    never: list[str] = []
    for word in text.split():
        given = _TOKEN.fullmatch(word)
        if given is None:
            raise StateError(
                f"pattern {text!r}: {word!r} is not understood. A pattern is a sequence of variables such as a, b+, "
                "c?, d{2,4}, and !x between two of them; alternatives, groups, * and until are not supported"
            )
        negated, name, sign, low, comma, high = given.groups()
        if negated:
            never.append(negated)
            continue
        least = int(low) if low else 0 if sign == "?" else 1
        most = None if sign == "+" or (comma and not high) else int(high or low or 1)
        if most is not None and not max(least, 1) <= most:
            raise StateError(
                f"pattern {text!r}: {word!r}: the largest number must be at least 1 and at least the smallest"
            )
        found.append(Variable(name, least, most, tuple(never)))
        never = []
    if outside := [*never, *(found[0].never if found else ())]:
        raise StateError(f"pattern {text!r}: !{outside[0]} must stand between two variables")
    if not any(variable.least for variable in found):
        raise StateError(f"pattern {text!r}: at least one variable must not be optional")
    return tuple(found)


class PatternOperator(StatefulOperator):
    """The base class of what `pattern` returns."""

    order = "event"
    automaton: Automaton
    listed: str
    """The column whose values a match lists."""

    runs: ListState
    events: MapState
    overdue: TimerState

    def row(self, key: Any, row: dict[str, Any], out: Any) -> None:
        """Advance the runs of the key by one event."""
        assert self.now is not None
        events = dict(self.events.items())
        number = max(events, default=-1) + 1
        events[number] = row
        before = [_run(each) for each in self.runs.get()]
        runs, matches = self.automaton.advance(before, number, self.now, events)
        if len(runs) > MOST_RUNS:
            raise StateError(
                f"pattern {self.automaton.text!r}, key {shorten(key)}: more than {MOST_RUNS} partial matches; choose a "
                "shorter within, a largest number for repetitions, or by='next'"
            )
        for match in matches:
            found = self.automaton.bindings(match).values()
            out(*_key(key), match.since, self.now, *([events[n][self.listed] for n in taken] for taken in found))
        if runs or before:
            self._keep(runs, {number: row})

    def on_overdue(self, key: Any, at: datetime.datetime, out: Any) -> None:
        """Drop the runs that began too long ago to be completed."""
        within = self.automaton.within
        self._keep([run for run in map(_run, self.runs.get()) if at - run.since <= within], {})

    def _keep(self, runs: Sequence[PartialMatch], fresh: Mapping[int, Any]) -> None:
        self.runs.set([(*run[:4], [at for at, _ in run.taken], [n for _, n in run.taken]) for run in runs])
        needed = {number for run in runs for _, number in run.taken}
        for number, _ in self.events.items():
            if number not in needed:
                self.events.remove(number)
        for number, event in fresh.items():
            if number in needed:
                self.events.put(number, event)
        if runs and self.automaton.within is not None:
            # A run can still be completed at the last moment of within, so it goes one microsecond later.
            first = min(run.since for run in runs) + self.automaton.within
            self.overdue.set(first + datetime.timedelta(microseconds=1))
        else:
            self.overdue.clear()


def pattern(
    text: str,
    source: EventSource,
    where: Mapping[str, Condition],
    within: str | datetime.timedelta | None = None,
    by: str = "strict",
    id: str | None = None,
) -> PatternOperator:
    """Return an operator that emits a row for each match: the key, ``start``, ``end``, and a LIST for each variable.

    The lists have the values of column ``id`` of the events that the variable has taken; by default, their times.
    ``where`` maps each variable to a function (event, taken): the event is a dict by column, ``taken`` maps the
    variables to the events that they have taken so far. ``within`` is the longest time from the first to the last
    event, inclusive. (In Flink, it is exclusive.) Events are taken in the order of their times, so the order of arrival
    never matters.

    Raises StateError if the pattern is wrong. A run with another pattern cannot be restored.

    >>> from sharedstate_lite import managed as m
    >>> visits = m.source("visit", "user STRING, product STRING, t TIMESTAMP", key="user", time="t")
    >>> both = m.pattern("a b", visits, by="next", id="product", within="1 hour",
    ...     where={"a": lambda e, _: e["product"] == "Apple", "b": lambda e, _: e["product"] == "Potato"})
    >>> run = m.run(both, visits)
    >>> at = lambda minute: datetime.datetime(2027, 1, 1, 12, minute)
    >>> _ = run.step([("Eve", "Apple", at(0)), ("Eve", "Fig", at(1)), ("Eve", "Potato", at(5))])
    >>> run.advance(at(59))[["user", "a", "b"]].values.tolist()
    [['Eve', ['Apple'], ['Potato']]]
    """
    if source.time is None:
        raise StateError(
            f"pattern {text!r}: {source.name} has no event time; declare it with source(..., time='column')"
        )
    kinds = dict(source.columns.fields)
    listed = source.time if id is None else id
    if listed not in kinds:
        raise StateError(f"pattern {text!r}: there is no column {listed}; the columns are {', '.join(kinds)}")
    micros = None if within is None else duration(within)
    length = None if micros is None else datetime.timedelta(microseconds=micros)
    found = Automaton(text, where, length, by)
    if clash := sorted({v.name for v in found.variables} & {*source.key, "start", "end"}):
        raise StateError(
            f"pattern {text!r}: the variable {clash[0]} has the name of a column of the matches; rename it"
        )
    columns = [f"{name} {kinds[name]}" for name in source.key] + ["start TIMESTAMP", "end TIMESTAMP"]
    columns += [f"{variable.name} LIST<{kinds[listed]}>" for variable in found.variables]
    # A checkpoint compares the names of operators, so this one must change with the pattern.
    described = zlib.crc32(repr((text, micros, by, listed)).encode())
    states = {
        "runs": ListState(
            "STRUCT<at: INT, repeats: INT, seen: INT, since: TIMESTAMP, by: LIST<INT>, taken: LIST<BIGINT>>"
        ),
        "events": MapState("BIGINT", str(source.columns)),
        "overdue": TimerState(),
    }
    body = {"automaton": found, "listed": listed, "out": ", ".join(columns), "__doc__": f"The pattern {text!r}."}
    made: PatternOperator = type(f"Pattern_{described:08x}", (PatternOperator,), body | states)()
    return made


def _run(stored: Mapping[str, Any]) -> PartialMatch:
    taken = tuple(zip(stored["by"], stored["taken"], strict=True))
    return PartialMatch(stored["at"], stored["repeats"], stored["seen"], stored["since"], taken)


def _key(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
