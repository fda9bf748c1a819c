"""Recovery of one operator: only c crashes. The sources and k keep running and keep their state.

What k has received cannot be taken back, so c must not send k anything that its recovery contradicts. Three answers:
write the output before it is sent (MillWheel), replay in an order that never varies (SEEP), or replay in the order that
k knows (Clonos). The sink is plain, since k does not crash.

>>> from sharedstate_lite.protocols.explore import explore
>>> explore(CausalLogs()), explore(CausalLogs(replay_order=False)).end.output
(right: 3 of 3 outcomes, (10, 3, 13))

Two rows of source 1 and one of source 2 never give 10, then 3: k has received totals of two different runs.

Source: Akidau et al., MillWheel, VLDB 2013; Castro Fernandez et al., Integrating Scale Out and Fault Tolerance in
Stream Processing using Operator State Management, SIGMOD 2013 (SEEP); Silvestre et al., Clonos, SIGMOD 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .barriers import Aligned, BarrierWorld
from .world import BARRIER, Action, Channel, Cut, J, Numbered, SumJob, SumWorld, pop, push, put


def take_output(job: SumJob[J], world: J, drop_repeats: bool) -> Iterator[Action[J]]:
    """Yield what k does with the oldest output of c. If ``drop_repeats``, k takes each numbered output once."""
    if queue := world.channels[job.to_k]:
        after, output = pop(world, job.to_k), queue[0]
        if drop_repeats and output.number < len(world.told):
            yield Action(f"k drops {output}", after)
        else:
            told = (*world.told, output.value)
            yield Action(f"k takes {output}", replace(after, told=told, output=told))


@dataclass(frozen=True)
class StrongWorld(SumWorld):
    """``written`` is c's durable state: its total, the rows that it has seen, and its outputs.

    ``resent`` counts the outputs sent since c started. ``unwritten`` is the channel of a row whose output was sent and
    whose effects are not written yet.
    """

    written: tuple[int, frozenset[tuple[int, int]], tuple[int, ...]] = (0, frozenset(), ())
    resent: int = 0
    unwritten: int | None = None


@dataclass(frozen=True)
class StrongProductions(SumJob[StrongWorld]):
    """For each row, c writes total, row id and output in one atomic write. Then it acks the row and sends the output.

    After a crash, c sends every output that may not have arrived. If an ack is lost, the source sends its row again.
    Wrong: ``know_rows=False`` does not look for the id of a row; ``write_first=False`` sends before it writes;
    ``drop_repeats=False``, where k takes an output again.
    """

    know_rows: bool = True
    write_first: bool = True
    drop_repeats: bool = True
    what_crashes = "c"
    restarts = 1

    def start(self) -> StrongWorld:
        return StrongWorld(sent=self.zeros, channels=self.empty)

    def actions(self, world: StrongWorld) -> Iterator[Action[StrongWorld]]:
        for i in self.inputs:
            yield from self.send(world, i, numbered=True)
        _, seen, outputs = world.written
        for i in self.inputs if world.unwritten is None else ():
            if not (queue := world.channels[i]):
                continue
            row, total = queue[0], world.total + queue[0].value
            if self.know_rows and (i, row.number) in seen:
                yield Action(f"c drops s{i + 1}'s {row.value}, which it knows", pop(world, i))
            elif self.write_first:
                yield self.write(replace(world, total=total), i)
            else:
                after = push(replace(world, total=total, unwritten=i), self.to_k, Numbered(len(outputs), total))
                yield Action(f"c sends {total}", after)
        if world.unwritten is not None:
            yield self.write(world, world.unwritten)
        elif self.write_first and world.resent < len(outputs):
            output = Numbered(world.resent, outputs[world.resent])
            yield Action(f"c sends {output}", push(replace(world, resent=world.resent + 1), self.to_k, output))
        yield from take_output(self, world, self.drop_repeats)
        if self.quiet(world) and (world.resent == len(outputs) or not self.write_first) and world.unwritten is None:
            yield Action("the input ends", replace(world, ended=True))

    def write(self, world: StrongWorld, i: int) -> Action[StrongWorld]:
        """Return the atomic write of the oldest row of channel ``i``. Its ack removes the row from the channel."""
        row, (_, seen, outputs) = world.channels[i][0], world.written
        written = world.total, seen | {(i, row.number)}, (*outputs, world.total)
        label = f"c writes s{i + 1}'s {row.value} and {world.total}, and acks"
        return Action(label, replace(pop(world, i), written=written, unwritten=None), {"writes": 1})

    def crash(self, world: StrongWorld) -> Iterator[Action[StrongWorld]]:
        total, _, outputs = world.written
        after, writes = replace(world, total=total, resent=0, unwritten=None), len(outputs)
        yield Action(f"c crashes and continues from {writes} writes", after, restored=writes, note=f"back to {total}")
        for i in self.inputs:
            if n := world.sent[i]:
                row = Numbered(n - 1, self.records[i][n - 1])
                if row not in world.channels[i]:
                    yield Action(f"an ack is lost, s{i + 1} sends {row.value} again", push(world, i, row))


@dataclass(frozen=True)
class BackupWorld(SumWorld):
    """``taken`` counts c's rows by source. ``backup`` is c's last checkpoint, with ``taken`` as its offsets and the
    outputs not yet at k as its only channel. ``trimmed`` are the rows that each source has deleted from its buffer.
    """

    taken: tuple[int, ...] = (0, 0)
    backup: Cut = Cut(0, (0, 0), ((),), 0)
    trimmed: tuple[int, ...] = (0, 0)


@dataclass(frozen=True)
class UpstreamBackup(SumJob[BackupWorld]):
    """c checkpoints to the sources, which buffer their rows until a checkpoint contains them, and send them again.

    A row's timestamp is its number, then its source. c takes rows in this order, so a replay repeats the run.
    Wrong: ``by_time=False`` takes rows as they arrive; ``trim_early`` deletes the rows that c has taken;
    ``keep_outputs=False`` leaves the outputs in flight out of the checkpoint; ``drop_repeats=False``, as above.
    """

    by_time: bool = True
    trim_early: bool = False
    keep_outputs: bool = True
    drop_repeats: bool = True
    what_crashes = "c"
    restarts = 1

    def start(self) -> BackupWorld:
        zeros = self.zeros
        return BackupWorld(sent=zeros, channels=self.empty, taken=zeros, backup=Cut(0, zeros, ((),), 0), trimmed=zeros)

    def actions(self, world: BackupWorld) -> Iterator[Action[BackupWorld]]:
        left = [(n, i) for i, n in enumerate(world.taken) if n < len(self.records[i])]
        for i in self.inputs:
            yield from self.send(world, i, numbered=True)
            if queue := world.channels[i]:
                row = queue[0]
                if row.number < world.taken[i]:
                    yield Action(f"c drops s{i + 1}'s {row.value}, which its checkpoint contains", pop(world, i))
                elif not self.by_time or (row.number, i) == min(left):
                    total, number = world.total + row.value, sum(world.taken)
                    after = replace(pop(world, i), total=total, taken=put(world.taken, i, row.number + 1))
                    yield Action(f"c takes s{i + 1}'s {row.value}", push(after, self.to_k, Numbered(number, total)))
            upto = (world.taken if self.trim_early else world.backup.sent)[i]
            if world.trimmed[i] < upto:
                after = replace(world, trimmed=put(world.trimmed, i, upto))
                yield Action(f"s{i + 1} deletes {upto} from its buffer", after)
        if not world.backup.number and any(world.taken):
            waiting = world.channels[self.to_k] if self.keep_outputs else ()
            after = replace(world, backup=Cut(1, world.taken, (waiting,), world.total))
            yield Action("c checkpoints", after, {"writes": 1, "logged": len(waiting)}, note=f"saves {world.total}")
        yield from take_output(self, world, self.drop_repeats)
        if self.quiet(world):
            yield Action("the input ends", replace(world, ended=True))

    def crash(self, world: BackupWorld) -> Iterator[Action[BackupWorld]]:
        kept = world.backup
        buffers = [range(first, last) for first, last in zip(world.trimmed, world.sent, strict=True)]
        again = [tuple(Numbered(n, self.records[i][n]) for n in numbers) for i, numbers in enumerate(buffers)]
        after = replace(world, total=kept.total, taken=kept.sent, channels=(*again, *kept.channels))
        label = f"c crashes and continues from checkpoint {kept.number}"
        yield Action(label, after, restored=kept.number, note=f"back to {kept.total}")


@dataclass(frozen=True)
class CausalWorld(BarrierWorld):
    """``order`` are the channels of c's rows since its snapshot, ``taken`` is their number since the start.

    ``known`` is the longest order that k has received since the snapshot. ``follow`` is what c must repeat in recovery.
    """

    order: tuple[int, ...] = ()
    taken: int = 0
    known: tuple[int, ...] = ()
    follow: tuple[int, ...] = ()


@dataclass(frozen=True)
class CausalLogs(Aligned):
    """Aligned snapshots, and each output carries the determinants before it: the order in which c took its rows.

    If c crashes, it continues from the snapshot. The sources send their rows since then, k returns the order that it
    knows, and c follows it. k drops the outputs that it has. Wrong: ``replay_order=False`` ignores the order;
    ``late`` sends each determinant with the next output; ``drop_repeats=False``; and ``k_forgets`` lets a crash of k
    delete what k knows, which is fatal if c crashes after it.
    """

    replay_order: bool = True
    late: bool = False
    drop_repeats: bool = True
    k_forgets: bool = False
    what_crashes = "c"
    restarts = 1
    plain: bool = field(default=True, kw_only=True)

    def start(self) -> CausalWorld:
        start = super().start()
        return CausalWorld(sent=start.sent, channels=start.channels, saved=start.saved)

    def operator(self, world: Any, i: int) -> Iterator[Action[Any]]:
        if not world.follow or world.follow[0] == i or world.channels[i][0] == BARRIER:
            yield from super().operator(world, i)

    def add(self, world: Any, i: int) -> Any:
        total, order = world.total + world.channels[i][0], (*world.order, i)
        output = Numbered(world.taken, total, world.order if self.late else order)
        after = replace(pop(world, i), total=total, order=order, taken=world.taken + 1, follow=world.follow[1:])
        return push(after, self.to_k, output)

    def save(self, world: Any) -> Any:
        saved: Any = super().save(world)
        return replace(saved, order=())

    def sink(self, world: Any) -> Iterator[Action[Any]]:
        queue = world.channels[self.to_k]
        if queue and queue[0] == BARRIER:
            yield from super().sink(replace(world, known=()))
        elif queue:
            known = max(world.known, queue[0].order, key=len)
            yield from take_output(self, replace(world, known=known), self.drop_repeats)

    def crash(self, world: Any) -> Iterator[Action[Any]]:
        kept, now = world.saved, world.under_way
        again: list[Channel] = []
        for i, (first, last) in enumerate(zip(kept.sent, world.sent, strict=True)):
            rows: list[int | str] = list(self.records[i][first:last])
            if now is not None and (barrier := now.sent[i]) is not None:
                rows.insert(barrier - first, BARRIER)
            again.append(tuple(rows))
        after = replace(world, total=kept.total, order=(), taken=sum(kept.sent))
        after = replace(after, channels=(*again, ()), seen=frozenset(), under_way=now and replace(now, total=None))
        after = replace(after, follow=world.known if self.replay_order else ())
        label, note = f"c crashes and continues from snapshot {kept.number}", f"back to {kept.total}"
        yield Action(label, after, restored=kept.number, note=note)
        if self.k_forgets and world.known:
            yield Action("k crashes and forgets the order", replace(world, known=()), note="forgets the order")

    def broken(self, world: Any) -> str:
        if len(world.known) < len(world.told) - len(world.saved.told):
            return "k has received an output without the order that it depends on"
        return super().broken(world)
