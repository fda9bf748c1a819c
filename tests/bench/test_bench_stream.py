"""bench/shopping/stream.py: schedules, valid and repeatable rows, popularity, reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.shopping.stream import ARRAYS, Shop, Stream, Window, draw, reads, schedule

SMALL = Shop(products=50, categories=10, users=20, moves=0.05)


def stream(shop: Shop, levels: list[int], windows: dict[int, Window], fill: int = 100) -> Stream:
    """A stream of a schedule."""
    return draw(shop, *schedule(levels, windows, deletes=shop.deletes, fill=fill))


shops = st.builds(
    Shop,
    products=st.integers(2, 40),
    categories=st.integers(2, 12),
    users=st.integers(1, 9),
    skew=st.floats(0, 2),
    deletes=st.floats(0, 0.45),
    moves=st.floats(0, 0.03),
    seed=st.integers(0, 3),
)
plans = st.dictionaries(
    st.integers(1, 60), st.builds(Window, st.integers(0, 3), st.integers(0, 6), st.integers(0, 3)), max_size=3
)


@given(shops, st.lists(st.integers(1, 400), min_size=1, max_size=3), plans, st.integers(1, 150))
def test_every_retraction_is_valid(shop: Shop, levels: list[int], windows: dict[int, Window], fill: int) -> None:
    """An epoch retracts only visits that were live before it, each once, and a fill ends at exactly its level."""
    made = stream(shop, levels, windows, fill)
    live: set[int] = set()
    ends = {s.last: s for s in made.stretches if s.kind in ("fill", "trim")}
    for epoch in range(made.epochs):
        come, gone = (ids.tolist() for ids in made.visits(epoch))
        assert len(set(gone)) == len(gone)
        assert set(gone) <= live
        live = (live - set(gone)) | set(come)
        if epoch + 1 in ends:
            assert len(live) == ends[epoch + 1].level
    assert made.epochs == sum(s.last - s.first for s in made.stretches)
    assert made.stretches == sorted(made.stretches, key=lambda s: s.first)


@given(shops)
def test_products_move_from_where_they_are(shop: Shop) -> None:
    """A product leaves the category that it is in, for another one, at most once an epoch."""
    made = stream(shop, [200], {20: Window(1, 5, 0)})
    now = made.category.copy()
    for epoch in range(made.epochs):
        part = made.recategorised(epoch)
        moved, frm, to = made.moved[part], made.moved_from[part], made.moved_to[part]
        assert len(set(moved.tolist())) == len(moved)
        assert (now[moved] == frm).all()
        assert (frm != to).all()
        now[moved] = to
    assert made.rows(0) == len(made.visits(0)[0]) + 2 * (made.moves[1] - made.moves[0])


def test_a_stream_is_its_seed() -> None:
    """The same shop gives the same rows in the same order; another seed gives others."""
    one, two, other = (stream(shop, [300], {30: Window(1, 4, 2)}) for shop in (SMALL, SMALL, Shop(50, 10, 20, seed=2)))
    assert all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ARRAYS)
    assert not np.array_equal(one.product, other.product)


def test_an_epoch_has_its_share_of_retractions() -> None:
    """A timed epoch has exactly the rows it is named after, a tenth of them retractions of old and new visits alike."""
    made = stream(Shop(), [20_000], {1_000: Window(1, 6, 3)}, fill=5_000)
    for stretch in (s for s in made.stretches if s.kind in ("warm", "timed", "pipelined")):
        for epoch in range(stretch.first, stretch.last):
            come, gone = made.visits(epoch)
            assert (len(come), len(gone)) == (900, 100)
    old = made.gone[-300:] < 10_000
    assert 0.2 < old.mean() < 0.6, "the older half of the visits is retracted as often as the younger"


def test_windows_do_not_outgrow_their_level() -> None:
    """Epochs of the largest size at a small level are cut to what doubles the shop, and back to five at least."""
    stretches, epochs = schedule(
        [50_000, 500_000], {100: Window(1, 50, 0), 10_000: Window(0, 20, 0)}, deletes=0.1, fill=50_000
    )
    counts = [(s.level, s.rows, s.last - s.first) for s in stretches if s.kind == "timed"]
    assert counts == [(50_000, 100, 50), (50_000, 10_000, 6), (500_000, 100, 50), (500_000, 10_000, 20)]
    live = np.cumsum([0, *(come - gone for come, gone in epochs)])
    fills = [(live[s.first], live[s.last]) for s in stretches if s.kind == "fill"]
    assert fills == [(0, 50_000), (50_000, 500_000)], "together the fills are the whole way"
    with pytest.raises(ValueError, match=r"deletes=0.5: .* choose less"):
        schedule([10], {}, deletes=0.5, fill=5)


def test_what_is_not_live_cannot_go() -> None:
    """A schedule that retracts more than is there is refused by the number of its epoch."""
    with pytest.raises(ValueError, match="epoch 1 retracts 6 visits, and 5 are live"):
        draw(SMALL, [], [(5, 0), (0, 6)])


def test_popularity_is_zipf() -> None:
    """The first product of 10,000 is visited twice as often as the second, and a tenth of all visits are its own."""
    made = stream(Shop(), [200_000], {}, fill=50_000)
    visits = np.bincount(made.product, minlength=10_000)
    assert visits[0] / visits[1] == pytest.approx(2, rel=0.05)
    assert visits[0] / visits.sum() == pytest.approx(1 / 9.79, rel=0.05)
    assert np.count_nonzero(visits) > 6_000


def test_a_stream_survives_its_files(tmp_path: Path) -> None:
    """What is loaded is what was saved, shop and stretches included."""
    made = stream(SMALL, [300], {30: Window(1, 4, 2)})
    made.save(tmp_path)
    back = Stream.load(tmp_path)
    assert (back.shop, back.stretches) == (made.shop, made.stretches)
    assert all(np.array_equal(getattr(made, name), getattr(back, name)) for name in ARRAYS)


def test_readers_like_what_visitors_like() -> None:
    """A tenth of the keys is read, each once, the most visited ones more likely than the least."""
    shop = Shop()
    category = stream(shop, [10], {}).category
    keys = reads(shop, category, 0.1)
    assert len(keys) == len(set(keys.tolist())) == 100
    visits = np.bincount(category, weights=shop.popularity(), minlength=shop.categories)
    assert visits[keys].sum() > 0.2
    assert np.array_equal(keys, reads(shop, category, 0.1))
