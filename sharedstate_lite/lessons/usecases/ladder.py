"""Runs the rungs of a ladder, which is the same computation in several ways, and compares their times and answers.

    climb   runs every rung, first as a warm-up and then measured
    same    returns True if all rungs returned the same answer
    table   returns a table with one row per rung
    digest  returns the number of rows of a DataFrame and the sum of their hashes, regardless of their order

If a rung cannot run on this machine, its result contains the reason instead of a time. Counts are the same in every
run, but seconds are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

import pandas as pd

from ...errors import Error
from ..measure import timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answer = tuple[int, int]
"""The number of rows, and the sum of their hashes modulo 2**63."""
_SMALLEST = 0.1
"""If less than this fraction of a run remains after subtracting an empty run, the rest is considered noise."""
_UNSURE = "or less: the run took hardly longer than an empty run"
_FIRST_UNSURE = "or less, and so are all factors: the run took hardly longer than an empty run"
Progress = Callable[[str, float], None]
"""A callback that receives the name of the running rung and the fraction of its runs that is done."""


@dataclass(frozen=True)
class RunResult:
    """The answer of one run, and its counts, such as connections opened."""

    answer: object
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """One way to compute the answer, for ``events`` events.

    ``run`` performs one run. If the rung cannot run on this machine, ``absent`` is the reason. ``empty`` performs the
    empty run whose time is subtracted from this rung, if it is not the same as for the rest of the ladder.
    """

    events: int
    run: Callable[[], RunResult]
    absent: str = ""
    empty: Callable[[], object] | None = None


@dataclass(frozen=True)
class RungResult:
    """The result of a rung.

    ``seconds`` are the times of its measured runs, and ``empty`` is the time of an empty run. If the rung did not run,
    ``absent`` is the reason.
    """

    name: str
    events: int
    seconds: Sequence[float] = ()
    empty: float = 0.0
    answer: object = None
    counts: Mapping[str, float] = field(default_factory=dict)
    """The counts of the first run, which is a warm-up run unless ``warm`` is 0."""
    absent: str = ""

    @property
    def took(self) -> float:
        """The seconds of the median run, minus those of an empty run.

        The result is at least a tenth of the median run; see ``unsure``.
        """
        run = median(self.seconds)
        return max(run - self.empty, run * _SMALLEST)

    @property
    def unsure(self) -> bool:
        """Whether ``took`` is only an upper bound, because the empty run takes more than nine tenths of the run."""
        run = median(self.seconds)
        return run - self.empty < run * _SMALLEST

    @property
    def ms(self) -> float:
        """The milliseconds per event."""
        return self.took / max(self.events, 1) * 1e3


def climb(
    rungs: Mapping[str, Rung],
    *,
    runs: int = 1,
    warm: int = 1,
    most: float | None = None,
    empty: Callable[[], object] | None = None,
    progress: Progress | None = None,
) -> list[RungResult]:
    """Run each rung ``warm`` times as a warm-up and ``runs`` times measured, and return the results in order.

    ``empty`` is the empty run, which is performed before and after the ladder. Its shortest time is subtracted from
    every rung that does not have its own empty run. When a rung has taken ``most`` seconds in total, it is not run
    again. If that happens during the warm-up, the warm-up runs are used as measured runs. ``progress`` is called before
    every run.

    Raises Error if ``runs`` is less than 1, ``warm`` is negative, or a rung returns different answers in its runs.
    """
    if runs < 1 or warm < 0:
        raise Error(f"climb: runs={runs} and warm={warm} are out of range. Pass runs >= 1 and warm >= 0.")
    nothing = _least(empty, runs + warm) if empty is not None else 0.0
    steps: list[RungResult] = []
    for name, rung in rungs.items():
        if rung.absent:
            steps.append(RungResult(name, rung.events, absent=rung.absent))
            continue
        without = _least(rung.empty, runs + warm) if empty is not None and rung.empty is not None else nothing
        done: list[RunResult] = []
        seconds = []
        for number in range(warm + runs):
            if progress is not None:
                progress(name, number / (warm + runs))
            ran, took = timed(rung.run)
            done.append(ran)
            seconds.append(took)
            if most is not None and sum(seconds) >= most:
                break
        if any(ran.answer != done[0].answer for ran in done):
            raise Error(f"climb: the runs of {name} returned different answers: {[ran.answer for ran in done]}")
        steps.append(RungResult(name, rung.events, seconds[warm:] or seconds, without, done[0].answer, done[0].counts))
    if empty is None:
        return steps
    # The empty runs before the ladder can be cold and therefore too slow.
    least = min(nothing, _least(empty, runs))
    return [step if rungs[step.name].empty else replace(step, empty=least) for step in steps]


def same(steps: Sequence[RungResult]) -> bool:
    """Return True if at least two rungs ran, and all rungs with the same number of events returned the same answer."""
    ran = [step for step in steps if not step.absent]
    by: dict[int, list[object]] = {}
    for step in ran:
        by.setdefault(step.events, []).append(step.answer)
    return len(ran) > 1 and all(answer == found[0] for found in by.values() for answer in found)


def table(steps: Sequence[RungResult]) -> pd.DataFrame:
    """Return a table with one row per rung.

    The columns are events, ms an event, times (how many times as fast the rung is as the first one), and the counts.
    If some rungs did not run, or their times are only upper bounds, the column note says why.
    """
    first = next((step for step in steps if not step.absent), None)
    lines: list[dict[str, object]] = []
    for step in steps:
        line: dict[str, object] = {"rung": step.name, "events": step.events}
        if step.absent or first is None:
            lines.append(line | {"note": f"absent: {step.absent}"})
        else:
            line |= {"ms an event": step.ms, "times": first.ms / step.ms, **step.counts}
            lines.append(line | {"note": _FIRST_UNSURE if step is first else _UNSURE} if step.unsure else line)
    columns = list(dict.fromkeys(name for line in lines for name in line))
    shown = pd.DataFrame(lines, columns=columns).set_index("rung")
    return shown.fillna({"note": ""}) if "note" in columns else shown


def digest(frame: DataFrame) -> Answer:
    """Return the number of rows and the sum of their hashes. Spark computes them without collecting the rows."""
    from pyspark.sql import functions as f

    hashed = frame.select(f.xxhash64(*frame.columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(f.count("*"), f.sum("h")).collect()[0]
    return int(row[0]), int(row[1] or 0) % 2**63


def _least(action: Callable[[], object], runs: int) -> float:
    return min(timed(action)[1] for _ in range(runs))
