"""Values as int64 words, and the dictionary of strings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Layout
from sharedstate_lite.storage.encoding import NULL, Dictionary, DictionaryRef, doubles, from_doubles
from sharedstate_lite.storage.string_gc import sweep

TEXTS = ["a", "b", "", "\0", "é", "\U0001f600", "a" * 15, "a" * 16, "b" * 300]
texts = st.lists(st.none() | st.sampled_from(TEXTS) | st.text(max_size=3), max_size=10)


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["codes", "code", "find", "truncate", "keep"]), texts), max_size=8))
def test_strings_are_a_dictionary(operations: list[Any]) -> None:
    """Codes are numbered in order of first use; removed strings are not found any more."""
    strings, model = Dictionary(), list[str]()
    for what, some in operations:
        given_ = [t for t in some if t is not None]
        if what == "codes":
            model += [t for t in dict.fromkeys(given_) if t not in model]
            assert strings.codes(some).tolist() == [NULL if t is None else model.index(t) for t in some]
        elif what == "code":
            for t in given_:
                model += [] if t in model else [t]
                assert strings.code(t) == model.index(t)
        elif what == "find":
            assert [strings.find(t) for t in given_] == [model.index(t) if t in model else None for t in given_]
        elif what == "truncate":
            model = model[: len(given_)]
            strings.truncate(len(given_))
        else:
            used = [model.index(t) for t in given_ if t in model]
            kept = [t for n, t in enumerate(model) if n in used]
            strings, moved = strings.keep([np.array([*used, NULL])])
            assert moved.tolist() == [kept.index(t) if t in kept else -1 for t in model]
            model = kept
        assert len(strings) == len(model)
        assert strings.texts(np.arange(len(model))).tolist() == model
        assert strings.texts(np.array([NULL])).tolist() == [None]
        assert strings.to_arrow(np.arange(len(model))[::-1]).to_pylist() == model[::-1]
        held = sum(len(t.encode()) for t in model)
        assert held + 72 * len(model) <= strings.nbytes <= 2 * held + 144 * len(model) + 2000


def test_a_hash_survives_codes_and_dictionaries() -> None:
    """Hash and prefix of a string do not depend on its code."""
    one, other = Dictionary(), Dictionary()
    other.codes(reversed(TEXTS))
    kept, _ = other.keep([other.codes(TEXTS[3:])])
    for strings in (other, kept):
        mine, codes = one.codes(TEXTS), strings.codes(TEXTS)
        assert one.known[1][mine].tolist() == strings.known[1][codes].tolist()
    assert len(set(one.known[1, : len(TEXTS)].tolist())) == len(TEXTS)
    by_prefix = sorted(TEXTS, key=lambda t: (int(one.known[2].view(np.uint64)[one.code(t)]), t))
    assert by_prefix == sorted(TEXTS)


@given(st.lists(st.floats(allow_infinity=False) | st.just(-0.0), max_size=10))
def test_doubles_round_trip(values: list[float]) -> None:
    """A DOUBLE is preserved bit by bit, except that NaN becomes NULL and -0.0 becomes 0.0."""
    words = from_doubles(np.array(values, dtype=np.float64))
    assert [w == NULL for w in words.tolist()] == [math.isnan(v) for v in values]
    back = doubles(words).tolist()
    assert [b for b in back if not math.isnan(b)] == [v for v in values if not math.isnan(v)]
    assert not any(math.copysign(1, b) < 0 for b in back if b == 0)
    # A row of a batch need not be contiguous.
    assert np.array_equal(doubles(np.stack([words, words]).T[:, 0]), doubles(words), equal_nan=True)


def test_sweeping_exchanges_codes_and_keeps_the_rows() -> None:
    """Unused strings are removed; arrangements read the same as before, and other codes can be mapped."""
    dictionary, layout = DictionaryRef(), Layout((Type.STRING, Type.BIGINT), (0,))
    arrangement = Arrangement("a", layout)
    for epoch in range(4):
        codes = dictionary.strings.codes([f"gone{epoch}", f"kept{epoch}", None])
        arrangement.insert(np.stack([codes[1:], np.array([epoch, 9])]), np.ones(2, dtype=np.int64), dictionary.strings)
        arrangement.commit(arrangement.upper + 1)

    def seen() -> list[Any]:
        rows, diffs = arrangement.contents(strings=dictionary.strings)
        return sorted(zip(map(str, dictionary.strings.texts(rows[0])), rows[1].tolist(), diffs.tolist(), strict=True))

    before, held = seen(), dictionary.strings.codes(["gone2"])
    moved = sweep(dictionary, [arrangement], [held])
    assert moved is not None
    assert dictionary.strings.texts(moved[held]).tolist() == ["gone2"]
    assert seen() == before
    assert len(dictionary.strings) == 5
    assert dictionary.strings.find("gone1") is None
    owner, rows, _ = arrangement.match(dictionary.strings.codes(["kept3", "gone2"])[None, :], dictionary.strings)
    assert (owner.tolist(), rows[1].tolist()) == ([0], [3])
    assert sweep(dictionary, [arrangement], [dictionary.strings.codes(["gone2"])]) is None
