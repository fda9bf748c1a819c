"""A ladder: the same computation on one rung after the other, each timed, counted and held to one answer.

    climb(rungs)        runs every rung: a warm-up, then so many runs; the steps, in order
    same(steps)         whether all rungs that ran gave the same answer
    table(steps)        a line a step
    digest(frame)       a DataFrame's rows as their number and one sum of hashes: their order does not matter

A rung that cannot be climbed here is a step with the reason and without a time. Seconds
are of this machine and this moment; what is counted is the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import pandas as pd

from ...errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answer = tuple[int, int]
"""Rows, and the sum of their hashes modulo 2**63."""
_TOLD = 0.1
"""Of a run: what is left of it without an empty one can be told from noise where it is more."""
_UNSURE = "or less: hardly longer than an empty run"
_FIRST_UNSURE = "or less, and all times with it: hardly longer than an empty run"
Progress = Callable[[str, float], None]
"""Told which rung runs, and which share of its runs is done."""


@dataclass(frozen=True)
class RunResult:
    """What one run gave: its answer, and what was counted meanwhile, such as connections."""

    answer: object
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """One way to compute it over ``events`` events; ``absent`` says why it cannot be gone here.

    ``empty``: what is subtracted, where it is not what is subtracted of the others.
    """

    events: int
    run: Callable[[], RunResult]
    absent: str = ""
    empty: Callable[[], object] | None = None


@dataclass(frozen=True)
class RungResult:
    """A rung that was climbed: ``seconds`` of each run, and those of an ``empty`` one, which are subtracted."""

    name: str
    events: int
    seconds: Sequence[float] = ()
    empty: float = 0.0
    answer: object = None
    counts: Mapping[str, float] = field(default_factory=dict)
    """Those of the first run, before anything was warm."""
    absent: str = ""

    @property
    def took(self) -> float:
        """The median run less an empty one, in seconds; at least a tenth of the run, see ``unsure``."""
        run = median(self.seconds)
        return max(run - self.empty, run * _TOLD)

    @property
    def unsure(self) -> bool:
        """Whether so little is left of a run that an empty one differs as much by chance: it ``took`` that or less."""
        run = median(self.seconds)
        return run - self.empty < run * _TOLD

    @property
    def ms(self) -> float:
        """Milliseconds an event."""
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
    """Run each rung ``warm`` times unmeasured and ``runs`` times measured; ``empty`` likewise, before all and after.

    ``most``: a rung that has taken so many seconds is not run again. Where that is so before it was warm, what it has
    run is measured. Raises Error for no measured run, and where a rung answers otherwise on a later run.
    """
    if runs < 1 or warm < 0:
        raise Error(f"climb: {runs} runs after {warm} to warm up: take one run or more, and no negative warm-up")
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
            began = perf_counter()
            done.append(rung.run())
            seconds.append(perf_counter() - began)
            if most is not None and sum(seconds) >= most:
                break
        if any(ran.answer != done[0].answer for ran in done):
            raise Error(f"climb: {name} gave {[ran.answer for ran in done]}: a rung gives the same answer every time")
        steps.append(RungResult(name, rung.events, seconds[warm:] or seconds, without, done[0].answer, done[0].counts))
    if empty is None:
        return steps
    # The first was cold, and one moment is like no other: the least of both is surely not too much.
    least = min(nothing, _least(empty, runs))
    return [step if rungs[step.name].empty else replace(step, empty=least) for step in steps]


def same(steps: Sequence[RungResult]) -> bool:
    """Whether all rungs that ran over as many events gave the same answer, and at least two of them did."""
    ran = [step for step in steps if not step.absent]
    by: dict[int, list[object]] = {}
    for step in ran:
        by.setdefault(step.events, []).append(step.answer)
    return len(ran) > 1 and all(answer == found[0] for found in by.values() for answer in found)


def table(steps: Sequence[RungResult]) -> pd.DataFrame:
    """A line a step: events, milliseconds an event, how many times as fast as the first, and what was counted."""
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
    """How many times as fast, by milliseconds an event, one rung is as another. Raises Error where one did not run."""
    by = {step.name: step for step in steps if not step.absent}
    for wanted in (name, against):
        if wanted not in by:
            raise Error(f"times: rung {wanted!r} did not run; those that did are {', '.join(by)}")
    return by[against].ms / by[name].ms


def digest(frame: DataFrame) -> Answer:
    """A DataFrame's rows as a bag: their number, and the sum of their hashes. Runs it, and brings no row here."""
    from pyspark.sql import functions as f

    hashed = frame.select(f.xxhash64(*frame.columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(f.count("*"), f.sum("h")).collect()[0]
    return int(row[0]), int(row[1] or 0) % 2**63


def _least(action: Callable[[], object], runs: int) -> float:
    return min(_seconds(action) for _ in range(runs))


def _seconds(action: Callable[[], object]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began
