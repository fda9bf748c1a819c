"""Snapshot protocols, run through every order of their actions with a crash at any moment.

A protocol is right if its outcomes with crashes are among its outcomes without (rule 23'). Every right protocol has
wrong variants, in which one thing is switched off. Without a crash, every one of them is right.

    PauseAll, Aligned, ChandyLamport, Overtaking     a snapshot of the whole job; everything crashes
    StrongProductions, UpstreamBackup, CausalLogs    recovery of one operator; the others keep running
    Coordinated                                      what the protocols of the first line share, for one of your own
    EpochCommit, SparkBatches                        the input is cut into epochs, and each epoch commits
    Loop, MoveBin                                    an operator that sends rows to itself; a bin changes its owner

    explore          every order: the outcomes, and the shortest wrong trace
    replay           one trace, to be forked
    costs            rows held back and logged, durable writes, outputs delayed: counts, not seconds
    as_recording     a trace as messages over time, for ``show.space_time``

>>> from sharedstate_lite import protocols
>>> wrong = protocols.explore(protocols.ChandyLamport(log_rows=False))
>>> wrong
wrong: 6 of 9 outcomes; the shortest trace has 15 actions
>>> wrong.end.state[0], wrong.trace[-2:]                             # 13 is right: 1 and 2 were in a channel
(10, ('crash: all continue from snapshot 1', 'the input ends'))

Modules, from the bottom: ``world`` is one moment of a run, ``barriers``, ``loop``, ``local``, ``epochs`` and ``move``
are the protocols, ``explore`` searches, and ``as_recording`` turns a trace into a picture's data.

Source: Carbone et al., Beyond Analytics, SIGMOD 2020 (the protocols); dslabs (search in a course).
"""

from .as_recording import Recorded, as_recording
from .barriers import Aligned, ChandyLamport, Coordinated, Overtaking, PauseAll
from .epochs import EpochCommit, SparkBatches
from .explore import LIMIT, Exploration, Replayed, costs, explore, replay
from .local import CausalLogs, StrongProductions, UpstreamBackup
from .loop import Loop
from .move import MoveBin
from .world import BARRIER, Action, Outcome, Protocol, World

__all__ = [
    "BARRIER",
    "LIMIT",
    "Action",
    "Aligned",
    "CausalLogs",
    "ChandyLamport",
    "Coordinated",
    "EpochCommit",
    "Exploration",
    "Loop",
    "MoveBin",
    "Outcome",
    "Overtaking",
    "PauseAll",
    "Protocol",
    "Recorded",
    "Replayed",
    "SparkBatches",
    "StrongProductions",
    "UpstreamBackup",
    "World",
    "as_recording",
    "costs",
    "explore",
    "replay",
]
