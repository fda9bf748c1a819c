"""A ladder: the same computation in several ways, each timed, counted, and compared by its answer.

    climb(rungs)   run every rung: a warm-up, then the measured runs
    same(results)  whether all rungs gave the same answer
    table(results) one row for each rung
    digest(frame)  a DataFrame's rows as their number and the sum of their hashes, regardless of order

A rung that cannot run here has a reason instead of a time. Counts are the same on every run; seconds are not.
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
"""Rows, and the sum of their hashes modulo 2**63."""
_SMALLEST = 0.1
"""The smallest share of a run, after subtracting an empty run, that is more than noise."""
_UNSURE = "or less: hardly longer than an empty run"
_FIRST_UNSURE = "or less, and all times with it: hardly longer than an empty run"
Progress = Callable[[str, float], None]
"""Called with the running rung, and the share of its runs that is done."""


@dataclass(frozen=True)
class RunResult:
    """The answer of one run, and its counts, such as connections opened."""

    answer: object
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """One way to compute the answer from ``events`` events. ``absent``: the reason why it cannot run here.

    ``empty``: the empty run to subtract from this rung, if it differs from the ladder's.
    """

    events: int
    run: Callable[[], RunResult]
    absent: str = ""
    empty: Callable[[], object] | None = None


@dataclass(frozen=True)
class RungResult:
    """The result of a rung: the ``seconds`` of each run, and of an ``empty`` run, which is subtracted."""

    name: str
    events: int
    seconds: Sequence[float] = ()
    empty: float = 0.0
    answer: object = None
    counts: Mapping[str, float] = field(default_factory=dict)
    """Counts of the first run, before the warm-up."""
    absent: str = ""

    @property
    def took(self) -> float:
        """Seconds of the median run minus an empty run; at least a tenth of the run, see ``unsure``."""
        run = median(self.seconds)
        return max(run - self.empty, run * _SMALLEST)

    @property
    def unsure(self) -> bool:
        """Whether less than a tenth of the run is left, so that ``took`` is only an upper bound."""
        run = median(self.seconds)
        return run - self.empty < run * _SMALLEST

    @property
    def ms(self) -> float:
        """Milliseconds per event."""
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
    """Run each rung ``warm`` times unmeasured and ``runs`` times measured; run ``empty`` before and after the ladder.

    ``most``: a rung that has taken this many seconds is not run again; if that happens during the warm-up, the warm-up
    counts as measured. Raises Error if ``runs`` is below 1, and if a rung gives another answer on a later run.
    """
    if runs < 1 or warm < 0:
        raise Error(f"climb: runs={runs}, warm={warm}. Pass runs of 1 or more, and warm of 0 or more.")
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
            raise Error(f"climb: {name} gave different answers: {[ran.answer for ran in done]}")
        steps.append(RungResult(name, rung.events, seconds[warm:] or seconds, without, done[0].answer, done[0].counts))
    if empty is None:
        return steps
    # The first empty run was cold; the smallest one subtracts the least.
    least = min(nothing, _least(empty, runs))
    return [step if rungs[step.name].empty else replace(step, empty=least) for step in steps]


def same(steps: Sequence[RungResult]) -> bool:
    """Whether all rungs over the same number of events gave the same answer; False if fewer than two rungs ran."""
    ran = [step for step in steps if not step.absent]
    by: dict[int, list[object]] = {}
    for step in ran:
        by.setdefault(step.events, []).append(step.answer)
    return len(ran) > 1 and all(answer == found[0] for found in by.values() for answer in found)


def table(steps: Sequence[RungResult]) -> pd.DataFrame:
    """One row for each rung: events, ms per event, how many times as fast as the first rung, and its counts."""
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


def times(steps: Sequence[RungResult], name: str, against: str) -> float:
    """How many times as fast one rung is as another, by ms per event. Raises Error if one of them did not run."""
    by = {step.name: step for step in steps if not step.absent}
    for wanted in (name, against):
        if wanted not in by:
            raise Error(f"times: rung {wanted!r} did not run. These did: {', '.join(by)}.")
    return by[against].ms / by[name].ms


def digest(frame: DataFrame) -> Answer:
    """The number of rows and the sum of their hashes; computed by Spark, without collecting rows."""
    from pyspark.sql import functions as f

    hashed = frame.select(f.xxhash64(*frame.columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(f.count("*"), f.sum("h")).collect()[0]
    return int(row[0]), int(row[1] or 0) % 2**63


def _least(action: Callable[[], object], runs: int) -> float:
    return min(timed(action)[1] for _ in range(runs))
