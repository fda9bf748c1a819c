"""bench/shopping/equal.py: every way in which two sides can disagree is seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.shopping.equal import contents, differences
from bench.shopping.record import Record, changes

Rows = Sequence[tuple[int, int, int, int]]

FULL: Rows = [(0, 7, 30, 1), (0, 8, 5, 1), (1, 7, 30, -1), (1, 7, 40, 1), (2, 8, 5, -1)]
"""Category 7 goes from 30 to 40, category 8 comes and goes."""


def record(emitted: Rows, answers: dict[int, list[tuple[int, int]]] | None = None, **rest: object) -> Record:
    """A side's record with what it emitted and answered."""
    told = {epoch: np.array(rows, np.int64).reshape(-1, 2) for epoch, rows in (answers or {}).items()}
    return Record("it", np.zeros(3), changes(emitted), told, **rest)  # type: ignore[arg-type]


def against(other: Record) -> dict[str, str]:
    """Where the other differs from FULL."""
    return differences({"full": record(FULL, {2: [(7, 40)]}), "other": other}, "full")


def test_contents_are_what_changes_add_up_to() -> None:
    """Up to an epoch, insertions without their retractions, in order."""
    assert contents(changes(FULL), 0).tolist() == [[7, 30], [8, 5]]
    assert contents(changes(FULL), 1).tolist() == [[7, 40], [8, 5]]
    assert contents(changes(FULL), 2).tolist() == [[7, 40]]


def test_agreement_is_silent() -> None:
    """The order of changes within an epoch and of rows in an answer says nothing."""
    assert against(record(FULL[::-1], {0: [(8, 5), (7, 30)], 2: [(7, 40)]})) == {}


@pytest.mark.parametrize(
    ("emitted", "words"),
    [
        (FULL[:-1], "epoch 2: emitted 0 changes"),
        ([*FULL, (1, 9, 1, 1)], "epoch 1: emitted 3 changes"),
        ([(0, 7, 30, 1), (0, 8, 5, 1), (2, 7, 30, -1), (2, 7, 40, 1), (2, 8, 5, -1)], "epoch 1: emitted 0 changes"),
        ([*FULL, (1, 9, 1, 1), (1, 9, 1, -1)], "not consolidated"),
        ([], "epoch 0: emitted 0 changes"),
    ],
    ids=["one is missing", "one too many", "an epoch late", "a pair that cancels", "nothing"],
)
def test_other_changes_are_seen(emitted: Rows, words: str) -> None:
    """A change that is missing, too much, late or uncancelled is told with its epoch."""
    assert words in against(record(emitted))["other"]


def test_a_wrong_answer_is_seen() -> None:
    """An answer that the changes do not add up to is told with its epoch and rows."""
    assert against(record(FULL, {1: [(7, 41), (8, 5)]}))["other"].startswith(
        "epoch 1: answers differ in [(7, 40), (7, 41)]"
    )


def test_partial_is_held_to_its_filled_keys() -> None:
    """Changes of keys that were never read, or before they were, are not asked for; others are."""
    filled = {"filled": [7], "filled_at": 0}
    assert against(record(FULL[2:4], {2: [(7, 40)]}, **filled)) == {}
    assert "epoch 1: emitted 1 changes" in against(record(FULL[2:3], **filled))["other"]
    assert "answers differ" in against(record(FULL[2:4], {2: [(7, 30)]}, **filled))["other"]
    assert "epoch 2: emitted 1 changes" in against(record(FULL[2:], **filled))["other"]


def test_a_side_that_recomputes_is_held_to_its_answers() -> None:
    """DuckDB emits nothing, and its answers are still compared."""
    assert against(record([], {1: [(7, 40), (8, 5)]}, sampled=[1])) == {}
    assert "answers differ" in against(record([], {1: [(7, 40)]}, sampled=[1]))["other"]


def test_the_reference_is_held_to_its_own_changes() -> None:
    """A side whose answer is not what it emitted is wrong even when nobody else is there."""
    assert "answers differ" in differences({"full": record(FULL, {2: [(7, 30)]})}, "full")["full"]
