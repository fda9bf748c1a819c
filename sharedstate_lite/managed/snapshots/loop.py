"""A loop: c sends rows to itself. Aligned barriers never complete there, and unaligned ones do.

c adds up its rows. It sends a row below ``bound`` plus one back to itself, on the channel ``c to c``.

>>> from sharedstate_lite.managed.snapshots.explore import explore
>>> explore(Loop()), explore(Loop(aligned=True))
(right: 1 of 1 outcome, stuck: after 4 actions, nothing can happen)

Source: Carbone et al., Lightweight Asynchronous Snapshots for Distributed Dataflows, 2015 (section 4.3, cyclic graphs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .world import BARRIER, Action, Channel, Protocol, World


@dataclass(frozen=True)
class LoopWorld(World):
    """``sent`` counts the rows of the source. ``ahead`` and ``back`` are the channels s1 to c and c to c.

    ``waits`` is True after c has taken the source's barrier. ``under_way`` and ``saved`` are (number, sent, total,
    rows of the channel c to c).
    """

    sent: int = 0
    ahead: Channel = ()
    back: Channel = ()
    waits: bool = False
    under_way: tuple[int, int, int, Channel] | None = None
    saved: tuple[int, int, int, Channel] = (0, 0, 0, ())


@dataclass(frozen=True)
class Loop(Protocol[LoopWorld]):
    """One snapshot of a job with a loop. At the source's barrier, c saves its total and logs the loop until the barrier
    comes around. With ``aligned=True``, c waits for the loop's barrier first, which only c itself could send."""

    aligned: bool = False
    records: tuple[int, ...] = field(default=(1, 2), kw_only=True)
    bound: int = field(default=2, kw_only=True)
    restarts = 2

    def start(self) -> LoopWorld:
        return LoopWorld()

    def channels(self, world: LoopWorld) -> Mapping[tuple[str, str], Channel]:
        return {("s1", "c"): world.ahead, ("c", "loop"): world.back}

    def actions(self, world: LoopWorld) -> Iterator[Action[LoopWorld]]:
        if world.sent < len(self.records):
            row = self.records[world.sent]
            yield Action(f"s1 sends {row}", replace(world, sent=world.sent + 1, ahead=(*world.ahead, row)))
        if world.under_way is None and not world.saved[0]:
            now = 1, world.sent, 0, ()
            yield Action(
                "s1 sends the barrier", replace(world, under_way=now, ahead=(*world.ahead, BARRIER)), {"writes": 1}
            )
        if world.ahead and not (self.aligned and world.waits):
            yield self._ahead(world)
        if world.back:
            yield self._back(world)
        if world.sent == len(self.records) and not world.ahead and not world.back and world.under_way is None:
            yield Action("the input ends", replace(world, output=(world.total,), ended=True))

    def _ahead(self, world: LoopWorld) -> Action[LoopWorld]:
        after, row = replace(world, ahead=world.ahead[1:]), world.ahead[0]
        if row != BARRIER:
            return Action(f"c takes s1's {row}", self._add(after, row))
        after = replace(after, waits=True)
        if not self.aligned and world.under_way is not None:
            number, sent, _, log = world.under_way
            after = replace(after, under_way=(number, sent, world.total, log), back=(*world.back, BARRIER))
        return Action("c takes s1's barrier", after, {"writes": 1})

    def _back(self, world: LoopWorld) -> Action[LoopWorld]:
        after, row = replace(world, back=world.back[1:]), world.back[0]
        if row == BARRIER:
            whole = replace(after, under_way=None, waits=False, saved=world.under_way or world.saved)
            return Action("c takes its own barrier: snapshot 1 is whole", whole)
        after = self._add(after, row)
        if self.aligned or not world.waits or world.under_way is None:
            return Action(f"c takes its own {row}", after)
        number, sent, total, log = world.under_way
        return Action(
            f"c takes its own {row} and logs it",
            replace(after, under_way=(number, sent, total, (*log, row))),
            {"logged": 1},
        )

    def _add(self, world: LoopWorld, row: int) -> LoopWorld:
        back = (*world.back, row + 1) if row < self.bound else world.back
        return replace(world, total=world.total + row, back=back)

    def crash(self, world: LoopWorld) -> Iterator[Action[LoopWorld]]:
        number, sent, total, log = world.saved
        again = replace(world, sent=sent, total=total, ahead=(), back=log, waits=False, under_way=None)
        label = f"crash: all continue from {'snapshot 1' if number else 'the start'}"
        yield Action(label, again, restored=number)
