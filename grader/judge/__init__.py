"""A record becomes findings: violations, a verdict a phase, the verdict, the score, the story of one order.

Pure: no clock, no socket, no random number. `violations` puts the audit's findings into labels, `figures` measures,
`verdict` decides, `score` weighs, `story` tells one order's run.
"""

from .verdict import Judgement, PhaseVerdict, judge
from .violations import Violation

__all__ = ["Judgement", "PhaseVerdict", "Violation", "judge"]
