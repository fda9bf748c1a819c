"""Do all sides answer alike, and emit the same changes after every epoch?

The view's contents are never compared as they stand alone: they are what the changes
add up to, so a side's answers are held against its own changes, and its changes
against those of the others. Partial state is held to the keys that were read, from the
epoch after which they were; DuckDB, which emits nothing, to the epochs where it
recomputed.
"""

from __future__ import annotations

import numpy as np

from bench.shopping.record import Ints, Record


def consolidated(emitted: Ints) -> Ints:
    """Changes with equal ones added up and those of diff 0 left out, sorted; shape (n, 4)."""
    if not len(emitted):
        return emitted
    rows, place = np.unique(emitted[:, :3], axis=0, return_inverse=True)
    diffs = np.zeros(len(rows), np.int64)
    np.add.at(diffs, place.reshape(-1), emitted[:, 3])
    left: Ints = np.column_stack([rows, diffs])
    kept: Ints = left[diffs != 0]
    return kept


def contents(emitted: Ints, epoch: int) -> Ints:
    """What the changes up to and including an epoch add up to, sorted; shape (n, 2)."""
    upto = emitted[emitted[:, 0] <= epoch].copy()
    upto[:, 0] = 0
    left = consolidated(upto)
    return np.repeat(left[:, 1:3], np.maximum(left[:, 3], 0), axis=0)


def sorted_rows(rows: Ints) -> Ints:
    """Rows in order, duplicates kept."""
    return rows[np.lexsort(rows.T[::-1])] if len(rows) else rows


def differences(records: dict[str, Record], reference: str) -> dict[str, str]:
    """What each side has that ``reference`` does not agree with, in words, by side; a side that agrees is not named."""
    found = {}
    full = consolidated(records[reference].emitted)
    for name, record in records.items():
        wrong = _emissions(record, full) or _answers(record, full)
        if wrong:
            found[name] = wrong
    return found


def _kept(record: Record, rows: Ints, column: int) -> Ints:
    """The rows about keys that the side has filled; all of them where it has all."""
    return rows if record.filled is None else rows[np.isin(rows[:, column], record.filled)]


def _emissions(record: Record, full: Ints) -> str | None:
    if record.sampled:
        return None
    wanted = full
    if record.filled is not None:
        wanted = _kept(record, full[full[:, 0] > record.filled_at], 1)
    # what a side emits is to be consolidated by itself, so it is only put in order here
    got = sorted_rows(record.emitted)
    if np.array_equal(got, wanted):
        return None
    apart = consolidated(np.concatenate([got, wanted * [1, 1, 1, -1]]))
    if not len(apart):
        return "emitted changes are not consolidated: the same row is in an epoch twice"
    epoch = apart[0, 0]
    counts = [int((rows[:, 0] == epoch).sum()) for rows in (got, wanted)]
    told = [tuple(row) for row in apart[apart[:, 0] == epoch, 1:].tolist()]
    return (
        f"epoch {epoch}: emitted {counts[0]} changes, and {counts[1]} are right; "
        f"the difference begins {told[:5]} (category, max_length, diff)"
    )


def _answers(record: Record, full: Ints) -> str | None:
    for epoch, answer in sorted(record.answers.items()):
        wanted = _kept(record, contents(full, epoch), 0)
        got = sorted_rows(answer)
        if not np.array_equal(got, wanted):
            apart = {tuple(row) for row in got.tolist()} ^ {tuple(row) for row in wanted.tolist()}
            return f"epoch {epoch}: answers differ in {sorted(apart)[:5]} (category, max_length)"
    return None
