"""Snapshots of the whole job: pause all, Chandy and Lamport's, Flink's overtaking barrier, and aligned barriers.

Everything crashes at once, and everything continues from the last whole snapshot: the sources' offsets, c's total, k's
totals, and the rows of channels if the protocol stores them.

The sink is ``plain`` or not. A plain sink hands out each total at once, so a recovery hands out some of them again. The
other one commits with the snapshot: a total leaves only when a snapshot contains it.

>>> world = Aligned().start()
>>> for label in ["the coordinator asks for snapshot 1", "s1 sends the barrier", "s1 sends 1"]:
...     world = {step.label: step.world for step in Aligned().actions(world)}[label]
>>> world.channels
(('|', 1), (), ())

Source: Chandy and Lamport, Distributed Snapshots, TOCS 1985; Carbone et al., State Management in Apache Flink, VLDB
2017 (aligned); the Flink documentation, Checkpointing under backpressure (overtaking).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..errors import StateError
from .world import BARRIER, Action, Cut, SumJob, SumWorld, pop, push, put


@dataclass(frozen=True)
class BarrierWorld(SumWorld):
    """``under_way`` is the snapshot that is being taken, ``saved`` the last whole one.

    ``asked`` counts the snapshots that were begun. ``seen`` are the channels whose barrier c has taken; after the last
    barrier it is empty again.
    """

    under_way: Cut | None = None
    saved: Cut = Cut(0, (0, 0), ((), (), ()), 0, ())
    asked: int = 0
    seen: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Coordinated(SumJob[BarrierWorld]):
    """What the four protocols share: the coordinator, sources, k, the end of the input, and recovery."""

    plain: bool = field(default=False, kw_only=True)
    most: int = field(default=1, kw_only=True)
    """How many snapshots the coordinator asks for."""

    def start(self) -> BarrierWorld:
        return BarrierWorld(sent=self.zeros, channels=self.empty, saved=Cut(0, self.zeros, self.empty, 0, ()))

    def actions(self, world: BarrierWorld) -> Iterator[Action[BarrierWorld]]:
        now = world.under_way
        if now is None and world.asked < self.most:
            number = world.asked + 1
            begun = Cut(number, (None,) * len(self.records), self.empty)
            yield Action(f"the coordinator asks for snapshot {number}", replace(world, under_way=begun, asked=number))
        yield from self.sources(world)
        for i in self.inputs:
            if world.channels[i]:
                yield from self.operator(world, i)
        yield from self.sink(world)
        if now is None and self.quiet(world):
            output = world.output if self.plain else world.told
            yield Action("the input ends", replace(world, output=output, ended=True), self.delayed(world, world.told))

    def sources(self, world: BarrierWorld) -> Iterator[Action[BarrierWorld]]:
        """Yield the sends of the sources. A source saves its offset and sends the barrier in one action."""
        now = world.under_way
        for i in self.inputs:
            yield from self.send(world, i)
            if now is not None and now.sent[i] is None:
                kept = replace(now, sent=put(now.sent, i, world.sent[i]))
                after = replace(push(world, i, BARRIER), under_way=kept)
                yield Action(f"s{i + 1} sends the barrier", after, {"writes": 1}, note=f"saves offset {world.sent[i]}")

    def operator(self, world: BarrierWorld, i: int) -> Iterator[Action[BarrierWorld]]:
        """Yield what c can do with the messages of channel ``i``, which is not empty."""
        raise NotImplementedError

    def add(self, world: BarrierWorld, i: int) -> BarrierWorld:
        """Return the world after c has taken a row from channel ``i`` and sent the new total to k.

        Raises StateError if the oldest message of the channel is a barrier.
        """
        if world.channels[i][0] == BARRIER:
            raise StateError(f"the oldest message from s{i + 1} is a barrier, and add takes a row; use take_barrier")
        total = world.total + world.channels[i][0]
        return push(replace(pop(world, i), total=total), self.to_k, total)

    def take_barrier(self, world: BarrierWorld, i: int) -> BarrierWorld:
        """Return the world after c has taken the barrier at the head of channel ``i``."""
        seen = world.seen | {i}
        return replace(pop(world, i), seen=seen if len(seen) < len(self.records) else frozenset())

    def save(self, world: BarrierWorld) -> BarrierWorld:
        """Return the world after c has saved its total. Raises StateError if no snapshot is under way."""
        return replace(world, under_way=replace(_under_way(world, "save"), total=world.total))

    def forward(self, world: BarrierWorld) -> BarrierWorld:
        """Return the world after c has sent the barrier to k, behind the totals in the channel."""
        return push(world, self.to_k, BARRIER)

    def log(self, world: BarrierWorld, i: int, *rows: int) -> BarrierWorld:
        """Return the world after ``rows`` of channel ``i`` were added to the snapshot.

        Raises StateError if no snapshot is under way.
        """
        now = _under_way(world, "log")
        return replace(world, under_way=replace(now, channels=put(now.channels, i, now.channels[i] + rows)))

    def sink(self, world: BarrierWorld) -> Iterator[Action[BarrierWorld]]:
        """Yield what k can do: take a total, or take the barrier and save its state."""
        if not (queue := world.channels[self.to_k]):
            return
        after = pop(world, self.to_k)
        if queue[0] == BARRIER:
            assert after.under_way is not None
            after = replace(after, under_way=replace(after.under_way, told=world.told))
            note = f"saves {', '.join(map(str, world.told)) or 'nothing'}"
            yield self.close("k takes the barrier", after, {"writes": 1}, note)
        else:
            after = replace(after, told=(*world.told, queue[0]))
            output = (*world.output, queue[0]) if self.plain else world.output
            yield Action(f"k takes {queue[0]}", replace(after, output=output))

    def close(
        self, label: str, world: BarrierWorld, cost: Mapping[str, int] = {}, note: str = ""
    ) -> Action[BarrierWorld]:
        """Return the action. If no part of the snapshot is missing, it is now the one that recovery uses."""
        now = world.under_way
        if now is None or world.seen or None in (now.total, now.told, *now.sent):
            return Action(label, world, cost, note=note)
        output = world.output if self.plain else world.output + now.told[len(world.output) :]
        after = replace(world, under_way=None, saved=now, output=output)
        label = f"{label}: snapshot {now.number} is whole"
        return Action(label, after, {**cost, **self.delayed(world, now.told)}, note=note)

    def delayed(self, world: BarrierWorld, told: tuple[int, ...]) -> dict[str, int]:
        """Return how many totals have waited in k for their snapshot."""
        return {} if self.plain else {"delayed": len(told) - len(world.output)}

    def crash(self, world: BarrierWorld) -> Iterator[Action[BarrierWorld]]:
        kept = world.saved
        again = replace(world, sent=kept.sent, total=kept.total, told=kept.told, channels=kept.channels)
        place = f"snapshot {kept.number}" if kept.number else "the start"
        after = replace(again, under_way=None, seen=frozenset())
        yield Action(f"crash: all continue from {place}", after, restored=kept.number, note=f"back to {place}")

    def broken(self, world: BarrierWorld) -> str:
        kept = world.saved
        received = [*kept.told, *kept.channels[self.to_k]]
        stored = sum(map(len, kept.channels[: self.to_k]))
        sent = sum(kept.sent)
        if len(received) > sent - stored:
            return "the snapshot contains a row that was received and not sent"
        if len(received) < sent - stored or kept.total != (received[-1] if received else 0):
            return "the snapshot misses a row that was sent and not received"
        return ""


def _under_way(world: BarrierWorld, method: str) -> Cut:
    """Return the snapshot that is being taken, to which ``method`` adds something."""
    if world.under_way is None:
        raise StateError(
            f"no snapshot is being taken, and {method} adds to a snapshot; call it only between the barriers of one"
        )
    return world.under_way


@dataclass(frozen=True)
class PauseAll(Coordinated):
    """Stop the sources, wait until no row is in flight, save everything, continue.

    Wrong: ``drain=False`` does not wait, and the rows in flight are in no part of the snapshot.
    """

    drain: bool = True

    def sources(self, world: BarrierWorld) -> Iterator[Action[BarrierWorld]]:
        if (now := world.under_way) is None:
            for i in self.inputs:
                yield from self.send(world, i)
        elif not self.drain or not any(world.channels):
            waited = sum(map(len, self.records)) - sum(world.sent)
            whole = replace(now, sent=world.sent, total=world.total, told=world.told)
            yield self.close("all save their state", replace(world, under_way=whole), {"writes": 4, "held": waited})

    def operator(self, world: BarrierWorld, i: int) -> Iterator[Action[BarrierWorld]]:
        yield Action(f"c takes s{i + 1}'s {world.channels[i][0]}", self.add(world, i))


@dataclass(frozen=True)
class Aligned(Coordinated):
    """c reads no further from a channel whose barrier it has taken, until it has taken the barriers of all channels.

    Its total is then the sum of all rows before the barriers and of no row after them: no channel is stored.
    Wrong: ``block=False`` reads on, so the total contains rows that the sources send again.
    """

    block: bool = True

    def operator(self, world: BarrierWorld, i: int) -> Iterator[Action[BarrierWorld]]:
        if world.channels[i][0] != BARRIER:
            if i not in world.seen or not self.block:
                yield Action(f"c takes s{i + 1}'s {world.channels[i][0]}", self.add(world, i))
            return
        after, label = self.take_barrier(world, i), f"c takes s{i + 1}'s barrier"
        if after.seen:
            yield Action(label, after, note="blocks it" if self.block else "")
        else:
            held = sum(len(world.channels[j]) for j in world.seen) if self.block else 0
            after = self.forward(self.save(after))
            yield Action(label, after, {"writes": 1, "held": held}, note=f"saves {world.total}")

    def broken(self, world: BarrierWorld) -> str:
        return "the snapshot stores a channel" if any(world.saved.channels) else super().broken(world)


@dataclass(frozen=True)
class ChandyLamport(Coordinated):
    """c saves its total at the first barrier, and logs what it then takes from a channel until that channel's barrier.

    The barrier travels at the tail of each channel. Wrong: ``log_rows=False`` stores no rows of channels.
    """

    log_rows: bool = True
    overtakes = False

    def operator(self, world: BarrierWorld, i: int) -> Iterator[Action[BarrierWorld]]:
        queue, label = world.channels[i], f"c takes s{i + 1}'s {world.channels[i][0]}"
        if queue[0] != BARRIER and self.log_rows and world.seen and i not in world.seen:
            after = self.log(self.add(world, i), i, queue[0])
            yield Action(f"{label} and logs it", after, {"logged": 1}, note=f"logs {queue[0]}")
        elif queue[0] != BARRIER:
            yield Action(label, self.add(world, i))
        if queue[0] == BARRIER or (self.overtakes and BARRIER in queue):
            yield self.barrier(world, i)

    def barrier(self, world: BarrierWorld, i: int) -> Action[BarrierWorld]:
        """Return the action in which c takes the barrier of channel ``i``, with the rows that it overtakes."""
        at, first = world.channels[i].index(BARRIER), not world.seen
        rows, behind = world.channels[i][:at], world.channels[i][at + 1 :]
        out = world.channels[self.to_k] if self.overtakes and first else ()
        after = self.take_barrier(replace(world, channels=put(world.channels, i, (BARRIER, *rows, *behind))), i)
        if first:
            kept = world.channels[self.to_k][len(out) :]
            after = replace(self.save(after), channels=put(after.channels, self.to_k, (*kept, BARRIER, *out)))
        if self.log_rows:
            after = self.log(self.log(after, i, *rows), self.to_k, *out)
        overtaken = len(rows) + len(out)
        label = f"c takes s{i + 1}'s barrier" + (f", which overtakes {overtaken}" if overtaken else "")
        cost = {"writes": int(first), "logged": overtaken if self.log_rows else 0}
        return self.close(label, after, cost, f"saves {world.total}" if first else "")


@dataclass(frozen=True)
class Overtaking(ChandyLamport):
    """Flink's unaligned barrier: it overtakes the rows that wait in c's input and output, and they are stored.

    So a snapshot does not wait for slow operators. Wrong: ``log_rows=False``, as above.
    """

    overtakes = True
