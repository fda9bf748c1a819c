"""The ladder: what it times, counts, compares and leaves out."""

from __future__ import annotations

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.usecases import ladder, paper
from sharedstate_lite.lessons.usecases.ladder import Rung, RungResult, RunResult


def test_a_ladder_is_climbed_rung_by_rung() -> None:
    """Each rung runs as often as asked; the warm-up is not timed, and the counts are the first run's."""
    runs: list[str] = []

    def rung(name: str, answer: int) -> Rung:
        def run() -> RunResult:
            runs.append(name)
            return RunResult(answer, {"run": runs.count(name)})

        return Rung(10, run)

    told: list[tuple[str, float]] = []
    rungs = {"a": rung("a", 1), "b": Rung(10, lambda: RunResult(0), absent="no jar"), "c": rung("c", 1)}
    steps = ladder.climb(rungs, runs=2, warm=1, progress=lambda name, share: told.append((name, share)))
    assert runs == ["a"] * 3 + ["c"] * 3 and [len(step.seconds) for step in steps] == [2, 0, 2]
    assert [step.counts for step in steps] == [{"run": 1}, {}, {"run": 1}] and told[1] == ("a", 1 / 3)
    assert ladder.same(steps)
    table = ladder.table(steps)
    assert list(table.index) == ["a", "b", "c"] and table.loc["b", "note"] == "absent: no jar"


def test_a_rung_that_takes_long_is_not_run_again() -> None:
    """After ``most`` seconds a rung is not run again; a warm-up alone then counts as measured."""
    quick = Rung(1, lambda: RunResult(1))
    (one,) = ladder.climb({"a": quick}, runs=5, warm=1, most=0.0)
    (all_,) = ladder.climb({"a": quick}, runs=5, warm=1, most=3600.0)
    assert len(one.seconds) == 1 and len(all_.seconds) == 5


def test_an_empty_run_is_subtracted() -> None:
    """ms per event come from the median run minus the empty run."""
    slow = RungResult("slow", 100, (5.0, 1.2, 1.1), 0.2)
    fast = RungResult("fast", 1_000, (0.7,), 0.2)
    assert slow.ms == pytest.approx(10.0) and fast.ms == pytest.approx(0.5)


def test_what_an_empty_run_leaves_nothing_of_is_no_figure() -> None:
    """If an empty run takes as long as the rung, a tenth of the run is reported as an upper bound."""
    whole, none = RungResult("a", 100, (1.0,), 0.5), RungResult("b", 1_000, (0.6,), 0.7)
    assert none.took == pytest.approx(0.06) and none.unsure and not whole.unsure
    table = ladder.table([whole, none])
    assert table.loc["b", "note"].startswith("or less: ") and table.loc["a", "note"] == ""
    told = ladder.table([none, whole])["note"]
    assert told["b"].startswith("or less, and so are all factors") and told["a"] == "", (
        "the others are told as so many of it"
    )
    assert table.loc["b", "times"] == pytest.approx(5.0 / 0.06)
    assert RungResult("c", 1, (0.0004,)).took == 0.0004, "what nothing is taken from is told as it was"


def test_other_answers_are_seen() -> None:
    """Rungs over the same number of events must agree, and a rung with itself; one rung is not enough."""
    one, two, fewer = (
        RungResult("a", 9, (1.0,), answer=1),
        RungResult("b", 9, (1.0,), answer=2),
        RungResult("c", 3, (1.0,), answer=7),
    )
    assert not ladder.same([one, two]) and ladder.same([one, fewer]) and not ladder.same([one])
    answers = iter([1, 2])
    with pytest.raises(Error, match="different answers"):
        ladder.climb({"a": Rung(1, lambda: RunResult(next(answers)))}, runs=1, warm=1)
    with pytest.raises(Error, match="Pass runs >= 1"):
        ladder.climb({}, runs=0)


def test_the_papers_factors() -> None:
    """Factors by use case; an unknown use case raises."""
    assert list(paper.times(3).values()) == [51.9, 18.2] and paper.times(2) == {}
    with pytest.raises(Error, match="there is no use case 7. Pass a number from 1 to 6"):
        paper.times(7)
