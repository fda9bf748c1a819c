"""One run of a case: the client's requests, message by message, and what is done to the messages."""

from __future__ import annotations

import contextlib
import time
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

from ..errors import SubmissionError, VoidError
from ..phases import Live
from ..record import Record
from ..shop import Wave
from ..verdict import Violation
from ..wire.jobs import Result
from .cases import KILL, LATE, LATE_AFTER, LOSE, SILENCE, WRITE, Case, Fault, Said, ordinal
from .connection import Event
from .cutter import REQUEST
from .legal import EXITED, READ, illegal
from .proxies import Proxies
from .schedule import Fate, Schedule
from .steps import message, steps
from .through import CLIENT
from .world import World
from .writes import Writes

LONGEST = 60.0
"""Seconds that the messages of one run usually have."""
DOWN = 1.0
"""The maximum number of seconds until killed processes are started again."""
REST, RECOVERY = 0.3, 2.0
"""Seconds without a message after which a system has reacted to a fault, and after which it is not waited for."""


@dataclass
class Run:
    """One run of a case. ``names``: those of the system's ids; ``events``: all that was recorded."""

    case: Case
    live: Live
    world: World
    wave: Wave
    events: list[Event]
    messages: list[Said]
    """The messages as they were delivered, with their words."""
    choices: list[list[Event]]
    """For each of them: what could have been delivered, the usual one first."""
    statuses: tuple[int, ...]
    """The answers to the client's requests."""
    restless: int
    """How often the system did not become quiet before a message was delivered."""
    others: frozenset[int]
    """The numbers of the messages that belong to earlier runs."""
    happened: int
    """How many of the case's faults and swaps have happened."""
    again: list[str] = field(default_factory=list)
    """What was asked after the run, one line each."""
    violations: tuple[Violation, ...] = ()
    origin: int = 0
    """The time of the record's 0, in nanoseconds of the monotonic clock."""
    failed: str = ""
    """Why the processes were not ready after a kill."""

    @property
    def record(self) -> Record:
        """The record of the run."""
        return self.live.record

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its messages."""
        return tuple(said for _, said in self.messages)

    @property
    def reached(self) -> bool:
        """Whether the case happened."""
        return self.happened == len(self.case.faults) + len(self.case.swaps)

    @cached_property
    def steps(self) -> list[str]:
        """What has happened, one line each."""
        mine = [event for event in self.events if event.message not in self.others]
        return [*steps(mine, self.world.names), *self.again]

    @property
    def void(self) -> str:
        """Why the run says nothing about the system, or ""."""
        events = self.record.events
        exited = events["what"] == "exited"
        exits = zip(events["process"][exited], events["at"][exited], strict=True)
        found = [*self.events, *(Event(EXITED, str(name), at=(self.origin + int(at)) / 1e9) for name, at in exits)]
        return "" if self.failed else illegal(sorted(found, key=lambda event: event.at))


class Processes(Protocol):
    """The processes of a system, and what is between them."""

    proxies: Proxies
    schedule: Schedule
    pace: Callable[[str], None]
    longest: float
    """Seconds after which the messages of one run must have come to an end."""
    earlier: set[str]
    """The ids of earlier runs."""

    def aim(self, names: tuple[str, ...]) -> set[int]:
        """Return the pids of processes that will be killed."""

    def writes(self, name: str, nth: int) -> Writes:
        """Stop a service before its nth write. Raises TraceError if it cannot be traced."""

    def kill(self, names: tuple[str, ...], why: str = "") -> None:
        """Kill processes together. ``why``: the words for it in the steps."""

    def revive(self, names: tuple[str, ...]) -> None:
        """Start killed processes, the databases first, and wait until they are ready."""


class Play:
    """One run in progress. ``flowing``: after a kill, nothing is held."""

    def __init__(self, system: Processes, case: Case, live: Live, world: World, flowing: bool) -> None:
        self._system, self._case, self._live, self._world = system, case, live, world
        self._proxies, self._schedule, self._flowing = system.proxies, system.schedule, flowing
        self._said = partial(message, names=world.names)
        self._seen, self._done, self._struck = Tally[str](), 0, 0
        self._down: tuple[str, ...] = ()
        self._down_at = self._last = self._paused = 0.0
        self._late: list[int] = []
        self._results: list[Result] = []
        self._failed = ""
        self._writes: Writes | None = None
        self._others, self._strange = set[int](), set[int]()
        """The messages that belong to earlier runs, and the connections on which one was asked."""

    def run(self) -> Run:
        """Run it, up to the moment when the values can be read. Raises VoidError if it comes to no end."""
        case, live, schedule = self._case, self._live, self._schedule
        wave = self._world.wave(live.record)
        may_refuse = bool(case.faults) or case.scenario.may_refuse
        schedule.begin()
        waits = schedule.quiet.waits
        if (strike := self._strike) is not None:
            self._proxies.aim(self._system.aim(strike.victims), strike.at, strike.nth, self._world.names)
            schedule.struck = self._was_struck
        schedule.glance = self._glance
        if (write := next((fault for fault in case.faults if fault.what == WRITE), None)) is not None:
            self._writes = self._system.writes(write.at, write.nth)
        live.counter.begin(wave := replace(wave, may_refuse=may_refuse))
        try:
            delivered = self._deliver()
        except TimeoutError as error:
            if not case.faults:
                raise VoidError(f"the messages of one checkout come to no end ({error})") from error
            delivered = [choice[0] for choice in schedule.choices]
            self._flow()
        finally:
            self._proxies.aim(())
            self._trace_no_longer()
        restless = schedule.quiet.waits - waits
        self._proxies.pass_on()
        self._proxies.note(READ, "")
        schedule.gather()
        self._proxies.pass_on(report=False)
        self._world.answered(live.record, self._results[0])
        events = schedule.events[: 1 + next(n for n, event in enumerate(schedule.events) if event.what == READ)]
        return Run(
            case,
            live,
            self._world,
            wave,
            events,
            [(event, self._said(event)) for event in delivered],
            list(schedule.choices),
            tuple(self._results[0].status.tolist()),
            restless,
            frozenset(self._others),
            self._done,
            failed=self._failed,
        )

    @property
    def _strike(self) -> Fault | None:
        """The fault that is done by the proxy, as soon as the message arrives: its sender is killed."""
        faults = (fault for fault in self._case.faults if fault.what == KILL)
        return next((fault for fault in faults if fault.ends[0] in fault.victims), None)

    def _deliver(self) -> list[Event]:
        """Deliver all messages, and start what was killed."""
        delivered = self._go(lambda: self._over() or bool(self._down))
        reacting = bool(self._down) or LOSE in (fault.what for fault in self._case.faults)
        while self._down or reacting:
            if self._down:
                self._revive()
                if self._flowing:
                    self._flow()
                    return delivered
                delivered += self._go(lambda: self._over() or bool(self._down))
                reacting = True
            else:
                delivered += self._rest()
                reacting = False
        for number in self._late:
            delivered += self._go(partial(self._alone, number))
            delivered += self._rest()
            self._system.pace("the request that is late")
            with contextlib.suppress(LookupError):  # it has arrived, because the caller took so long to give up
                self._proxies.arrive(number)
            delivered += self._go(lambda: True)
        return delivered

    def _flow(self) -> None:
        """Hold nothing, and wait for the client's answers."""
        self._proxies.pass_on()
        while not self._over():
            self._schedule.quiet.wait()

    def _rest(self) -> list[Event]:
        """Deliver what the system sends by itself, such as an undo, until it sends nothing more, or one is killed."""
        began = self._last = self._now()

        def over() -> bool:
            now = self._now()
            return bool(self._down) or now > self._last + REST or now > began + RECOVERY

        return self._go(over)

    def _go(self, over: Callable[[], bool]) -> list[Event]:
        depth = not self._case.faults and len(self._case.scenario.calls) > 1
        return self._schedule.run(over, self._system.longest, self._decide, self._pick, self._said, depth, self._ours)

    def _now(self) -> float:
        """Return the time, which stands still while a person looks."""
        return time.monotonic() - self._paused

    def _ours(self, message: Event) -> bool:
        """Whether a message belongs to this run: neither it nor the request that it answers has an earlier id."""
        if message.kind == REQUEST:
            self._strange.discard(message.connection)
            if any(made in message.first for made in self._system.earlier):
                self._strange.add(message.connection)
        if message.connection in self._strange:
            self._others.add(message.message)
        return message.message not in self._others

    def _over(self) -> bool:
        """Whether the client has got its answers."""
        if not self._results and isinstance(found := self._live.counter.poll(0.0), Result):
            self._results.append(found)
        return bool(self._results)

    def _alone(self, number: int) -> bool:
        """Whether the caller of a request that is kept has given up."""
        events = [event for event in self._schedule.events if event.what in ("silent", "gone", "late", "dropped")]
        kept = next(event for event in self._schedule.events if (event.what, event.message) == ("kept", number))
        silent = any((event.what, event.connection) == ("silent", kept.connection) for event in events)
        return not silent or any(
            event.message == number or (event.what, event.connection) == ("gone", kept.connection) for event in events
        )

    def _pick(self, nth: int, held: list[Event]) -> Event:
        for swap in self._case.swaps:
            same = [each for each in held if self._said(each) == swap.at]
            if swap.step == nth and len(same) >= swap.nth:
                self._done += 1
                return same[swap.nth - 1]
        return held[0]

    def _decide(self, nth: int, message: Event) -> Fate | None:
        if self._down and time.monotonic() - self._down_at > DOWN:
            self._revive()
        said, fault = self._said(message), next(iter(self._case.faults[self._done :]), None)
        self._seen[said] += 1
        if self._struck:
            hit = message.message == self._struck
        else:
            hit = fault is not self._strike and (said, self._seen[said]) == (fault and (fault.at, fault.nth))
            hit = hit and not set(fault.victims if fault else ()).intersection(self._down)
        began = time.monotonic()
        self._system.pace(f"{said} (here: {fault.what})" if fault and hit else said)
        self._paused += time.monotonic() - began
        self._last = self._now()
        if fault is None or not hit:
            return None
        self._done += 1
        fates: dict[str, Fate] = {
            LOSE: self._proxies.lose,
            LATE: self._delay,
            SILENCE: self._proxies.silence,
            LATE_AFTER: self._delay_in_silence,
            KILL: partial(self._kill, fault),
        }
        return fates[fault.what]

    def _delay(self, number: int) -> None:
        self._proxies.delay(number)
        self._late.append(number)

    def _delay_in_silence(self, number: int) -> None:
        self._proxies.silence(number, keep=True)
        self._late.append(number)

    def _kill(self, fault: Fault, number: int) -> None:
        """Kill the victims, if the proxy has not done it, and lose or deliver the message."""
        if not self._struck:
            self._end(fault.victims)
        self._struck = 0
        lost = not fault.arrives and set(fault.ends) & set(fault.victims)
        with contextlib.suppress(LookupError):  # its connection has closed, because its receiver is dead
            (self._proxies.lose if lost else self._proxies.release)(number)

    def _was_struck(self, event: Event) -> None:
        assert self._strike is not None
        self._struck = event.message
        self._end(self._strike.victims)

    def _glance(self) -> None:
        """Kill a service that is about to make the write before which it must be killed."""
        if self._writes is not None and not self._done and (said := self._writes.stopped()):
            (fault,) = self._case.faults
            self._done += 1
            self._end(fault.victims, f"before its {ordinal(fault.nth)} write ({said})")
            self._trace_no_longer()

    def _trace_no_longer(self) -> None:
        if self._writes is not None:
            self._writes.close()
            self._writes = None

    def _end(self, victims: tuple[str, ...], why: str = "") -> None:
        self._system.kill(victims, why)
        self._down, self._down_at = victims, time.monotonic()

    def _revive(self) -> None:
        names, self._down = self._down, ()
        if self._flowing:
            self._proxies.pass_on()
        try:
            self._system.revive(names)
        except SubmissionError as error:
            if not self._flowing:
                raise
            self._failed = str(error)


__all__ = ["CLIENT", "Play", "Run"]
