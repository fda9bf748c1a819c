"""bench/all.py and bench/records: one schema, a machine that is waited for, and pages that show what is recorded."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench import all as records
from bench import measure, tables
from sharedstate_lite.lessons.records import FOLDER, ROWS, PageRecord
from sharedstate_lite.show.checks import UNATTENDED

PATHS = sorted(FOLDER.glob("*.json"))
FIELDS = {"command", "commit", "date", "machine", "other_cores", "rows"}


def test_each_page_has_its_record() -> None:
    """bench/records has the record of each page, and nothing that bench/all.py does not make."""
    assert {*records.PAGES, "19"} <= {path.stem for path in PATHS} <= {*records.NAMES}


def test_pages_have_what_is_recorded() -> None:
    """docs/measurements.md and the tables of other pages are those that bench/tables.py writes today."""
    again = "run python bench/tables.py"
    assert tables.PAGE.read_text("utf-8") == tables.measurements(), again
    for name, (path, _) in tables.BLOCKS.items():
        text = (tables.ROOT / path).read_text("utf-8")
        assert text.count(f"<!-- record {name} -->") == 1
        if FOLDER / f"{name}.json" in PATHS:
            assert tables.written(text, name) == text, again
    with pytest.raises(ValueError, match="0 blocks of record 19"):
        tables.written("no table", "19")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_record_follows_the_schema(path: Path) -> None:
    """A record says how, from which commit, when and where it was made, and how busy others were; a row has a unit."""
    told = json.loads(path.read_text("utf-8"))
    assert set(told) - {"scale"} == FIELDS and told["command"].startswith(f"python bench/all.py --only {path.stem}")
    assert datetime.date(2026, 11, 1) <= datetime.date.fromisoformat(told["date"]) <= datetime.date.today()
    assert told["machine"]["cores"] >= 1 and len(told["commit"]) >= 7
    assert set(told["other_cores"]) == {"before", "after"} and min(told["other_cores"].values()) >= 0
    assert told["rows"] and all({"what", "value", "unit"} <= set(row) for row in told["rows"])
    assert path.stem in records.PAGES or "scale" not in told
    assert path.stem not in records.PAGES or all("of" in row for row in told["rows"])


def test_the_table_of_views_has_the_fastest_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """README's table has each size once, with the fastest peer that ran; an absent one has no figure."""
    peers = {"Pathway (absent: why)": None, "DuckDB": 1.0, "DBSP": 60_000.0}
    sides = {"full": 80_000.0, "shared": 90_000.0, "partial": 70_000.0}
    rows = [
        {"what": f"{side}: 100-row epochs, 5,000 visits {where}", "value": value, "peers": peers}
        for where in ("held", "held, a hundred categories")
        for side, value in sides.items()
    ]
    monkeypatch.setattr(tables, "rows_of", lambda name: rows)
    last = "| 100 | 5,000 | 80,000 | 90,000 | 70,000 | DBSP: 60,000 | 1.5 |"
    assert tables.views().splitlines()[2:] == [last]


def test_others_are_waited_for_and_a_busy_machine_makes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others are watched until they are calm. If they never are, nothing runs and nothing is written."""
    loads = iter([1.0, 0.5, 0.05, 1.0])
    assert records.settled(lambda: next(loads)) == (0.05, True)
    assert next(loads) == 1.0  # it stopped at once
    watched: list[float] = []
    assert records.settled(lambda: watched.append(0.3) or 0.3) == (0.3, False)
    assert len(watched) == records.AT_MOST / records.FOR
    monkeypatch.setattr(records, "settled", lambda: (1.5, False))
    monkeypatch.setattr(records, "page", lambda name, quick: pytest.fail("it ran"))
    assert records.main(["--only", "08", "--out", str(tmp_path)]) == 1
    assert "void, other processes use 1.5 cores" in capsys.readouterr().out and not [*tmp_path.iterdir()]


def test_a_record_is_made_once_at_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made at this commit by this command is kept; another size or another commit makes it anew."""
    runs: list[tuple[str, bool]] = []

    def page(name: str, quick: bool) -> dict[str, Any]:
        runs.append((name, quick))
        return measure.document([]) | {"rows": [{"of": "o", "what": "w", "value": 1, "unit": "u"}]}

    monkeypatch.setattr(records, "page", page)
    monkeypatch.setattr(records, "others", lambda: 0.02)
    monkeypatch.setattr(measure, "commit", lambda: "c0ffee")
    once = ["--only", "08", "--anyway", "--out", str(tmp_path)]
    assert [records.main(once) for _ in range(2)] == [0, 0] and runs == [("08", False)]
    assert json.loads((tmp_path / "08.json").read_text())["other_cores"] == {"before": 0.02, "after": 0.02}
    records.main([*once, "--quick"])
    monkeypatch.setattr(measure, "commit", lambda: "decade")
    records.main([*once, "--quick"])
    assert runs == [("08", False), ("08", True), ("08", True)]


