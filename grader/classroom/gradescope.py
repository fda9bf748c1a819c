"""results.json for Gradescope: what its students and teachers see of a result.

Fields and values are those of https://gradescope-autograders.readthedocs.io/en/latest/specs/. Students see the visible
checks at once, and hidden ones after the grades are published: their rules, as feedback pages show them. The output of
the program, which has the whole result, is shown to teachers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..files import as_json
from ..lab.judge import ALONE
from ..outcomes import Outcome
from .results import GRADED, Found, sentence

Check = Mapping[str, Any]
_LATER = "after_published"


def results(found: Found, points: Mapping[str, float]) -> str:
    """Return the text of results.json: one test for each check. A submission that cannot be graded has score 0.

    ``points``: those of each check. Gradescope subtracts its own penalty for late days.
    """
    content = {
        "output": _summary(found, points),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
    }
    if found["status"] != GRADED:
        return as_json({**content, "score": 0, "tests": []})
    visible = [check for check in found["checks"] if not check["hidden"]]
    hidden = [check for check in found["checks"] if check["hidden"]]
    tests = [_test(check, check["check"], points) for check in visible]
    tests += [_test(check, f"hidden {at}", points) for at, check in enumerate(hidden, 1)]
    return as_json({**content, "tests": tests})


def _summary(found: Found, points: Mapping[str, float]) -> str:
    if found["status"] != GRADED:
        return _clean(f"This submission cannot be graded: {sentence(found)}")
    checks = found["checks"]
    passed = [check["outcome"] == Outcome.PASS for check in checks if not check["hidden"]]
    said = f"visible: {sum(passed)} of {len(passed)} pass."
    if hidden := [check["check"] for check in checks if check["hidden"]]:
        of = f"{sum(map(points.__getitem__, hidden)):g} of {sum(points.values()):g} points"
        many = "1 hidden check decides" if len(hidden) == 1 else f"{len(hidden)} hidden checks decide"
        said += f" {many} {of}, shown when grades are published."
    return "\n".join(map(_clean, [said, *filter(None, [found["why"]]), *found["notes"]]))


def _test(check: Check, name: str, points: Mapping[str, float]) -> dict[str, Any]:
    good, most = check["outcome"] == Outcome.PASS, points[check["check"]]
    return {
        "name": f"{name}: {check['rule']}",
        "score": most if good else 0,
        "max_score": most,
        "status": "passed" if good else "failed",
        "output": "" if check["hidden"] or good else "\n".join(message(check)),
        "visibility": _LATER if check["hidden"] else "visible",
    }


def message(check: Check) -> Sequence[str]:
    """Return the lines about a check, with the words of `python -m grader check`."""
    rule = "" if check["number"] is None else f" (rule {check['number']})"
    lines = {"rule": check["rule"] + rule, **{name: check[name] for name in ("trace", "right", "got", "other", "says")}}
    if check["alone"]:
        lines["alone"] = ALONE
    elif check["case"] and not check["hidden"] and not check["other"]:
        lines["again"] = f"python -m grader check --case {check['check']}:{check['case']}"
    return [check["outcome"], *(_clean(f"{name:8}{text}") for name, text in lines.items() if text)]


def _clean(text: str) -> str:
    """Return a text on one line, without control characters and half surrogate pairs, which databases refuse."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
