"""Rows as bytes, read with another dictionary; bins of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.batch import Delta
from sharedstate_lite.storage.encoding import NULL, Dictionary

TEXTS = st.one_of(st.none(), st.text(max_size=5), st.sampled_from(["", "a", "\0", "\U00010000"]))
WORDS = st.one_of(
    st.just(NULL), st.integers(-3, 3), st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from([255, 256, 2**32])
)


@given(st.lists(st.tuples(TEXTS, WORDS, WORDS)), st.lists(st.text(max_size=3)))
def test_rows_come_back_with_another_dictionary(rows: list[tuple[Any, int, int]], known: list[str]) -> None:
    """Strings, NULLs and words of every size are preserved, whatever the codes of either side."""
    mine, theirs = Dictionary(), Dictionary()
    theirs.codes(known)
    words = np.array([[r[1], r[2]] for r in rows], dtype=np.int64).reshape(-1, 2).T
    lines = [mine.codes([r[0] for r in rows]), *words]
    back = wire.decode(wire.encode(lines, [Type.STRING, Type.BIGINT], mine), theirs)
    assert theirs.texts(back[0]).tolist() == [r[0] for r in rows]
    assert back[1:].tolist() == words.tolist()


def test_a_blob_is_small() -> None:
    """A column of small numbers takes one byte per row, and each string is written once."""
    strings = Dictionary()
    rows = np.stack([strings.codes(["a rather long text", "b"] * 500), np.arange(1000) % 200])
    delta = Delta(rows, np.ones(1000, dtype=np.int64))
    assert len(wire.pack(delta, [Type.STRING, Type.INT], strings)) < 3_200


@given(st.lists(st.tuples(TEXTS, TEXTS, WORDS), min_size=1), st.integers(1, 7))
def test_a_bin_does_not_depend_on_process_or_order_of_columns(rows: list[tuple[Any, Any, int]], bins: int) -> None:
    """Rows with equal keys are in one bin, whatever their codes and the order of the key's columns."""
    mine, theirs = Dictionary(), Dictionary()
    theirs.codes(["z", "y"])
    types = [Type.STRING, Type.STRING, Type.BIGINT]
    one = np.stack([mine.codes([r[0] for r in rows]), mine.codes([r[1] for r in rows]), [r[2] for r in rows]])
    other = np.stack([[r[2] for r in rows], theirs.codes([r[1] for r in rows]), theirs.codes([r[0] for r in rows])])
    first = wire.bin_of(one, (0, 1, 2), types, bins, mine)
    second = wire.bin_of(other, (0, 2, 1), types[::-1], bins, theirs)
    assert first.tolist() == second.tolist()
    parts = wire.split(Delta(one, np.ones(len(rows), dtype=np.int64)), (0, 1, 2), types, bins, mine)
    assert sum(len(part.diffs) for _, part in parts) == len(rows)
    assert all(0 <= number < bins and len(part.diffs) for number, part in parts)


@pytest.mark.parametrize("bins", [2, 4, 7])
def test_bins_have_similar_sizes(bins: int) -> None:
    """No bin gets more than 1.5 times its share of many keys."""
    strings = Dictionary()
    keys = strings.codes([f"p{n}" for n in range(7_000)])[None, :]
    counts = np.bincount(wire.bin_of(keys, (0,), [Type.STRING], bins, strings), minlength=bins)
    assert counts.max() < 1.5 * 7_000 / bins
