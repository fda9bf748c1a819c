"""What a report says of one run, as plain data: its steps, its messages, and what was read against what should be."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..report.causes import Cause, cause_of
from ..terms import Entity
from ..verdict.story import story
from .cases import LOSE, PRICES, RACE, Case
from .connection import Event
from .cutter import ANSWER, REQUEST
from .drawn import Step, drawn
from .play import Run
from .world import PHASE

VERSION = 1
"""That of explore.json; docs/explore.schema.json describes it."""
PAGE = "docs/assignment.md, What can happen between your processes"
_CALL = (
    "The request on it may have arrived, may not have arrived, or may arrive up to 10 s later, when its sender has "
    "already given up."
)
SENTENCES = {
    "at the same time": (
        "Several requests of clients can be in progress at the same time, also two that check out the same order, or "
        "that need the same credit or stock."
    ),
    "may not have arrived": _CALL,
    "may arrive up to 10 s later": _CALL,
    "its answer may be lost": "If it has arrived, its answer may be lost.",
    "nothing until it stops waiting": "The sender may get an error at once, or hear nothing until it stops waiting.",
    "can break": "A connection can break.",
    "can be killed": "A process can be killed with kill -9, alone or together with others, and is restarted.",
    "can be delayed": "A message can be delayed by up to 3 s on a connection that does not break.",
}
"""The sentence of the page that has the words which allow a run."""
Amount = int | str | None
"""What was read of a thing: a number, words, or None for nothing."""


@dataclass(frozen=True)
class Lines:
    """What a process has printed between two steps, after the first of them."""

    after: int
    process: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """What was read at the end: a number, and what it should be; or in words, for example "paid"."""

    thing: str
    shown: int | str
    due: int | str | None = None
    before: int | str = 0

    @property
    def wrong(self) -> bool:
        """Whether it should be another one. What could not be read is not."""
        return self.due is not None and type(self.shown) is type(self.due) and self.shown != self.due

    @property
    def sentence(self) -> str:
        """One sentence, for example "stock of X is 18, should be 20"."""
        return f"{self.thing} is {_plain(self.shown)}, should be {_plain(self.due)}"

    def __str__(self) -> str:
        """Return it in words, for example "stock of X 18 (should be 20)"."""
        due = "" if self.due is None or self.shown == self.due else f" (should be {_plain(self.due)})"
        return f"{self.thing} {_plain(self.shown)}{due}"


def _plain(value: Amount) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Shown:
    """A run of a case. ``case``: its text, by which it can be run again."""

    id: str
    case: str
    kind: str
    steps: tuple[str, ...]
    events: tuple[Event, ...]
    """All that happened to messages, connections and processes, with times in seconds of the monotonic clock."""
    names: dict[str, str]
    """The names of the system's ids in ``steps`` and ``values``."""
    statuses: tuple[int, ...]
    """The answers to the client's requests."""
    values: tuple[Value, ...]
    wrong: tuple[str, ...]
    """One sentence for each wrong value; if there is none, for each rule that was broken."""
    rules: tuple[str, ...]
    allowed: tuple[str, ...]
    """The words of docs/assignment.md that allow the run."""
    times: tuple[int, int]
    """How often the case was wrong, and how often it was run; the last times on a freshly started system."""
    place: str = ""
    """What is done between which processes."""
    before: tuple[str, ...] = ()
    """What there is before the run, one sentence each."""
    drawn: tuple[Step, ...] = ()
    done: tuple[str, ...] = ()
    """What the explorer does, in words that `report.explored.usual` knows."""
    causes: tuple[Cause, ...] = ()
    """The usual cause of each broken rule."""
    after: tuple[Mapping[str, Amount] | None, ...] = ()
    """What was read after each step, in another run of the case; None: nothing, because the next step came at once."""
    log: tuple[Lines, ...] = ()
    left_out: str = ""
    """Why there is nothing in ``after`` and ``log``."""


def shown(run: Run, times: tuple[int, int] = (1, 1)) -> Shown:
    """Return what a report says of a run."""
    case, values = run.case, _values(run)
    wrong = [each.sentence for each in values if each.wrong]
    broken = [f"{each.rule}: {each.detail}" for each in run.violations]
    rules = tuple(dict.fromkeys(each.rule for each in run.violations))
    kills = any(fault.victims for fault in case.faults)
    causes = {each.rule: cause_of(replace(each, phase="faults" if kills else each.phase)) for each in run.violations}
    return Shown(
        case.id,
        str(case),
        case.kind,
        tuple(run.steps),
        tuple(run.events),
        dict(run.world.names),
        run.statuses,
        values,
        tuple((wrong or broken) if run.violations else ()),
        rules,
        case.allowed,
        times,
        case.place,
        _before(case),
        tuple(drawn(run)),
        _done(case),
        tuple(causes[rule] for rule in rules),
    )


