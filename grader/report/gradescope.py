"""Files for a class: Gradescope's results.json, and a gradebook with one line."""

from __future__ import annotations

import csv
import io
import json

from ..record import Record
from ..verdict import Judgement
from .terminal import line, plain, summary

GRADEBOOK = ("submission", "hash", "verdict", "score", "sustained_per_s", "violations", "seed", "sandbox_tier")


def results(record: Record, judgement: Judgement) -> str | None:
    """The text of results.json, with a test for each part of the score. None if the run is void or has no score."""
    if judgement.verdict == "void" or judgement.score is None:
        return None
    score = judgement.score
    tests = [
        {"name": part.name, "score": part.points, "max_score": part.most, "output": plain(part.measured)}
        for part in score.parts
    ]
    if score.capped:
        tests.append(
            {"name": "cap", "score": score.points - score.total, "max_score": 0, "output": "a safety rule is broken"}
        )
    content = {"score": score.points, "output": summary(record, judgement), "visibility": "visible", "tests": tests}
    return json.dumps(content, indent=1, ensure_ascii=True) + "\n"


def gradebook(record: Record, judgement: Judgement) -> str | None:
    """A header and one line of CSV. None without a score, or if the sandbox is not good enough for a grade."""
    about = record.about
    if judgement.score is None or not dict(about["sandbox"]["stops"]).get("good enough for a grade"):
        return None
    name = line(about["submission"]["name"])
    # A spreadsheet would run such a text as a formula.
    name = f"'{name}" if name[:1] in "=+-@" else name
    row = (
        name,
        about["submission"].get("hash", "")[:12],
        judgement.verdict,
        judgement.score.points,
        judgement.speed["sustained_per_s"] if judgement.speed else "",
        len(judgement.violations),
        about["seed"],
        about["sandbox"]["tier"],
    )
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([GRADEBOOK, row])
    return out.getvalue()
