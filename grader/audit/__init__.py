"""The rule of acceptance: one snapshot of everything, against what was acknowledged and answered.

`outcomes` folds an order's attempts, `view` is what is judged, `rules` says which orders and balances break
which rule, `digits` reads from a wrong balance how often each order took effect. Pure functions over columns.
"""

from .outcomes import FAIL, INDETERMINATE, NONE, OK, outcomes
from .rules import Finding, audit, clean
from .view import View, view_of

__all__ = ["FAIL", "INDETERMINATE", "NONE", "OK", "Finding", "View", "audit", "clean", "outcomes", "view_of"]
