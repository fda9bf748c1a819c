"""Judges a record: the verdict of each phase and of the run, the violations, the score and the story of one order.

All functions are pure functions of the record. They do not use clocks, sockets or random numbers. `violations` adds
labels and ids to the audit's findings, `special` checks the rules of individual phases, `figures` and `speed` compute
counts and latencies, `verdict` decides, `score` computes the points, `story` traces one order, and `powercut` counts
the orders that were lost in a power cut.
"""

from .verdict import Judgement, PhaseVerdict, judge
from .violations import Violation

__all__ = ["Judgement", "PhaseVerdict", "Violation", "judge"]
