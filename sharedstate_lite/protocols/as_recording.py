"""A trace as messages over time: the arguments of ``show.space_time``, as plain data.

>>> from sharedstate_lite.protocols.barriers import Aligned
>>> trace = ["s1 sends 1", "the coordinator asks for snapshot 1", "s1 sends the barrier", "c takes s1's 1"]
>>> recorded = as_recording(Aligned(), trace)
>>> recorded["run"]
[('s1', 'c', 1, 3, '1', ''), ('s1', 'c', 2, None, '|', ''), ('c', 'k', 3, None, '1', '')]
>>> recorded["lanes"], recorded["notes"]
(['s1', 's2', 'c', 'k'], {('s1', 2): 'saves offset 1'})

The coordinator is not drawn, so its action has no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ..errors import Error
from .explore import replay
from .world import BARRIER, Channel, Protocol, W

Line = tuple[str, str, int, int | None, str, str]
"""Sender, receiver, the time at which it was sent, the time at which it was taken or None, text, mark."""


class Recorded(TypedDict):
    """Keyword arguments for ``show.space_time``.

    A line has mark ``dropped`` if a crash loses the message or its receiver drops it. After a crash, it has mark
    ``from the snapshot`` if it was restored there, and ``sent again`` if its sender keeps running; so has a row whose
    ack was lost.
    """

    run: list[Line]
    lanes: list[str]
    notes: dict[tuple[str, int], str]
    unit: str


def as_recording(protocol: Protocol[W], trace: Sequence[str]) -> Recorded:
    """Return the messages of the run that takes the actions of ``trace``. Times count the actions that are drawn.

    Raises Error if an action is not possible; `replay` says what is.
    """
    run = replay(protocol, trace)
    if run.stopped_at:
        number = len(run.steps) + 1
        raise Error(
            f"action {number}, {run.stopped_at!r}, is not possible here; choose one of {', '.join(run.possible)}"
        )
    before = protocol.channels(run.start)
    lanes = sorted({end for ends in before for end in ends}, key=lambda name: (name[0] != "s", name))
    flight: dict[tuple[str, str], list[int]] = {ends: [] for ends in before}
    lines: list[Line] = []
    notes: dict[tuple[str, int], str] = {}
    for at, step in enumerate(run.steps, 1):
        actor = step.label.split()[0]
        crash = step.restored is not None
        repeated = crash or step.label.endswith(" again")
        again = "from the snapshot" if protocol.what_crashes == "everything" else "sent again"
        for ends, new in protocol.channels(step.world).items():
            old, open_lines = before[ends], flight[ends]
            gone, kept, fresh = _change(old, new, crash)
            lost = crash or " drops " in step.label
            for n in gone:
                source, target, sent, _, text, mark = lines[open_lines[n]]
                lines[open_lines[n]] = source, target, sent, at, text, "dropped" if lost else mark
            numbers = [open_lines[n] for n in kept]
            for place in fresh:
                numbers.insert(place, len(lines))
                lines.append((*ends, at, None, str(new[place]), again if repeated else ""))
            flight[ends] = numbers
        before = protocol.channels(step.world)
        if crash and protocol.what_crashes == "everything":
            notes |= {(lane, at): "crash" for lane in lanes}
        elif crash:
            notes["c", at] = "crash"
        if step.note and (lane := actor if actor in lanes else "c") in lanes:
            notes[lane, at] = ", ".join(filter(None, (notes.get((lane, at)), step.note)))
    drawn = {at for line in lines for at in line[2:4] if at} | {at for _, at in notes}
    time = {at: n for n, at in enumerate(sorted(drawn), 1)}
    return {
        "run": [(*line[:2], time[line[2]], line[3] and time[line[3]], *line[4:]) for line in lines],
        "lanes": lanes,
        "notes": {(lane, time[at]): words for (lane, at), words in notes.items()},
        "unit": "action",
    }


def _change(old: Channel, new: Channel, crash: bool) -> tuple[list[int], list[int], list[int]]:
    """Return the places in ``old`` that are gone and that are kept, and the places in ``new`` that were added."""
    places = list(range(len(old)))
    if new[: len(old)] == old:
        return [], places, list(range(len(old), len(new)))
    if not crash and new == (BARRIER, *old):
        return [], places, [0]
    if not crash and new[: len(old) - 1] == old[1:]:
        return [0], places[1:], list(range(len(old) - 1, len(new)))
    if not crash and BARRIER in old and new == tuple(message for message in old if message != BARRIER):
        return [old.index(BARRIER)], [n for n in places if old[n] != BARRIER], []
    return places, [], list(range(len(new)))
