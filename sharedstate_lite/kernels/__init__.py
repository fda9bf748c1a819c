"""Joins, aggregates and expressions over deltas and arrangements. Each is written once and called by all strategies.

A kernel owns no state, knows no engine, and loops over no rows: it is a few array operations on words. What the
strategies store differs; what they compute is this room.

>>> import numpy as np
>>> from sharedstate_lite.kernels import evaluate
>>> from sharedstate_lite.plan import Call, Col, Lit, Type
>>> from sharedstate_lite.storage import NULL, Dictionary
>>> length = np.array([[30, 60, NULL]])                                # one column, three rows
>>> longer = Call(">", (Col(0, Type.INT), Lit(45, Type.INT)), Type.BOOLEAN)
>>> evaluate(longer, length, Dictionary()).tolist() == [0, 1, NULL]       # three-valued logic
True

Modules, from the bottom:

    casts         CAST, and text as a value
    expr          expressions, a column at a time
    float_sum     exact sums of doubles
    minmax        the next MAX or MIN of a group after the last one is retracted
    join_order    the order of lookups in a join of n inputs
    join          half joins, inner and left joins, delta joins
    aggregate     GROUP BY and DISTINCT

Source: McSherry et al., Differential dataflow, CIDR 2013 (joins of deltas, reduce); Boncz et al., MonetDB/X100, CIDR
2005 (a column at a time).
"""

from .aggregate import Change, ReducePlan, ReduceState
from .expr import evaluate
from .join import Side, delta_path, half_join, join_core, padding
from .join_order import Multiway, Step, flatten
from .minmax import Source

__all__ = [
    "Change",
    "Multiway",
    "ReducePlan",
    "ReduceState",
    "Side",
    "Source",
    "Step",
    "delta_path",
    "evaluate",
    "flatten",
    "half_join",
    "join_core",
    "padding",
]
