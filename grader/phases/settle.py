"""Wait for two full snapshots, two seconds apart, that are equal and clean.

Between them `look_again` reads everything once more, and must find the same. The first such pair is accepted. If there
is none at the convergence limit, the last two snapshots are recorded instead. Earlier ones are not recorded.
"""

from __future__ import annotations

from ..audit import clean, view_of
from ..record import Shot
from ..shop import look_again, snapshot
from ..terms import State
from .live import Live


def settle(live: Live, phase: str, name: str) -> bool:
    """Read until a pair is clean and equal, or until the limit. Returns whether it was, and records the pair."""
    counter, record = live.counter, live.record
    began = counter.now()
    limit = _limit(live)
    before: Shot | None = None
    while True:
        first = before or snapshot(counter, phase, name)
        good = clean(view_of(record, first))
        # A wrong snapshot is repeated sooner than a clean one.
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
    """Whether an earlier phase never settled, so that the run is a fail."""
    return any(shot["phase"] and not shot["accepted"] for shot in live.record.snapshots_taken)


def _limit(live: Live) -> int:
    """When to stop waiting (ns of the run): at the convergence limit; after a failed phase also at the run's end."""
    now, stable = live.counter.now(), 2 * live.limits.stable
    limit = now + int(live.limits.convergence * 1e9)
    return min(limit, max(now + int(stable * 1e9), int(live.limits.budget * 1e9))) if failed(live) else limit


def drain(live: Live, phase: str, name: str) -> Shot:
    """Read until a snapshot is clean, or until the limit. Returns the last one, and records none."""
    limit = _limit(live)
    while True:
        shot = snapshot(live.counter, phase, name)
        if clean(view_of(live.record, shot)) or live.counter.now() > limit:
            return shot
        live.counter.wait(min(live.limits.stable, 1.0))


def still_clean(live: Live, phase: str) -> bool:
    """Whether a snapshot of a phase is clean now. Records none."""
    return clean(view_of(live.record, snapshot(live.counter, phase, "still")))


def settle_all(live: Live) -> int:
    """Take and record the run's last snapshot, of everything. Returns its number.

    It is repeated, up to the limit, while reads are lost: a process may just be restarting.
    """
    limit = _limit(live)
    while True:
        shot = snapshot(live.counter, "", "last")
        if live.counter.now() > limit or not any((states == State.LOST).any() for _, states, _ in shot.read.values()):
            return live.record.keep(shot, "", "last", False)
        live.counter.wait(min(live.limits.stable, 1.0))
