"""The rule of acceptance: compares one snapshot with the acknowledged amounts and the answers.

`outcomes` reduces an order's attempts to one outcome, `view` collects the columns to judge, `rules` finds the orders
and balances that break a rule, `digits` decodes how often each order took effect. Pure functions over columns.
"""

from .outcomes import FAIL, INDETERMINATE, NONE, OK, outcomes
from .rules import Finding, audit, clean
from .view import View, view_of

__all__ = ["FAIL", "INDETERMINATE", "NONE", "OK", "Finding", "View", "audit", "clean", "outcomes", "view_of"]
