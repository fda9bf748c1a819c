"""Decides whether a snapshot is consistent with the acknowledged amounts and with the answers to the checkouts.

`outcomes` reduces the attempts of each order to one outcome, `view` collects the columns to judge, `rules` finds the
orders and balances that break a rule, and `digits` decodes how often each order took effect. All functions are pure
and work on whole columns.
"""

from .outcomes import FAIL, INDETERMINATE, OK, outcomes
from .rules import COUNTED, Finding, audit, clean
from .view import View, view_of

__all__ = ["COUNTED", "FAIL", "INDETERMINATE", "OK", "Finding", "View", "audit", "clean", "outcomes", "view_of"]
