"""Codes of short strings, a column at a time, equal those of the dictionary."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples, fingerprint

import sharedstate_lite as ss
from sharedstate_lite.loops.strings import MAX_BYTES
from sharedstate_lite.storage import short_strings
from sharedstate_lite.storage.encoding import NULL, Dictionary
from sharedstate_lite.storage.short_strings import ShortStrings, pack

LETTERS = ["a", "b", "\0", "\xff", "é", "\u20ac", "\U0001f600", "\x7f"]
"""Characters of 1 to 4 bytes of UTF-8, with NUL."""

text = st.text(st.sampled_from(LETTERS), max_size=20).filter(lambda t: len(t.encode()) <= 20)
texts = st.lists(st.none() | text, max_size=40)
kinds = pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)


@kinds
def test_packed_strings_are_equal_when_the_strings_are(kind: pa.DataType) -> None:
    """Strings of at most 15 bytes have equal words exactly if they are equal."""
    every = [letter * n for letter in LETTERS for n in range(17)] + ["a" * 14 + "\0", "\0" * 15, "a\0b", "a\0", "ab"]
    every = list(dict.fromkeys(every))
    packed = pack(pa.array(every, kind)).tolist()
    short = [tuple(p) for t, p in zip(every, packed, strict=True) if len(t.encode()) <= MAX_BYTES]
    assert len(set(short)) == len(short)
    assert [p[1] >> 56 != 0 for p in packed] == [len(t.encode()) <= MAX_BYTES for t in every]
    # Neither what stands before a string in its buffer nor what stands after it is part of it.
    for start in range(0, len(every), 7):
        part = pa.array(every, kind).slice(start, 9)
        assert pack(part).tolist() == packed[start : start + 9]
    one = pack(pa.array(["abc"], kind)).tolist()
    assert one == [[0x636261, 4 << 56]]


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


@pytest.mark.parametrize("hashed", ["hashes apart", "one hash"])
def test_the_table_is_a_dictionary(hashed: str) -> None:
    """Added strings are found, others and removed ones are not, even if all have one slot."""
    draw = random.Random(2)
    with pytest.MonkeyPatch.context() as patch:
        size = 2000
        if hashed == "one hash":
            size = 60
            patch.setattr(short_strings, "SLOT_MASK", np.uint64(0))
        table, model = ShortStrings(), dict[str, int]()
        pool = list(dict.fromkeys(f"{draw.choice('ab')}{draw.randrange(10 * size)}" for _ in range(3 * size)))
        for _ in range(6):
            new = [t for t in draw.sample(pool, size // 4) if t not in model]
            codes = np.arange(len(model), len(model) + len(new), dtype=np.int64)
            # Those too long to be packed are left out.
            table.add(pack(pa.array([*new, "x" * 16])), np.arange(len(new) + 1), np.append(codes, 9_999_999))
            model.update(zip(new, codes.tolist(), strict=True))
            assert table.find(pack(pa.array(pool)))[0].tolist() == [model.get(t, -1) for t in pool]
            assert table.find(pack(pa.array(["x" * 16, "x" * 15])))[0].tolist() == [-1, -1]
        grown = table.nbytes
        table.truncate(len(model))
        assert table.nbytes == grown
        table.truncate(len(model) // 3)
        kept = {t: c for t, c in model.items() if c < len(model) // 3}
        assert table.find(pack(pa.array(pool)))[0].tolist() == [kept.get(t, -1) for t in pool]


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
