"""Right systems pass the phases, and each wrong one is caught by the phase and the rule that are meant for it.

Every trial is a grader with its own processes and mostly waits, so several run at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zoo
from zoo.table import table
from zoo.trial import Trial

from grader.terms import JUDGED

AT_ONCE = 5
LONGEST = 240
"""Seconds of a trial, on a machine that is busy with others."""
OFTEN = ("single", "three", "fast")
"""Right systems on every phase in each run of the tests: one process, a saga, and epochs; the others when slow."""
BUDGET = 14.0
"""Seconds of such a run, what must converge aside."""

Came = dict[str, Any]


def came_of(trial: Trial) -> Came:
    """Run it."""
    process = trial.start()
    try:
        out, err = process.communicate(timeout=LONGEST)
    finally:
        process.kill()
    assert process.returncode == 0, err
    came: Came = json.loads(out.splitlines()[-1])
    return came


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest) -> Iterator[Callable[[Trial], Came]]:
    """What came of a trial; those of all chosen tests are begun at once."""
    chosen = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    wanted = [given["trial"] for given in chosen if "trial" in given]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {trial: pool.submit(came_of, trial) for trial in wanted}
        yield lambda trial: running[trial].result()
        for future in running.values():
            future.cancel()


def slowly(trial: Trial, often: bool) -> object:
    return pytest.param(trial, id=trial.name, marks=() if often else pytest.mark.slow)


RIGHT = [slowly(Trial(name, JUDGED, BUDGET, right.convergence), name in OFTEN) for name, right in zoo.RIGHT.items()]
WRONG = [slowly(Trial.of_mutant(mutant.name), not mutant.slow) for mutant in zoo.MUTANTS]


@pytest.mark.parametrize("trial", RIGHT)
def test_a_right_system_passes_every_phase(trial: Trial, trials: Callable[[Trial], Came]) -> None:
    """What mutants are made of is right: with its one place mended, each of them passes."""
    came = trials(trial)
    assert not trial.wrong(came), (trial.wrong(came), came)
    assert {phase for phase, verdict in came["phases"].items() if verdict == "pass"} == set(JUDGED), came


@pytest.mark.parametrize("trial", WRONG)
def test_a_wrong_system_is_caught(trial: Trial, trials: Callable[[Trial], Came]) -> None:
    """The mutant fails in its phase, by its rule."""
    came = trials(trial)
    assert not trial.wrong(came), (trial.wrong(came), came)


@pytest.mark.parametrize("mutant", zoo.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_wrong_in_one_place(mutant: zoo.Mutant, tmp_path: Path) -> None:
    """It is its base, file by file, but for one text in one file, which is still a program."""
    wrong, right = zoo.plant(mutant, tmp_path / "wrong"), zoo.right(mutant.base, tmp_path / "right")
    files = [path.relative_to(right) for path in right.rglob("*") if path.is_file()]
    assert [f for f in files if (wrong / f).read_bytes() != (right / f).read_bytes()] == [Path(mutant.file)]
    text = (wrong / mutant.file).read_text()
    before, _, after = (right / mutant.file).read_text().partition(mutant.right)
    assert text == before + mutant.wrong + after
    compile(text, mutant.file, "exec")


def test_the_page_tells_of_every_system() -> None:
    """The matrix of docs/zoo.md has a row for each right system and for each mutant, and no other."""
    page = (zoo.HERE.parents[2] / "docs" / "zoo.md").read_text().partition("## The matrix")[2]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert rows == ["right system", *zoo.RIGHT, "mutant", *(mutant.name for mutant in zoo.MUTANTS)]


def test_the_table_says_what_differs_between_passes() -> None:
    """A rule that not every pass saw has a count; a mend is counted with mutants of its phase and budget alone."""
    of_three = [mutant for mutant in zoo.MUTANTS if mutant.base == "three"]
    short, long = (next(mutant for mutant in of_three if (mutant.seconds > 0) is own) for own in (False, True))
    came: list[Came] = []
    for mutant, rules in ((short, (["x"], ["x", "y"])), (long, (["x"], ["x"]))):
        for turn, broken in enumerate(rules, 1):
            one = {"asked": ["faults"], "budget": mutant.seconds, "pass": turn, "seconds": 1.0, "wrong": ""}
            came.append(
                {**one, "role": "mutant", "name": mutant.name, "verdict": "fail", "rules": dict.fromkeys(broken)}
            )
            came.append({**one, "role": "mended", "name": mutant.base, "verdict": "pass", "rules": {}})
    rows = [line for line in table(came, 2).splitlines() if "fail x 2" in line]
    assert [row.endswith(" | pass x 2 |") for row in rows] == [True, True]
    assert [row.split(" | ")[-2] for row in rows] == ["x, y (1 of 2)", "x"]
