"""bench/views.py: all sides over a tiny shop agree, and every row says what it measured and against what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import views
from bench.pathway import env
from bench.shopping import duck, ours, rows
from bench.shopping.equal import differences
from bench.shopping.sides import DUCKDB, OURS, Gathered
from bench.shopping.stream import Shop, Window, draw, schedule
from bench.shopping.told import Told
from sharedstate_lite.errors import Error

TINY = {
    "QUICK_LEVELS": (1_000, 4_000),
    "QUICK_WINDOWS": {100: Window(1, 12, 4), 1_000: Window(1, 5, 2)},
    "ROUNDS": 1,
    "FILL": 1_000,
}
FIELDS = {"what", "value", "unit", "peers", "ratio", "target", "holds", "equal"}


def run(monkeypatch: pytest.MonkeyPatch, path: Path, *only: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the rows of a quick run over a tiny shop."""
    for name, value in TINY.items():
        monkeypatch.setattr(views, name, value)
    words = [word for row in only for word in ("--only", row)]
    status = views.main(["--quick", *words, "--json", str(path)])
    return status, json.loads(path.read_text())["rows"]


def test_all_sides_agree_and_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every strategy has rates, growth and bytes, with equal answers, beside DuckDB and Pathway or its absence."""
    status, told = run(monkeypatch, tmp_path / "rows.json", "rate-100", "growth", "bytes")
    assert status == 0
    assert all(set(row) - {"ladder"} == FIELDS for row in told)
    assert all(row["equal"] is True and row["value"] > 0 for row in told)
    absent = env.missing()
    for side in OURS:
        rates = [row for row in told if row["what"].startswith(f"{side}: 100-row") and row["unit"] == "updates/s"]
        assert [row["what"] for row in rates] == [
            f"{side}: 100-row epochs, {n}"
            for n in ("on the way to 4,000 visits, computed from 2 sizes", "1,000 visits held", "4,000 visits held")
        ]
        assert [row["target"] for row in rates] == [4.0, 2.0, 2.0], "a target for the way, a floor for each size"
        costs = [1 / row["value"] for row in rates]
        assert costs[0] == pytest.approx((costs[1] * 1_000 + (costs[1] + costs[2]) / 2 * 3_000) / 4_000)
        for row, epochs in zip(rates, ("20 of 24", "10 of 12", "10 of 12"), strict=True):
            pathway, *others = row["peers"]
            if absent:
                assert pathway == f"Pathway (absent: {absent})"
                assert (row["peers"][pathway], row["ratio"], row["holds"]) == (None, None, None)
            else:
                assert pathway == "Pathway 0.33.0"
                assert others[0] == "Pathway 0.33.0, pipelined"
                assert row["ratio"] == pytest.approx(row["value"] / row["peers"][pathway])
                assert row["holds"] is (row["ratio"] >= row["target"])
            assert any(name.endswith(f"recomputing ({epochs} epochs)") for name in others)
        (grown,) = (row for row in told if row["what"].startswith(f"{side}: growth of the median 100-row"))
        assert grown["ratio"] == pytest.approx(grown["peers"]["a logarithm of the state"] / grown["value"])
        assert [step["visits"] for step in grown["ladder"]] == [1_000, 4_000]
        assert all(step["median ms"] <= step["p99 ms"] <= step["max ms"] for step in grown["ladder"])
        held = [row for row in told if row["what"].startswith(f"{side}: state at") and row["unit"] == "bytes"]
        assert len(held) == 2 and all(row["peers"]["durable inputs"] > 0 for row in held)
        assert held[1]["value"] >= held[0]["value"]
    partial = next(row for row in told if row["what"].startswith("partial: state at 4,000"))
    assert partial["value"] == partial["peers"]["working state"] + partial["peers"]["cached answers"]
    assert partial["peers"]["working state"] >= partial["peers"]["durable inputs"]  # tables that are looked up
    assert partial["ratio"] == pytest.approx(partial["peers"]["full"] / partial["value"]) and partial["holds"] is None


def test_the_way_in_epochs_that_filled_the_shop_is_run() -> None:
    """Where the shop was filled in epochs of the size that is asked for, the way's rate is all their rows over all
    their seconds, and nothing is computed from single sizes."""
    shop = Shop(products=60, categories=12, users=30)
    windows = {200: Window(1, 5, 0)}
    made = draw(shop, *schedule([500, 1_500], windows, deletes=0.1, fill=200))
    record = ours.run("full", made)
    gathered = Gathered({"visits": made}, {"visits": {"full": [record]}}, rounds=1)
    way, *sizes = rows.rates(Told(gathered, "visits"), [200])
    assert way.what == "full: 200-row epochs, on the way to 1,500 visits" and len(sizes) == 2
    fills = [e for s in made.stretches if s.kind == "fill" for e in range(s.first, s.last)]
    assert way.value == pytest.approx(sum(made.rows(e) for e in fills) / record.seconds[fills].sum())
    assert min(fills) == 0 and sum(made.rows(e) for e in fills) > 1_300


def test_without_pathway_everything_else_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A peer without an environment is named with the reason, has no number, and nothing holds or fails by it."""

    def refuse(tell: object) -> None:
        raise Error("Pathway's environment: no network")

    monkeypatch.setattr(env, "missing", lambda: "it is not there")
    monkeypatch.setattr(env, "make", refuse)
    status, told = run(monkeypatch, tmp_path / "rows.json", "rate-1000")
    assert status == 0
    assert {name: row["peers"][name] for row in told for name in list(row["peers"])[:1]} == {
        "Pathway (absent: it is not there)": None
    }
    assert all((row["ratio"], row["holds"], row["equal"]) == (None, None, True) for row in told)
    assert "Pathway is absent: it is not there" in capfd.readouterr().err
    assert views.peer(quick=False) == "Pathway's environment: no network"


