"""Runs a protocol through every order of its actions, with a crash at any moment, and compares how the runs end.

Rule 23': the outcomes with crashes are among the outcomes without. An outcome is the state *and* the output. To compare
with one failure-free run would be wrong: where two inputs race, several outcomes are right.

>>> from sharedstate_lite.protocols.barriers import Aligned
>>> explore(Aligned())
right: 3 of 3 outcomes
>>> wrong = explore(Aligned(block=False))
>>> wrong.right, wrong.end.state[0], wrong.trace[-1]
(False, 23, 'the input ends')

A search that reaches its limit has not seen every run, so it never says "right":

>>> explore(Aligned(), limit=100)
no verdict: stopped at 100 states, 3 actions deep; 0 outcomes so far

`replay` follows one trace. To fork it, change an action: the run stops at the first action that is not possible.

>>> fork = replay(Aligned(), ["s1 sends 1", "c takes s1's 1", "c takes s1's 1"])
>>> fork.stopped_at, fork.possible
("c takes s1's 1", ('the coordinator asks for snapshot 1', 's1 sends 2', 's2 sends 10', 'k takes 1', \
'crash: all continue from the start'))

Source: Holzmann, The Model Checker SPIN, 1997 (explicit states, breadth first).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Generic

from ..errors import Error
from .world import Action, Outcome, Protocol, W

LIMIT = 200_000
"""The number of states at which a search stops."""
Trace = tuple[str, ...]
"""The labels of the actions of a run, in order."""


@dataclass(frozen=True, repr=False)
class Exploration(Generic[W]):
    """What a search has found. Every trace is a shortest one.

    ``outcomes`` maps each outcome to a trace that ends in it, and ``allowed`` are the outcomes without crashes.
    ``stuck`` leads to a world that has no action and is not an end. ``broken`` is an invariant with a trace to a world
    that breaks it. ``restored`` are the numbers of the snapshots that recoveries used. ``depth`` is the number of
    actions to the last world that was reached, and ``finished`` is False if the search stopped before it had seen
    every run.
    """

    states: int
    depth: int
    finished: bool
    outcomes: Mapping[Outcome, Trace]
    allowed: frozenset[Outcome]
    restored: frozenset[int]
    stuck: Trace | None
    broken: tuple[str, Trace] | None

    @property
    def right(self) -> bool:
        """Whether every run was seen, none gets stuck or breaks an invariant, and each ends in an allowed outcome."""
        return self.finished and self.stuck is None and self.broken is None and not self.wrong

    @cached_property
    def wrong(self) -> Mapping[Outcome, Trace]:
        """The outcomes that no run without a crash has, those with short traces first."""
        found = {end: trace for end, trace in self.outcomes.items() if end not in self.allowed}
        return dict(sorted(found.items(), key=lambda each: len(each[1])))

    @property
    def wrong_states(self) -> int:
        """How many wrong outcomes are wrong in their state, and not only in their output."""
        states = {end.state for end in self.allowed}
        return sum(end.state not in states for end in self.wrong)

    @property
    def trace(self) -> Trace:
        """The shortest trace to a wrong outcome, else ``stuck``, else that of ``broken``, else ()."""
        return next(iter(self.wrong.values()), self.stuck or (self.broken[1] if self.broken else ()))

    @property
    def end(self) -> Outcome:
        """The wrong outcome with the shortest trace. Raises Error if no outcome is wrong."""
        if not self.wrong:
            raise Error(f"{self!r}: no outcome is wrong; read `outcomes` instead of `end`")
        return next(iter(self.wrong))

    def __repr__(self) -> str:
        many = f"{len(self.outcomes)} outcome{'' if len(self.outcomes) == 1 else 's'}"
        if self.wrong:
            return f"wrong: {len(self.wrong)} of {many}; the shortest trace has {len(self.trace)} actions"
        if self.stuck is not None:
            return f"stuck: after {len(self.stuck)} actions, nothing can happen"
        if self.broken:
            return f"wrong: {self.broken[0]}, after {len(self.broken[1])} actions"
        if not self.finished:
            return f"no verdict: stopped at {self.states:,} states, {self.depth} actions deep; {many} so far"
        return f"right: {len(self.outcomes)} of {len(self.allowed)} outcome{'' if len(self.allowed) == 1 else 's'}"


def explore(protocol: Protocol[W], crashes: int = 1, limit: int = LIMIT) -> Exploration[W]:
    """Return how the runs of ``protocol`` with at most ``crashes`` crashes end. Equal worlds are visited once.

    The search stops when it has seen ``limit`` worlds. The last results are kept. Raises Error if ``crashes`` or
    ``limit`` is out of range.
    """
    if crashes < 0 or limit < 1:
        raise Error(f"crashes={crashes}, limit={limit}: crashes must be at least 0, and limit at least 1")
    return _explore(protocol, crashes, limit)


@lru_cache(maxsize=100)
def _explore(protocol: Protocol[Any], crashes: int, limit: int) -> Exploration[Any]:
    start = (protocol.start(), crashes)
    came: dict[tuple[Any, int], tuple[tuple[Any, int], str] | None] = {start: None}
    waiting, restored = deque([start]), set[int]()
    ends: dict[Outcome, Trace] = {}
    stuck: Trace | None = None
    broken: tuple[str, Trace] | None = None

    def trace(node: tuple[Any, int]) -> Trace:
        labels = []
        while (before := came[node]) is not None:
            node, label = before
            labels.append(label)
        return tuple(reversed(labels))

    node = start
    while waiting:
        world, left = node = waiting.popleft()
        if broken is None and (words := protocol.broken(world)):
            broken = words, trace(node)
        if world.ended:
            ends.setdefault(world.outcome, trace(node))
            continue
        actions = [(action, left) for action in protocol.actions(world)]
        if not actions and stuck is None:
            stuck = trace(node)
        if left:
            actions += [(action, left - 1) for action in protocol.crash(world)]
        for action, rest in actions:
            if action.restored is not None:
                restored.add(action.restored)
            if (after := (action.world, rest)) not in came and len(came) < limit:
                came[after] = node, action.label
                waiting.append(after)
        if len(came) == limit:
            break
    without = _explore(protocol, 0, limit) if crashes else None
    finished = not waiting and (without is None or without.finished)
    allowed = frozenset(ends if without is None else without.outcomes)
    return Exploration(len(came), len(trace(node)), finished, ends, allowed, frozenset(restored), stuck, broken)


@dataclass(frozen=True)
class Replayed(Generic[W]):
    """A run: its start, its steps, the action at which it stopped ('' if none), and what can happen next."""

    start: W
    steps: tuple[Action[W], ...]
    stopped_at: str
    possible: Trace

    @property
    def world(self) -> W:
        """The world after the last step."""
        return self.steps[-1].world if self.steps else self.start


def replay(protocol: Protocol[W], trace: Sequence[str]) -> Replayed[W]:
    """Return the run that takes the actions of ``trace``. It stops at the first one that is not possible."""
    start = world = protocol.start()
    steps: list[Action[W]] = []
    stopped_at = ""
    for label in trace:
        action = next((s for s in _steps(protocol, world) if s.label == label), None)
        if action is None:
            stopped_at = label
            break
        steps.append(action)
        world = action.world
    return Replayed(start, tuple(steps), stopped_at, tuple(s.label for s in _steps(protocol, world)))


def _steps(protocol: Protocol[W], world: W) -> Iterator[Action[W]]:
    if not world.ended:
        yield from protocol.actions(world)
        yield from protocol.crash(world)


def costs(protocol: Protocol[W], crashes: int = 0) -> dict[str, tuple[int, int]]:
    """Return the least and the greatest cost of a run with at most ``crashes`` crashes, without kinds that never occur.

    The kinds: ``held`` rows waited at c or at a source because of a snapshot, ``logged`` rows of channels were stored,
    ``writes`` to durable storage, ``delayed`` outputs waited for a snapshot.
    """

    kinds = ("held", "logged", "writes", "delayed")

    @cache
    def bounds(world: W, left: int) -> tuple[tuple[int, int], ...]:
        if world.ended:
            return ((0, 0),) * len(kinds)
        actions = [(action, left) for action in protocol.actions(world)]
        actions += [(action, left - 1) for action in protocol.crash(world)] if left else []
        after = [(action.cost, bounds(action.world, rest)) for action, rest in actions]
        every = [[(cost.get(kind, 0), rest[n]) for cost, rest in after] for n, kind in enumerate(kinds)]
        return tuple((min(c + low for c, (low, _) in each), max(c + high for c, (_, high) in each)) for each in every)

    found = dict(zip(kinds, bounds(protocol.start(), crashes), strict=True))
    return {kind: both for kind, both in found.items() if both[1]}
