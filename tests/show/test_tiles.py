"""Bins as tiles: one for each bin, a dot on each that has moved."""

from __future__ import annotations

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import Error
from sharedstate_lite.show.palette import colour


def test_each_bin_is_a_tile_and_each_moved_bin_has_a_dot() -> None:
    """The tiles of a worker have its colour; the legend adds a tile for each worker, and one with a dot."""
    before, after = [0] * 10 + [1] * 10, [0] * 7 + [2] * 3 + [1] * 7 + [2] * 3
    shown = show.tiles({"least": after}, {"least": before}, "20 bins")
    for drawing in shown.drawings:
        for worker, name in enumerate(["inserted", "deleted", "upquery"]):
            assert drawing.body.count(f'fill="{colour(name)}"') == after.count(worker) + 1
        assert drawing.body.count("<circle") == 6 + 1
        assert "6 of 20 move" in drawing.body
    assert "least: 6 of 20 bins move; worker 0 owns 7, worker 1 owns 7, worker 2 owns 6" in repr(shown)


def test_panels_wrap_on_a_narrow_page() -> None:
    """Three panels stand in one line, or in two; without an earlier owner there is no dot."""
    shown = show.tiles(dict.fromkeys("abc", [0, 1]))
    wide, narrow = shown.drawings
    assert wide.height < narrow.height and wide.width > narrow.width
    assert "<circle" not in wide.body


def test_what_cannot_be_drawn_is_refused() -> None:
    """Too many workers, and another number of bins."""
    with pytest.raises(Error, match="number them from 0 to 5"):
        show.tiles({"a": [0, 6]})
    with pytest.raises(Error, match="a: 2 bins cannot be compared with 1 before"):
        show.tiles({"a": [0, 1]}, {"a": [0]})
