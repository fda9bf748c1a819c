"""Right systems pass every phase, and each wrong one fails by the rule that it was made to break.

A trial runs a grader with its own processes, and mostly waits, so several trials run at once. `make test` runs one
right system and one mutant for each rule; the others are marked slow.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import zoo
from zoo.table import table
from zoo.trial import LONGEST, Trial

from grader.table import JUDGED
from grader.terms import RULES

AT_ONCE = 5
BUDGET = 14.0
"""Seconds that a right system's phases take, the time to converge aside."""
FAST = (
    "three",
    "pays-beyond-the-credit",
    "only-in-memory",
    "effect-after-4xx",
    "charges-on-every-checkout",
    "never-gives-stock-back",
    "sells-one-too-many",
    "asks-only-one-ledger",
    "keeps-the-last-one",
    "never-sells-the-last-one",
    "charges-a-fee-at-a-restart",
    "always-4xx",
    "sells-nothing-after-a-restart",
)
"""A right system, and a mutant for each rule: the trials that are not marked slow."""

Result = dict[str, Any]
Judged = Callable[[Trial], Result]


def result_of(trial: Trial) -> Result:
    """Run a trial. A trial that does not end is interrupted, and fails with its progress and stack."""
    with trial.start() as process:
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # the grader ends what it has started
            pytest.fail(f"{trial.name} did not end within {LONGEST:.0f} s:\n{process.communicate()[1]}")
        finally:
            process.kill()
    assert process.returncode == 0, err
    result: Result = json.loads(out.splitlines()[-1])
    return result


