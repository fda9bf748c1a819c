"""A bin moves from worker a to worker b while rows arrive: a control message in the channels, as in Chi and Megaphone.

The sources send a Move on each channel to a. Rows before it go to a, and rows after it go to b. When all inputs have
brought the Move, a sends the bin: its total and its pending timer. Here, ``crash`` is not a crash but the move: the
outcomes with it must be among the outcomes without.

>>> from sharedstate_lite.protocols.explore import explore
>>> explore(MoveBin()), explore(MoveBin(hold=False)).end.output
(right: 3 of 3 outcomes, (1, 3, 10, 'timer: 3'))

Source: Mai et al., Chi, VLDB 2018; Hoffmann et al., Megaphone, VLDB 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .world import Action, Channel, Outcome, SumJob, SumWorld, pop, push, put

MOVE = "Move"


class MovedBin(NamedTuple):
    """What a sends to b: the total, and the name of the worker that gets the timer, '' if there is none."""

    total: int
    timer: str

    def __str__(self) -> str:
        return f"bin: {self.total}"


@dataclass(frozen=True)
class MoveWorld(SumWorld):
    """``totals`` are the bin's totals at a and b, None where the bin is not. ``timer`` names the worker with its timer.

    ``channels`` are those of the sources to a, those of the sources to b, and a to b. ``moving`` is True once the plan
    has changed, ``routed`` are the sources that know it, ``brought`` the inputs whose Move has reached a.
    """

    totals: tuple[int | None, int | None] = (0, None)
    timer: str = ""
    channels: tuple[Channel, ...] = ((),) * 5
    moving: bool = False
    routed: frozenset[int] = frozenset()
    brought: frozenset[int] = frozenset()

    @property
    def outcome(self) -> Outcome:
        return Outcome(tuple(total for total in self.totals if total is not None), self.output)


@dataclass(frozen=True)
class MoveBin(SumJob[MoveWorld]):
    """One bin, two inputs. The timer was set by the first row, and fires when the watermark has passed all rows.

    Wrong: ``hold=False``, where b does not wait for the bin before it takes rows; ``all_inputs=False``, where a sends
    the bin at the first Move; and ``timers=False``, which leaves the timer behind.
    """

    hold: bool = True
    all_inputs: bool = True
    timers: bool = True
    what_crashes = "nothing: the bin moves"
    restarts = 0

    def start(self) -> MoveWorld:
        return MoveWorld()

    def channels(self, world: MoveWorld) -> Mapping[tuple[str, str], Channel]:
        ends = [("s1", "a"), ("s2", "a"), ("s1", "b"), ("s2", "b"), ("a", "b")]
        return dict(zip(ends, world.channels, strict=True))

    def actions(self, world: MoveWorld) -> Iterator[Action[MoveWorld]]:
        for i in self.inputs:
            for sent in self.send(world, i, 2 if i in world.routed else 0):
                yield sent._replace(label=f"{sent.label} to {'b' if i in world.routed else 'a'}")
            if world.moving and i not in world.routed:
                yield Action(f"s{i + 1} sends the Move", replace(push(world, i, MOVE), routed=world.routed | {i}))
            if world.channels[i]:
                yield self._at_a(world, i)
            if (queue := world.channels[2 + i]) and not (self.hold and world.totals[1] is None):
                yield Action(f"b takes s{i + 1}'s {queue[0]}", self._add(pop(world, 2 + i), 1, queue[0]))
        if queue := world.channels[4]:
            waited = sum(map(len, world.channels[2:4]))
            after = replace(
                pop(world, 4), totals=(world.totals[0], queue[0].total), timer=queue[0].timer or world.timer
            )
            yield Action("b takes the bin", after, {"held": waited}, note="owns the bin")
        if self.quiet(world) and len(world.routed) == world.moving * len(self.records):
            fired = f"timer: {world.totals['ab'.index(world.timer)]}"
            yield Action("the watermark passes", replace(world, output=(*world.output, fired), ended=True))

    def _at_a(self, world: MoveWorld, i: int) -> Action[MoveWorld]:
        after, label = pop(world, i), f"a takes s{i + 1}'s {world.channels[i][0]}"
        if world.channels[i][0] != MOVE:
            return Action(label, self._add(after, 0, world.channels[i][0]))
        after = replace(after, brought=world.brought | {i})
        if len(after.brought) < (len(self.records) if self.all_inputs else 1) or world.totals[0] is None:
            return Action(label, after)
        timer = world.timer if self.timers else ""
        after = push(after, 4, MovedBin(world.totals[0], timer and "b"))
        after = replace(after, totals=(None, world.totals[1]), timer="" if timer else world.timer)
        return Action(f"{label} and sends the bin", after)

    def _add(self, world: MoveWorld, at: int, row: Any) -> MoveWorld:
        total = (world.totals[at] or 0) + row
        waiting = any(moved.timer for moved in world.channels[4])
        timer = world.timer or ("" if waiting else "ab"[at])
        return replace(world, totals=put(world.totals, at, total), timer=timer, output=(*world.output, total))

    def crash(self, world: MoveWorld) -> Iterator[Action[MoveWorld]]:
        if not world.moving:
            yield Action("the plan moves the bin from a to b", replace(world, moving=True))

    def broken(self, world: MoveWorld) -> str:
        owners = [name for name, total in zip("ab", world.totals, strict=True) if total is not None]
        owners += ["the channel"] * len(world.channels[4])
        if len(owners) != 1:
            return f"the bin has {len(owners)} owners"
        return "the timer is not where its bin is" if world.timer and world.timer not in owners else ""
