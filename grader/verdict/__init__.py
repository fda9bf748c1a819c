"""Judge a record: violations, a verdict for each phase and for the run, the score, the story of one order.

Pure functions of the record: no clock, no socket, no random number. `violations` names the audit's findings, `special`
checks rules of single phases, `figures` and `speed` measure, `verdict` decides, `score` adds points, `story` traces
one order, `powercut` counts what a power cut lost.
"""

from .verdict import Judgement, PhaseVerdict, judge
from .violations import Violation

__all__ = ["Judgement", "PhaseVerdict", "Violation", "judge"]
