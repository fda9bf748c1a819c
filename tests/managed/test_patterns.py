"""Patterns against two oracles: Python's regular expressions, and every binding by brute force (rule 33)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import combinations, combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite import managed as m
from sharedstate_lite.data.flights import SCHEMA, flights
from sharedstate_lite.errors import CheckpointError, StateError
from sharedstate_lite.managed.patterns import CONTIGUITIES, Automaton

Binding = tuple[tuple[int, int], ...]
"""(variable, event) for each event of a match."""
WHERE: dict[str, Any] = {name: lambda event, taken, name=name: name in event for name in "abcx"}
TEXTS = ["a b", "a b+ c", "a !x b", "a+ !x b? c", "a b{2,3}", "a b? c?", "a+ b{1,} c?"]
START = datetime(2027, 1, 1)
LETTERS = m.source("letters", "key STRING, letters STRING, t TIMESTAMP", key="key", time="t", delay="4 hours")
EVENTS = st.lists(st.sampled_from(["a", "b", "c", "x", "ab", "bx", "bc", ""]), max_size=7)


def automaton(text: str, by: str = "strict", within: int | None = None) -> Automaton:
    """The pattern, in which an event satisfies each variable whose letter it contains. Times are positions."""
    return Automaton(text, {name: WHERE[name] for name in re.findall("[abcx]", text)}, within, by)


def run(pattern: Automaton, events: Sequence[str]) -> list[Binding]:
    """All matches, in the order in which they are found."""
    runs: Any = []
    found = []
    for number in range(len(events)):
        runs, matches = pattern.advance(runs, number, number, dict(enumerate(events)))
        found += [match.taken for match in matches]
    return found


def assignments(pattern: Automaton, size: int, whole: bool) -> Iterator[tuple[int, ...]]:
    """Every way to give ``size`` events to the variables in order; not ``whole``: the last ones may lack events."""
    variables = pattern.variables
    for way in combinations_with_replacement(range(len(variables)), size):
        counts = [way.count(i) for i in range(len(variables))]
        needed = len(variables) if whole else way[-1]
        if all(count >= v.least for count, v in zip(counts[:needed], variables, strict=False)) and all(
            v.most is None or count <= v.most for count, v in zip(counts, variables, strict=True)
        ):
            yield way


def matches(pattern: Automaton, events: Sequence[str]) -> Iterator[Binding]:
    """The definition: choose events and their variables, then look at every event that was passed over."""

    def holds(name: str, number: int) -> bool:
        return name in events[number]

    def negated(first: int, last: int) -> list[str]:
        return [name for v in pattern.variables[first + 1 : last + 1] for name in v.never]

    def may_pass(taken: tuple[int, ...], way: tuple[int, ...], number: int) -> bool:
        if pattern.by == "strict":
            return False
        for at in range(way[-1], len(pattern.variables)):
            forbidden = any(holds(n, p) for n in negated(way[-1], at) for p in range(taken[-1] + 1, number))
            can = (*way, at) in assignments(pattern, len(way) + 1, whole=False)
            if pattern.by == "next" and can and not forbidden and holds(pattern.variables[at].name, number):
                return False
        return True

    for size in range(1, len(events) + 1):
        for taken in combinations(range(len(events)), size):
            if pattern.within is not None and taken[-1] - taken[0] > pattern.within:
                continue
            for way in assignments(pattern, size, whole=True):
                if not all(holds(pattern.variables[i].name, number) for i, number in zip(way, taken, strict=True)):
                    continue
                passed = [(q, p) for q in range(size - 1) for p in range(taken[q] + 1, taken[q + 1])]
                if all(
                    may_pass(taken[: q + 1], way[: q + 1], p)
                    and not any(holds(n, p) for n in negated(way[q], way[q + 1]))
                    for q, p in passed
                ):
                    yield tuple(zip(way, taken, strict=True))


@pytest.mark.parametrize("by", CONTIGUITIES)
@pytest.mark.parametrize("text", TEXTS)
@given(events=EVENTS, within=st.integers(0, 7))
def test_rule_33_matches_equal_brute_force(text: str, by: str, events: list[str], within: int) -> None:
    """Rule 33: the same bindings as the definition, each once."""
    pattern = automaton(text, by, within)
    assert sorted(run(pattern, events)) == sorted(matches(pattern, events))


@pytest.mark.parametrize(
    ("text", "regular"), [("a b+ c", "ab+c"), ("a b? c", "ab?c"), ("a{2,3} b", "a{2,3}b"), ("a+ b{1,} c?", "a+b+c?")]
)
@given(events=st.text("abc", max_size=12))
def test_strict_matches_equal_regular_expressions(text: str, regular: str, events: str) -> None:
    """Rule 33: one match for each substring that the regular expression matches as a whole."""
    found = sorted((match[0][1], match[-1][1] + 1) for match in run(automaton(text), events))
    pairs = combinations(range(len(events) + 1), 2)
    assert found == sorted((a, b) for a, b in pairs if re.fullmatch(regular, events[a:b]))


def test_a_condition_sees_the_events_taken_before() -> None:
    """``taken`` maps each variable to its events so far."""
    rising = Automaton("a b+", {"a": lambda e, taken: True, "b": lambda e, taken: e > (taken["b"] or taken["a"])[-1]})
    runs: Any = []
    found = []
    events = dict(enumerate([5, 6, 8, 7]))
    for number in events:
        runs, done = rising.advance(runs, number, number, events)
        found += [rising.bindings(match) for match in done]
    assert found == [{"a": [0], "b": [1]}, {"a": [0], "b": [1, 2]}, {"a": [1], "b": [2]}]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a|b", {}, "'a|b' is not understood"),
        ("(a b)+", {}, "'(a' is not understood"),
        ("a b*", {}, "'b*' is not understood"),
        ("", {}, "at least one variable"),
        ("a?", {}, "at least one variable"),
        ("!x", {}, "!x must stand between"),
        ("!x a", {}, "!x must stand between"),
        ("a !x", {}, "!x must stand between"),
        ("a !x+ b", {}, "'!x+' is not understood"),
        ("a{3,2}", {}, "the largest number"),
        ("a{0}", {}, "the largest number"),
        ("a b a", {}, "a occurs twice"),
        ("a b", {"by": "loosely"}, "by='loosely'"),
        ("a b+", {"by": "any"}, "set within"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str, options: dict[str, Any], said: str) -> None:
    """Each error shows the pattern, the rule, and what to write."""
    with pytest.raises(StateError, match="pattern") as refused:
        automaton(text, **options)
    assert said in str(refused.value)


async def later(event: Any, taken: Any) -> bool:
    """What a call returns is true, whatever this returns."""
    return False


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"a": WHERE["a"]}, "the variables are a, b"),
        (WHERE, "conditions for a, b, c"),
        ({"a": WHERE["a"], "b": later}, "pass one plain function"),
    ],
)
def test_conditions_and_variables_belong_together(where: dict[str, Any], said: str) -> None:
    """A variable without a condition, and a condition without a variable."""
    with pytest.raises(StateError, match=said):
        Automaton("a b", where)


def made(text: str, source: Any = LETTERS, **options: Any) -> Any:
    """The pattern as an operator over rows (key, letters, t)."""
    where = {name: lambda event, taken, name=name: name in event["letters"] for name in re.findall("[abcx]", text)}
    return m.pattern(text, source, where, **options)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.sampled_from("KL"), st.sampled_from(["a", "b", "c", "ab", ""])), max_size=12),
    cuts=st.sets(st.integers(0, 12)),
    shift=st.integers(0, 2),
    by=st.sampled_from(CONTIGUITIES),
    workers=st.integers(1, 3),
)
def test_the_operator_finds_them_however_rows_arrive(
    rows: list[tuple[str, str]], cuts: set[int], shift: int, by: str, workers: int
) -> None:
    """Rules 33 and 35: any epochs, order within the delay, number of workers. Then no state is left (rule 30)."""
    timed = [(key, letters, START + timedelta(hours=hour)) for hour, (key, letters) in enumerate(rows)]
    arriving = [timed[i] for i in sorted(range(len(timed)), key=lambda i: (i // (shift + 1), -i))]
    run = m.run(made("a b+ c?", by=by, within="6 hours"), LETTERS, workers=workers)
    found = []
    for first, last in pairwise(sorted({0, len(rows), *cuts})):
        found.append(run.step(arriving[first:last]))
    found.append(run.advance(START + timedelta(days=9)))
    got = sorted(tuple(map(str, row)) for frame in found for row in frame.drop(columns="end").values.tolist())
    expected = []
    for key in "KL":
        mine = [(letters, hour) for hour, (k, letters) in enumerate(rows) if k == key]
        wanted = automaton("a b+ c?", by, 6)
        runs: Any = []
        events = {hour: letters for letters, hour in mine}
        for hour in events:
            runs, matches = wanted.advance(runs, hour, hour, events)
            for match in matches:
                times = {
                    name: [START + timedelta(hours=hour) for hour in taken]
                    for name, taken in wanted.bindings(match).items()
                }
                start = START + timedelta(hours=match.since)
                expected.append(tuple(map(str, (key, start, *times.values()))))
    assert got == sorted(expected)
    assert run.state()["rows"].sum() == 0


def test_flights_that_were_late_twice_within_a_day() -> None:
    """One month, rescaled from 2 to 4 workers and restored in the middle; then nothing is left."""
    january = flights(27_000)
    late = {name: lambda event, taken: event["delay"] >= 60 for name in "ab"}
    source = m.source("flights", SCHEMA, key="plane", time="at")
    found = {}
    for by in CONTIGUITIES:
        run = m.run(m.pattern("a b", source, late, within="24 hours", by=by, id="flight"), source, workers=2)
        count = len(run.step(january[:9_000]))
        run.rescale(4, migration="fluid")
        count += len(run.step(january[9_000:]))
        count += len(run.advance(january["at"].max().to_pydatetime() + timedelta(days=2)))
        found[by] = count
        assert run.state()["rows"].sum() == 0
    assert found == pairs(january)


def pairs(table: Any) -> dict[str, int]:
    """The same counts from the times of late departures."""
    found = dict.fromkeys(CONTIGUITIES, 0)
    day = 24 * 60
    for _, plane in table.groupby("plane", sort=False):
        minutes = (plane["at"].astype("int64") // 60_000_000).tolist()
        late = (plane["delay"] >= 60).tolist()
        when = [minute for minute, is_late in zip(minutes, late, strict=True) if is_late]
        both = zip(pairwise(minutes), pairwise(late), strict=True)
        found["strict"] += sum(all(two) and second - first <= day for (first, second), two in both)
        found["next"] += sum(second - first <= day for first, second in pairwise(when))
        found["any"] += sum(second - first <= day for first, second in combinations(when, 2))
    return found


def test_a_restored_run_goes_on_and_another_pattern_is_refused(tmp_path: Path) -> None:
    """The runs of the automaton are in the checkpoint; the pattern itself is compared."""
    run = m.run(made("a b"), LETTERS)
    run.step([("K", "a", START)])
    run.checkpoint(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="Pattern_"):
        m.restore(tmp_path / "saved", made("a b c"))
    again = m.restore(tmp_path / "saved", made("a b"))
    again.step([("K", "b", START + timedelta(hours=1))])
    assert len(again.advance(START + timedelta(days=1))) == 1


def test_too_many_partial_matches_name_the_key() -> None:
    """Each event doubles them; the run is as before the epoch."""
    run = m.run(made("a{1,20} b", by="any", within="30 days"), LETTERS)
    rows = [("K", "a", START + timedelta(hours=hour)) for hour in range(16)]
    run.step(rows)
    with pytest.raises(StateError, match="'K': more than 10000 partial matches"):
        run.advance(START + timedelta(days=1))
    assert run.epoch == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [({"id": "nothing"}, "no column nothing"), ({"source": m.source("s", "t STRING", key="t")}, "no event time")],
)
def test_the_source_has_what_the_pattern_needs(options: dict[str, Any], said: str) -> None:
    """A time, and the column that a match lists."""
    with pytest.raises(StateError, match=said):
        made("a b", **options)


def test_a_variable_is_no_column_of_the_matches() -> None:
    """Its list would have the name of the key."""
    with pytest.raises(StateError, match="the variable key"):
        m.pattern("key", LETTERS, {"key": lambda event, taken: True})
