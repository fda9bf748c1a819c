"""filled_keys: the set of filled keys."""

import numpy as np

from sharedstate_lite.partial.filled_keys import FilledKeys
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.encoding import Dictionary


def keys(*values: int) -> np.ndarray:
    """Keys of one BIGINT column."""
    return np.array([values], dtype=np.int64)


def test_a_key_named_twice_goes_once() -> None:
    """Removing a key twice in one call returns it once; its rows would be retracted twice otherwise."""
    filled, strings = FilledKeys((Type.BIGINT,)), Dictionary()
    filled.add(keys(1, 2, 3, 2), strings, 1)
    assert len(filled) == 3
    assert filled.remove(keys(2, 2, 9, 2), strings).tolist() == [[2]]
    assert sorted(filled.keys[0].tolist()) == [1, 3]
    assert filled.mask(keys(1, 2, 3, 4), strings).tolist() == [True, False, True, False]


def test_the_empty_key_is_a_key() -> None:
    """A view without key columns has one key, (), which is a hole until it is filled."""
    filled, strings = FilledKeys(()), Dictionary()
    empty = np.empty((0, 1), dtype=np.int64)
    assert not filled.mask(empty, strings).any()
    filled.add(empty, strings, 1)
    assert filled.mask(empty, strings).all()
    assert filled.remove(empty, strings).shape == (0, 1)
    assert len(filled) == 0


def test_use_is_remembered() -> None:
    """Each key keeps the operation that last used it; filling it again changes nothing."""
    filled, strings = FilledKeys((Type.BIGINT,)), Dictionary()
    filled.add(keys(1, 2), strings, 1)
    filled.touch(keys(2), strings, 5)
    filled.add(keys(1, 2, 3), strings, 9)
    stamps = dict(zip(filled.keys[0].tolist(), filled.used.tolist(), strict=True))
    assert stamps == {1: 1, 2: 5, 3: 9}
