"""Phase 5: during bursts of checkouts, kill (-9) or pause (SIGSTOP) each process alone, and kill all of them together.

Each fault has its own burst. It consists of one block of orders, and of a few orders with one unit too little stock or
credit, so that the system also has orders to undo. The fault happens at a seeded moment between 0 and the median
latency, right after an answer, or while a killed process restarts. After each restart, most orders without a definite
answer and some acknowledged orders are sent again.

At the end, a new block is set up, and everything is killed right after the last answer. Half of the block must then
sell, and everything is killed again while the other half is checked out. This catches a system that answers only 5xx
after a fault, which breaks no other rule. Snapshots must settle both before and after the remaining orders without an
answer are sent again, because a client may never retry.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import SubmissionError
from ..orders import BLOCK, COLD_PRICE, SIDE
from ..orders.blocks import BASE
from ..record.notes import Faults, Struck
from ..shop import Stock, Wave, stock_blocks
from ..shop.routes import middle
from ..shop.stocking import top_up_at_once
from ..terms import Entity, Kind, done, refused
from ..wire.jobs import Longs, Result
from .goods import among, burst, checkouts, own, ready, stocked
from .live import Live
from .settle import settle

PHASE = "faults"
ALL = "everything"
KILL, ANSWERED, RECOVERY, PAUSE = "kill", "kill after an answer", "kill during recovery", "pause"
_LEAD = 0.1
"""Seconds from the command to send the burst until it begins."""
_UNDER_WAY = 8
"""The number of checkouts that must have been sent before the fault."""
_LATER = 4
"""The number of orders of a block that are sent after the fault. They reveal broken connections that were never
replaced."""
_SHORT = 4
"""The number of orders per fault that must be refused, half for lack of credit and half for lack of stock."""
_SHORT_FROM = 500_000
"""The number of the first order that must be refused. The orders of the blocks have lower numbers."""
_AGAIN = 0.05
"""Seconds between two attempts to check out the orders that are sent after a fault."""
_PATIENT = 4
"""One in this many orders of a burst is not sent again before the end of the phase."""
_MORE = BASE**SIDE
"""The stock that is added to each item right before a kill. Each user gets this amount times the price as
credit. It exceeds the digits of a balance. Otherwise, a lost top-up would look like the effect of an order."""
_SHARE, _SET_UP = 0.6, 0.2
"""The shares of the phase's time for setup and faults together, and for setup alone. The rest is for convergence."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault, and the service that it hits."""

    what: str
    service: str


def plan(names: list[str], can_pause: bool) -> list[Fault]:
    """Return all faults, starting with the most important ones."""
    rounds = [(KILL, [*names, ALL]), (PAUSE, names if can_pause else []), (ANSWERED, names), (RECOVERY, names)]
    return [Fault(what, name) for what, services in rounds for name in services]


def run(live: Live) -> None:
    """Run the phase, or skip it if the grader cannot kill the processes."""
    notes, supervisor = live.notes(Faults), live.supervisor
    if supervisor is None:
        notes.skipped = "the system runs at --url, and --kill and --restart were not given"
        return
    rounds = Rounds(live, plan(supervisor.names, supervisor.can_pause))
    rounds.all()
    waited: float | None = 0.0
    if not notes.stopped and notes.faults:
        try:
            waited = rounds.last(supervisor.names)
        except SubmissionError as error:
            notes.stopped = f"at the last fault ({KILL} {ALL}): {error}"
            live.counter.finish()
    if waited is None:
        return  # the effects did not settle without a retry
    live.say("faults: waiting for a stable, clean pair of snapshots")
    if settle(live, PHASE, "audit"):
        notes.settled_s = max(waited, notes.settled_s or 0.0)


