"""Phase 5: kill -9 and SIGSTOP of each process, one at a time, then of all at once, inside bursts of checkouts.

Each fault has a block of fresh orders, sent at once; it comes at a seeded moment between 0 and the median latency, or
right after an answer, or during the recovery from the one before. After each restart every order without a definite
answer is sent again, and some that were acknowledged. At the end: a stable, clean pair of snapshots.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..errors import SubmissionError
from ..orders import BLOCK
from ..shop import stock_blocks
from ..shop.routes import middle
from ..terms import Kind
from ..wire.jobs import Longs, Result, Word
from .live import Live
from .settle import settle

PHASE = "faults"
ALL = "everything"
KILL, ANSWERED, RECOVERY, PAUSE = "kill", "kill after an answer", "kill during recovery", "pause"
_LEAD = 0.1
"""Seconds between the order to send and the burst: time to aim."""
_SHARE = 0.6
"""Of the phase's time, for the faults; the rest is for what must converge after them."""


@dataclass(frozen=True)
class Fault:
    """What happens to which service."""

    what: str
    service: str


def plan(names: list[str]) -> list[Fault]:
    """All faults, the ones that must not be left out first."""
    rounds = [(KILL, [*names, ALL]), (PAUSE, names), (ANSWERED, names), (RECOVERY, names)]
    return [Fault(what, name) for what, services in rounds for name in services]


def run(live: Live) -> None:
    """The phase. Needs processes of its own to kill."""
    notes, supervisor = live.notes(PHASE), live.supervisor
    if supervisor is None:
        notes["skipped"] = "the system runs elsewhere, and no kill and restart commands were given"
        return
    faults = plan(supervisor.names)
    rng = np.random.default_rng([live.seed, 5])
    began, done, hot = live.clock(), 0, np.zeros(0, dtype=np.int64)
    latency, longest = 0.01, 0.0
    told = notes.setdefault("faults", [])
    for number, fault in enumerate(faults):
        start = live.clock()
        if start - began + longest > live.seconds[PHASE] * _SHARE and done:
            notes["left_out"] = [f"{f.what} {f.service}" for f in faults[number:]]
            break
        stock, hot = stock_blocks(live.counter, PHASE, live.seed, number, 1, hot)
        usable = stock.orders[live.record.orders["ready"][stock.orders] == 1]
        if not len(usable):
            notes["stopped"] = f"no order could be set up before fault {number + 1}, {fault.what} {fault.service}"
            break
        live.say(f"faults: {number + 1} of {len(faults)}, {fault.what} {fault.service}")
        try:
            answers, under_way = _strike(live, fault, usable, float(rng.random()) * latency)
        except SubmissionError as error:
            notes["stopped"] = f"after {fault.what} {fault.service}: {error}"
            break
        told.append({"what": fault.what, "service": fault.service, "under_way": under_way})
        waited = (answers.done - answers.due)[(answers.status >= 200) & (answers.status < 300)]
        latency = float(np.median(waited)) / 1e9 if len(waited) else latency
        _again(live, usable, answers)
        done += 1
        longest = max(longest, live.clock() - start)
    live.say("faults: waiting for a stable, clean pair of snapshots")
    settle(live, PHASE, "audit")


def _strike(live: Live, fault: Fault, orders: Longs, delay: float) -> tuple[Result, int]:
    """One burst with one fault inside, everything running again; the answers, and how many were under way then.

    Raises SubmissionError where a service does not come back.
    """
    counter, supervisor = live.counter, live.supervisor
    assert supervisor is not None
    names = supervisor.names if fault.service == ALL else [fault.service]
    for name in names:
        supervisor.aim(name)
    ends = [middle(one) for one in live.record.orders["id"][orders]]
    start = counter.now() + int(_LEAD * 1e9)
    none = np.zeros(len(orders), dtype=np.int64)
    after = 1 if fault.what == ANSWERED else 0
    counter.begin(
        PHASE, "burst", Kind.CHECKOUT, orders, ends, due=none, connections=1024, tell_after=after, start=start
    )
    result: Result | None = None
    if after:
        said = counter.poll(live.limits.timeout)
        result = said if isinstance(said, Result) else None
        while isinstance(said, Word) and not said.ended:
            said = counter.poll(live.limits.timeout)
            result = said if isinstance(said, Result) else None
    else:
        time.sleep(max(0.0, (start - counter.now()) / 1e9 + delay))
    at = counter.now()
    if fault.what == PAUSE:
        for name in names:
            supervisor.pause(name)
        result = result or _wait(live, live.limits.pause)
        for name in names:
            supervisor.resume(name)
    else:
        for name in names:
            supervisor.kill(name)
        for name in names:
            supervisor.restart(name)
            if fault.what == RECOVERY:
                time.sleep(delay)  # somewhere within its start
                supervisor.kill(name)
                supervisor.restart(name)
            supervisor.wait_ready(name)
    while result is None:
        result = _wait(live, live.limits.timeout)
    return result, int(((result.sent > 0) & (result.sent <= at) & (result.done > at)).sum())


def _wait(live: Live, seconds: float) -> Result | None:
    """Until the burst's end, or so many seconds."""
    until = live.clock() + seconds
    while (left := until - live.clock()) > 0:
        said = live.counter.poll(min(left, 0.1))
        if isinstance(said, Result):
            live.counter.wait(left if seconds == live.limits.pause else 0)
            return said
    return None


def _again(live: Live, orders: Longs, answers: Result) -> None:
    """Send again what had no definite answer, and every fourth that was acknowledged."""
    status = answers.status
    unknown = (status < 200) | (status >= 500) | (status == 429)
    acknowledged = (status >= 200) & (status < 300) & (np.arange(len(orders)) % 4 == 0)
    for attempt in (2, 3):
        chosen = orders[unknown | acknowledged]
        if not len(chosen):
            return
        ends = [middle(one) for one in live.record.orders["id"][chosen]]
        again = live.counter.send(PHASE, "sent again", Kind.CHECKOUT, chosen, ends, attempt=attempt, connections=BLOCK)
        silent = (again.status < 200) | (again.status >= 500)
        if not silent.any():
            return
        unknown, acknowledged = np.isin(orders, chosen[silent]), np.zeros(len(orders), dtype=np.bool_)
