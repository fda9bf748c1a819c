"""A run of its own after the phases: the system starts anew on a disk whose power is cut, three times, while it sells.

Each cut falls inside a burst of fresh orders, after a seeded number of answers: every process is killed at once, what
was never synced is undone, everything is started again with the same command. At the end: a stable pair of snapshots.
Its record stands apart from the other phases', and is judged apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import SubmissionError, VoidError
from ..orders import BLOCK
from ..powercut import Disk, prove
from ..processes import Supervisor
from ..record import Record
from ..sandbox import Sandbox
from ..shop import Counter, Routes, Wave, stock_blocks
from ..submission import Submission
from ..terms import POWER_CUT, Kind, Limits
from ..wire.client import Generator
from ..wire.jobs import Longs, Result
from .goods import full, ready
from .live import Live
from .settle import settle

CUTS = 3
LEAST, MOST = 45.0, 150.0
"""Seconds that the run needs, and may take."""
_BLOCKS = 2
"""Of orders, in each burst."""
_SETTLE = 20.0
"""Seconds that are kept for the snapshots."""
_LEAD = 0.1
"""Seconds between the order to send and the burst: time to aim."""
_SLOW = 10.0
"""Seconds after which the power is cut with fewer answers than were drawn."""


@dataclass(frozen=True)
class Stage:
    """What the run stands on: the submission, its copy, the sandbox, who knocks and who sends."""

    submission: Submission
    folder: Path
    sandbox: Sandbox
    scratch: Path
    scout: Generator
    generator: Generator
    limits: Limits
    seed: int
    say: Callable[[str], None]


def run(stage: Stage, seconds: float) -> Record:
    """The run's record. Raises VoidError where the machine, or the time, does not allow it: then it was not tested."""
    record, now = Record(), [lambda: 0]

    def note(process: str, what: str, detail: str) -> None:
        record.events.append(at=now[0](), process=process, what=what, detail=detail)

    with contextlib.ExitStack() as ends:
        stage.say(f"{POWER_CUT}: a trial")
        box = stage.scratch / POWER_CUT
        disk = Disk(box / "disk", stage.scratch / "power")
        ends.callback(disk.close)
        prove(disk, stage.sandbox, stage.scratch)
        disk.mount()
        limits = replace(stage.limits, ready=min(stage.limits.ready, seconds))
        supervisor = Supervisor(
            stage.submission, stage.folder, box, stage.sandbox, stage.scout, limits, note, disk.place
        )
        ends.callback(lambda: record.logs.update(supervisor.logs.texts()))
        ends.callback(supervisor.close)
        urls = {service: supervisor.places.fill(url) for service, url in stage.submission.urls.items()}
        counter = Counter(record, stage.generator, Routes(urls), limits)
        counter.tend.append(supervisor.tend)
        now[0] = counter.now
        live = Live(record, counter, limits, stage.seed, 0, {}, stage.say, supervisor)
        stage.say(f"{POWER_CUT}: starting {', '.join(supervisor.names)}")
        try:
            supervisor.start_all()
        except SubmissionError as error:
            raise VoidError(f"the system did not start on a mounted folder: {error}") from error
        _cuts(live, supervisor, disk, live.clock() + seconds)
    return record


def _cuts(live: Live, supervisor: Supervisor, disk: Disk, until: float) -> None:
    """All cuts, and the last look. Raises VoidError where not even the first one came about."""
    notes, told = live.notes(POWER_CUT), live.notes(POWER_CUT).setdefault("cuts", [])
    rng = np.random.default_rng([live.seed, 6])
    longest, none = 0.0, np.zeros(0, dtype=np.int64)
    try:
        for number in range(CUTS):
            began = live.clock()
            if began + longest > until - _SETTLE:
                break
            live.say(f"{POWER_CUT}: {number + 1} of {CUTS}")
            # Nothing of an earlier burst's: a cut may have taken it along.
            stock, _ = stock_blocks(live.counter, POWER_CUT, live.seed, number * _BLOCKS, _BLOCKS, none)
            orders, ends = ready(live, stock.orders)
            if not len(orders):
                break  # what is there by now is read all the same
            answers = int(rng.integers(len(orders) // 4, 3 * len(orders) // 4 + 1))
            first = number * _BLOCKS * BLOCK
            cut = {"cut": number + 1, "first": first, "last": first + _BLOCKS * BLOCK - 1, "answers": answers}
            _burst(live, supervisor, orders, ends, answers)
            dropped = disk.cut()
            told.append({**cut, "at_s": round(live.clock() - began, 1), **dropped.counts()})
            disk.mount()
            _up(live, supervisor)
            longest = live.clock() - began
        live.say(f"{POWER_CUT}: reading everything back")
        live.limits = replace(live.limits, convergence=min(live.limits.convergence, max(5.0, until - live.clock())))
        settle(live, POWER_CUT, "after the cuts")
    except SubmissionError as error:
        if not told:
            raise VoidError(f"the system did not run on a mounted folder: {error}") from error
        notes["not_back"] = str(error)
    if not told:
        raise VoidError("no order could be set up, or no time was left")


def _burst(live: Live, supervisor: Supervisor, orders: Longs, ends: list[bytes], answers: int) -> None:
    """Send all of the orders at once; after so many answers every process is killed."""
    counter = live.counter
    for name in supervisor.names:
        supervisor.aim(name)
    counter.begin(
        Wave(POWER_CUT, "burst", Kind.CHECKOUT, orders, ends, due=full(len(orders), 0), connections=1024),
        tell_after=max(1, answers),
        start=counter.now() + int(_LEAD * 1e9),
    )
    result: Result | None = None
    until, ended = live.clock() + _SLOW, 0
    while result is None and ended < answers and live.clock() < until:
        said = counter.poll(0.1, tend=False)
        if isinstance(said, Result):
            result = said
        elif said is not None:
            ended = said.ended
    supervisor.freeze(supervisor.names)
    for name in supervisor.names:
        supervisor.kill(name)
    if result is None:
        counter.finish()


def _up(live: Live, supervisor: Supervisor) -> None:
    """Everything again, in order, with the same command. Raises SubmissionError."""
    for name in supervisor.names:
        supervisor.restart(name)
        supervisor.wait_ready(name)
