"""Explore shows a short run of each wrong system, and blames no right one.

`make test` runs six suspects and 40 cases of right systems, and compares docs/zoo.md with the committed results. The
others are marked slow: each system takes minutes, and its result is stored (`explored`), so that an interrupted run of
the tests goes on where it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from explored import PAGE, ROOT, TIMES, TRIALS, Trial, committed, result_of, stored, suspects, twice, written
from systems import RIGHT, SHOPS, WRONG, Wrong, exploring, plant

from grader.explore.cases import KILL, LOSE, RACE, Case
from grader.explore.shown import shown

MANY = 40
"""How many cases of right systems `make test` runs."""
THREE = ("three", "one-database", "entities")


@pytest.mark.parametrize("wrong", [each for each in WRONG if each.name in SHOPS], ids=lambda wrong: wrong.name)
def test_the_case_of_a_wrong_shop_is_a_suspect(wrong: Wrong, tmp_path: Path) -> None:
    """It is wrong at once, by its rule, in a run that is legal and has few steps."""
    with exploring(plant(wrong.name, tmp_path / wrong.name)) as explorer:
        case = explorer.find(SHOPS[wrong.name].case)
        assert case is not None
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


def test_what_a_shop_does_after_a_fault_belongs_to_the_run(tmp_path: Path) -> None:
    """The client has its answer, and then a timer repeats the request: this can be lost, and its receiver killed."""
    take, charge = "order->stock POST /take/O.1/X:2,Y:3", "order->payment POST /take/O.1/U:31"
    order = plant("three", tmp_path / "three") / "order.py"
    order.write_text(order.read_text().replace('"AGAIN", "0.1"', '"AGAIN", "0.25"'))
    with exploring(order.parent) as explorer:
        case = explorer.find("payable, lose stock->order 200, 1st")
        assert case is not None
        run = explorer.run(case)
        assert run is not None, (explorer.unreached, explorer.void)
        after = run.words[run.words.index("order->client 503") + 1 :]
        assert after[:2] == (take, "stock->order 200")
        twice = explorer.find(f"payable, kill stock at {take}, 1st, kill payment at {charge}, 1st")
        assert twice is not None
        run = explorer.run(twice)
        assert run is not None, (explorer.second, explorer.void)
        assert not run.violations, shown(run)


def spaced(explorer: Any, count: int) -> Iterator[Case]:
    """A third of the cases from each kind that can be listed, evenly spaced."""
    queues = [(kind, [*cases]) for name, kind, cases in explorer.queues([LOSE, KILL]) if name in ("quick", KILL)]
    queues.append((RACE, [*islice(explorer.queues([RACE])[0][2], 5)]))
    for _, cases in queues:
        if cases:
            share = max(1, count // sum(bool(some) for _, some in queues))
            yield from cases[:: max(1, len(cases) // share)][:share]


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS.values(), ids=lambda trial: trial.name)
def test_a_system_is_blamed_if_it_is_wrong(trial: Trial, tmp_path: Path) -> None:
    """A wrong system by the expected kind and rule; no right system, and none whose fault explore is not for."""
    result = result_of(trial, tmp_path / trial.name)
    assert trial.complaint(result) == ""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [each for each in WRONG if each.name in SHOPS], ids=lambda wrong: wrong.name)
def test_the_shown_case_is_a_suspect_each_time(wrong: Wrong, tmp_path: Path) -> None:
    """In 20 of 20 runs, by the same rule."""
    result = stored(wrong.name, tmp_path / wrong.name, partial(suspects, wrong), "suspects")
    assert result["suspect"] == TIMES, result


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_drawn_cases_of_a_right_system_are_right_twice(name: str, tmp_path: Path) -> None:
    """20 of its losses, kills and races."""
    result = stored(name, tmp_path / name, partial(twice, name), "twice")
    assert result["right"] == len(result["drawn"]) > 0, result


def test_the_page_has_the_results() -> None:
    """What is committed is as expected, and docs/zoo.md has it; a system without a result is "not run" there."""
    results = committed()
    assert {each["name"] for each in results} <= {*TRIALS}
    assert [said for each in results if (said := TRIALS[each["name"]].complaint(each))] == []
    page = PAGE.read_text()
    assert page == written(page, results)


def test_the_systems_of_the_readme_are_explored() -> None:
    """README.md names a wrong system, and the same system mended."""
    names = re.findall(r"grader explore labs/checkout/([\w-]+)", (ROOT / "README.md").read_text())
    assert [TRIALS[name].role for name in names] == ["wrong", "right"]
