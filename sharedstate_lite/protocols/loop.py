"""A loop: c sends rows to itself. Aligned barriers never complete there, and unaligned ones do.

c adds up its rows. It sends a row below ``bound`` plus one back to itself, on the channel ``c to c``.

>>> from sharedstate_lite.protocols.explore import explore
>>> explore(Loop()), explore(Loop(aligned=True))
(right: 1 of 1 outcome, stuck: after 4 actions, nothing can happen)

Source: Carbone et al., Lightweight Asynchronous Snapshots for Distributed Dataflows, 2015 (section 4.3, cyclic graphs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .world import BARRIER, Action, Channel, Cut, Outcome, SumJob, SumWorld, pop, push


@dataclass(frozen=True)
class LoopWorld(SumWorld):
    """``channels`` are s1 to c and c to c. ``waits`` is True from the source's barrier to the loop's.

    ``under_way`` is the snapshot that is being taken, ``saved`` the last whole one.
    """

    sent: tuple[int, ...] = (0,)
    channels: tuple[Channel, ...] = ((), ())
    waits: bool = False
    under_way: Cut | None = None
    saved: Cut = Cut(0, (0,), ((),), 0)

    @property
    def outcome(self) -> Outcome:
        return Outcome((self.total,), self.output)


@dataclass(frozen=True)
class Loop(SumJob[LoopWorld]):
    """One snapshot of a job with a loop. At the source's barrier, c saves its total and logs the loop until the barrier
    comes around. With ``aligned=True``, c waits for the loop's barrier first, which only c itself could send."""

    aligned: bool = False
    records: tuple[tuple[int, ...], ...] = field(default=((1, 2),), kw_only=True)
    bound: int = field(default=2, kw_only=True)
    restarts = 2

    def start(self) -> LoopWorld:
        return LoopWorld()

    def channels(self, world: LoopWorld) -> Mapping[tuple[str, str], Channel]:
        return dict(zip([("s1", "c"), ("c", "loop")], world.channels, strict=True))

    def actions(self, world: LoopWorld) -> Iterator[Action[LoopWorld]]:
        yield from self.send(world, 0)
        if world.under_way is None and not world.saved.number:
            after = replace(push(world, 0, BARRIER), under_way=Cut(1, world.sent, ((),)))
            yield Action("s1 sends the barrier", after, {"writes": 1})
        ahead, back = world.channels
        if ahead and not (self.aligned and world.waits):
            yield self._ahead(pop(world, 0), ahead[0])
        if back:
            yield self._back(pop(world, 1), back[0])
        if self.quiet(world) and world.under_way is None:
            yield Action("the input ends", replace(world, output=(world.total,), ended=True))

    def _ahead(self, world: LoopWorld, row: int | str) -> Action[LoopWorld]:
        if isinstance(row, int):
            return Action(f"c takes s1's {row}", self._add(world, row))
        if not self.aligned and world.under_way is not None:
            world = replace(push(world, 1, BARRIER), under_way=replace(world.under_way, total=world.total))
        return Action("c takes s1's barrier", replace(world, waits=True), {"writes": 1})

    def _back(self, world: LoopWorld, row: int | str) -> Action[LoopWorld]:
        now = world.under_way
        if isinstance(row, str):
            whole = replace(world, under_way=None, waits=False, saved=now or world.saved)
            return Action("c takes its own barrier: snapshot 1 is whole", whole)
        after, label = self._add(world, row), f"c takes its own {row}"
        if self.aligned or not world.waits or now is None:
            return Action(label, after)
        logged = replace(now, channels=((*now.channels[0], row),))
        return Action(f"{label} and logs it", replace(after, under_way=logged), {"logged": 1})

    def _add(self, world: LoopWorld, row: int) -> LoopWorld:
        after = replace(world, total=world.total + row)
        return push(after, 1, row + 1) if row < self.bound else after

    def crash(self, world: LoopWorld) -> Iterator[Action[LoopWorld]]:
        kept = world.saved
        again = replace(world, sent=kept.sent, total=kept.total, channels=((), *kept.channels))
        label = f"crash: all continue from {'snapshot 1' if kept.number else 'the start'}"
        yield Action(label, replace(again, waits=False, under_way=None), restored=kept.number)