def test_a_reader_s_run_stands_beside_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unattended, a page shows the record alone; without a record or with a reader, its own run, too."""
    monkeypatch.setattr("sharedstate_lite.lessons.records.FOLDER", tmp_path)
    own = {"a": 1.0, 2: {10: 3.0}}
    monkeypatch.setenv(UNATTENDED, "1")
    assert PageRecord("99").beside("times", "ms", own) == (own, {}) and "no record" in str(PageRecord("99"))
    monkeypatch.setenv(ROWS, str(tmp_path / "rows.json"))
    assert PageRecord("99").beside("times", "ms", own) == (own, {})
    monkeypatch.delenv(ROWS)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert rows[1] == {"of": "times", "what": "2", "value": 3.0, "unit": "ms", "at": 10}
    rows[0]["value"] = 7.0
    told = {"command": "it", "date": "2026-11-30", "machine": {"cores": 2}, "other_cores": {"before": 0, "after": 0.5}}
    (tmp_path / "99.json").write_text(json.dumps(told | {"rows": rows}))
    recorded = {"a": 7.0, 2: {10: 3.0}}
    assert PageRecord("99").beside("times", "ms", own) == (recorded, {})
    monkeypatch.setenv(UNATTENDED, "")
    assert PageRecord("99").beside("times", "ms", own) == (recorded, own)
    busy = "Measured on 30 November 2026 on a busy machine with 2 cores (other programs used 0.50 of a core)"
    assert str(PageRecord("99")) == f"{busy}, not when this page was built. A trial: only its counts hold."
    assert PageRecord("99").markdown() == f"{busy}, with `it`. A trial: only its counts hold."
    with pytest.raises(KeyError):
        PageRecord("99").beside("times", "ms", {"b": 1.0})


def test_a_record_says_how_much_it_measured_and_a_reader_s_run_of_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has SCALE and the sizes. A reader's run at another SCALE says so, in the line and in a table."""
    monkeypatch.setattr("sharedstate_lite.lessons.records.FOLDER", tmp_path)
    monkeypatch.setenv(ROWS, str(tmp_path / "rows.json"))
    own = pd.DataFrame({"ms": {"a": 2.0}})
    PageRecord("98", events=2_400, rounds=5).table("times", own)
    monkeypatch.delenv(ROWS)
    rows = json.loads((tmp_path / "rows.json").read_text())
    told = {"command": "it", "date": "2026-11-01", "machine": {"cores": 1}, "other_cores": {"before": 0.02, "after": 0}}
    rows[-1]["value"] = 1.0
    (tmp_path / "98.json").write_text(json.dumps(told | {"scale": "full", "rows": rows}))
    sizes = "SCALE=full, 2,400 events, 5 rounds; other programs used 0.02 of a core"
    quiet = f"Measured on 1 November 2026 on an idle machine with 1 core ({sizes}), not when this page was built."
    record = PageRecord("98", events=240, rounds=5)
    for unattended, scale, line, columns in [
        ("1", "small", quiet, ["ms"]),
        ("", "full", quiet, ["ms", "ms (your run)"]),
        ("", "small", f"{quiet} In the charts, your run has SCALE=small.", ["ms", "ms (your run, SCALE=small)"]),
    ]:
        monkeypatch.setenv(UNATTENDED, unattended)
        monkeypatch.setenv("SCALE", scale)
        assert str(record) == line and [*record.table("times", own)] == columns
