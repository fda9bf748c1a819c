"""The table of phases. A phase is one row here, and one module: ``phases/NAME.py``, with ``run(live)``.

A session runs the phases that have a share of its time, in this order. All other lists of phases are computed from the
rows: the options of the command line, the lists in the reports, the judged parts of the score, the checks of lab 6.
What earns a share of its points has its formula in verdict/score.py.

    share 0            a session does not run it: the reports have it only if the record does
    judged             it decides the verdict, and a score needs it
    rule, result       the names of a function in verdict/special.py and of one in report/model.py
    asks               what gives points by rubric.toml, under the same names

>>> [row.name for row in TABLE.values() if not row.share], PHASES[0], JUDGED[-1]
(['powercut', 'explore'], 'contract', 'faults')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """What a system is asked for, and can have points for: a phase, or a part of what it shows."""

    name: str
    task: int
    """The task of lab 6 that it belongs to."""
    promise: str
    measured: bool = False
    """Whether it earns a share of its points, instead of all or none."""


@dataclass(frozen=True)
class Phase:
    """One phase."""

    name: str
    does: str
    """What the grader does, after "the grader": a few words for a table."""
    explains: str
    """The same for --explain, in a sentence or two."""
    share: float = 0.0
    """Its share of the time of a run; 0: a session does not run it."""
    judged: bool = False
    """Whether it determines the verdict. Its name is then in rubric.toml."""
    rule: str = ""
    """The rule that only this phase has, besides those of snapshots; "": none."""
    result: str = "checkouts"
    """What the reports say of it in a few words."""
    asks: tuple[Asked, ...] = ()


POWER_CUT = "powercut"
"""The run after the phases, which has a record and a clock of its own."""

_ROWS = (
    Phase(
        "contract", "calls every route with valid and invalid arguments",
        "calls every route with valid and invalid arguments, some of them concurrently, and lists all wrong answers",
        share=0.05, judged=True, rule="contract", result="answers",
        asks=(Asked("contract", 1, "Each route answers as the assignment says."),),
    ),
    Phase(
        "duplicates", "repeats the same checkout many times",
        "repeats checkouts concurrently, later and at the end of the run; also sends orders that must be refused, adds "
        "the missing stock or credit, and sends them again",
        share=0.15, judged=True, rule="refusals",
        asks=(Asked("duplicates", 1, "An order takes effect once, however often it is sent. A refused order keeps "
                    "nothing."),),
    ),
    Phase(
        "load", "sends many different orders",
        "sends checkouts of different orders at a steady rate, without waiting for answers, and then reads every "
        "order, user and item",
        share=0.12, judged=True, rule="refusals",
        asks=(Asked("load", 2, "At least 90% of different orders are done at once, and none is refused."),),
    ),
    Phase(
        "scarcity", "supplies too little stock, then too little credit",
        "supplies stock, and later credit, for exactly K orders, and checks that exactly K are sold",
        share=0.15, judged=True, rule="scarcity",
        asks=(Asked("scarcity", 2, "Stock or credit for K orders sells exactly K."),
              Asked("false_refusals", 2, "An order is not refused while there is enough stock and credit.")),
    ),
    Phase(
        "faults", "kills and pauses each process during checkouts",
        "kills and pauses every process and database during checkouts, and repeats unanswered checkouts; the shop must "
        "still sell afterwards",
        share=0.38, judged=True, rule="lost_ids", result="faults",
        asks=(Asked("faults", 3, "After kills and pauses, each order is paid or unpaid, as its answers promised."),
              Asked("availability", 3, "Checkouts are answered while processes are killed and paused.", True),
              Asked("convergence", 3, "All effects complete soon after the last fault.", True)),
    ),
    Phase(
        "speed", "raises the rate until the system cannot keep up", "raises the rate until the system cannot keep up",
        share=0.15, result="rate",
        asks=(Asked("speed", 3, "The highest rate at which 99% of the checkouts are done within a second.", True),),
    ),
    Phase(
        POWER_CUT, "cuts the power of the system's disk three times during checkouts",
        "cuts the power of the system's disk three times during checkouts. Data that was never synced is lost. The "
        "result affects neither the verdict nor the score. --full includes this test if there is time left; "
        "--power-cut always includes it",
    ),
    Phase(
        "explore", "loses and delays messages between the processes, and kills processes at them",
        "is not a part of a run: the command explore checks one order out again and again, each time with another "
        "message lost or late, a process killed at another message, or two checkouts in another order",
        rule="refusals",
    ),
)  # fmt: skip

TABLE = {row.name: row for row in _ROWS}
"""All phases by name, in the order in which they run."""

PHASES = tuple(name for name, row in TABLE.items() if row.share)
"""The phases that a session runs."""

JUDGED = tuple(name for name, row in TABLE.items() if row.judged)
"""The phases that determine the verdict."""

ASKED = {asked.name: asked for row in TABLE.values() for asked in row.asks}
"""What gives points, in the order of the page."""
