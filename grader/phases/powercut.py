"""A separate run after the phases, on a disk whose power is cut three times during checkouts.

Each cut happens after a seeded number of answers in a burst. Every process is killed, all unsynced writes are undone,
and everything starts again with the same commands. After the last cut, the run waits for a stable pair of snapshots.
It has its own record, which is judged separately.
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
from ..record.notes import Cut, PowerCuts
from ..sandbox import Sandbox
from ..shop import Clock, Counter, Routes, stock_blocks
from ..submission import Submission
from ..table import POWER_CUT
from ..terms import Limits
from ..wire.client import Generator
from ..wire.jobs import Longs, Result
from .goods import checkouts, ready
from .live import Live
from .settle import settle

CUTS = 3
LEAST, MOST = 45.0, 150.0
"""The shortest and the longest duration of the run in seconds."""
_BLOCKS = 2
"""The number of blocks of orders in each burst."""
_SETTLE = 20.0
"""Seconds reserved for the snapshots."""
_LEAD = 0.1
"""Seconds from the command to send the burst until it begins."""
_SLOW = 10.0
"""The power is cut after this many seconds even if some answers are missing."""


@dataclass(frozen=True)
class Stage:
    """The inputs of the run. ``folder``: a copy of the submission; ``scout``: a generator that only probes ports."""

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
    """Run the power cuts and return their record. Raises VoidError if the machine or the time does not allow them."""
    record, clock = Record(), Clock()

    def note(process: str, what: str, detail: str) -> None:
        record.events.append(at=clock.now(), process=process, what=what, detail=detail)

    with contextlib.ExitStack() as ends:
        stage.say(f"{POWER_CUT}: checking that this machine can cut the power")
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
        counter = Counter(record, stage.generator, Routes(urls), limits, clock)
        counter.tend.append(supervisor.tend)
        live = Live(record, counter, limits, stage.seed, 0, {}, stage.say, supervisor)
        stage.say(f"{POWER_CUT}: starting {', '.join(supervisor.names)}")
        try:
            supervisor.start_all()
        except SubmissionError as error:
            raise VoidError(f"the system did not start on the disk for the power cuts: {error}") from error
        _cuts(live, supervisor, disk, live.clock() + seconds)
    return record


def _cuts(live: Live, supervisor: Supervisor, disk: Disk, until: float) -> None:
    """Cut the power up to CUTS times, and read everything back. Raises VoidError if no cut was possible."""
    notes = live.notes(PowerCuts)
    rng = np.random.default_rng([live.seed, 6])
    longest, none = 0.0, np.zeros(0, dtype=np.int64)
    try:
        for number in range(CUTS):
            began = live.clock()
            if began + longest > until - _SETTLE:
                break
            live.say(f"{POWER_CUT}: {number + 1} of {CUTS}")
            # Use a new block, because a cut may have removed earlier users and items.
            stock, _ = stock_blocks(live.counter, POWER_CUT, live.seed, number * _BLOCKS, _BLOCKS, none)
            orders = ready(live, stock.orders)
            if not len(orders):
                break  # everything is still read back below
            answers = int(rng.integers(len(orders) // 4, 3 * len(orders) // 4 + 1))
            first = number * _BLOCKS * BLOCK
            cut = Cut(number + 1, first, first + _BLOCKS * BLOCK - 1, answers)
            _burst(live, supervisor, orders, answers)
            dropped = disk.cut()
            cut.at_s, cut.blocks, cut.files = round(live.clock() - began, 1), dropped.blocks, dropped.files
            notes.cuts.append(cut)
            disk.mount()
            _up(live, supervisor)
            longest = live.clock() - began
        live.say(f"{POWER_CUT}: reading everything back")
        live.limits = replace(live.limits, convergence=min(live.limits.convergence, max(5.0, until - live.clock())))
        settle(live, POWER_CUT, "after the cuts")
    except SubmissionError as error:
        if not notes.cuts:
            raise VoidError(f"the system did not run on the disk for the power cuts: {error}") from error
        notes.not_back = str(error)
    if not notes.cuts:
        raise VoidError("no power was cut, because no order could be set up or no time was left")


def _burst(live: Live, supervisor: Supervisor, orders: Longs, answers: int) -> None:
    """Send all orders at once, and kill every process after ``answers`` answers or _SLOW seconds."""
    counter = live.counter
    for name in supervisor.names:
        supervisor.aim(name)
    counter.begin(
        checkouts(live, POWER_CUT, "burst", orders),
        tell_after=max(1, answers),
        start=counter.now() + int(_LEAD * 1e9),
    )
    result: Result | None = None
    until, ended = live.clock() + _SLOW, 0
    while result is None and ended < answers and live.clock() < until:
        message = counter.poll(0.1, tend=False)
        if isinstance(message, Result):
            result = message
        elif message is not None:
            ended = message.ended
    supervisor.freeze(supervisor.names)
    for name in supervisor.names:
        supervisor.kill(name)
    if result is None:
        counter.finish()


def _up(live: Live, supervisor: Supervisor) -> None:
    """Start all processes again, in order and with the same commands. Raises SubmissionError."""
    for name in supervisor.names:
        supervisor.restart(name)
        supervisor.wait_ready(name)
