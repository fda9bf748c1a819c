"""The groups of a change, their last output, and the rows that a reduce emits."""

from __future__ import annotations

from typing import Any

from .compiled import loop

_NULL = -(2**63)


@loop("i8(i8[:,::1], i8[::1], i8[::1], i8[::1])")
def number_groups(body: Any, columns: Any, first: Any, group: Any) -> int:
    """Number the groups of a body whose key are ``columns``, in the order of their first rows.

    Writes the first row of each group to ``first``, and the group of each row to ``group``. Returns how many groups
    there are.
    """
    groups = 0
    for row in range(len(group)):
        # Rows of one key are neighbours, except that two keys with the same hash can alternate.
        g, found = groups - 1, False
        while g >= 0 and not found and body[0, first[g]] >> 32 == body[0, row] >> 32:
            found = True
            for at in range(len(columns)):
                found &= body[1 + columns[at], first[g]] == body[1 + columns[at], row]
            g -= 1
        if found:
            group[row] = g + 1
        else:
            first[groups] = row
            group[row] = groups
            groups += 1
    return groups


@loop("i8(i8[::1], i8[:,:], i8[:,:], i8[:,::1], b1[::1])")
def last_rows(owner: Any, rows: Any, diffs: Any, last: Any, there: Any) -> int:
    """Write the row that each group has now to ``last``, and whether it has one to ``there``. A missing row is NULL.

    The rows of a group, whose number is ``owner``, come from the oldest batch to the newest. A group has at most one
    row at a time, so the last one that was inserted is the one that it has.
    """
    groups = len(there)
    balance = last[0]
    for g in range(groups):
        balance[g] = 0
    for at in range(len(owner)):
        balance[owner[at]] += diffs[0, at]
    for g in range(groups):
        there[g] = balance[g] > 0
        for line in range(len(last)):
            last[line, g] = _NULL
    for at in range(len(owner)):
        if diffs[0, at] > 0 and there[owner[at]]:
            for line in range(len(last)):
                last[line, owner[at]] = rows[line, at]
    return groups


@loop("i8(i8[:,::1], i8[:,::1], b1[::1], b1[::1], b1[::1], i8[:,::1], i8[::1])")
def emit(new: Any, old: Any, there: Any, alive: Any, lost: Any, rows: Any, diffs: Any) -> int:
    """Write the change of a reduce's output: first the old rows of the groups that change, then the new ones.

    A group has an old row if it is ``there``, and a new one if it is ``alive``. A group that is ``lost`` is left out.
    Returns the number of rows.
    """
    m = 0
    for sign in (-1, 1):
        for g in range(len(there)):
            changed = there[g] != alive[g]
            if there[g] and alive[g]:
                for line in range(len(new)):
                    changed |= new[line, g] != old[line, g]
            if changed and not lost[g] and (there[g] if sign < 0 else alive[g]):
                for line in range(len(new)):
                    rows[line, m] = old[line, g] if sign < 0 else new[line, g]
                diffs[m] = sign
                m += 1
    return m
