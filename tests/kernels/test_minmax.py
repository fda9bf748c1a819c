"""The largest and smallest values of groups, from arrangements."""

import random
from contextlib import nullcontext

import numpy as np
import pytest
from bags import merging_slowly

from sharedstate_lite.kernels.minmax import Source
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Layout
from sharedstate_lite.storage.encoding import NULL, Dictionary, doubles, from_doubles


def source(kind: Type = Type.BIGINT) -> tuple[Arrangement, Source, Dictionary]:
    """An arrangement of (group, value) ordered by value."""
    arrangement = Arrangement("values", Layout((Type.BIGINT, kind), (0,), 1))
    return arrangement, Source(arrangement, 1), Dictionary()


def write(arrangement: Arrangement, strings: Dictionary, rows: list[tuple[int, int]], diff: int) -> None:
    """Insert a batch, and commit it."""
    words = np.array(rows, dtype=np.int64).T.copy()
    arrangement.insert(words, np.full(len(rows), diff, dtype=np.int64), strings)
    arrangement.commit(arrangement.upper + 1)


def test_a_group_whose_last_rows_all_go_is_gone() -> None:
    """A group whose rows are all retracted does not exist, even if the first round sees only some retractions."""
    arrangement, values, strings = source()
    with merging_slowly():
        write(arrangement, strings, [(1, n) for n in range(100)] + [(2, 5)], 1)
        write(arrangement, strings, [(1, n) for n in range(0, 100, 2)], -1)
        write(arrangement, strings, [(1, n) for n in range(1, 100, 2)], -1)
    assert len(arrangement.runs) > 1
    for least in (False, True):
        found, exists = values.extremes(np.array([[1, 2]]), least, strings)
        assert exists.tolist() == [False, True]
        assert found.tolist() == [NULL, 5]


@pytest.mark.parametrize("least", [False, True])
def test_texts_with_the_same_beginning_are_compared_whole(least: bool) -> None:
    """Of 1 to 9 texts whose order-preserving codes are equal, the right one is found, and the next when it is gone."""
    texts = [f"http://{letter}" for letter in "ihgfedcba"]
    for size in range(1, 10):
        arrangement, values, strings = source(Type.STRING)
        write(arrangement, strings, [(1, strings.code(text)) for text in texts[:size]], 1)
        for best in sorted(texts[:size], reverse=not least):
            found, exists = values.extremes(np.array([[1]]), least, strings)
            assert (exists.tolist(), strings.texts(found).tolist()) == ([True], [best])
            write(arrangement, strings, [(1, strings.code(best))], -1)


@pytest.mark.parametrize("kind", [Type.BIGINT, Type.DOUBLE])
@pytest.mark.parametrize("seed", range(20))
def test_extremes_equal_a_plain_multiset(kind: Type, seed: int) -> None:
    """With retractions, ties, NULLs and huge values, each extreme equals that of the multiset.

    Every second time, retractions wait for long in batches of their own.
    """
    draw = random.Random(seed)
    arrangement, values, strings = source(kind)
    domain: list[int | float | None] = [None, -(2**62), -3, 0, 1, 2, 2**40, 2**40 + 1, 2**62, *range(10, 60)]
    held: dict[int, list[int]] = {group: [] for group in range(6)}
    for _ in range(30):
        plus, minus = [], []
        for _ in range(draw.randrange(1, 60)):
            group = draw.randrange(5)
            if held[group] and draw.random() < 0.5:
                minus.append((group, held[group].pop(draw.randrange(len(held[group])))))
            else:
                value = draw.choice(domain)
                word = NULL if value is None else int(value)
                if kind is Type.DOUBLE and value is not None:
                    word = int(from_doubles(np.array([float(value)]))[0])
                plus.append((group, word))
        for group, word in plus:
            held[group].append(word)
        rows = np.array([*plus, *minus], dtype=np.int64).T.copy()
        arrangement.insert(rows, np.array([1] * len(plus) + [-1] * len(minus)), strings)
        with merging_slowly() if seed % 2 else nullcontext():
            arrangement.commit(arrangement.upper + 1)
        groups = np.arange(6)[None, :]

        def value_of(word: int) -> float | int:
            return float(doubles(np.array([word]))[0]) if kind is Type.DOUBLE else word

        for least, best in ((False, max), (True, min)):
            found, exists = values.extremes(groups, least, strings)
            for group, words in held.items():
                some = [w for w in words if w != NULL]
                assert exists[group] == bool(words)
                assert int(found[group]) == (best(some, key=value_of) if some else NULL)