def judged_result(trial: Trial, first: Result, again: Judged) -> Result:
    """The result, or if the grader could not judge the system (void), that of a second try.

    If both are void, the test is skipped with the reason: a busy machine says nothing about the grader.
    """
    if not trial.void(first):
        return first
    second = again(trial)
    if why := trial.void(second):
        pytest.skip(f"{trial.name} was void twice: {why}")
    return second


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest) -> Iterator[Judged]:
    """The result of a trial. The trials of all selected tests start at once; a void one runs again after them."""
    chosen = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    trials = [given["trial"] for given in chosen if isinstance(given.get("trial"), Trial)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {trial: pool.submit(result_of, trial) for trial in trials}

        def again(trial: Trial) -> Result:
            wait(running.values())
            return result_of(trial)

        yield lambda trial: judged_result(trial, running[trial].result(), again)
        for future in running.values():
            future.cancel()


def case(trial: Trial) -> object:
    return pytest.param(trial, id=trial.name, marks=() if trial.name in FAST else pytest.mark.slow)


RIGHT = [case(Trial(name, JUDGED, BUDGET, right.convergence)) for name, right in zoo.RIGHT.items()]
WRONG = [case(Trial.of_mutant(mutant.name)) for mutant in zoo.MUTANTS]


@pytest.mark.parametrize("trial", RIGHT)
def test_a_right_system_passes_every_phase(trial: Trial, judged: Judged) -> None:
    """The bases of the mutants are right: without its mistake, each mutant passes."""
    result = judged(trial)
    assert not trial.wrong(result), (trial.wrong(result), result)
    assert {phase for phase, verdict in result["phases"].items() if verdict == "pass"} == set(JUDGED), result


@pytest.mark.parametrize("trial", WRONG)
def test_a_wrong_system_is_caught(trial: Trial, judged: Judged) -> None:
    """The mutant fails in its phase, by its rule."""
    result = judged(trial)
    assert not trial.wrong(result), (trial.wrong(result), result)


@pytest.mark.slow
@pytest.mark.parametrize("trial", [Trial("only-in-memory", JUDGED, BUDGET, 3.0)], ids=lambda trial: trial.name)
def test_a_kill_costs_one_phase(trial: Trial, judged: Judged) -> None:
    """What was right before a kill, and is gone after it, is a violation of faults alone."""
    result = judged(trial)
    assert {phase for phase, verdict in result["phases"].items() if verdict == "fail"} == {"faults"}, result
    assert "faults: ok_not_paid" in result["rules"]


def test_the_fast_trials_break_every_rule() -> None:
    """Each rule of the grader has one mutant in `make test`, and one right system runs beside them."""
    assert sorted(mutant.rule for mutant in zoo.MUTANTS if mutant.name in FAST) == sorted(RULES)
    assert [name for name in FAST if name in zoo.RIGHT] == ["three"]


VOID = {"verdict": "void", "why": "no port was free", "phases": {"load": "not_tested"}, "rules": {}}
BUSY = {"verdict": "fail", "why": "", "phases": {"load": "void"}, "rules": {}}
CAUGHT = {"verdict": "fail", "why": "", "phases": {"load": "fail"}, "rules": {"load: false_refusal": 3}}


def test_a_void_trial_runs_once_more() -> None:
    """A result that is not void stands. A second void skips the test, with its reason."""
    trial = Trial.of_mutant("always-4xx")
    for first, second, expected in ((CAUGHT, VOID, CAUGHT), (VOID, CAUGHT, CAUGHT), (BUSY, CAUGHT, CAUGHT)):
        assert judged_result(trial, first, lambda _, second=second: second) is expected
    for second, why in ((VOID, "no port was free"), (BUSY, "the machine was too busy")):
        with pytest.raises(pytest.skip.Exception, match=why):
            judged_result(trial, BUSY, lambda _, second=second: second)


@pytest.mark.parametrize("mutant", zoo.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_wrong_in_one_place(mutant: zoo.Mutant, tmp_path: Path) -> None:
    """It differs from its base in one text of one file, which still compiles."""
    wrong, right = zoo.plant(mutant, tmp_path / "wrong"), zoo.right(mutant.base, tmp_path / "right")
    files = [path.relative_to(right) for path in right.rglob("*") if path.is_file()]
    assert [f for f in files if (wrong / f).read_bytes() != (right / f).read_bytes()] == [Path(mutant.file)]
    text = (wrong / mutant.file).read_text()
    before, _, after = (right / mutant.file).read_text().partition(mutant.right)
    assert text == before + mutant.wrong + after
    compile(text, mutant.file, "exec")


def test_the_page_has_every_system() -> None:
    """The matrix of docs/zoo.md has one row for each right system and for each mutant, and no other."""
    page = (zoo.HERE.parents[2] / "docs" / "zoo.md").read_text().partition("## The matrix")[2]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert rows == ["right system", *zoo.RIGHT, "mutant", *(mutant.name for mutant in zoo.MUTANTS)]


def test_the_table_shows_what_differs_between_passes() -> None:
    """A rule that some passes missed has a count. A mend counts with the mutants of its phase and budget alone."""
    of_three = [mutant for mutant in zoo.MUTANTS if mutant.base == "three"]
    short, long = (next(mutant for mutant in of_three if (mutant.seconds > 0) is own) for own in (False, True))
    results: list[Result] = []
    for mutant, rules in ((short, (["x"], ["x", "y"])), (long, (["x"], ["x"]))):
        for turn, broken in enumerate(rules, 1):
            one = {"asked": ["faults"], "budget": mutant.seconds, "pass": turn, "seconds": 1.0, "wrong": "", "void": ""}
            results.append(
                {**one, "role": "mutant", "name": mutant.name, "verdict": "fail", "rules": dict.fromkeys(broken)}
            )
            results.append({**one, "role": "mended", "name": mutant.base, "verdict": "pass", "rules": {}})
    rows = [line for line in table(results, 2).splitlines() if "fail x 2" in line]
    assert [row.endswith(" | pass x 2 |") for row in rows] == [True, True]
    assert [row.split(" | ")[-2] for row in rows] == ["x, y (1 of 2)", "x"]
