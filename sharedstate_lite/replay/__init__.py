"""Replays a history of messages on an engine and records every step of the run as data.

A `Replay` plays a history of messages on a new engine and returns a `Recording` with the steps of each message.
A step is one operator handling one message: its input, its output, and the state after it. A run is repeatable
because it is replayed from the log of its messages, as in event sourcing. An edited history is replayed from the
beginning and forks from the original. The stepper in `show` draws recordings.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> replay = ss.replay("full", [longest])
>>> recording = replay(["+1 visit Potato, 50", "+1 visit Potato, 60"])
>>> for step in recording.steps[-3:]:
...     print(step.number, step.operator, [change.kind for change in step.emitted])
4 visit []
5 longest.group1 []
6 longest ['-U', '+U']
>>> recording.steps[4].question.check("-U Potato 50, +U Potato 60").right
True

Modules, from the bottom:

    messages     the messages that a user can send to an engine
    parse        parses messages from text and from tuples
    questions    asks about the next step and judges the answers
    recording    the data classes of a recording
    forks        a tree of edited histories
    structure    the operators of an engine and the pieces of its state
    observer     observes an engine without changing it
    steps        splits the events of a message into steps
    state        the pieces of state after each step
    texts        texts of values, counts and titles
    states       the state of each operator after each step, as JSON
    captions     describes a step in one sentence
    recorder     builds the recording
    play         Replay, which runs an engine and records it
    data         a recording as one JSON value

Source: Fowler, Event Sourcing, 2005; the steps are those of dataflow operators in Flink and Noria.
"""

from typing import Any

from ..system.lazy import lazy_name

_HOME = {
    "Branch": "forks",
    "BranchTree": "forks",
    "Question": "questions",
    "Recording": "recording",
    "Replay": "play",
    "Verdict": "questions",
}
"""Public name -> the module that defines it. Modules are imported on first access, because `show` reads recordings
and does not need an engine."""


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)


__all__ = [  # noqa: F822 (made by __getattr__)
    "Branch",
    "BranchTree",
    "Question",
    "Recording",
    "Replay",
    "Verdict",
]
