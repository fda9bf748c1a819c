"""Phase 5: kill -9 and SIGSTOP of each process alone, and kills of all at once, during bursts of checkouts.

Each fault has a block of orders that are sent at once, and among them a few with one unit too little stock or credit,
so that the system is undoing something. The fault comes at a seeded moment between 0 and the median latency, right
after an answer, or during the recovery from the last one. After each restart most orders without a definite answer are
sent again, and some acknowledged ones. At the end a new block is set up, everything is killed right after its last
answer, half of the block must sell, and everything is killed while the rest is checked out. That catches a system that
answers only 5xx from then on, which breaks no promise. Snapshots must settle before and after the remaining orders
without an answer are sent again, as a client may never retry.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import SubmissionError
from ..orders import BLOCK, COLD_PRICE, SIDE
from ..orders.blocks import BASE
from ..shop import Stock, Wave, stock_blocks
from ..shop.routes import middle
from ..shop.stocking import top_up_at_once
from ..terms import Entity, Kind
from ..wire.jobs import Longs, Result
from .goods import among, own, ready, stocked
from .live import Live
from .settle import settle

PHASE = "faults"
ALL = "everything"
KILL, ANSWERED, RECOVERY, PAUSE = "kill", "kill after an answer", "kill during recovery", "pause"
_LEAD = 0.1
"""Seconds between the command to send and the burst."""
_UNDER_WAY = 8
"""Checkouts that must have been sent before the fault."""
_LATER = 4
"""Orders of a block that are sent after the fault. They show connections that broke and were never replaced."""
_SHORT = 4
"""Orders of a fault that must be refused, half for lack of credit and half for lack of stock."""
_SHORT_FROM = 500_000
"""The number of the first such order, above those of the blocks."""
_AGAIN = 0.05
"""Seconds before orders without a definite answer are sent again."""
_PATIENT = 4
"""One of so many orders of a burst is not sent again before the end of the phase."""
_MORE = BASE**SIDE
"""Stock (and this times the price as credit) that is added right before a kill. It exceeds the digits of a balance, or
a lost top-up would look like the effect of an order."""
_SHARE, _SET_UP = 0.6, 0.2
"""The shares of the phase's time for setup and faults, and for setup alone. The rest is for converging."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault, and the service that it hits."""

    what: str
    service: str


def plan(names: list[str], can_pause: bool) -> list[Fault]:
    """All faults, the most important ones first."""
    rounds = [(KILL, [*names, ALL]), (PAUSE, names if can_pause else []), (ANSWERED, names), (RECOVERY, names)]
    return [Fault(what, name) for what, services in rounds for name in services]


