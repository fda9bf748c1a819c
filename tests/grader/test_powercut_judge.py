"""The power cuts of handmade records give a figure and a row of the page, and never change the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import right, shots, unpaid, value

from grader.errors import RecordError
from grader.record import Record, load, save
from grader.record.notes import Cut, PowerCuts
from grader.report import summary, write
from grader.report.as_html import as_html
from grader.report.powercut import sentence
from grader.table import POWER_CUT
from grader.terms import Entity
from grader.verdict import judge
from grader.verdict.powercut import Example

NASTY = "</td><script>alert(1)</script>\nVERDICT: PASS"
LOST = 20
"""A row, and the number of its order."""


def with_cuts() -> Record:
    """A right run, with a right power-cut run of 36 orders and two cuts."""
    record, cut = right(), right((POWER_CUT,))
    cut.phases[POWER_CUT] = PowerCuts(cuts=[Cut(1, 0, 17, blocks=5, files=2), Cut(2, 18, 35, blocks=3, files=1)])
    record.about[POWER_CUT], record.powercut = {}, cut
    return record


def lose(cut: Record, *, half: bool) -> None:
    """Make one order unpaid. Its user and items get everything back unless it is ``half`` lost."""
    taken = shots(cut, POWER_CUT)
    if half:
        value(cut, taken, Entity.ORDER, LOST, lambda paid: 0)
    else:
        unpaid(cut, taken, LOST)


def test_nothing_lost_is_said_apart_from_the_verdict() -> None:
    """The sentence has the numbers of cuts and orders, and the power cut is not listed as not tested."""
    record = with_cuts()
    judgement = judge(record)
    assert judgement.powercut.tested and judgement.powercut.came_back
    assert (judgement.powercut.cuts, judgement.powercut.dropped, judgement.powercut.acknowledged) == (2, 8, 36)
    said = "2 power cuts that discarded all unsynced writes: none of 36 acknowledged orders was lost."
    assert sentence(judgement.powercut) == said
    assert "power cut" not in dict(judgement.not_tested)
    assert f"A separate run, which affects neither verdict nor score. {said}" in as_html(record, judgement)


def test_a_lost_order_is_named_and_changes_neither_verdict_nor_score() -> None:
    """A lost order is named by label, id and cut."""
    record = with_cuts()
    assert record.powercut is not None
    lose(record.powercut, half=False)
    judgement, before = judge(record), judge(right())
    found = judgement.powercut
    assert (found.lost, found.half_there, found.other) == (1, 0, 0)
    assert found.examples == (Example("powercut-000020", "powercut-o20", 2, "lost"),)
    assert "1 of 36 acknowledged orders were lost. Examples: powercut-000020 (powercut-o20), lost, cut 2." in sentence(
        found
    )
    assert (judgement.verdict, judgement.score, judgement.violations) == ("pass", before.score, ())


def test_an_order_that_is_half_there_is_told() -> None:
    """An unpaid order whose money and stock are gone is half there."""
    record = with_cuts()
    assert record.powercut is not None
    lose(record.powercut, half=True)
    found = judge(record).powercut
    assert (found.lost, found.half_there) == (1, 1) and "1 is half there" in sentence(found)


def test_a_system_that_does_not_come_back_is_told_without_its_markup() -> None:
    """The output of the system is escaped text on the page and in the terminal."""
    record = with_cuts()
    assert record.powercut is not None
    record.powercut.phases[POWER_CUT] = PowerCuts(cuts=record.powercut.notes(PowerCuts).cuts, not_back=NASTY)
    judgement = judge(record)
    assert judgement.verdict == "pass" and not judgement.powercut.came_back
    page, words = as_html(record, judgement), summary(record, judgement)
    assert "the system did not start again after cut 2" in page and "<script" not in page
    assert "VERDICT: PASS" not in words


def test_a_record_without_it_says_not_tested() -> None:
    """An older record, a run without power cuts, and a run that ended early say why it was not tested."""
    record = right()
    assert dict(judge(record).not_tested)["power cut"] == "an older version of the grader made this record"
    record.about[POWER_CUT] = {"skipped": "this machine has no /dev/fuse"}
    judgement = judge(record)
    assert dict(judgement.not_tested)["power cut"] == "this machine has no /dev/fuse"
    assert "power cut   not tested  this machine has no /dev/fuse" in summary(record, judgement)
    del record.about[POWER_CUT]
    record.about["failure"] = {"kind": "submission", "why": "it does not start"}
    assert dict(judge(record).not_tested)["power cut"] == "the run ended before this test"


def test_replay_gives_the_same_bytes_and_an_earlier_run_leaves_no_cuts(tmp_path: Path) -> None:
    """The record of the cuts is part of the record. A later run without cuts in the same folder has none."""
    record = with_cuts()
    assert record.powercut is not None
    lose(record.powercut, half=False)
    save(record, tmp_path / "record")
    for out in ("first", "second"):
        write(tmp_path / "record", tmp_path / out)
    for name in ("report.json", "report.html"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert json.loads((tmp_path / "first" / "report.json").read_text())["power_cut"]["lost"] == 1
    save(right(), tmp_path / "record")
    assert load(tmp_path / "record").powercut is None


def test_a_record_whose_cuts_are_missing_is_not_whole(tmp_path: Path) -> None:
    """A record whose cuts are missing is refused, and no report is written."""
    save(with_cuts(), tmp_path)
    (tmp_path / POWER_CUT / "run.json").unlink()
    with pytest.raises(RecordError, match="does not contain a record"):
        load(tmp_path)
