"""bench/record.py: the records that are committed, and the parts that make them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import record, traced
from grader.record import Record, load, save
from grader.report.as_json import as_json
from grader.verdict import judge
from grader.wire.jobs import Result

RECORDS = record.LABS / "records"


@pytest.mark.parametrize("name", ["passes", "loses"])
def test_a_committed_record_is_judged_as_its_report_says(name: str) -> None:
    """The judging half reads the record again, and writes the same report."""
    report = json.loads((RECORDS / name / "report.json").read_text())
    again = load(RECORDS / name)
    assert json.loads(as_json(again, judge(again))) == report
    assert report["verdict"] == {"passes": "pass", "loses": "fail"}[name]


def result(due: list[int], sent: list[int], done: list[int], waited: list[int]) -> Result:
    """Requests that are all answered 200."""
    columns = [np.array(each, dtype=np.int64) * 1_000_000 for each in (sent, done)]
    status, found = np.full(len(due), 200, dtype=np.int16), np.array(waited, dtype=np.uint8)
    return Result(columns[0], columns[1], status, found, due=np.array(due, dtype=np.int64) * 1_000_000)


def test_a_rate_counts_from_due_and_is_void_if_the_generator_was_late() -> None:
    """Latency counts from the due time. Lateness counts only where a connection was free."""
    step = record.stepped("fast", 10, result([1, 1, 1], [1, 1, 90], [3, 3, 101], [0, 0, 1]))
    assert (step.p50_ms, round(step.p99_ms), step.late_ms, step.void) == (2.0, 98, 0.0, False)
    assert record.stepped("fast", 10, result([1], [40], [41], [0])).void


def test_arrivals_are_random_and_repeatable() -> None:
    """The due times rise, are the same for one seed, and have the rate."""
    due = record.arrivals(10_000, 1_000, 1)
    assert (np.diff(due) >= 0).all() and (due == record.arrivals(10_000, 1_000, 1)).all()
    assert abs(due[-1] / 1e10 - 1) < 0.05 and (due != record.arrivals(10_000, 1_000, 2)).any()


def test_a_packed_record_is_the_same_record(tmp_path: Path) -> None:
    """Packing changes the encoding of the tables, and no value."""
    made = Record()
    record.kept(made, result([5, 6], [5, 7], [8, 9], [0, 1]), range(3, 5), "one", 1_000_000)
    save(made, tmp_path)
    record.packed(tmp_path)
    again = load(tmp_path)
    assert again.history["subject"].tolist() == [3, 4] and again.history["due"].tolist() == [4_000_000, 5_000_000]
    assert again.waves[0].name == "one" and again.history["waited"].tolist() == [0, 1]


def test_epochs_are_counted_in_the_log(tmp_path: Path) -> None:
    """An epoch counts once for the orders that it decided, and not for those of another rate."""
    lines: list[Any] = [["start"], ["fate", 1, "11", ["1", "2"]], ["fate", 2, "0", []], ["fate", 3, "1", ["9"]]]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert record.epochs_of(tmp_path / "log", range(5)) == 1
    assert record.epochs_of(tmp_path / "log", range(10)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the system needs epoll: run this on Linux")
def test_the_traced_methods_are_those_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods that traced.py wraps exist; the committed trace has each step, in order."""
    folder = record.LABS / "fast"
    for name, methods in {"coordinator": ("gather", "begin", "voted", "decided"), "journal": ("write_line",)}.items():
        source = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert source and source.loader
        text = Path(str(source.origin)).read_text()
        assert all(f"    def {method}(self" in text for method in methods)
    us = json.loads((RECORDS / "epoch.json").read_text())["us"]
    for ledger in ("stock", "payment"):
        steps = [step if step in us else f"{step}: {ledger}" for step in traced.STEPS]
        assert [us[step] for step in steps] == sorted(us[step] for step in steps)