def _before(case: Case) -> tuple[str, ...]:
    """Return what there is before a run of a case."""
    scenario = case.scenario
    said = [f"user {user} has {credit:,}" for user, credit in zip("UV", scenario.credit, strict=False)]
    said += [f"item {item}: {stock:,} in stock" for item, stock in zip("XY", scenario.stock, strict=True)]
    for order, (user, units) in zip("OP", scenario.orders, strict=False):
        lines = [f"{n} of {item} at {price}" for n, item, price in zip(units, "XY", PRICES, strict=True) if n]
        cost = sum(n * price for n, price in zip(units, PRICES, strict=True))
        said.append(f"order {order} of user {'UV'[user]}: {', '.join(lines)}, {cost} in all")
    return tuple(said)


def _done(case: Case) -> tuple[str, ...]:
    kinds = {REQUEST: "lose request", ANSWER: "lose answer"}
    found = [kinds.get(fault.kind, LOSE) if fault.what == LOSE else fault.what for fault in case.faults]
    return (*found, *[RACE] * (case.kind == RACE))


def _values(run: Run) -> tuple[Value, ...]:
    names, rows = run.world.names, run.world.rows[Entity.ORDER]
    stories = [story(run.record, order, PHASE) for order in rows]
    due = {each.order_id: "paid" for each in run.violations if each.rule == "ok_not_paid"}
    due |= {each.order_id: "not paid" for each in run.violations if each.rule == "refused_but_paid"}
    found, more = {}, Counter[str]()
    for each, (user, units) in zip(stories, run.case.scenario.orders, strict=True):
        found[names[each.order_id]] = Value(names[each.order_id], each.paid, due.get(each.order_id), "not paid")
        sign = {"paid": -1, "not paid": 1}.get(due.get(each.order_id, ""), 0)  # `story` takes for right what it reads
        more["UV"[user]] += sign * sum(n * price for n, price in zip(units, PRICES, strict=True))
        more.update({item: sign * n for item, n in zip("XY", units, strict=True)})
    for amount in (amount for each in stories for amount in each.sums):
        thing = f"{'credit' if amount.entity == Entity.USER else 'stock'} of {names[amount.id]}"
        should = amount.start - amount.less + more[names[amount.id]]
        found[thing] = Value(thing, "unread" if amount.shown is None else amount.shown, should, amount.start)
    return tuple(found.values())


def text(case: Shown) -> str:
    """Return a run as numbered steps, with the values at its end."""
    head = [f"FAIL  {each}" for each in case.wrong] or ["nothing is wrong in this run:"]
    wrong, runs = case.times
    if case.wrong and runs > 1:
        head[0] += f" (wrong in {wrong} of {runs} runs, once on a fresh start)"
    lines = [f"  {number:2}  {step}" for number, step in enumerate(case.steps, 1)]
    lines.append(f"  afterwards: {', '.join(map(str, case.values))}")
    lines += [f'  allowed: "{each}" ({PAGE})' for each in case.allowed]
    return "\n".join((*head, f"  {case.id}: {case.case}", *lines))


def as_json(case: Shown, folder: str) -> dict[str, Any]:
    """Return a run as it stands in explore.json, without times of day. ``folder``: that of the system."""
    left = case.after or (None,) * len(case.drawn)
    words = ["python", "-m", "grader", "explore", folder]
    once = shlex.join([*words, "--case", case.case])
    return {
        "id": case.id,
        "case": case.case,
        "kind": case.kind,
        "place": case.place,
        "rules": list(case.rules),
        "wrong": list(case.wrong),
        "times": list(case.times),
        "before": list(case.before),
        "answers": list(case.statuses),
        "steps": [_step(step, after) for step, after in zip(case.drawn, left, strict=True)],
        "left_out": case.left_out,
        "values": [
            {"thing": each.thing, "before": each.before, "is": each.shown, "should_be": each.due}
            for each in case.values
        ],
        "done": list(case.done),
        "causes": [
            {"id": rule, "name": cause.name, "rule": cause.rule, "usual": cause.usual, "look": list(cause.look)}
            for rule, cause in zip(case.rules, case.causes, strict=True)
        ],
        "allowed": [{"words": words, "sentence": SENTENCES.get(words, words)} for words in case.allowed],
        "log": [{**asdict(each), "lines": list(each.lines)} for each in case.log],
        "again": [once, f"{once} --slow"] if case.id != "plain" else [shlex.join(words)],
    }


def _step(step: Step, after: Mapping[str, Amount] | None) -> dict[str, Any]:
    ends = {"from": step.sender, "to": step.receiver, "word": step.word, "processes": list(step.processes)}
    return {"says": step.says, "by": step.by, "mark": step.mark, **ends, "values": None if after is None else {**after}}


__all__ = ["Lines", "Shown", "Value", "as_json", "shown", "text"]
