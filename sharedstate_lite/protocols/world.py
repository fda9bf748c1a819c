"""A world is one moment of a run: all state, all rows in flight, and all that was saved. A protocol is its actions.

The job is as small as a job can be and still have a race. Sources ``s1`` and ``s2`` send rows to operator ``c``, which
adds them up and sends each new total to ``k``. ``k`` stores the totals and hands them to the outside. Each
edge is a channel: first in, first out. Between two channels there is no order.

>>> from sharedstate_lite.protocols.barriers import Aligned
>>> protocol = Aligned()
>>> [step.label for step in protocol.actions(protocol.start())]
['the coordinator asks for snapshot 1', 's1 sends 1', 's2 sends 10']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

BARRIER = "|"
"""The message that separates the rows before a snapshot from the rows after it."""
Channel = tuple[Any, ...]


class Outcome(NamedTuple):
    """How a run ends: the state of the operators, and all that was handed to the outside, in order."""

    state: tuple[Any, ...]
    output: tuple[Any, ...]


class Numbered(NamedTuple):
    """A row with its place in its channel, and, for causal logs, the order of inputs that led to it."""

    number: int
    value: int
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"#{self.number + 1}  {self.value}"


@dataclass(frozen=True)
class World:
    """The part of a world that all protocols have. ``output`` is outside: no recovery can take it back."""

    total: int = 0
    output: tuple[Any, ...] = ()
    ended: bool = False

    @property
    def outcome(self) -> Outcome:
        """The outcome, if the run ends here."""
        return Outcome((self.total,), self.output)


@dataclass(frozen=True)
class SumWorld(World):
    """``sent`` counts the rows sent by each source. ``channels`` are those of the sources to c, then c to k.

    ``told`` is the state of k: the totals that it received.
    """

    sent: tuple[int, ...] = (0, 0)
    channels: tuple[Channel, ...] = ((), (), ())
    told: tuple[int, ...] = ()

    @property
    def outcome(self) -> Outcome:
        return Outcome((self.total, self.told), self.output)


@dataclass(frozen=True)
class Cut:
    """A snapshot: the sources' offsets, c's total, k's totals, and the rows of channels, if the protocol stores them.

    While it is taken, a part is None until its owner has saved it.
    """

    number: int
    sent: tuple[Any, ...]
    channels: tuple[Channel, ...]
    total: Any = None
    told: Any = None


W = TypeVar("W", bound=World)
J = TypeVar("J", bound=SumWorld)


class Action(NamedTuple, Generic[W]):
    """An action: its label, the world after it, and what it costs, such as ``{"logged": 1}``.

    ``restored`` is set by a crash: the number of the snapshot that recovery begins from, 0 for the start. ``note`` says
    in a picture what was saved.
    """

    label: str
    world: W
    cost: Mapping[str, int] = {}
    restored: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Protocol(Generic[W]):
    """The actions that are possible in a world. A protocol never chooses between them: `explore` takes each.

    ``what_crashes`` says what `crash` stops, and ``restarts`` counts the processes that continue from saved state.
    """

    what_crashes = "everything"
    restarts = 4

    def start(self) -> W:
        """Return the world before the first action."""
        raise NotImplementedError

    def actions(self, world: W) -> Iterator[Action[W]]:
        """Yield each action that is possible in ``world``, which has not ended. Crashes are excluded."""
        raise NotImplementedError

    def crash(self, world: W) -> Iterator[Action[W]]:
        """Yield each crash that is possible in ``world``, which has not ended, with the world after it."""
        raise NotImplementedError

    def broken(self, world: W) -> str:
        """Return the invariant that ``world`` breaks, or '' if there is none."""
        return ""

    def channels(self, world: W) -> Mapping[tuple[str, str], Channel]:
        """Return the messages in flight, by sender and receiver."""
        return {}


@dataclass(frozen=True)
class SumJob(Protocol[J]):
    """The job. ``records`` are the rows of each source. Two rows of one source keep their order."""

    records: tuple[tuple[int, ...], ...] = field(default=((1, 2), (10,)), kw_only=True)

    @property
    def inputs(self) -> range:
        """The numbers of the channels into c. The channel from c to k has the number after them."""
        return range(len(self.records))

    @property
    def to_k(self) -> int:
        return len(self.records)

    @property
    def zeros(self) -> tuple[int, ...]:
        """0 for each source."""
        return (0,) * len(self.records)

    @property
    def empty(self) -> tuple[Channel, ...]:
        """All channels, without a message."""
        return ((),) * (len(self.records) + 1)

    def channels(self, world: J) -> Mapping[tuple[str, str], Channel]:
        ends = [(f"s{i + 1}", "c") for i in self.inputs] + [("c", "k")]
        return dict(zip(ends, world.channels, strict=True))

    def send(self, world: J, i: int, base: int = 0, numbered: bool = False) -> Iterator[Action[J]]:
        """Yield the action in which source ``i`` sends its next row, into channel ``base + i``."""
        if (n := world.sent[i]) < len(self.records[i]):
            value = self.records[i][n]
            after = push(world, base + i, Numbered(n, value) if numbered else value)
            yield Action(f"s{i + 1} sends {value}", replace(after, sent=put(world.sent, i, n + 1)))

    def quiet(self, world: J) -> bool:
        """Return whether all rows were sent and none is in flight."""
        return not any(world.channels) and all(n == len(r) for n, r in zip(world.sent, self.records, strict=True))


def put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """Return ``values`` with another value at position ``at``."""
    return (*values[:at], value, *values[at + 1 :])


def push(world: J, channel: int, message: Any) -> J:
    """Return the world after ``message`` was sent."""
    return replace(world, channels=put(world.channels, channel, (*world.channels[channel], message)))


def pop(world: J, channel: int) -> J:
    """Return the world after the oldest message of a channel was taken."""
    return replace(world, channels=put(world.channels, channel, world.channels[channel][1:]))
