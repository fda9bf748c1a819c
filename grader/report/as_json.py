"""Makes report.json, version 1. docs/grader.md describes its fields."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..record import Record
from ..verdict import Judgement

VERSION = 1


def content(record: Record, judgement: Judgement) -> dict[str, Any]:
    """Return the content of report.json as a dict."""
    about = record.about
    return {
        "report": VERSION,
        "verdict": judgement.verdict,
        "why": judgement.why,
        "name": about["submission"]["name"],
        "sandbox": about["sandbox"],
        "phases": {
            name: {"verdict": phase.verdict, "why": phase.why, "figures": phase.figures}
            for name, phase in judgement.phases.items()
        },
        "violations": [
            {
                "label": v.label or None,
                "order_id": v.order_id or None,
                "candidates": list(v.candidates),
                "rule": v.rule,
                "phase": v.phase,
                "detail": v.detail,
                "times": v.times,
                "due": v.due,
                "lost": v.lost,
            }
            for v in judgement.violations
        ],
        "speed": judgement.speed,
        "score": None if judgement.score is None else judgement.score.points,
        "at_most": None if judgement.at_most is None else judgement.at_most.points,
        "score_parts": [asdict(part) for part in parts.parts]
        if (parts := judgement.score or judgement.at_most)
        else [],
        "power_cut": asdict(judgement.powercut),
        "not_tested": [{"what": what, "why": why} for what, why in judgement.not_tested],
        "seed": about["seed"],
        "command": about["command"],
        "repeat": about["repeat"],
    }


def as_json(record: Record, judgement: Judgement) -> str:
    """Return the text of report.json."""
    return json.dumps(content(record, judgement), indent=1, ensure_ascii=True) + "\n"
