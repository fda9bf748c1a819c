"""Makes report.json, version 1. docs/grader.md describes its fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..record import Record
from ..verdict import Judgement, Violation

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
        "violations": [_told(violation) for violation in judgement.violations],
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


def _told(violation: Violation) -> dict[str, Any]:
    """Return a violation without its rows, which only this record has. An empty label or id becomes null."""
    fields = {name: value for name, value in asdict(violation).items() if name not in ("order", "rows")}
    return {**fields, "label": violation.label or None, "order_id": violation.order_id or None}


def violation_of(told: Mapping[str, Any]) -> Violation:
    """Return a violation from its entry in report.json, which an earlier grader may have written.

    >>> told = {"label": None, "order_id": None, "candidates": [], "rule": "leaked", "phase": "scarcity", "detail": ""}
    >>> violation_of(told).label, violation_of(told).candidates
    ('', ())
    """
    names = {"label": told["label"] or "", "order_id": told["order_id"] or "", "candidates": tuple(told["candidates"])}
    return Violation(**{**told, **names})


def as_json(record: Record, judgement: Judgement) -> str:
    """Return the text of report.json."""
    return json.dumps(content(record, judgement), indent=1, ensure_ascii=True) + "\n"