def run(live: Live) -> None:
    """Run the phase. It needs processes that it may kill."""
    notes, supervisor = live.notes(PHASE), live.supervisor
    if supervisor is None:
        notes["skipped"] = "the system runs at --url, and no --kill and --restart were given"
        return
    left = plan(supervisor.names, supervisor.can_pause)
    rng = np.random.default_rng([live.seed, 5])
    began, done, hot = live.clock(), 0, np.zeros(0, dtype=np.int64)
    longest = 0.0
    stock, hot, first = stocked(live, PHASE, 0, 1, hot)
    latency = _calm(live, stock.orders)
    # Everything is set up before the first fault: a recovering service would spoil a later setup.
    room = int(live.seconds[PHASE] * _SET_UP / max(1e-3, stock.seconds))
    blocks = max(1, min(len(left) + sum(fault.what == KILL for fault in left), room))
    stock, hot, first = stocked(live, PHASE, first, blocks, hot)
    short = _short(live, blocks + 1, _SHORT if room else _SHORT // 2)  # fewer for a slow setup
    told, again = notes.setdefault("faults", []), set[Fault]()
    patient: list[tuple[Longs, NDArray[np.int16]]] = []
    for number in range(blocks):
        start = live.clock()
        if not left or (start - began + longest > live.seconds[PHASE] * _SHARE and done):
            break
        fault = left.pop(0)
        mine = stock.orders[number * BLOCK : (number + 1) * BLOCK]
        usable = mine[live.record.orders["ready"][mine] == 1]
        if len(usable) <= _LATER:
            notes["stopped"] = f"no order could be set up before fault {number + 1}, {fault.what} {fault.service}"
            break
        live.say(f"faults: {number + 1}, {fault.what} {fault.service}; {len(left)} to follow")
        usable, later = usable[:-_LATER], usable[-_LATER:]
        usable = among(usable, ready(live, short[number])[0])
        try:
            answers, under_way = _strike(live, fault, usable, float(rng.random()) * latency)
        except SubmissionError as error:
            notes["stopped"] = f"after {fault.what} {fault.service}: {error}"
            live.counter.finish()
            break
        latency = min(latency, _median(answers) or latency)
        told.append({"what": fault.what, "service": fault.service, "under_way": under_way})
        if fault.what == KILL and under_way < min(_UNDER_WAY, len(usable)) and fault not in again:
            # The burst was over before the kill, as on a busy machine: try this fault once more.
            again.add(fault)
            left.insert(0, fault)
        waits = np.arange(len(usable)) % _PATIENT == _PATIENT - 1
        patient.append((usable[waits], answers.status[waits]))
        _again(live, usable[~waits], answers.status[~waits])
        done += 1
        if not _alive(live, later):
            notes["stopped"] = (
                f"after {fault.what} {fault.service}, none of {len(later)} new checkouts was answered 2xx or 4xx "
                f"within {live.limits.convergence:.0f} s"
            )
            break
        longest = max(longest, live.clock() - start)
    waited = 0.0
    notes["left_out"] = [f"{fault.what} {fault.service}" for fault in left if fault not in again]
    if "stopped" not in notes and done:
        try:
            rest = _sells(live, supervisor.names, first, hot)
            if len(rest):
                # The last fault hits checkouts: a later recovery would repair mistakes that are only in memory.
                rest = among(rest, ready(live, short[-1])[0])
                answers, _ = _strike(live, Fault(KILL, ALL), rest, float(rng.random()) * latency)
                live.say("faults: waiting for interrupted orders to settle without a retry")
                if not settle(live, PHASE, "audit before they are sent again"):
                    return
                waited = notes["settled_s"]
                patient.append((rest, answers.status))
                _again(live, *(np.concatenate(column) for column in zip(*patient, strict=True)))
        except SubmissionError as error:
            notes["stopped"] = f"after {KILL} {ALL}, at the end: {error}"
            live.counter.finish()
    live.say("faults: waiting for a stable, clean pair of snapshots")
    if settle(live, PHASE, "audit"):
        notes["settled_s"] = max(waited, notes["settled_s"])


def _short(live: Live, faults: int, each: int) -> Longs:
    """Create the orders of each fault that must be refused."""
    half = faults * each // 2
    numbers = _SHORT_FROM + np.arange(2 * half, dtype=np.int64)
    poor = own(live, PHASE, half, credit=0, numbers=numbers[:half])
    scarce = own(live, PHASE, half, stock=0, numbers=numbers[half:])
    return np.concatenate([poor.reshape(faults, -1), scarce.reshape(faults, -1)], axis=1)


def _alive(live: Live, orders: Longs) -> bool:
    """Whether one of the orders is answered 2xx or 4xx within the convergence limit.

    They are sent as often as customers would. A right system may answer 5xx once for each broken connection of its
    pool.
    """
    ends = [middle(one) for one in live.record.orders["id"][orders]]
    until, none = live.clock() + live.limits.convergence, np.zeros(len(orders), dtype=np.int64)
    for attempt in itertools.count(1):
        wave = Wave(PHASE, "afterwards", Kind.CHECKOUT, orders, ends, due=none, connections=1024, attempt=attempt)
        status = live.counter.send(wave).status
        if ((status >= 200) & (status < 500) & (status != 429)).any():
            return True
        if live.clock() > until:
            break
        live.counter.wait(_AGAIN)
    return False


def _sells(live: Live, names: list[str], first: int, hot: Longs) -> Longs:
    """Set up a new block, kill everything, and check that one of its orders is done within the convergence limit.

    Returns the unsent half of the block; nothing if none was done. Raises SubmissionError.
    """
    live.say("faults: checking that it still sells")
    until = live.clock() + live.limits.convergence
    for number in itertools.count(first):
        stock, _ = stock_blocks(live.counter, PHASE, live.seed, number, 1, hot)
        usable, ends = ready(live, stock.orders)
        half = (len(usable) + 1) // 2
        if number == first:
            _more(live, stock)
            _kill(live, names)
            until = live.clock() + live.limits.convergence
        if half:
            none = np.zeros(half, dtype=np.int64)
            wave = Wave(PHASE, "afterwards", Kind.CHECKOUT, usable[:half], ends[:half], due=none, connections=1024)
            answers = live.counter.send(wave)
            if ((answers.status >= 200) & (answers.status < 300)).any():
                return usable[half:]
        if live.clock() > until:
            break
        live.counter.wait(1.0)
    what = "none of the new checkouts was done" if half else "no order could be set up"
    live.notes(PHASE)["stopped"] = f"{what} within {live.limits.convergence:.0f} s of the last fault's end"
    return usable[:0]


def _more(live: Live, stock: Stock) -> None:
    """Top up all users and items of a block at once, so that a kill follows right after the answers."""
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
    """The lower median latency of two bursts without a fault, in seconds; 0 without an answer.

    The first burst opens connections, starts threads and fills caches. A fault timed by it would come after its burst.
    """
    usable = orders[live.record.orders["ready"][orders] == 1]
    found = []
    for half in np.array_split(usable, 2):
        ends = [middle(one) for one in live.record.orders["id"][half]]
        none = np.zeros(len(half), dtype=np.int64)
        found.append(live.counter.send(Wave(PHASE, "calm", Kind.CHECKOUT, half, ends, due=none, connections=1024)))
    return min((_median(answers) for answers in found), default=0.0)


def _median(answers: Result) -> float:
    """The median latency of the 2xx answers in seconds; 0 if there are none."""
    good = (answers.status >= 200) & (answers.status < 300)
    return float(np.median((answers.done - answers.sent)[good])) / 1e9 if good.any() else 0.0


def _strike(live: Live, fault: Fault, orders: Longs, delay: float) -> tuple[Result, int]:
    """Send a burst with a fault, and wait for the recovery. Returns the answers, and how many requests the fault hit.

    During a pause each order is sent once more. Raises SubmissionError if a service does not come back.
    """
    counter, supervisor = live.counter, live.supervisor
    assert supervisor is not None
    names = supervisor.names if fault.service == ALL else [fault.service]
    for name in names:
        supervisor.aim(name)
    ends = [middle(one) for one in live.record.orders["id"][orders]]
    start = counter.now() + int(_LEAD * 1e9)
    due, times = np.zeros(len(orders), dtype=np.int64), 1 + (fault.what == PAUSE)
    if fault.what == PAUSE:
        # A client without an answer retries while the first checkout still waits; a lock may expire meanwhile.
        within = np.linspace(1 / 3, 2 / 3, len(orders)) * live.limits.pause * 1e9
        due = np.concatenate([due, within.astype(np.int64)])
    least = min(_UNDER_WAY, len(orders))
    after = int(fault.what == ANSWERED)
    counter.begin(
        Wave(PHASE, "burst", Kind.CHECKOUT, np.tile(orders, times), ends * times, due=due, connections=1024),
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
        counter.wait(until - live.clock())  # a pause keeps its length even if the burst is over
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
    """Kill services and restart them; ``again``: kill them once more after so many seconds, -1: not."""
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
    """Wait until ``least`` requests are sent, or one is answered. Returns the result if the burst is over."""
    while True:
        said = live.counter.poll(live.limits.timeout, tend=False)
        if isinstance(said, Result):
            return said
        if said is not None and (said.ended if answered else said.sent >= least):
            return None


def _wait(live: Live, seconds: float, tend: bool = True) -> Result | None:
    """Wait for the end of the burst, for at most ``seconds``. Returns the result if it is over."""
    until = live.clock() + seconds
    while (left := until - live.clock()) > 0:
        said = live.counter.poll(min(left, 0.1), tend)
        if isinstance(said, Result):
            return said
    return None


def _again(live: Live, orders: Longs, status: NDArray[np.int16]) -> None:
    """Send orders without a definite answer again, and every fourth acknowledged one."""
    unknown = (status < 200) | (status >= 500) | (status == 429)
    acknowledged = (status >= 200) & (status < 300) & (np.arange(len(orders)) % 4 == 0)
    for attempt in (2, 3):
        chosen = orders[unknown | acknowledged]
        if not len(chosen):
            return
        ends = [middle(one) for one in live.record.orders["id"][chosen]]
        again = live.counter.send(
            Wave(PHASE, "sent again", Kind.CHECKOUT, chosen, ends, attempt=attempt, connections=BLOCK)
        )
        silent = (again.status < 200) | (again.status >= 500)
        if not silent.any():
            return
        unknown, acknowledged = np.isin(orders, chosen[silent]), np.zeros(len(orders), dtype=np.bool_)
