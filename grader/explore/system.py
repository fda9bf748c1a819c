"""A submission that runs behind the proxy, the runs of its cases, and what is judged of them.

The record of a run is judged as any record is. If the values are right after a fault or a race, each order is checked
out once more, as a client does that got no answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from ..audit import clean, view_of
from ..folders import temporary
from ..phases import Live
from ..phases.settle import settle, under_way
from ..processes import Supervisor, closed
from ..record import Record
from ..sandbox import Sandbox, adopt_orphans
from ..session import Session, Wish, about
from ..shop import Clock, Counter, Routes, snapshot
from ..submission import Submission
from ..submission.model import LOOPBACK
from ..verdict import Violation, judge
from ..verdict.violations import without_order
from ..wire.client import Generator
from .cases import KILL, Case
from .janitor import watched
from .play import LONGEST, Play, Run
from .proxies import HOLD, Proxies
from .schedule import Schedule
from .steps import KILLED, LONG, STARTED, UP
from .through import CLIENT, through
from .world import PHASE, set_up
from .writes import Writes

SOON, BACK = 2.0, 20.0
"""Seconds after which a run with wrong values is suspect, and after which one is whose values cannot be read."""
AN_HOUR = 3600.0
STABLE = 0.05
"""Seconds between two snapshots that must be equal."""


class System:
    """A submission that runs. ``session``: its processes and the client; ``longest``: seconds of one run."""

    def __init__(self, session: Session, proxies: Proxies, longest: float = LONGEST) -> None:
        assert session.supervisor is not None and session.load is not None
        self._session, self.proxies, self.longest = session, proxies, longest
        self._supervisor, self._generator = session.supervisor, session.load
        submission = session.wish.submission
        urls = submission.urls
        self._routes = Routes({service: self._supervisor.places.fill(url) for service, url in urls.items()})
        self.pace: Callable[[str], None] = lambda said: None
        """Called before a message is delivered, with its words, and with "" when no more comes."""
        self.earlier = set[str]()
        """The ids of earlier runs. Short ones could be a part of others."""
        self._databases = {each.name for each in submission.processes if each.role == "database"}
        self.schedule = Schedule(proxies, self._supervisor.pids)
        self._supervisor.changed.append(self.schedule.quiet.fresh)

    @property
    def session(self) -> Session:
        """The processes and the client, and the record of the newest run."""
        return self._session

    @property
    def tier(self) -> int:
        """The tier of the sandbox."""
        return int(self._session.record.about["sandbox"]["tier"])

    def run(self, case: Case, seconds: float = SOON, still: float = SOON, flowing: bool = False) -> Run:
        """Run a case, and judge it when it is right, or when its values have been wrong for ``seconds``.

        ``still``: the same if nothing moves, and each answer is definite. ``flowing``: after a kill, nothing is held.
        Raises VoidError if it cannot be run, and SubmissionError if something was held and the processes do not become
        ready after a kill.
        """
        session, clock = self._session, Clock()
        record = Record({**about(session.wish), "sandbox": session.record.about["sandbox"]})
        session.record, session.clock = record, clock
        limits = replace(session.wish.limits, stable=STABLE)
        counter = Counter(record, self._generator, self._routes, limits, clock)
        counter.tend.append(self._supervisor.tend)
        live = Live(record, counter, limits, 0, 0, {}, lambda said: None, self._supervisor)
        live.about(PHASE).begin_s = 0.0
        self.proxies.pass_on(report=False)
        world = set_up(live, case.scenario)
        counter.hang_up()
        mine = [made for made in world.names if len(made) >= LONG]
        self.earlier -= {*mine}
        run = Play(self, case, live, world, flowing).run()
        self.pace("")
        run.origin = clock.origin
        self.earlier |= {*mine}
        if run.failed:
            run.violations = (without_order("unavailable", PHASE, run.failed),)
        else:
            if any(self._databases.intersection(fault.victims) for fault in case.faults):
                world.read_often(live)
            self.judge(run, seconds, still)
        return run

    def judge(self, run: Run, seconds: float, still: float) -> None:
        """Judge a run when its values are right, or have been wrong for so long from now on."""
        live = replace(run.live, limits=replace(run.live.limits, convergence=seconds, still=min(still, seconds)))
        good = settle(live, PHASE, "after the run")
        live.about(PHASE).end_s = round(live.counter.now() / 1e9, 1)
        if not good and seconds < BACK and {each.rule for each in _judged(run)} == {"unavailable"}:
            return self.judge(run, BACK, BACK)  # a pool answers 503 once for each connection that a kill has broken
        unsold = []
        if good and (run.case.faults or len(run.case.scenario.calls) > 1):
            front = next((event.receiver for event, _ in run.messages if event.sender == CLIENT), "order")
            statuses = run.world.once_more(live, run.wave, run.again, front)
            if settle(live, PHASE, "after another checkout") and not run.case.faults:
                unsold = run.world.unsold(live.record, statuses)
        run.violations = (*_judged(run), *unsold)
        return None

    def look(self, run: Run) -> tuple[bool, bool]:
        """Read the values of a run, and record nothing. Returns whether they are right, and whether they may change."""
        view = view_of(run.record, snapshot(run.live.counter, PHASE, "a look"))
        return clean(view), under_way(view)

    def table(self) -> str:
        """Return the services, one line each, with the pids of their processes and the port; and the running copy."""
        places, lines = self._supervisor.places, list[str]()
        for name in self._supervisor.names:
            pids = " ".join(map(str, sorted(self._supervisor.aim(name))))
            lines.append(f"  {name}: pid {pids}, port {places.ports[name]}")
        return "\n".join((*lines, f"The copy that runs: {places.submission}"))

    def aim(self, names: tuple[str, ...]) -> set[int]:
        """Return the pids of processes that will be killed."""
        return set().union(*(self._supervisor.aim(name) for name in names))

    def writes(self, name: str, nth: int) -> Writes:
        """Stop a service before its nth write. Raises TraceError if it cannot be traced."""
        return Writes(self.aim((name,)), self._supervisor.places.data(name), nth)

    def kill(self, names: tuple[str, ...], why: str = "") -> None:
        """Kill processes together. ``why``: what is said of it in the steps."""
        self.proxies.note(KILL, why)
        self.aim(names)
        self._supervisor.freeze(list(names))
        for name in names:
            self._supervisor.kill(name)
        for name in names:
            self.proxies.note(KILLED, name)

    def revive(self, names: tuple[str, ...]) -> None:
        """Start killed processes, the databases first, and wait until they are ready.

        Raises SubmissionError if one is not ready in time.
        """
        self.proxies.starting(names)
        for some in ([name for name in names if (name in self._databases) is first] for first in (True, False)):
            for name in some:
                self.proxies.note(STARTED, name)
                self._supervisor.restart(name)
            for name in some:
                self._supervisor.wait_ready(name)
        assert self._session.scout is not None
        closed(self._routes.targets, self._session.scout, BACK, self._supervisor.tend)
        self.proxies.look()
        for name in names:
            self.proxies.note(UP, name)
        self.proxies.starting(())

    def strangers(self) -> set[tuple[str, str]]:
        """Return the connections to processes that pass no proxy, each as the process and its other end."""
        places = self._supervisor.places
        real = {name: (places.addresses.get(name, LOOPBACK), port) for name, port in places.ports.items()}
        return self.proxies.strangers(real)


def _judged(run: Run) -> tuple[Violation, ...]:
    return tuple(each for each in judge(run.record).violations if each.phase == PHASE)


@contextlib.contextmanager
def running(wish: Wish, say: Callable[[str], None], slow: bool = False) -> Iterator[System]:
    """Build a submission and start it, with empty data. Raises SubmissionError if it does not become ready.

    ``slow``: for a person who looks at it: without a sandbox; messages are held, and the client waits, for an hour.
    """
    if slow:
        wish = replace(wish, limits=replace(wish.limits, timeout=AN_HOUR))
    with temporary("checkout-explore-") as scratch, watched(scratch), contextlib.ExitStack() as ends:
        adopt_orphans()
        opened: list[Proxies] = []

        @contextlib.contextmanager
        def between(
            submission: Submission, supervisor: Supervisor, sandbox: Sandbox, scout: Generator
        ) -> Iterator[None]:
            with through(submission, supervisor, sandbox, scout, AN_HOUR if slow else HOLD) as proxies:
                opened.append(proxies)
                yield

        session = Session(wish, Record(about(wish)), scratch, say, ends, between, slow)
        session.start()
        session.reach()
        yield System(session, opened[0], AN_HOUR if slow else LONGEST)


__all__ = ["PHASE", "Run", "System", "running"]
