"""A submission that runs behind the proxy, and one run of a case.

A run is a checkout of a new order of a new user for new items. If the values are right after a fault, the order is
checked out once more, as a client does that got no answer. The record of a run is judged as any record is.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import VoidError
from ..folders import temporary
from ..phases import Live
from ..phases.settle import settle
from ..processes import Supervisor
from ..record import Record
from ..sandbox import Sandbox, adopt_orphans
from ..session import Session, Wish, about
from ..shop import Counter, Routes, Wave
from ..shop.routes import middle
from ..shop.stocking import new_items, new_orders, new_users
from ..submission import Submission
from ..terms import Kind, status_word
from ..verdict import Violation, judge
from ..wire.client import Generator
from ..wire.jobs import Result
from .cases import LATE, LINES, LOSE, Case
from .connection import Event
from .proxies import Proxies
from .schedule import Fate, Schedule
from .steps import message, steps
from .through import CLIENT, through

PHASE = "explore"
SOON = 2.0
"""Seconds after which a run with wrong values is suspect."""
STABLE = 0.05
"""Seconds between two snapshots that must be equal."""
LONGEST = 60.0
"""Seconds after which the messages of one checkout must have come to an end."""
_TRIES = 20
"""How many pairs of items are created until their ids are in ascending order."""


@dataclass
class Run:
    """One run of a case. ``names``: those of the system's ids; ``messages``: with their words, as delivered."""

    case: Case
    record: Record
    names: dict[str, str]
    messages: list[tuple[Event, str]]
    steps: list[str]
    status: int
    order: int
    """The row of its order."""
    restless: int
    """How often the system did not become quiet before a message was delivered."""
    violations: tuple[Violation, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its messages."""
        return tuple(said for _, said in self.messages)

    @property
    def reached(self) -> bool:
        """Whether the case happened: the same messages came before."""
        return self.words[: self.case.nth] == self.case.before


class System:
    """A submission that runs. ``session``: its processes and the client."""

    def __init__(self, session: Session, proxies: Proxies) -> None:
        assert session.supervisor is not None and session.load is not None
        self._session, self._proxies = session, proxies
        self._supervisor, self._generator = session.supervisor, session.load
        urls = session.wish.submission.urls
        self._routes = Routes({service: self._supervisor.places.fill(url) for service, url in urls.items()})
        self._schedule = Schedule(proxies, self._supervisor.pids)
        self._supervisor.changed.append(self._schedule.quiet.fresh)

    @property
    def tier(self) -> int:
        """The tier of the sandbox."""
        return int(self._session.record.about["sandbox"]["tier"])

    def run(self, case: Case, seconds: float = SOON, still: float = SOON) -> Run:
        """Run a case, and judge it when it is right, or when its values have been wrong for ``seconds``.

        ``still``: the same if nothing moves, and each answer is definite. Raises VoidError if it cannot be run.
        """
        session, proxies, schedule = self._session, self._proxies, self._schedule
        limits = replace(session.wish.limits, stable=STABLE, convergence=seconds, still=min(still, seconds))
        record = Record({**about(session.wish), "sandbox": session.record.about["sandbox"]})
        session.record = record
        counter = Counter(record, self._generator, self._routes, limits, session.clock)
        counter.tend.append(self._supervisor.tend)
        live = Live(record, counter, limits, 0, 0, {}, lambda said: None, self._supervisor)
        live.about(PHASE).begin_s = 0.0
        proxies.pass_on(report=False)
        order, names = _set_up(live, case)
        counter.hang_up()
        schedule.begin()
        waits, results, kept = schedule.quiet.waits, list[Result](), list[int]()

        def over() -> bool:
            if not results and isinstance(found := counter.poll(0.0), Result):
                results.append(found)
            return bool(results)

        def late(number: int) -> None:
            proxies.delay(number)
            kept.append(number)

        fates: dict[str, Fate] = {LOSE: proxies.lose, LATE: late}
        one = np.full(1, order)
        may_refuse = case.nth > 0 or not case.scenario.payable
        middles = [middle(record.orders["id"][order])]
        wave = Wave(PHASE, "checkout", Kind.CHECKOUT, one, middles, connections=1, may_refuse=may_refuse)
        counter.begin(wave)
        try:
            delivered = schedule.run(over, LONGEST, {case.nth: fates[case.what]} if case.nth else {})
            for number in kept:
                with contextlib.suppress(LookupError):  # it has arrived, because the caller took so long to give up
                    proxies.arrive(number)
                delivered += schedule.run(lambda: True, LONGEST)
        except TimeoutError as error:
            raise VoidError(f"the messages of one checkout come to no end ({error})") from error
        proxies.pass_on(report=False)
        told = steps(schedule.events, names)
        if settle(live, PHASE, "after the run") and case.nth:
            status = int(counter.send(replace(wave, name="once more", attempt=2)).status[0])
            told.append(f"{CLIENT} -> {delivered[0].receiver}   POST /checkout/O, once more: {status_word(status)}")
            settle(live, PHASE, "after another checkout")
        live.about(PHASE).end_s = round(counter.now() / 1e9, 1)
        return Run(
            case,
            record,
            names,
            [(event, message(event, names)) for event in delivered],
            told,
            int(results[0].status[0]),
            order,
            schedule.quiet.waits - waits,
            tuple(each for each in judge(record).violations if each.phase == PHASE),
        )


def _set_up(live: Live, case: Case) -> tuple[int, dict[str, str]]:
    """Create a user, two items and an order. Returns the row of the order, and the names of all ids."""
    counter, record, none = live.counter, live.record, np.full(1, -1)
    user = new_users(counter, PHASE, none, np.full(1, case.scenario.credit))
    prices = np.array([price for _, price in LINES])
    for _ in range(_TRIES):
        items = new_items(counter, PHASE, np.full(2, -1), prices, np.array(case.scenario.stock))
        if operator.lt(*record.items["id"][items]):
            break  # many systems take items in the order of their ids, and it must be the same in each run
    lines = [(items[at : at + 1], np.full(1, units), np.full(1, price)) for at, (units, price) in enumerate(LINES)]
    (order,) = new_orders(counter, PHASE, np.zeros(1, dtype=np.int64), user, none, lines).tolist()
    if not record.orders["ready"][order]:
        answers = sorted({status_word(int(status)) for status in record.history["status"]})
        raise VoidError(f"an order could not be set up ({', '.join(answers)}); try checkout --phases contract first")
    ids = (record.users["id"][user[0]], *record.items["id"][items], record.orders["id"][order])
    return order, dict(zip(map(str, ids), "UXYO", strict=True))


@contextlib.contextmanager
def running(wish: Wish, say: Callable[[str], None]) -> Iterator[System]:
    """Build a submission and start it, with empty data. Raises SubmissionError if it does not become ready."""
    with temporary("checkout-explore-") as scratch, contextlib.ExitStack() as ends:
        adopt_orphans()
        opened: list[Proxies] = []

        @contextlib.contextmanager
        def between(
            submission: Submission, supervisor: Supervisor, sandbox: Sandbox, scout: Generator
        ) -> Iterator[None]:
            with through(submission, supervisor, sandbox, scout) as proxies:
                opened.append(proxies)
                yield

        session = Session(wish, Record(about(wish)), scratch, say, ends, between)
        session.start()
        session.reach()
        yield System(session, opened[0])


__all__ = ["PHASE", "Run", "System", "running"]
