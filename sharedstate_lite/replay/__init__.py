"""A run of an engine as data: messages in, a recording of every step out.

A `Replay` plays a history of messages on a new engine and returns a `Recording`: for each message
its steps, for each step what one operator took, changed and sent, and the state after it. Replay from a
log of messages makes runs repeatable, as in event sourcing: an edited history is played again
and forks from the old one. The stepper in `show` draws recordings.

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

Modules, from the bottom: ``messages`` are what a user sends, ``parse`` reads them from text; ``questions``
asks and judges; ``recording`` is the data, ``forks`` a tree of edited histories. ``observer`` watches an
engine from outside, ``structure`` lists its operators and pieces of state, ``steps`` splits what
happened into steps, ``state`` keeps what was stored at each, ``rows`` and ``tables`` decode it,
``captions`` describes it in sentences, ``recorder`` puts the recording together, ``play`` runs it all.

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
