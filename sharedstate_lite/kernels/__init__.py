"""Joins, aggregates and expressions over deltas and arrangements, written once and called by all strategies.

A kernel calls the loops that do the work on rows, and array operations for expressions. It does not depend on an
engine. The strategies differ in the state that they store, but all of them compute their results with these kernels.

>>> import numpy as np
>>> from sharedstate_lite.kernels import evaluate
>>> from sharedstate_lite.plan import Call, Col, Lit, Type
>>> from sharedstate_lite.storage import NULL, Dictionary
>>> length = np.array([[30, 60, NULL]])                                # one column, three rows
>>> longer = Call(">", (Col(0, Type.INT), Lit(45, Type.INT)), Type.BOOLEAN)
>>> evaluate(longer, length, Dictionary()).tolist() == [0, 1, NULL]       # three-valued logic
True

Modules, from the bottom:

    casts         CAST, and parsing text
    expr          expressions, evaluated one column at a time
    minmax        the new MAX or MIN of a group after the previous one has been retracted
    join_order    the order of lookups in a join of n inputs
    join          half joins, inner and left joins, delta joins
    aggregate     GROUP BY and DISTINCT

Source: McSherry et al., Differential dataflow, CIDR 2013 (joins of deltas, reduce); Boncz et al., MonetDB/X100, CIDR
2005 (evaluation of one column at a time).
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
