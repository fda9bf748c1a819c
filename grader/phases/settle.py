"""Wait for two full snapshots, two seconds apart, that are equal and clean.

Between the two, `look_again` reads everything again and must find the same values. The first such pair is accepted and
recorded. If the wait ends without such a pair, the last two snapshots are recorded instead.
"""

from __future__ import annotations

from collections.abc import Callable

from ..audit import INDETERMINATE, View, audit, clean, view_of
from ..record import Shot
from ..shop import look_again, snapshot
from ..terms import State
from .live import Live


def settle(live: Live, phase: str, name: str) -> bool:
    """Take snapshots until two in a row are clean and equal, or until the deadline. Records the last two snapshots.

    Returns whether they are clean and equal.
    """
    counter, record = live.counter, live.record
    began = counter.now()
    over = _deadline(live)
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
            live.about(phase).settled_s = round((first.end - began) / 1e9, 1)
            record.keep(second, phase, f"{name}, second of the pair", True)
            return True
        if over(first, second):
            record.keep(first, phase, f"{name}, at the convergence limit", False)
            record.keep(second, phase, f"{name}, at the convergence limit", False)
            return False
        before = second
        waited = (counter.now() - began) // 10**9
        live.say(f"{phase}: not settled after {waited} s, at most {live.limits.convergence:.0f} s")


def failed(live: Live) -> bool:
    """Return whether an earlier phase never settled. The verdict of the run is then "fail"."""
    return any(shot["phase"] and not shot["accepted"] for shot in live.record.snapshots_taken)


def _deadline(live: Live) -> Callable[[Shot, Shot], bool]:
    """Return a function that decides, from the last two unclean snapshots, whether to stop waiting.

    Waiting stops at the convergence limit. It stops earlier, after `Limits.still` seconds, if the two snapshots are
    equal and no wrong value involves an order without a definite answer, because then no effect is under way. If an
    earlier phase has failed, it also stops at the end of the run's time budget.
    """
    began, stable = live.counter.now(), 2 * live.limits.stable
    limit, still = began + int(live.limits.convergence * 1e9), began + int(live.limits.still * 1e9)
    if failed(live):
        limit = min(limit, max(began + int(stable * 1e9), int(live.limits.budget * 1e9)))

    def over(first: Shot, second: Shot) -> bool:
        now = live.counter.now()
        return now > limit or now > still and first.same(second) and not under_way(view_of(live.record, second))

    return over


def under_way(view: View) -> bool:
    """Return whether a wrong value involves an order without a definite answer, whose effects may still complete."""
    orders = {order for finding in audit(view) for order in (finding.order, *finding.candidates) if order >= 0}
    return bool((view.outcome[list(orders)] == INDETERMINATE).any())


def drain(live: Live, phase: str, name: str) -> Shot:
    """Take snapshots until one is clean, or until the deadline. Returns the last one, but does not record it."""
    over = _deadline(live)
    before: Shot | None = None
    while True:
        shot = snapshot(live.counter, phase, name)
        if clean(view_of(live.record, shot)) or over(before or shot, shot):
            return shot
        before = shot
        live.counter.wait(min(live.limits.stable, 1.0))


def still_clean(live: Live, phase: str) -> bool:
    """Take a snapshot of a phase and return whether it is clean. Does not record it."""
    return clean(view_of(live.record, snapshot(live.counter, phase, "still")))


def settle_all(live: Live) -> int:
    """Take and record the final snapshot of the run, which covers all phases. Returns its number.

    If reads are lost, it is repeated for up to `Limits.still` seconds, because a process may be restarting.
    """
    until = live.counter.now() + int(min(live.limits.still, live.limits.convergence) * 1e9)
    while True:
        shot = snapshot(live.counter, "", "last")
        if live.counter.now() > until or not any((states == State.LOST).any() for _, states, _ in shot.read.values()):
            return live.record.keep(shot, "", "last", False)
        live.counter.wait(min(live.limits.stable, 1.0))
