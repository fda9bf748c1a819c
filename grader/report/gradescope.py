"""Makes the files for a class: results.json for Gradescope, and a gradebook with one line."""

from __future__ import annotations

import csv
import io
import json

from ..record import Record
from ..verdict import Judgement
from .terminal import line, plain, summary

RESULTS = "results.json"
GRADEBOOK = ("submission", "hash", "verdict", "score", "sustained_per_s", "violations", "seed", "sandbox_tier")


def no_score(said: str) -> str:
    """Return the text of results.json for a run without a score. ``said``: the reason, for students."""
    return json.dumps({"output": said, "visibility": "visible", "tests": []}, indent=1, ensure_ascii=True) + "\n"


def results(record: Record, judgement: Judgement) -> str:
    """Return the text of results.json, with one test per part of the score, and without any if there is no score."""
    if judgement.score is None:
        return no_score(summary(record, judgement))
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
    """Return a CSV header and one line, or None if there is no score or the sandbox is not good enough for a grade.

    A submission that did not run needs no sandbox.
    """
    about = record.about
    ran = bool(about["sandbox"]["stops"]) or not about.get("failure")
    if judgement.score is None or ran and not dict(about["sandbox"]["stops"]).get("good enough for a grade"):
        return None
    name = line(about["submission"]["name"])
    # A spreadsheet would evaluate a name that starts with one of these characters as a formula.
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