class Rounds:
    """The rounds of the phase. Each is one fault, with a burst of orders that nothing else has."""

    def __init__(self, live: Live, left: list[Fault]) -> None:
        """Set up the orders of all rounds: a recovering service could fail a later setup. ``left``: the faults."""
        self._live, self._left, self._notes = live, left, live.notes(Faults)
        self._began, self._longest = live.clock(), 0.0
        self._rng = np.random.default_rng([live.seed, 5])
        self._repeated = set[Fault]()
        self._patient: list[tuple[Longs, NDArray[np.int16]]] = []
        """The orders that are not sent again before the end of the phase, and their answers."""
        calm, hot, first = stocked(live, PHASE, 0, 1, np.zeros(0, dtype=np.int64))
        self._latency = _calm(live, calm.orders)
        room = int(live.seconds[PHASE] * _SET_UP / max(1e-3, calm.seconds))
        self._many = max(1, min(len(left) + sum(fault.what == KILL for fault in left), room))
        self._stock, self._hot, self._next = stocked(live, PHASE, first, self._many, hot)
        self._short = _short(live, self._many + 1, _SHORT if room else _SHORT // 2)  # fewer if the setup is slow

    def all(self) -> None:
        """Run as many rounds as there is time for, and note why the phase must stop, if it must."""
        for number in range(self._many):
            spent = self._live.clock() - self._began
            late = spent + self._longest > self._live.seconds[PHASE] * _SHARE and self._notes.faults
            if not self._left or late or self._notes.stopped:
                break
            self._notes.stopped = self._round(number, self._left.pop(0))
        self._notes.left_out = [f"{fault.what} {fault.service}" for fault in self._left if fault not in self._repeated]

    def _round(self, number: int, fault: Fault) -> str:
        """Run one round. Returns why the phase must stop, or ""."""
        live, start = self._live, self._live.clock()
        what = f"fault {number + 1} ({fault.what} {fault.service})"
        orders = ready(live, self._stock.orders[number * BLOCK : (number + 1) * BLOCK])
        if len(orders) <= _LATER:
            return f"no order could be set up before {what}"
        live.say(f"faults: {number + 1}, {fault.what} {fault.service}; {len(self._left)} to follow")
        orders, later = among(orders[:-_LATER], ready(live, self._short[number])), orders[-_LATER:]
        try:
            answers, under_way = self._strike(fault, orders)
        except SubmissionError as error:
            live.counter.finish()
            return f"at {what}: {error}"
        self._latency = min(self._latency, _median(answers) or self._latency)
        self._notes.faults.append(Struck(fault.what, fault.service, under_way))
        if fault.what == KILL and under_way < min(_UNDER_WAY, len(orders)) and fault not in self._repeated:
            # The burst was over before the kill, as can happen on a busy machine. Try this fault once more.
            self._repeated.add(fault)
            self._left.insert(0, fault)
        waits = np.arange(len(orders)) % _PATIENT == _PATIENT - 1
        self._patient.append((orders[waits], answers.status[waits]))
        _again(live, orders[~waits], answers.status[~waits])
        if not _alive(live, later):
            seconds = f"{live.limits.convergence:.0f} s"
            return f"after {what}, none of {len(later)} new checkouts was answered 2xx or 4xx within {seconds}"
        self._longest = max(self._longest, live.clock() - start)
        return ""

    def last(self, names: list[str]) -> float | None:
        """Check that the system still sells, kill everything once more, and send again what has no answer.

        Returns how long the effects took to settle before that, or None if they did not. Raises SubmissionError.
        """
        live = self._live
        rest = _sells(live, names, self._next, self._hot)
        if not len(rest):
            return 0.0
        # The last fault is during checkouts. Another recovery would repair mistakes that are only in memory.
        rest = among(rest, ready(live, self._short[-1]))
        answers, _ = self._strike(Fault(KILL, ALL), rest)
        live.say("faults: waiting for interrupted orders to settle without a retry")
        if not settle(live, PHASE, "audit before they are sent again"):
            return None
        waited = self._notes.settled_s
        self._patient.append((rest, answers.status))
        _again(live, *(np.concatenate(column) for column in zip(*self._patient, strict=True)))
        return waited

    def _strike(self, fault: Fault, orders: Longs) -> tuple[Result, int]:
        """Send a burst and inject a fault at a moment between 0 and the median latency."""
        return _strike(self._live, fault, orders, float(self._rng.random()) * self._latency)


def _short(live: Live, faults: int, each: int) -> Longs:
    """Create the orders that must be refused. Returns their rows, int64[faults, each]."""
    half = faults * each // 2
    numbers = _SHORT_FROM + np.arange(2 * half, dtype=np.int64)
    poor = own(live, PHASE, half, credit=0, numbers=numbers[:half])
    scarce = own(live, PHASE, half, stock=0, numbers=numbers[half:])
    return np.concatenate([poor.reshape(faults, -1), scarce.reshape(faults, -1)], axis=1)


def _alive(live: Live, orders: Longs) -> bool:
    """Return whether one of the orders is answered 2xx or 4xx within the convergence limit.

    The orders are sent repeatedly, as customers would do. A right system may answer 5xx once for each broken connection
    in its pool.
    """
    until = live.clock() + live.limits.convergence
    for attempt in itertools.count(1):
        status = burst(live, PHASE, "afterwards", orders, attempt=attempt).status
        if (done(status) | refused(status)).any():
            return True
        if live.clock() > until:
            break
        live.counter.wait(_AGAIN)
    return False


def _sells(live: Live, names: list[str], first: int, hot: Longs) -> Longs:
    """Set up a new block, kill everything, and check that one of its orders is paid within the convergence limit.

    Returns the half of the block that was not sent, or no orders if none was paid. Raises SubmissionError.
    """
    live.say("faults: checking that the system still sells")
    until = live.clock() + live.limits.convergence
    for number in itertools.count(first):
        stock, _ = stock_blocks(live.counter, PHASE, live.seed, number, 1, hot)
        usable = ready(live, stock.orders)
        half = (len(usable) + 1) // 2
        if number == first:
            _more(live, stock)
            _kill(live, names)
            until = live.clock() + live.limits.convergence
        if half and done(burst(live, PHASE, "afterwards", usable[:half]).status).any():
            return usable[half:]
        if live.clock() > until:
            break
        live.counter.wait(1.0)
    what = "none of the new checkouts was answered 2xx" if half else "no order could be set up"
    live.notes(Faults).stopped = f"{what} within {live.limits.convergence:.0f} s after the last fault"
    return usable[:0]


def _more(live: Live, stock: Stock) -> None:
    """Top up all users and items of a block concurrently, so that a kill can follow right after the answers."""
    kinds, subjects, middles, amounts = list[Kind](), list[int](), list[bytes](), list[int]()
    for kind, entity, rows, amount in (
        (Kind.ADD_FUNDS, Entity.USER, stock.users, _MORE * COLD_PRICE),
        (Kind.ADD_STOCK, Entity.ITEM, stock.items, _MORE),
    ):
        table = live.record.rows(entity)
        for row in rows[table["ready"][rows] == 1].tolist():
            kinds.append(kind)
            subjects.append(row)
            middles.append(middle(table["id"][row], amount))
            amounts.append(amount)
    of, subject, added = (np.array(column, dtype=np.int64) for column in (kinds, subjects, amounts))
    top_up_at_once(live.counter, Wave(PHASE, "top-ups", Kind.ADD_FUNDS, subject, middles, kinds=of), added)


def _calm(live: Live, orders: Longs) -> float:
    """Send two bursts without a fault. Returns the lower of their median latencies in seconds; 0 if none is answered.

    The first burst is slow because it opens connections, starts threads and fills caches. A fault that is timed by its
    latency would happen after the end of the fault's own burst.
    """
    return min(_median(burst(live, PHASE, "calm", half)) for half in np.array_split(ready(live, orders), 2))


def _median(answers: Result) -> float:
    """Return the median latency of the 2xx answers in seconds; 0 if there are none."""
    good = done(answers.status)
    return float(np.median((answers.done - answers.sent)[good])) / 1e9 if good.any() else 0.0


def _strike(live: Live, fault: Fault, orders: Longs, delay: float) -> tuple[Result, int]:
    """Send a burst, inject the fault, and wait for the recovery. During a pause, each order is sent a second time.

    Returns the answers, and how many requests were in flight when the fault happened. Raises SubmissionError if a
    service does not come back.
    """
    counter, supervisor = live.counter, live.supervisor
    assert supervisor is not None
    names = supervisor.names if fault.service == ALL else [fault.service]
    for name in names:
        supervisor.aim(name)
    start = counter.now() + int(_LEAD * 1e9)
    due, times = np.zeros(len(orders), dtype=np.int64), 1 + (fault.what == PAUSE)
    if fault.what == PAUSE:
        # A client retries while its first checkout is still waiting. A lock may expire in the meantime.
        within = np.linspace(1 / 3, 2 / 3, len(orders)) * live.limits.pause * 1e9
        due = np.concatenate([due, within.astype(np.int64)])
    least = min(_UNDER_WAY, len(orders))
    after = int(fault.what == ANSWERED)
    counter.begin(
        checkouts(live, PHASE, "burst", np.tile(orders, times), due=due, may_refuse=True),
        tell_after=after,
        tell_sent=0 if after else least,
        start=start,
    )
    result = _word(live, least, answered=fault.what == ANSWERED)
    if fault.what != ANSWERED and result is None:
        # Wait for the seeded moment of the fault, unless the burst ends first.
        result = _wait(live, delay, tend=False)
    at = counter.now()
    supervisor.freeze(names)
    if fault.what == PAUSE:
        for name in names:
            supervisor.pause(name)
        until = live.clock() + live.limits.pause
        result = result or _wait(live, live.limits.pause)
        counter.wait(until - live.clock())  # a pause has the same length even if the burst ends early
        for name in names:
            supervisor.resume(name)
    else:
        _kill(live, names, delay if fault.what == RECOVERY else -1.0)
    while result is None:
        result = _wait(live, live.limits.timeout)
    first = slice(len(orders))
    result = replace(result, sent=result.sent[first], done=result.done[first], status=result.status[first])
    return result, int(((result.sent > 0) & (result.sent <= at) & (result.done > at)).sum())


def _kill(live: Live, names: list[str], again: float = -1.0) -> None:
    """Kill services and restart them. ``again``: seconds after which each is killed a second time; -1: never."""
    supervisor = live.supervisor
    assert supervisor is not None
    for name in names:
        supervisor.kill(name)
    for name in names:
        supervisor.restart(name)
        if again >= 0:
            live.counter.wait(again)  # the seeded moment, somewhere during its start
            supervisor.kill(name)
            supervisor.restart(name)
        supervisor.wait_ready(name)


def _word(live: Live, least: int, answered: bool) -> Result | None:
    """Wait until ``least`` requests are sent or, if ``answered``, until one is answered.

    Returns the result if the burst is over, and otherwise None.
    """
    while True:
        message = live.counter.poll(live.limits.timeout, tend=False)
        if isinstance(message, Result):
            return message
        if message is not None and (message.ended if answered else message.sent >= least):
            return None


def _wait(live: Live, seconds: float, tend: bool = True) -> Result | None:
    """Wait at most ``seconds`` for the end of the burst. Returns its result, or None if it is not over."""
    until = live.clock() + seconds
    while (left := until - live.clock()) > 0:
        message = live.counter.poll(min(left, 0.1), tend)
        if isinstance(message, Result):
            return message
    return None


def _again(live: Live, orders: Longs, status: NDArray[np.int16]) -> None:
    """Send orders without a definite answer again, and also every fourth acknowledged order."""
    unknown = (status < 200) | (status >= 500) | (status == 429)
    acknowledged = done(status) & (np.arange(len(orders)) % 4 == 0)
    for attempt in (2, 3):
        chosen = orders[unknown | acknowledged]
        if not len(chosen):
            return
        how = {"attempt": attempt, "connections": BLOCK, "may_refuse": True}
        again = burst(live, PHASE, "sent again", chosen, **how)
        silent = (again.status < 200) | (again.status >= 500)
        if not silent.any():
            return
        unknown, acknowledged = np.isin(orders, chosen[silent]), np.zeros(len(orders), dtype=np.bool_)
