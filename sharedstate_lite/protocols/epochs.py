"""Commits by epoch: the input is cut into epochs, and each commits its offset, its state and its output.

>>> from sharedstate_lite.protocols.explore import explore
>>> explore(EpochCommit(), crashes=2)
right: 1 of 1 outcome
>>> explore(EpochCommit(("work", "emit", "offset", "state")), crashes=2).end      # loses 10
Outcome(state=(3,), output=(3, 13))

Source: Meehan et al., S-Store, VLDB 2015 (a transaction an epoch); Armbrust et al., Structured Streaming, SIGMOD 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .world import Action, Outcome, Protocol, World


@dataclass(frozen=True)
class SinkWorld(World):
    """``at`` is the step of the epoch or batch. ``output`` has (number, total) pairs."""

    at: int = 0

    @property
    def outcome(self) -> Outcome:
        return Outcome((self.total,), tuple(total for _, total in self.output))


S = TypeVar("S", bound=SinkWorld)


def emit(world: S, number: int, total: int, once: bool) -> tuple[bool, S]:
    """Return whether the sink knows this epoch, and the world after it was sent. Without ``once``, it knows none.

    >>> emit(SinkWorld(output=((0, 3),)), 0, 3, once=True)[0]
    True
    """
    if once and any(each == number for each, _ in world.output):
        return True, world
    return False, replace(world, output=(*world.output, (number, total)))


@dataclass(frozen=True)
class EpochWorld(SinkWorld):
    """``epoch`` and ``total`` are durable. ``memory`` is the new total."""

    epoch: int = 0
    memory: int = 0


@dataclass(frozen=True)
class EpochCommit(Protocol[EpochWorld]):
    """``steps`` are the steps of an epoch. ``commit`` writes the offset and the state in one transaction.

    Wrong: ``offset`` and ``state`` as two writes, in either order; and ``once=False``, a sink that does not know which
    epoch it has.
    """

    steps: tuple[str, ...] = ("work", "emit", "commit")
    once: bool = True
    epochs: tuple[tuple[int, ...], ...] = field(default=((1, 2), (10,)), kw_only=True)
    restarts = 1

    def start(self) -> EpochWorld:
        return EpochWorld()

    def actions(self, world: EpochWorld) -> Iterator[Action[EpochWorld]]:
        if world.epoch == len(self.epochs) and not world.at:
            yield Action("the input ends", replace(world, ended=True))
            return
        step, after = self.steps[world.at], replace(world, at=(world.at + 1) % len(self.steps))
        rows = self.epochs[world.epoch] if step in ("work", "emit") else ()
        if step == "work":
            yield Action(f"add up epoch {world.epoch + 1}", replace(after, memory=world.total + sum(rows)))
        elif step == "emit":
            known, after = emit(after, world.epoch, world.memory, self.once)
            label = "the sink has this epoch" if known else f"emit {world.memory}"
            yield Action(label, after, {"delayed": len(rows)})
        else:
            if step != "offset":
                after = replace(after, total=world.memory)
            if step != "state":
                after = replace(after, epoch=world.epoch + 1)
            label = "commit offset and state" if step == "commit" else f"write the {step}"
            yield Action(label, after, {"writes": 1})

    def crash(self, world: EpochWorld) -> Iterator[Action[EpochWorld]]:
        label = f"crash: continue from epoch {world.epoch + 1}"
        yield Action(label, replace(world, at=0, memory=0), restored=world.epoch)


@dataclass(frozen=True)
class SparkWorld(SinkWorld):
    """``arrived`` counts the rows in the source. ``planned`` is the offset log: the last row of each batch.

    ``states`` are the versions of the total, one a batch, and ``total`` is the newest. ``done`` is the commit log.
    ``end`` is the last row of the batch.
    """

    arrived: int = 0
    planned: tuple[int, ...] = ()
    states: tuple[int, ...] = (0,)
    done: int = 0
    end: int = 0


@dataclass(frozen=True)
class SparkBatches(Protocol[SparkWorld]):
    """A micro-batch of Structured Streaming: log offsets, write the next version of the state, emit, log the commit.

    A batch that was planned and not committed runs again, with the same rows, on the same version of the state.
    Wrong: ``log_offsets=False`` plans the batch again, when more rows may have arrived; ``versions=False`` has one
    state; ``once=False`` is a sink that does not know which batch it has, as foreachBatch without a look at the id.
    """

    log_offsets: bool = True
    versions: bool = True
    once: bool = True
    records: tuple[int, ...] = field(default=(1, 2, 10), kw_only=True)
    restarts = 1

    def start(self) -> SparkWorld:
        return SparkWorld()

    def actions(self, world: SparkWorld) -> Iterator[Action[SparkWorld]]:
        batch, now = world.done, replace(world, at=world.at + 1)
        label, begin = f"batch {batch}: ", world.planned[batch - 1] if batch else 0
        if world.arrived < len(self.records):
            yield Action(f"{self.records[world.arrived]} arrives", replace(world, arrived=world.arrived + 1))
        if world.at == 0 and len(world.planned) > batch:
            yield Action(f"{label}the offset log has it", replace(now, end=world.planned[batch]))
        elif world.at == 0 and world.arrived > begin:
            planned = (*world.planned, world.arrived) if self.log_offsets else world.planned
            after = replace(now, planned=planned, end=world.arrived)
            yield Action(f"{label}log offset {world.arrived}", after, {"writes": 1})
        elif world.at == 0 and begin == len(self.records):
            yield Action("the input ends", replace(world, ended=True))
        elif world.at == 1:
            total = world.states[batch if self.versions else 0] + sum(self.records[begin : world.end])
            states = (*world.states[: batch + 1], total) if self.versions else (total,)
            yield Action(f"{label}write state {total}", replace(now, states=states, total=total), {"writes": 1})
        elif world.at == 2:
            known, after = emit(now, batch, world.total, self.once)
            cost = {"delayed": world.end - begin}
            yield Action(label + ("the sink has it" if known else f"emit {world.total}"), after, cost)
        elif world.at == 3:
            after = replace(world, done=batch + 1, at=0, planned=(*world.planned[:batch], world.end))
            yield Action(f"{label}log the commit", after, {"writes": 1})

    def crash(self, world: SparkWorld) -> Iterator[Action[SparkWorld]]:
        yield Action(f"kill -9, restart at batch {world.done}", replace(world, at=0), restored=world.done)
