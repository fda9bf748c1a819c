"""What can be read after each step of a run, and what the processes print meanwhile, from a run of its own.

Before each message is delivered, all orders, users and items of the run are read past the proxy. What such a read asks
of other processes by GET, or of a database, is delivered at once, and is no step.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

import numpy as np

from ..shop import Routes
from ..shop.answers import read_amount, read_paid
from ..shop.routes import middle
from ..terms import Entity, Kind, Status
from ..wire.jobs import Job, Result
from .cases import Case
from .cutter import BURST, REQUEST
from .drawn import UNHEARD, drawn
from .play import Run
from .shown import Amount, Lines, Shown
from .steps import LONG
from .system import System

PATIENCE = 0.5
"""Seconds for a read. A service that takes longer, such as one that serves one request at a time, is not read again."""
_WAIT = 0.002
MOST = 12
"""The most lines of a process that are kept between two steps: the last ones."""
LEFT_OUT = "The values after each step are left out"
_READS: dict[Kind, tuple[Entity, str, Callable[[bytes], Amount]]] = {
    Kind.FIND_ORDER: (Entity.ORDER, "", lambda body: {0: "not paid", 1: "paid", None: None}[read_paid(body)]),
    Kind.FIND_USER: (Entity.USER, "credit of ", lambda body: read_amount(body, "credit")),
    Kind.FIND_ITEM: (Entity.ITEM, "stock of ", lambda body: read_amount(body, "stock")),
}


class Looks:
    """Reads everything at moments of a run. ``found``: for each one, how many events there were, values, and logs.

    Values are by their kind and the id. ``others``: the messages that were caused by reads.
    """

    def __init__(self, system: System) -> None:
        session, self._schedule, self._proxies = system.session, system.schedule, system.proxies
        assert session.supervisor is not None and session.scout is not None
        self._session, self._supervisor, self._scout = session, session.supervisor, session.scout
        direct = self._supervisor.places.direct
        self._routes = Routes({service: direct.fill(url) for service, url in session.wish.submission.urls.items()})
        self._slow = set[Kind]()
        self.others = set[int]()
        self.found: list[tuple[int, dict[tuple[Kind, str], Amount], dict[str, str]]] = []

    def look(self, said: str = "") -> None:
        """Read all values. ``said``: the message that comes next."""
        self._schedule.gather()
        events = len(self._schedule.events)
        self.found.append((events, self._read(), self._supervisor.logs.texts()))

    def _read(self) -> dict[tuple[Kind, str], Amount]:
        rows = {kind: self._session.record.rows(entity)["id"] for kind, (entity, *_) in _READS.items()}
        wanted = [(kind, str(made)) for kind, ids in rows.items() if kind not in self._slow for made in ids]
        if not wanted:
            return {}
        shapes, shape = self._routes.shapes(np.array([int(kind) for kind, _ in wanted]))
        middles, due = [middle(made) for _, made in wanted], np.zeros(len(wanted), dtype=np.int64)
        before, timeout = {*self._schedule.held}, int(PATIENCE * 1e9)
        self._scout.start(
            Job(self._routes.targets, shapes, shape, middles, due, connections=len(due), timeout=timeout, bodies=True)
        )
        reading = set[int]()
        while not isinstance(result := self._scout.poll(_WAIT), Result):
            self._schedule.gather()
            for number, event in [*self._schedule.held.items()]:
                asks = event.kind == BURST or (event.kind == REQUEST and event.first.startswith("GET "))
                if number not in before and (asks or event.connection in reading):
                    reading.add(event.connection)
                    self.others.add(number)
                    with contextlib.suppress(LookupError):  # another one of its connection comes first
                        self._proxies.release(number)
        self._scout.ask("hang up")  # a server may serve one connection at a time
        self._slow |= {kind for (kind, _), at in zip(wanted, result.status, strict=True) if at == Status.TIMEOUT}
        return {
            each: _READS[each[0]][2](body) if 200 <= status < 300 else None
            for each, status, body in zip(wanted, result.status, result.bodies, strict=True)
        }


def looked(case: Case, told: Shown, system: System, seconds: float) -> Shown:
    """Return what a report says of a run, with what was read and printed in another run of its case.

    If that run has other answers, steps or broken rules, it says so instead. ``seconds``: as for `System.run`.
    """
    looks = Looks(system)
    system.pace = looks.look
    try:
        run = system.run(case, seconds, seconds)
    finally:
        system.pace = lambda said: None
    run = replace(run, others=run.others | looks.others)
    rules = tuple(dict.fromkeys(each.rule for each in run.violations))
    differs = {
        "did not happen": bool(run.void) or not run.reached,
        "had other answers": run.statuses != told.statuses,
        "broke other rules": rules != told.rules,
    }
    if why := next((words for words, different in differs.items() if different), ""):
        return replace(told, left_out=f"{LEFT_OUT}, because another run of this case {why}.")
    steps = [*drawn(run)]
    same = len([*takewhile(lambda pair: pair[0] == pair[1].says, zip(told.steps, steps, strict=False))])
    places = [step.at for step in steps]
    after = [*_after(run, told, looks, places)[:same], *[None] * (len(told.steps) - same)]
    log = [each for each in _log(run, looks, places) if each.after <= same]
    why = "" if same == len(told.steps) else f"{LEFT_OUT} from step {same + 1} on: another run of this case had others."
    return replace(told, after=tuple(_answers(after, told)), log=tuple(log), left_out=why)


def _before(run: Run, events: int, places: list[int]) -> int:
    """Return how many steps had happened after so many events."""
    return sum(at < min(events, len(run.events)) for at in places)


def _after(run: Run, told: Shown, looks: Looks, places: list[int]) -> list[Mapping[str, Amount] | None]:
    """Return what was read after each step; None where the next step came without a look in between."""
    names, after = run.world.names, list[Mapping[str, Amount] | None]([None] * len(places))
    for events, values, _ in looks.found:
        if step := _before(run, events, places):
            read = {f"{_READS[kind][1]}{names.get(made)}": value for (kind, made), value in values.items()}
            after[step - 1] = {each.thing: read.get(each.thing) for each in told.values}
    if run.again:
        after[-1] = {each.thing: each.shown for each in told.values}
    return after


def _answers(after: list[Mapping[str, Amount] | None], told: Shown) -> list[Mapping[str, Amount] | None]:
    """Give a step the values of the next one, if that is an answer without a receiver, which changes nothing."""
    for step in range(len(after) - 1, 0, -1):
        if after[step - 1] is None and told.drawn[step].mark == UNHEARD:
            after[step - 1] = after[step]
    return after


def _log(run: Run, looks: Looks, places: list[int]) -> Iterator[Lines]:
    """Return what each process has printed between two looks, with the names of ids."""
    before: dict[str, str] = {}
    for number, (events, _, logs) in enumerate(looks.found):
        for process, text in logs.items():
            old = before.get(process, "")
            lines = text[len(old) :].splitlines() if text.startswith(old) else []  # a long log loses its middle
            if number and lines:
                step = _before(run, events, places)
                yield Lines(step, process, tuple(named(line, run.world.names) for line in lines[-MOST:]))
        before = logs


def named(line: str, names: Mapping[str, str]) -> str:
    """Return a line with names instead of the system's ids. A short id is one only as a part of a path.

    >>> named("POST /take/7/2 of user-0123456789abcdef 7 times", {"7": "X", "0123456789abcdef": "U"})
    'POST /take/X/2 of user-U 7 times'
    """
    for made in sorted(names, key=len, reverse=True):
        pattern = re.escape(made) if len(made) >= LONG else rf"(?<=/){re.escape(made)}(?![\w.-])"
        line = re.sub(pattern, names[made], line)
    return line


__all__ = ["LEFT_OUT", "Looks", "looked", "named"]
