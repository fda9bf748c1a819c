"""bench/price.py: two views over small tables of each kind, and the table of its record."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from bench import price, tables


def test_each_data_set_has_both_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every part is named before the run, and the record's table has the median and the 95th percentile of each set."""
    found = []
    for kind in price.ROWS:
        found += price.rows(kind, [*price.prices(kind, 3_000, ["once", "over_view"])])
    assert len(found) == 2 * len(price.ROWS) and all(row.equal and row.holds for row in found)
    assert all(row.peers["parts"] == row.peers["parts named"] > 30 for row in found)
    printed = capsys.readouterr().out
    assert all(printed.count(f"{kind:11}") == 10 for kind in price.ROWS)
    monkeypatch.setattr(tables, "rows_of", lambda name: [asdict(row) for row in found])
    lines = tables.price().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {kind}" for kind in price.ROWS]


def test_columns_correlate_as_the_page_says() -> None:
    """Of the correlated tables, a product has at most three lengths; of the uniform ones, more."""
    most = {}
    for kind in ("uniform", "correlated"):
        visit = price.tables(kind, 3_000)["visit"]
        most[kind] = visit.groupby("product")["length"].nunique().median()
    assert most["correlated"] <= 3 < most["uniform"]
