"""Codes of strings, a column at a time: the table, the hashes, the order, and the removal of new strings."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples, fingerprint

import sharedstate_lite as ss
from sharedstate_lite import loops
from sharedstate_lite.storage import encoding
from sharedstate_lite.storage.encoding import NULL, Dictionary

LETTERS = ["a", "b", "\0", "\xff", "é", "\u20ac", "\U0001f600", "\x7f"]
"""Characters of 1 to 4 bytes of UTF-8, with NUL."""

text = st.text(st.sampled_from(LETTERS), max_size=20).filter(lambda t: len(t.encode()) <= 20)
texts = st.lists(st.none() | text, max_size=40)
kinds = pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)


@kinds
def test_the_place_of_a_string_in_its_buffer_does_not_matter(kind: pa.DataType) -> None:
    """Neither what stands before a string in its buffer nor what stands after it is part of it."""
    every = [letter * n for letter in LETTERS for n in range(17)] + ["a" * 14 + "\0", "\0" * 15, "a\0b", "a\0", "ab"]
    every = list(dict.fromkeys(every))
    strings = Dictionary()
    assert strings.column(pa.array(every, kind)).tolist() == list(range(len(every)))
    for start in range(0, len(every), 7):
        part = pa.array(every, kind).slice(start, 9)
        assert strings.column(part).tolist() == list(range(start, start + len(part)))


def test_the_hashes_are_those_that_stored_bins_depend_on() -> None:
    """A hash is that of pandas.util.hash_array with its upper half folded into the lower half, for any length."""
    every = [letter * n for letter in LETTERS for n in range(1, 40)] + ["", "x" * 300, "Potato", "product-17"]
    strings = Dictionary()
    codes = strings.codes(every)
    whole = pd.util.hash_array(np.array(every, dtype=object), categorize=False)
    assert strings.known[1].view(np.uint64)[codes].tolist() == (whole ^ (whole >> np.uint64(32))).tolist()


@examples(60)
@given(st.lists(st.tuples(texts, st.integers(0, 5), st.integers(0, 9), st.booleans(), st.booleans()), max_size=6))
def test_a_column_has_the_codes_of_its_texts(columns: list[Any]) -> None:
    """After any sequence of columns, with nulls and slices, the codes equal those of a plain dictionary."""
    strings, model = Dictionary(), dict[str, int]()
    for given_, start, cut, large, forget in columns:
        array = pa.array(given_, pa.large_string() if large else pa.string())
        array = array.slice(start, max(0, len(array) - start - cut))
        found, seen = strings.column(array), array.to_pylist()
        # New strings get their codes in order of first use.
        for t in seen:
            if t is not None:
                model.setdefault(t, len(model))
        assert found.tolist() == [NULL if t is None else model[t] for t in seen]
        assert strings.codes(seen).tolist() == found.tolist()
        assert strings.texts(found).tolist() == seen
        if forget:
            length = len(model) // 2
            strings.truncate(length)
            model = {t: code for t, code in model.items() if code < length}


@kinds
def test_a_long_column_and_the_column_after_it(kind: pa.DataType) -> None:
    """The table grows and finds all strings again: known, new, too long and null ones."""
    draw = random.Random(1)
    pool = ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(9))) for _ in range(3000)]
    pool += [f"p{n}" for n in range(3000)] + [f"a long name, too long to be packed: {n}" for n in range(300)]
    strings, plain = Dictionary(), Dictionary()
    for size in (300, 5000, 100, 12_000, 1000):
        column = [None if draw.random() < 0.05 else draw.choice(pool) for _ in range(size)]
        array = pa.array(column, kind).slice(3, size - 50)
        found = strings.column(array)
        assert found.tolist() == plain.codes(array.to_pylist()).tolist()
        assert strings.column(array).tolist() == found.tolist()
    length = len(strings) // 3
    strings.truncate(length)
    plain.truncate(length)
    array = pa.array(pool, kind)
    assert strings.column(array).tolist() == plain.codes(pool).tolist()
    fresh, moved = strings.keep([strings.codes(pool[:4000])])
    assert fresh.column(array)[:4000].tolist() == moved[strings.codes(pool[:4000])].tolist()
    assert fresh.texts(fresh.column(array)).tolist() == pool


@pytest.mark.parametrize("mask", [2**64 - 1, 0])
def test_one_text_has_the_code_that_it_has_in_a_column(mask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known text that comes alone keeps its code, whatever its length, and a new one gets the next code."""
    monkeypatch.setattr(encoding, "SLOT_MASK", np.uint64(mask))
    every = list(dict.fromkeys(["a", "a\0", "\0", "\0" * 15, *(letter * n for letter in LETTERS for n in range(17))]))
    strings = Dictionary()
    assert [strings.code(t) for t in every] == list(range(len(every))) == strings.codes(every).tolist()
    assert [strings.code(t) for t in every] == list(range(len(every))) == [strings.find(t) for t in every]
    assert strings.codes([None]).tolist() == [NULL] and len(strings) == len(every)
    with pytest.raises(UnicodeError):
        strings.code("\ud800")


