"""How the steps of a run are drawn: the message of each, and whether the explorer or the shop has done it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .cases import KILL
from .connection import Event
from .cutter import ANSWER
from .play import Run
from .steps import KILLED, STARTED, UP, told, word

EXPLORER, SHOP = "explorer", "shop"
"""Who has done a step: the explorer, or the shop after that."""
MESSAGE, REPLY, LOST, LATE, UNHEARD = "message", "answer", "lost", "late", "unheard"
GAVE_UP = "gave up"
"""How a step is drawn, besides KILLED and STARTED: a message, one that is lost, one that arrives late, an answer whose
caller is gone, and a caller that has given up."""


@dataclass(frozen=True)
class Step:
    """One step, and how it is drawn. ``by``: EXPLORER, SHOP, or "" for what the shop does before the first fault.

    ``processes``: those that are killed, started again, or have given up. ``at``: the place of its event in the run.
    """

    says: str
    mark: str
    by: str = ""
    sender: str = ""
    receiver: str = ""
    word: str = ""
    processes: tuple[str, ...] = ()
    at: int = 0


def drawn(run: Run) -> Iterator[Step]:
    """Return the steps of a run with all that a drawing needs, in the order of `Run.steps`."""
    places = [n for n, event in enumerate(run.events) if event.message not in run.others]
    mine = [run.events[n] for n in places]
    swapped = {event.message for swap in run.case.swaps for event, _ in run.messages[swap.step - 1 : swap.step]}
    alone, killed, by = set[int](), tuple[str, ...](), ""
    for at, says in told(mine, run.world.names):
        event, mark = mine[at], _mark(mine[at], alone)
        if mark == LATE:
            alone.add(event.connection)
        if mark == KILLED:
            back = next((n for n, each in enumerate(mine[at:], at) if each.what == STARTED), len(mine))
            killed = tuple(each.sender for each in mine[at:back] if each.what == KILLED)
        explorer = mark in (LOST, LATE, KILLED, STARTED) or bool(event.message and event.message in swapped)
        by = EXPLORER if explorer else SHOP if by else ""
        who = {KILLED: killed, STARTED: killed, GAVE_UP: (event.sender,)}.get(mark, ())
        ends = ("", "", "") if who else (event.sender, event.receiver, word(event, run.world.names))
        yield Step(says, mark, by, *ends, who, places[at])
    for says in run.again:
        way, _, said = says.partition("   ")
        sender, _, receiver = way.partition(" -> ")
        yield Step(says, MESSAGE, EXPLORER if by else "", sender, receiver, said.partition(",")[0], at=len(run.events))


def _mark(event: Event, alone: set[int]) -> str:
    if event.what in ("struck", KILL):
        return KILLED
    if event.what == UP:
        return STARTED
    if event.what == "gone":
        return GAVE_UP
    if event.what == "late":
        return LATE
    if event.what in ("kept", "dropped"):
        return UNHEARD if event.kind == ANSWER and event.connection in alone else LOST
    return REPLY if event.kind == ANSWER else MESSAGE


__all__ = ["Step", "drawn"]
