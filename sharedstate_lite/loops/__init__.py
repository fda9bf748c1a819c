"""Plain loops over words: the work on rows, written so that a reader can step through it.

>>> import numpy as np
>>> from sharedstate_lite import loops
>>> words = np.array([10, 20, 20, 30])
>>> loops.lower(words, 0, 4, 20), loops.lower(words, 0, 4, 21)
(1, 3)

A loop receives all its buffers and returns a count. It has one signature, and runs in Python or compiled by Numba with
the same result (see `compiled`). The functions of ``storage`` and ``kernels`` call loops, allocate the buffers, and
raise errors.

Modules, from the bottom:

    compiled    how loops run, and where their compiled form is cached
    search      binary search in sorted words, and comparisons of rows
    batches     hashes of rows, sort words, and consolidation
    lookups     rows by key in one batch, and multiplicities of rows
    joins       the join of a change with one batch
    keys        distinct rows, and sets of keys
    groups      the groups of a change, and what a reduce emits
    sums        exact sums of groups: counts, whole numbers and doubles
    extremes    the largest and smallest values of groups
    strings     strings packed into words, a hash table of them, their hashes and their order
"""

from __future__ import annotations

from typing import Any

from .compiled import Switch

_switch = Switch(globals())
moved = _switch.moved
"""Count rows that are about to be moved. After some thousand, the loops are compiled."""


def __getattr__(name: str) -> Any:
    # The first use of any loop loads the modules that define them.
    if not name.startswith("__") and not _switch.started:
        _switch.start()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
