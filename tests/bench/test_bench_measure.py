"""bench/measure.py: ratios, targets, medians, options, progress, the table and the JSON."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from bench import measure
from bench.measure import Row, compared


@pytest.mark.parametrize(
    ("value", "peer", "less", "ratio", "holds"),
    [
        (30.0, 10.0, False, 3.0, True),
        (19.0, 10.0, False, 1.9, False),
        (2.0, 8.0, True, 4.0, True),
        (8.0, 2.0, True, 0.25, False),
    ],
)
def test_more_is_always_better_in_a_ratio(value: float, peer: float, less: bool, ratio: float, holds: bool) -> None:
    """A ratio is ours over theirs where more is better, theirs over ours where less is, and holds at the target."""
    row = compared("it", value, "u", {"peer": peer}, against="peer", target=2.0, less=less)
    assert row.ratio == pytest.approx(ratio)
    assert row.holds is holds


def test_a_ratio_at_the_target_holds() -> None:
    """Reaching the target exactly is reaching it."""
    assert compared("it", 20.0, "u", {"peer": 2.0}, against="peer", target=10.0).holds is True


@pytest.mark.parametrize(("value", "peer"), [(None, 1.0), (1.0, None), (0.0, 1.0), (1.0, 0.0)])
def test_an_absent_side_gives_no_verdict(value: float | None, peer: float | None) -> None:
    """Where a side was not measured, or measured nothing, ratio and holds are null and never a guess."""
    row = compared("it", value, "u", {"peer": peer}, against="peer", target=2.0)
    assert row.ratio is None
    assert row.holds is None


def test_without_a_target_nothing_holds_or_fails() -> None:
    """A row that is only told has a ratio and no verdict."""
    row = compared("it", 4.0, "u", {"peer": 2.0}, against="peer")
    assert (row.ratio, row.holds) == (2.0, None)


def test_a_median_needs_every_run() -> None:
    """A side that lacks a run has no median, because a median of fewer would not be the same thing."""
    assert measure.median([3.0, 1.0, 2.0]) == 2.0
    assert measure.median([3.0, None, 2.0]) is None
    assert measure.median([]) is None


def test_warm_up_is_not_counted() -> None:
    """The action runs warm + runs times, and only runs of them have seconds."""
    calls: list[int] = []
    seconds = measure.times(lambda: calls.append(1), runs=4, warm=3)
    assert (len(calls), len(seconds)) == (7, 4)
    assert all(s >= 0 for s in seconds)
    with pytest.raises(ValueError, match="one run or more"):
        measure.times(lambda: None, runs=0)


def test_options_take_rows_by_name(tmp_path: Path) -> None:
    """--only may be repeated, --json names a file, --quick is off by itself."""
    chosen = measure.options("about", ["a", "b"], ["--only", "a", "--only", "b", "--json", str(tmp_path / "out.json")])
    assert chosen.only == ["a", "b"]
    assert chosen.json == tmp_path / "out.json"
    assert not chosen.quick
    assert measure.options("about", ["a"], []).only == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "c"], "--only c: no such row; it is one of a, b"),
        (["--json", "{tmp}/missing/out.json"], "there is no folder"),
        (["--json", "{tmp}"], "is a folder"),
    ],
)
def test_a_bad_option_ends_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """An unknown row or a file that cannot be written is refused at once, by name, with status 2."""
    with pytest.raises(SystemExit) as ended:
        measure.options("about", ["a", "b"], [word.format(tmp=tmp_path) for word in arguments])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_json_has_the_command_the_machine_and_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file can be read back, has every field of a row, a ladder only where there is one, and null for absent."""
    monkeypatch.setattr("sys.argv", ["bench/it.py", "--quick"])
    path = tmp_path / "out.json"
    steps = [{"visits": 10.0, "median ms": 0.5}]
    rows = [
        compared("one", 2.0, "s", {"peer (absent: why)": None}, against="peer (absent: why)", target=2.0, equal=True)
    ]
    rows.append(Row("two", 1.0, "u", ladder=steps))
    assert measure.finish(rows, path, ["numpy", "no-such-package"]) == 0
    told = json.loads(path.read_text())
    assert told["command"] == "python bench/it.py --quick"
    assert told["machine"]["cores"] >= 1
    assert told["machine"]["packages"]["no-such-package"] is None
    fields = {"what", "value", "unit", "peers", "ratio", "target", "holds", "equal"}
    assert set(told["rows"][0]) == fields
    assert told["rows"][0]["peers"] == {"peer (absent: why)": None}
    assert told["rows"][0]["holds"] is None
    assert set(told["rows"][1]) == fields | {"ladder"}
    assert told["rows"][1]["ladder"] == steps
    assert list(tmp_path.iterdir()) == [path]
    assert "target 2: not known" in capsys.readouterr().out


def test_a_number_that_is_none_is_refused() -> None:
    """NaN and infinity are no measurements, and no JSON."""
    with pytest.raises(ValueError, match="row 'it': a number in it is not finite"):
        measure.document([Row("it", math.nan, "u")])


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (Row("it", 1.0, "u", equal=True), 0),
        (Row("it", 1.0, "u", {"p": 9.0}, 0.1, 2.0, False, True), 0),
        (Row("it", 1.0, "u", equal=False), 1),
        (Row("it", None, "u"), 1),
    ],
)
def test_only_wrong_or_missing_numbers_fail(row: Row, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A missed target is told and is no error; answers that differ and a side that failed are."""
    assert measure.finish([row], None) == status
    out = capsys.readouterr().out
    assert ("MISSED" in out) == (row.holds is False) == ("1 rows are short of their targets:\n    it\n" in out)
    assert ("ANSWERS DIFFER" in out) == (row.equal is False)


def test_progress_tells_the_time_left() -> None:
    """After half the weight in 10 seconds, 10 more are left; off a terminal each task has one line."""
    clock = iter([0.0, 0.0, 10.0, 10.0])
    stream = io.StringIO()
    progress = measure.Progress([("a", 1.0), ("b", 1.0)], stream, lambda: next(clock))
    progress.at(0, 0.0)
    progress.at(0, 0.5)
    progress.at(1, 0.0)
    assert stream.getvalue().splitlines() == ["[1/2] a:   0% · 0 s gone", "[2/2] b:   0% · 10 s gone, about 10 s left"]


def test_numbers_are_told_for_readers() -> None:
    """Three digits below a thousand, whole with commas above, a dash for nothing; minutes above sixty seconds."""
    assert [measure.number(v) for v in (0.12345, 12.345, 999.6, 1234567.8, None)] == [
        "0.123",
        "12.3",
        "1,000",
        "1,234,568",
        "-",
    ]
    assert [measure.span(s) for s in (4.4, 59.4, 185.0)] == ["4 s", "59 s", "3 min 05 s"]
