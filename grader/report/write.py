"""Writes the reports of a record: report.json, report.html and results.json."""

from __future__ import annotations

from pathlib import Path

from ..record import load
from ..verdict import Judgement, judge
from .as_html import as_html
from .as_json import as_json
from .gradescope import RESULTS, no_score, results
from .terminal import summary


def write(record_folder: Path, out: Path) -> tuple[Judgement, str]:
    """Judge a record and write its reports into the folder ``out``. Returns the judgement and the summary.

    Raises RecordError if ``record_folder`` does not contain a readable record.
    """
    record = load(record_folder)
    judgement = judge(record)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(as_json(record, judgement))
    (out / "report.html").write_text(as_html(record, judgement), encoding="utf-8")
    (out / RESULTS).write_text(results(record, judgement))
    return judgement, summary(record, judgement)


def write_void(said: str, out: Path) -> None:
    """Write results.json for a run that has no record, because the grader itself failed. ``said``: the reason."""
    (out / RESULTS).write_text(no_score(said))
