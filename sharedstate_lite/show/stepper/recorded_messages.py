"""Turns a recording into a space-time diagram, and makes the picture that notebooks show.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> visits = catalog.view("CREATE VIEW visits AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product")
>>> run = ss.replay("partial", [visits])(["pause", "read visits Potato", "+1 visit Potato, 60", "resume"])
>>> print(repr(space_time(run)).splitlines()[1])
visits to visits.group1, sent at 2, taken at 4: ? Potato
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import Error
from ...replay.data import chips
from ...replay.messages import Pause, Read, typed_values
from ...replay.recording import Move, RecordedStep, Recording
from ...replay.texts import counted, shown
from ..svg import Picture
from .message_lines import MessageLine, SpaceTime
from .notebook import Stepper

ROOMS = (1100.0, 800.0, 560.0)
"""The widths in px for which a picture is drawn."""


def space_time(
    run: Stepper | Recording | Iterable[MessageLine | tuple[Any, ...]],
    *,
    lanes: Sequence[str] | None = None,
    first: int | None = None,
    last: int | None = None,
    marks: Mapping[int, str] | None = None,
    notes: Mapping[tuple[str, int], str] | None = None,
    title: str = "",
    unit: str = "step",
) -> Picture:
    """Return a picture of who sent which message to whom, and when. Messages that cross are lines that cross.

    ``run`` is a stepper, a recording, or messages as (from, to, sent, taken, text, mark); see `MessageLine`. The lanes
    are ``lanes``, from left to right, or all operators if it is None. Two messages to one operator can only cross if
    their senders are on the same side of it.

    For a recording, ``first`` and ``last`` are numbers of messages of its history. By default, the picture begins after
    the first ``pause``, or with the first message if there is none, and ends with the last message. ``marks`` maps a
    step to words about the messages that are sent in it, such as ``counted twice``. For messages that are given as
    tuples, ``unit`` is the label of the time axis.

    ``notes`` maps a lane and a time to words that are written there, such as ``{("worker", 7): "crash"}``. Raises Error
    if a lane or a message number does not exist, or if a recording has a message that was refused.
    """
    if isinstance(run, Iterable):
        lines = [m if isinstance(m, MessageLine) else MessageLine(*m) for m in run]
        names = lanes or list(dict.fromkeys(name for m in lines for name in (m.source, m.target)))
        made = SpaceTime({name: (name, "") for name in names}, lines, notes=notes or {}, unit=unit)
    else:
        recording = run if isinstance(run, Recording) else run.recording
        if recording is run:  # a stepper shows the error itself
            recording.check()
        begin, end = _span(recording, first, last)
        made = recorded(recording, begin, end, lanes=lanes, marks=marks, notes=notes)
    words = title or f"Messages between {', '.join(made.lanes)}"
    return Picture(f"{words}\n{made}", *(made.draw(wide, title) for wide in ROOMS))


def recorded(
    recording: Recording,
    begin: int,
    end: int,
    *,
    lanes: Sequence[str] | None = None,
    marks: Mapping[int, str] | None = None,
    notes: Mapping[tuple[str, int], str] | None = None,
) -> SpaceTime:
    """Return the diagram of the steps from ``begin`` to ``end``. Messages that are taken later are in flight.

    Raises Error if an operator in ``lanes`` does not exist.
    """
    operators = {o.name: o for o in recording.operators}
    names = list(operators) if lanes is None else list(lanes)
    for name in names:
        if name not in operators:
            raise Error(f"operator {name!r} does not exist; the operators are {', '.join(operators)}")
    titles = {n: (operators[n].title, _detail(operators[n])) for n in names}
    steps = [s for s in recording.steps[:end] if s.operator in titles]
    dropped = {m.number: s for s in steps if len(s.dropped) for m in s.taken if not m.upstream}
    lines = [
        _line(move, end, dropped.get(move.number), (marks or {}).get(move.sent, ""))
        for step in steps
        for move in step.sent
        if move.target in titles and (move.taken is None or move.taken >= begin)
    ]
    events = [(s.operator, s.number) for s in steps if s.number >= begin]
    said = {(s.operator, s.number): words for s in recording.steps if (words := _note(recording, s))}
    beside = {event: said[event] for event in events if event in said} | dict(notes or {})
    return SpaceTime(titles, lines, events, beside, begin)


def _span(recording: Recording, first: int | None, last: int | None) -> tuple[int, int]:
    messages = recording.messages
    if not messages:
        return 1, 0
    pause = next((m.number for m in messages if isinstance(m.message, Pause)), 0)
    ends = (min(pause + 1, len(messages)) if first is None else first, len(messages) if last is None else last)
    for number in ends:
        if not 1 <= number <= len(messages):
            raise Error(f"message {number} does not exist; use 1 to {len(messages)}")
    return messages[ends[0] - 1].first, messages[ends[1] - 1].last


def _detail(operator: Any) -> str:
    return "base" if operator.kind == "source" else "" if operator.kind in ("filter", "map") else operator.detail


def _line(move: Move, end: int, drop: RecordedStep | None, mark: str) -> MessageLine:
    taken = move.taken if move.taken is not None and move.taken <= end else None
    if drop is not None:
        mark = "dropped" if len(drop.dropped) >= len(move.rows) else "dropped in part"
    made = chips(move)
    badge, *values = made[-1]
    if len(made) == 2:
        values = [v if old == v else f"{old} → {v}" for old, v in zip(made[0][1:], values, strict=True)]
    return MessageLine(move.source, move.target, move.sent, taken, " ".join([badge, "  ".join(values)]).strip(), mark)


def _note(recording: Recording, step: RecordedStep) -> str:
    """Return what is written beside a step: the read that begins in it, or the answer to a read."""
    if step.answer is not None:
        rows = step.answer
        many = counted(len(rows), "row") if rows else "no rows"
        return "answer: " + (" ".join(map(shown, rows[0])) if len(rows) == 1 else many)
    message = recording.messages[step.message - 1].message
    if step.kind != "read" or not isinstance(message, Read):
        return ""
    return "read" if message.key is None else f"read {typed_values(message.key)}"
