"""A bin moves from worker a to worker b while rows arrive: a control message in the channels, as in Chi and Megaphone.

The sources send a Move on each channel to a. Rows before it go to a, and rows after it go to b. When all inputs have
brought the Move, a sends the bin: its total and its pending timer. Here, ``crash`` is not a crash but the move: the
outcomes with it must be among the outcomes without.

>>> from sharedstate_lite.managed.snapshots.explore import explore
>>> explore(MoveBin()), explore(MoveBin(hold=False)).end.output
(right: 3 of 3 outcomes, (1, 3, 10, 'timer: 3'))

Source: Mai et al., Chi, VLDB 2018; Hoffmann et al., Megaphone, VLDB 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .world import Action, Channel, Outcome, Protocol, World, put

MOVE = "Move"


class MovedBin(NamedTuple):
    """What a sends to b: the total, and the name of the worker that gets the timer, '' if there is none."""

    total: int
    timer: str

    def __str__(self) -> str:
        return f"bin: {self.total}"


@dataclass(frozen=True)
class MoveWorld(World):
    """``totals`` are the bin's totals at a and b, None where the bin is not. ``timer`` names the worker with its timer.

    ``to_a`` and ``to_b`` are the channels of the sources, ``bin`` is the channel a to b. ``moving`` is True once the
    plan has changed, ``routed`` are the sources that know it, ``brought`` the inputs whose Move has reached a.
    """

    totals: tuple[int | None, int | None] = (0, None)
    timer: str = ""
    sent: tuple[int, ...] = (0, 0)
    to_a: tuple[Channel, ...] = ((), ())
    to_b: tuple[Channel, ...] = ((), ())
    bin: Channel = ()
    moving: bool = False
    routed: frozenset[int] = frozenset()
    brought: frozenset[int] = frozenset()

    @property
    def outcome(self) -> Outcome:
        return Outcome(tuple(total for total in self.totals if total is not None), self.output)


@dataclass(frozen=True)
class MoveBin(Protocol[MoveWorld]):
    """One bin, two inputs. The timer was set by the first row, and fires when the watermark has passed all rows.

    Wrong: ``hold=False``, where b does not wait for the bin before it takes rows; ``all_inputs=False``, where a sends
    the bin at the first Move; and ``timers=False``, which leaves the timer behind.
    """

    hold: bool = True
    all_inputs: bool = True
    timers: bool = True
    records: tuple[tuple[int, ...], ...] = field(default=((1, 2), (10,)), kw_only=True)
    what_crashes = "nothing: the bin moves"
    restarts = 0

    def start(self) -> MoveWorld:
        return MoveWorld()

    def channels(self, world: MoveWorld) -> Mapping[tuple[str, str], Channel]:
        ends: dict[tuple[str, str], Channel] = {("a", "b"): world.bin}
        for i, (a, b) in enumerate(zip(world.to_a, world.to_b, strict=True)):
            ends |= {(f"s{i + 1}", "a"): a, (f"s{i + 1}", "b"): b}
        return ends

    def actions(self, world: MoveWorld) -> Iterator[Action[MoveWorld]]:
        for i, rows in enumerate(self.records):
            if (n := world.sent[i]) < len(rows):
                target = "b" if i in world.routed else "a"
                after = replace(_push(world, target, i, rows[n]), sent=put(world.sent, i, n + 1))
                yield Action(f"s{i + 1} sends {rows[n]} to {target}", after)
            if world.moving and i not in world.routed:
                yield Action(f"s{i + 1} sends the Move", replace(_push(world, "a", i, MOVE), routed=world.routed | {i}))
            if world.to_a[i]:
                yield self._at_a(world, i)
            if world.to_b[i] and not (self.hold and world.totals[1] is None):
                after = replace(world, to_b=put(world.to_b, i, world.to_b[i][1:]))
                yield Action(f"b takes s{i + 1}'s {world.to_b[i][0]}", self._add(after, 1, world.to_b[i][0]))
        if world.bin:
            (total, timer), waited = world.bin[0], sum(map(len, world.to_b))
            after = replace(world, bin=(), totals=(world.totals[0], total), timer=timer or world.timer)
            yield Action("b takes the bin", after, {"held": waited}, note="owns the bin")
        sent = all(n == len(rows) for n, rows in zip(world.sent, self.records, strict=True))
        routed = len(world.routed) == len(self.records) or not world.moving
        if sent and routed and not any((*world.to_a, *world.to_b, world.bin)):
            fired = f"timer: {world.totals['ab'.index(world.timer)]}"
            yield Action("the watermark passes", replace(world, output=(*world.output, fired), ended=True))

    def _at_a(self, world: MoveWorld, i: int) -> Action[MoveWorld]:
        message = world.to_a[i][0]
        after = replace(world, to_a=put(world.to_a, i, world.to_a[i][1:]))
        if message != MOVE:
            return Action(f"a takes s{i + 1}'s {message}", self._add(after, 0, message))
        after = replace(after, brought=world.brought | {i})
        if len(after.brought) < (len(self.records) if self.all_inputs else 1) or world.totals[0] is None:
            return Action(f"a takes s{i + 1}'s Move", after)
        timer = world.timer if self.timers else ""
        gone = replace(after, bin=(MovedBin(world.totals[0], timer and "b"),), totals=(None, world.totals[1]))
        return Action(f"a takes s{i + 1}'s Move and sends the bin", replace(gone, timer="" if timer else world.timer))

    def _add(self, world: MoveWorld, at: int, row: Any) -> MoveWorld:
        total = (world.totals[at] or 0) + row
        totals = (total, world.totals[1]) if at == 0 else (world.totals[0], total)
        waiting = any(timer for _, timer in world.bin)
        timer = world.timer or ("" if waiting else "ab"[at])
        return replace(world, totals=totals, timer=timer, output=(*world.output, total))

    def crash(self, world: MoveWorld) -> Iterator[Action[MoveWorld]]:
        if not world.moving:
            yield Action("the plan moves the bin from a to b", replace(world, moving=True))

    def broken(self, world: MoveWorld) -> str:
        owners = [name for name, total in zip("ab", world.totals, strict=True) if total is not None]
        owners += ["the channel"] * len(world.bin)
        if len(owners) != 1:
            return f"the bin has {len(owners)} owners"
        return "the timer is not where its bin is" if world.timer and world.timer not in owners else ""


def _push(world: MoveWorld, target: str, i: int, message: Any) -> MoveWorld:
    channels = world.to_b if target == "b" else world.to_a
    changed = put(channels, i, (*channels[i], message))
    return replace(world, to_b=changed) if target == "b" else replace(world, to_a=changed)
