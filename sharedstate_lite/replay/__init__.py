"""A run of an engine as data: messages in, a recording of every step out.

A `Replay` plays a history of messages on a new engine and returns a `Recording`: for each message
its steps. A step is one operator handling one message: its input, its output, and the state after it. A run is
repeatable because it is replayed from the log of its messages, as in event sourcing. An edited history is replayed, and
forks from the old one. The stepper in `show` draws recordings.

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

    messages     what a user sends to an engine
    parse        messages from text
    questions    questions about the next step, and the judge of answers
    recording    the data of a run
    forks        a tree of edited histories
    structure    the operators of an engine, and the parts of its state
    observer     reads an engine without changing it
    steps        splits the events of a message into steps
    state        the state after each step
    rows         stored rows, decoded and ordered
    tables       state tables of a recording
    captions     a step in one sentence
    recorder     builds the recording
    play         Replay: runs an engine and records it

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
"""Name -> its module, imported on first access: `show` reads recordings and needs no engine."""


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
