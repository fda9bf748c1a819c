"""The checks of the labs: how many cases they ask, and answers that no right solution gives."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_process import Here

from grader.lab import Case
from grader.lab.checks import CHECKS, HIDDEN, Cases, load
from grader.lab.judge import judging
from grader.outcomes import Outcome
from grader.student.local import Local
from grader.worker import Student

LABS = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "labs").glob("*/lab.toml"))
LIMITS = re.compile(
    r"most=(\d)|(?:epochs_of|watched|readers)\((\d)\)|scripts\(.*, (\d)\)|\], (\d)\)|for n in range\((\d+)\):"
)
"""How checks.py and hidden.py say how many cases there are."""


def unlike(
    lab: Path, texts: dict[str, str], work: Path, at: tuple[str, int] = ("", 0)
) -> Iterator[tuple[str, int, int]]:
    """The checks whose number of cases differs from lab.toml, as (id, now, in lab.toml); first those at a line."""
    for name, text in texts.items():
        (work / name).write_text(text)
    cases = tomllib.loads((lab / "lab.toml").read_text())["cases"]
    checks = load(work / "checks.py")
    assert {one.id for one in checks} == set(cases)
    starts = {one.id: (Path(one.cases.__code__.co_filename).name, one.cases.__code__.co_firstlineno) for one in checks}
    near = max((start for start in starts.values() if start[0] == at[0] and start <= at), default=None)
    checks.sort(key=lambda one: starts[one.id] != near)
    for judged in judging(checks, Here((lab / "solution.py").read_text()), {}):
        assert judged.result.outcome == Outcome.PASS, judged.result
        if judged.cases != cases[judged.result.check]:
            yield judged.result.check, judged.cases, cases[judged.result.check]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_weaker_check_asks_fewer_cases(lab: Path, tmp_path: Path) -> None:
    """Making any limit of a check smaller by one changes a number of lab.toml. Another secret changes none."""
    texts = {name: (lab / name).read_text() for name in (CHECKS, HIDDEN)}
    for secret in ("public", "twelve words"):
        changed = {name: text.replace('SECRET = "public"', f'SECRET = "{secret}"') for name, text in texts.items()}
        assert list(unlike(lab, changed, tmp_path)) == []
    limits = [(name, *found.span(found.lastindex)) for name, text in texts.items()
              for found in LIMITS.finditer(text) if found.lastindex]  # fmt: skip
    assert len(limits) >= 8
    for name, first, last in limits:
        text = texts[name]
        less = f"{text[:first]}{int(text[first:last]) - 1}{text[last:]}"
        line = text.count("\n", 0, first) + 1
        found = next(unlike(lab, {**texts, name: less}, tmp_path, (name, line)), None)
        assert found, f"{name}, line {line}: {text.splitlines()[line - 1]}"


LARGE = 9 * 10**4299
"""Twice this number has more digits than Python converts to text."""
NESTED: Any = None
for _ in range(45):
    NESTED = [NESTED]
ODD = [
    *(None, True, -1.5, "Nut", "\ud800", [], [[]], {}, [{}], NESTED),
    *([["Nut", 1]], [["+I", [{}, []]]], [[["Nut", {}], LARGE], [["Nut", {}], LARGE]], [[1, 2, [[["Nut"], "1", 1]]]]),
    *([["question"]], [["change", "Nut", True]], [["answer", "Nut", [1, "1"]]], [["evict", "\ud800"]]),
]
CHANGES: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "every answer": lambda odd, results: [odd] * len(results),
    "the last answer": lambda odd, results: [*results[:-1], odd] if results else [],
}


def first_cases(cases: Cases, student: Student) -> Iterator[Case]:
    """The first cases of a check."""
    return itertools.islice(cases(student), 12)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_odd_answers_are_wrong(lab: Path, how: str) -> None:
    """An answer of another shape is wrong, with a message. It raises nothing in the check."""
    text, change = (lab / "solution.py").read_text(), CHANGES[how]
    checks = [replace(one, cases=partial(first_cases, one.cases)) for one in load(lab / "checks.py")]
    passed = set()
    for odd in ODD:
        for judged in judging(checks, Here(text, partial(change, odd)), {}):
            result = judged.result
            assert (result.outcome == Outcome.PASS) != bool(result.got), result
            assert result.outcome in (Outcome.PASS, "wrong", "error"), result
            if result.outcome == Outcome.PASS:
                passed.add((result.check, str(odd)))
    assert passed <= {("few", "[]")}


@pytest.mark.parametrize(("base", "passes"), [("ValueError", True), ("UnicodeError", True), ("LookupError", False)])
def test_a_refusal_may_be_a_subclass(base: str, passes: bool, tmp_path: Path) -> None:
    """Lab 2 says "raises ValueError": an exception of a class that inherits from it is one."""
    (lab,) = (lab for lab in LABS if lab.name.startswith("2-"))
    text = (lab / "solution.py").read_text().replace("raise ValueError(", "raise TooEarlyError(")
    assert text.count("raise TooEarlyError(") == 3
    (tmp_path / "solution.py").write_text(f"{text}\n\nclass TooEarlyError({base}):\n    pass\n")
    with Local(tmp_path, "solution") as local:
        refusals = [one for one in load(lab / "checks.py") if one.id == "refusals"]
        (judged,) = judging(refusals, local, {})
    assert judged.result.outcome == (Outcome.PASS if passes else "error")
    assert passes or judged.result.got.startswith("TooEarlyError: ")