def test_strings_are_found_even_if_all_have_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added strings are found, and others and removed ones are not."""
    monkeypatch.setattr(encoding, "SLOT_MASK", np.uint64(0))
    draw = random.Random(2)
    pool = [f"{draw.choice('ab')}{n}" + "x" * draw.choice([0, 0, 20]) for n in range(60)]
    strings, model = Dictionary(), list[str]()
    for _ in range(6):
        new = [t for t in draw.sample(pool, 15) if t not in model]
        assert strings.codes(new).tolist() == list(range(len(model), len(model) + len(new)))
        model += new
        strings.truncate(len(model) * 3 // 4)
        model = model[: len(model) * 3 // 4]
        assert [strings.find(t) for t in pool] == [model.index(t) if t in model else None for t in pool]


@examples(40)
@given(texts, texts, st.booleans())
def test_removed_strings_leave_nothing(known: list[str | None], more: list[str | None], many: bool) -> None:
    """After new strings have been removed, every byte of the dictionary is as if they had never been inserted."""
    strings, other = Dictionary(), Dictionary()
    for each in (strings, other):
        each.codes(known)
    length = len(strings)
    strings.codes([*more, *(f"{n} and more" for n in range(70 * many))])
    strings.truncate(length)
    assert strings.nbytes == other.nbytes
    arrays = [
        (d._table, d.known[:, :length], d.known[0, length], d.arena[: d.known[0, length]]) for d in (strings, other)
    ]
    for mine, theirs in zip(*arrays, strict=True):
        assert np.array_equal(mine, theirs)


def test_a_string_is_near_its_first_slot() -> None:
    """Strings as people number and name them are found within two slots on average in a full table."""
    draw = random.Random(4)
    kinds = {
        "numbered": (f"user-{n}" for n in range(32_767)),
        "counted": (f"{n:015d}" for n in range(32_767)),
        "long": (f"a name that is too long to be packed, number {n}" for n in range(32_767)),
        "two letters": ("".join(draw.choice("ab") for _ in range(15)) for _ in range(90_000)),
        "bytes": ("".join(map(chr, (1 + n % 32, 1 + n // 32 % 32, 1 + n // 1024))) for n in range(32_767)),
    }
    for name, texts_ in kinds.items():
        strings = Dictionary()
        every = list(dict.fromkeys(texts_))[:32_767]
        codes = strings.codes(every)
        empty, n = np.zeros_like(strings._table), len(every)
        packed = np.empty((n, 2), dtype=np.uint64)
        loops.pack(strings.known[0, : n + 1], strings.arena, packed)
        place = np.empty(n, dtype=np.int64)
        used = np.flatnonzero(strings._table[:, 2])
        place[strings._table[used, 2].astype(np.int64) - 1] = used
        first = [loops.home_of(*words, empty, encoding.SLOT_MASK) for words in packed]
        steps = (place[codes] - np.array(first)) % len(empty)
        assert n / len(empty) > 0.2 and steps.mean() < 1, name


@kinds
def test_strings_are_ordered_by_code_points(kind: pa.DataType) -> None:
    """The order of different strings is that of Python, also behind 8 equal bytes and for the start of another."""
    every = list(
        dict.fromkeys("category"[:cut] + letter * n for cut in range(9) for letter in LETTERS for n in range(9))
    )
    random.Random(5).shuffle(every)
    strings = Dictionary()
    codes = strings.column(pa.array(every, kind))
    ranks, by_rank = strings.ranks(np.append(codes, [NULL, codes[0]]))
    assert strings.to_list(by_rank) == sorted(every)
    assert by_rank[ranks[: len(codes)]].tolist() == codes.tolist()
    assert ranks[-2:].tolist() == [NULL, ranks[0]]


def test_bytes_that_are_valid_only_together_are_refused() -> None:
    """Two strings that split a character between them are not valid, although their bytes are one after the other."""
    for parts in ([b"\xc3", b"\xa9"], [b"ok", b"\xc3\xa9\xc3", b"\xa9"], [b"", b"\xc3", b"", b"\xa9"], [b"\xc3"]):
        strings = Dictionary()
        strings.code("known")
        with pytest.raises(UnicodeError):
            strings.column(pa.array(parts).view(pa.string()))
        assert len(strings) == 1 and strings.to_list(np.array([0])) == ["known"]


@pytest.mark.parametrize("rows", [10, 1000])
@pytest.mark.parametrize("kind", ["full", "shared", "partial"])
def test_bytes_that_are_not_utf8_are_refused(kind: str, rows: int) -> None:
    """An Arrow column that is not UTF-8 raises one error with relation and column, and leaves no trace."""
    catalog = ss.Catalog(visit="product STRING, user STRING")
    engine = ss.engine(kind, [catalog.view("CREATE VIEW v AS SELECT product, user FROM visit")])
    good = {"product": [f"p{n}" for n in range(rows)], "user": ["u"] * rows, "diff": [1] * rows}
    engine.step({"visit": pa.table(good)})
    engine.read("v", key="p1")
    engine.compact()
    before = fingerprint(engine)
    bad = pa.array([b"ok"] * (rows - 1) + [b"\xff\xfe"]).view(pa.string())
    fresh = pa.array([f"new{n}" for n in range(rows)])
    with pytest.raises(ss.RowError, match="visit.*user.*utf-8"):
        engine.step({"visit": pa.table({"product": fresh, "user": bad, "diff": [1] * rows})})
    # What its strings took of the dictionary is given back by the next compaction.
    engine.compact()
    assert fingerprint(engine) == before
    out = engine.step({"visit": pa.table({"product": fresh, "user": fresh, "diff": [1] * rows})})["v"]
    assert len(out) == (0 if kind == "partial" else rows)
    assert engine.read("v", key="new3")["user"].tolist() == ["new3"]


def test_a_copy_is_a_dictionary_of_its_own() -> None:
    """Strings that are added to a copy have their hashes and order there, and change nothing in the original."""
    first = Dictionary()
    first.codes(["Bob", "Eve"])
    for copied in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        codes = copied.codes(["Dan", "a string of more than 15 bytes"])
        fresh = Dictionary()
        wanted = fresh.codes(["Bob", "Eve", "Dan", "a string of more than 15 bytes"])
        assert copied.known[1:, wanted].tolist() == fresh.known[1:, wanted].tolist()
        ranks, _ = copied.ranks(np.array([0, 1, codes[0]]))
        assert ranks.tolist() == [0, 2, 1] and len(first) == 2
