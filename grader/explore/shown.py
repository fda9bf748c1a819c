"""What a report says of one run, as plain data: its steps, its messages, and what was read against what should be."""

from __future__ import annotations

from dataclasses import dataclass

from ..terms import Entity
from ..verdict.story import story
from .connection import Event
from .play import Run
from .world import PHASE

PAGE = "docs/assignment.md, What can happen between your processes"


@dataclass(frozen=True)
class Value:
    """What was read at the end: a number, and what it should be; or in words, for example "paid"."""

    thing: str
    shown: int | str
    due: int | None = None

    @property
    def wrong(self) -> bool:
        """Whether it is a number that should be another one."""
        return self.due is not None and isinstance(self.shown, int) and self.shown != self.due

    def __str__(self) -> str:
        """Return it in words, for example "stock of X 18 (should be 20)"."""
        said = f"{self.shown:,}" if isinstance(self.shown, int) else self.shown
        due = "" if self.due is None or self.shown == self.due else f" (should be {self.due:,})"
        return f"{self.thing} {said}{due}"


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


def shown(run: Run, times: tuple[int, int] = (1, 1)) -> Shown:
    """Return what a report says of a run."""
    values = _values(run)
    wrong = [f"{each.thing} is {each.shown:,}, should be {each.due:,}" for each in values if each.wrong]
    broken = [f"{each.rule}: {each.detail}" for each in run.violations]
    return Shown(
        run.case.id,
        str(run.case),
        run.case.kind,
        tuple(run.steps),
        tuple(run.events),
        dict(run.world.names),
        run.statuses,
        values,
        tuple((wrong or broken) if run.violations else ()),
        tuple(dict.fromkeys(each.rule for each in run.violations)),
        run.case.allowed,
        times,
    )


def _values(run: Run) -> tuple[Value, ...]:
    names, told = run.world.names, [story(run.record, order, PHASE) for order in run.world.rows[Entity.ORDER]]
    found = {names[each.order_id]: Value(names[each.order_id], each.paid) for each in told}
    for each in (each for one in told for each in one.sums):
        thing = f"{'credit' if each.entity == Entity.USER else 'stock'} of {names[each.id]}"
        due = each.start - each.less
        found[thing] = Value(thing, "unread", due) if each.shown is None else Value(thing, each.shown, due)
    return tuple(found.values())


def text(case: Shown) -> str:
    """Return a run as numbered steps, with the values at its end."""
    head = [f"FAIL  {each}" for each in case.wrong] or ["nothing is wrong in this run:"]
    wrong, runs = case.times
    if case.wrong:
        head[0] += f" (wrong in {wrong} of {runs} runs{', once on a fresh start' * (runs > 1)})"
    lines = [f"  {number:2}  {step}" for number, step in enumerate(case.steps, 1)]
    lines.append(f"  afterwards: {', '.join(map(str, case.values))}")
    lines += [f'  allowed: "{each}" ({PAGE})' for each in case.allowed]
    return "\n".join((*head, f"  {case.id}: {case.case}", *lines))


__all__ = ["Shown", "Value", "shown", "text"]
