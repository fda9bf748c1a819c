"""Wait for a pair of full snapshots, two seconds apart, that are the same and clean.

The time between them is used for a second look, which must find the same. The first clean pair is accepted; that
there is none is said only at the convergence limit. The snapshots that decided are kept in the record, the ones before
are not.
"""

from __future__ import annotations

from ..audit import clean, view_of
from ..record import Shot
from ..shop import look_again, snapshot
from ..terms import State
from .live import Live


def settle(live: Live, phase: str, name: str) -> bool:
    """Read until clean and stable, or until the limit; whether it was. The snapshots that decided are kept."""
    counter, record = live.counter, live.record
    began = counter.now()
    limit = _limit(live)
    before: Shot | None = None
    while True:
        first = before or snapshot(counter, phase, name)
        good = clean(view_of(record, first))
        # A snapshot that is wrong is taken again sooner than one that only has to stay as it is.
        until = counter.now() + int((live.limits.stable if good else min(live.limits.stable, 1.0)) * 1e9)
        second = look_again(counter, phase, name, first, until) if good else first
        if first.same(second):
            counter.wait((until - counter.now()) / 1e9)
            second = snapshot(counter, phase, name)
        if good and first.same(second):
            record.keep(first, phase, f"{name}, first of the pair", True)
            live.notes(phase)["settled_s"] = round((first.end - began) / 1e9, 1)
            record.keep(second, phase, f"{name}, second of the pair", True)
            return True
        if counter.now() > limit:
            record.keep(first, phase, f"{name}, at the convergence limit", False)
            record.keep(second, phase, f"{name}, at the convergence limit", False)
            return False
        before = second
        live.say(f"{phase}: not settled yet, {max(0, (limit - counter.now()) // 10**9)} s left")


def failed(live: Live) -> bool:
    """Whether a phase before has not settled: then the run is a fail."""
    return any(shot["phase"] and not shot["accepted"] for shot in live.record.snapshots_taken)


def _limit(live: Live) -> int:
    """Until when to wait, in nanoseconds of the run: the convergence limit; of a run that has failed, its time too."""
    now, stable = live.counter.now(), 2 * live.limits.stable
    limit = now + int(live.limits.convergence * 1e9)
    return min(limit, max(now + int(stable * 1e9), int(live.limits.budget * 1e9))) if failed(live) else limit


def drain(live: Live, phase: str, name: str) -> Shot:
    """Read until one snapshot is clean, or until the limit; nothing is kept. The last snapshot."""
    limit = _limit(live)
    while True:
        shot = snapshot(live.counter, phase, name)
        if clean(view_of(live.record, shot)) or live.counter.now() > limit:
            return shot
        live.counter.wait(min(live.limits.stable, 1.0))


def still_clean(live: Live, phase: str) -> bool:
    """Whether a phase's things read as they must, now; nothing is kept."""
    return clean(view_of(live.record, snapshot(live.counter, phase, "still")))


def settle_all(live: Live) -> int:
    """The run's last snapshot, of everything; what was accepted before must still be so. Its number.

    A process that is just being started again answers no read, which is no change: taken anew, until the limit.
    """
    limit = _limit(live)
    while True:
        shot = snapshot(live.counter, "", "last")
        if live.counter.now() > limit or not any((states == State.LOST).any() for _, states, _ in shot.read.values()):
            return live.record.keep(shot, "", "last", False)
        live.counter.wait(min(live.limits.stable, 1.0))
