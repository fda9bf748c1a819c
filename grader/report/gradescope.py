"""Makes results.json, which Gradescope reads."""

from __future__ import annotations

import json

from ..record import Record
from ..verdict import Judgement
from .terminal import plain, summary

RESULTS = "results.json"


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