def test_a_strategy_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A side of this kit that ends with an error has rows without values, and the command ends with status 1."""
    monkeypatch.setattr(env, "missing", lambda: "it is not there")
    monkeypatch.setattr("bench.shopping.sides.OURS", ("full", "none"))
    monkeypatch.setattr(views, "EVERY", ("full", "none"))
    monkeypatch.setattr("bench.shopping.told.OURS", ("full", "none"))
    status, told = run(monkeypatch, tmp_path / "rows.json", "rate-1000")
    assert status == 1
    assert [row["value"] is None for row in told] == [False, True] * 3
    assert told[1]["what"].startswith("none (failed: ") and "ViewError" in told[1]["what"]
    assert told[1]["equal"] is None
    assert "none failed: ended with status 1" in capfd.readouterr().err


def test_moves_agree_with_duckdb() -> None:
    """Where products change their category in the same epochs, all strategies equal DuckDB's recomputation."""
    shop = Shop(products=60, categories=12, users=30, moves=0.05)
    made = draw(shop, *schedule([500, 1_500], {50: Window(2, 12, 0), 200: Window(1, 5, 0)}, deletes=0.1, fill=200))
    assert len(made.moved) > 20
    records = {side: ours.run(side, made) for side in OURS}
    records[DUCKDB] = duck.run(made, samples=100)
    assert len(records[DUCKDB].sampled) == 34
    assert differences(records, "full") == {}
    assert records["partial"].filled is not None and len(records["partial"].emitted) > 0
    assert [mark.level for mark in records["full"].marks] == [500, 1_500]


def test_the_heap_stands_beside_the_bill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each strategy's bytes in all, and the heap of its own process; nothing else runs, no peer is set up."""
    monkeypatch.setattr(views, "HEAP_VISITS", 3_000)
    monkeypatch.setattr(views, "peer", None)
    status, told = run(monkeypatch, tmp_path / "rows.json", "heap")
    assert status == 0 and [row["what"].split(":")[0] for row in told] == list(OURS)
    for row in told:
        lines = row["peers"]
        assert row["ratio"] == pytest.approx(row["value"] / lines["heap of a fresh process"]) and 0 < row["ratio"] < 1
        both = 0 if row["what"].startswith("full") else lines["durable inputs"]
        kept = sum(lines[line] for line in rows.LINES[:-1])
        assert row["value"] <= kept <= row["value"] + both


def test_only_what_is_wanted_runs() -> None:
    """A row's course has the windows that the row needs and no others; all rows together need three courses."""
    assert [c.name for c in views.courses([], quick=True)] == ["visits", "few", "moves"]
    (rate,) = views.courses(["rate-100"], quick=False)
    assert list(rate.windows) == [100] and rate.levels[-1] == 5_000_000
    (sizes,) = views.courses(["bytes"], quick=True)
    assert not sizes.windows
    assert list(views.courses(["growth"], quick=True)[0].windows) == [100, 1_000, 10_000]
