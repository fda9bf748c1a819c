"""Explore shows a short run of each wrong system, and blames no right one.

`make test` runs six suspects and 40 cases of right systems. The others are marked slow: each system takes minutes, and
its result is stored, so that an interrupted run of the tests goes on where it was. The key of a result is a hash of the
system and of the grader.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from systems import RIGHT, WRONG, Wrong, exploring, figures, plant
from zoo.__main__ import ROOT, cached, digest

from grader.explore.cases import KILL, KINDS, LOSE, RACE, TWICE, Case
from grader.explore.shown import shown
from sharedstate_lite.system.cache import cache_dir

MINUTES, MANY = 10.0, 40
"""The time for a wrong system, and how many cases of right systems `make test` runs."""
THREE = ("three", "one-database", "entities")
STORED = "explore/results.jsonl"


@pytest.mark.parametrize("wrong", [each for each in WRONG if each.fast], ids=lambda wrong: wrong.name)
def test_the_shown_case_of_a_wrong_system_is_a_suspect(wrong: Wrong, tmp_path: Path) -> None:
    """It is wrong at once, by its rule, in a run that is legal and has few steps."""
    with exploring(plant(wrong.name, tmp_path / wrong.name)) as explorer:
        case = explorer.find(wrong.fast)
        assert case is not None, wrong.fast
        run = explorer.run(case)
        assert run is not None, (explorer.unreached, explorer.void)
        told = shown(run)
        assert wrong.rule in told.rules and told.kind == wrong.kind, told
        assert len(told.steps) <= wrong.steps, told.steps


@pytest.mark.parametrize("name", THREE)
def test_cases_of_a_right_system_are_right(name: str, tmp_path: Path) -> None:
    """Evenly spaced cases of all kinds: none is suspect, void or out of reach."""
    with exploring(plant(name, tmp_path / name)) as explorer:
        chosen = list(spaced(explorer, MANY // len(THREE) + 1))
        assert {case.kind for case in chosen} == {RACE, KILL} | ({LOSE} if name != "entities" else set())
        for case in chosen:
            run = explorer.run(case)
            assert run is not None, (explorer.unreached, explorer.void)
            assert not run.violations, shown(run)


def spaced(explorer: Any, count: int) -> Iterator[Case]:
    """A third of the cases from each kind that can be listed, evenly spaced."""
    queues = [(kind, [*cases]) for name, kind, cases in explorer.queues([LOSE, KILL]) if name in ("quick", KILL)]
    queues.append((RACE, [*islice(explorer.queues([RACE])[0][2], 5)]))
    for _, cases in queues:
        if cases:
            share = max(1, count // sum(bool(some) for _, some in queues))
            yield from cases[:: max(1, len(cases) // share)][:share]


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[str, Callable[[Path], dict[str, Any]]], dict[str, Any]]:
    """The result of a system, which is computed once."""

    def result(name: str, compute: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        folder, path = plant(name, tmp_path / name), cache_dir() / STORED
        key = f"{name} {digest(folder)[:16]} {digest(ROOT / 'grader')[:16]}"
        found: dict[str, Any] | None = cached(path).get(key)
        if found is None:
            found = {"key": key, **compute(folder)}
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(json.dumps(found) + "\n")
        return found

    return result


Stored = Callable[[str, Callable[[Path], dict[str, Any]]], dict[str, Any]]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_system_is_shown(wrong: Wrong, stored: Stored) -> None:
    """The first violation is of the expected kind and rule, and has no more steps than expected."""

    def compute(folder: Path) -> dict[str, Any]:
        with exploring(folder) as explorer:
            if not explorer.found:
                until = time.monotonic() + 60 * MINUTES
                explorer.explore([*KINDS], until, lambda: bool(explorer.found))
            return figures(explorer)

    result = stored(wrong.name, compute)
    assert result["found"], result
    assert result["found"]["kind"] == wrong.kind and wrong.rule in result["found"]["rules"], result
    assert result["found"]["steps"] <= wrong.steps, result


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_system_is_not_blamed(name: str, stored: Stored) -> None:
    """Each loss, kill and race of one swap is right, and nothing is suspect that is wrong again."""

    def compute(folder: Path) -> dict[str, Any]:
        with exploring(folder) as explorer:
            kinds = [kind for kind in KINDS if kind != TWICE]
            explorer.explore(kinds, time.monotonic() + 3600.0, lambda: bool(explorer.found))
            return figures(explorer)

    result = stored(name, compute)
    assert not result["found"], result
