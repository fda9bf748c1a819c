"""The flights of 2013: their number, their order, and the late pairs that Part III counts."""

from __future__ import annotations

import pytest

from sharedstate_lite.data.flights import FLOWN, SCHEMA, flights
from sharedstate_lite.errors import Error


def test_all_departures_in_the_order_of_their_times() -> None:
    """Cancelled flights are left out; the sort order is total but for rows that are equal in it."""
    table = flights()
    assert len(table) == FLOWN
    assert table["plane"].nunique() == 4037
    assert list(table.columns) == [column.split()[0] for column in SCHEMA.split(", ")]
    assert not table.isna().any().any()
    assert table["at"].is_monotonic_increasing
    assert flights(3).equals(table.head(3))


def test_planes_that_were_late_twice_within_a_day() -> None:
    """An hour late, and again within 24 hours: on the next flight, on the next late one, or on any late one."""
    strict = following = every = 0
    day = 24 * 3600
    for _, group in flights().groupby("plane", sort=False):
        seconds = group["at"].astype("int64").to_numpy() // 1_000_000
        late = group["delay"].to_numpy() >= 60
        found = seconds[late]
        strict += sum(
            bool(late[i] and late[i + 1] and seconds[i + 1] - seconds[i] <= day) for i in range(len(late) - 1)
        )
        following += sum(int(b - a <= day) for a, b in zip(found, found[1:], strict=False))
        every += sum(int(b - a <= day) for i, a in enumerate(found) for b in found[i + 1 :])
    assert (strict, following, every) == (2915, 3531, 3953)


def test_a_negative_number_of_rows_is_refused() -> None:
    """The error names the parameter."""
    with pytest.raises(Error, match="rows=-1"):
        flights(-1)
