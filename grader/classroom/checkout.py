"""Grade one team's system for lab 6: run `checkout` on it, and turn report.json into a result.

Each judged phase is a check, and so is each other part of the score, which earns a share of its points. The result has
no points, so that a new rubric.toml runs nothing again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SubmissionError, UsageError, VoidError, text_of
from ..folders import ignore, paths
from ..outcomes import Outcome
from ..report import write
from ..report.as_json import violation_of
from ..report.causes import cause_of
from ..session import Wish, run
from ..submission import Submission, read_submission
from ..submission.archive import unpack
from ..submission.reading import FILE
from ..submission.upload import AmbiguousError, Files, packed
from ..table import ASKED, JUDGED, PHASES
from ..terms import SAFETY, Limits
from ..verdict.score import UNJUDGED
from ..verdict.story import named
from ..verdict.violations import Violation
from .results import AMBIGUOUS, GRADED, UNFINISHED, UNREADABLE, VOID, Found, fresh


def system(files: Files, scratch: Path) -> Path:
    """Return the folder with the checkout.toml of what was handed in.

    An archive that was handed in is opened, and one archive in it. Raises SubmissionError, which has only names that
    students gave: those of the LMS contain the name of a student.
    """
    tops = [_opened(path, scratch) for _, path in files]
    found = _systems(tops)
    for _ in range(2 if all(path.is_dir() for _, path in files) else 1):
        archives = [path for path in _inside(tops) if packed(path)]
        if not found and len(archives) == 1:
            tops = [_opened(archives[0], scratch)]
            found = _systems(tops)
    if len(found) > 1:
        named = dict(zip(tops, (name for name, _ in files), strict=True))
        said = ", ".join(sorted(named.get(path, path.name) for path in found))
        raise AmbiguousError(f"there are {len(found)} systems with a {FILE}: {said}", "hand in one")
    if not found:
        names = sorted(
            name
            for top in tops
            for name in ([f"a {top.suffix} file"] if top.is_file() else [path.name for path in top.iterdir()])
        )
        said = f"{FILE} is missing; found: {', '.join(names[:5]) or 'nothing'}{' and more' * (len(names) > 5)}"
        raise SubmissionError(said, "hand in the folder or archive that contains it")
    return found[0]


def _opened(path: Path, scratch: Path) -> Path:
    if path.is_dir() or not packed(path):
        return path
    place = scratch / f"unpacked-{len(list(scratch.iterdir()))}"
    place.mkdir()
    return unpack(path, place)


def _systems(tops: list[Path]) -> list[Path]:
    """Return the outermost folders with a checkout.toml."""
    found = [path.parent for path in _inside(tops) if path.name == FILE]
    return [path for path in found if not any(other in path.parents for other in found)]


def _inside(tops: list[Path]) -> list[Path]:
    return [top / path for top in tops if top.is_dir() for path in paths(top, failed=ignore)]


def judge(task: Mapping[str, Any], scratch: Path) -> Found:
    """Run `checkout` on a team's system, and return what was found. The record and its reports stay in ``task["out"]``.

    ``task`` also has the submission's files and key, the mode (quick or full), the seed and the limits.
    """
    lab, key, mode, out = task["lab"], task["key"], task["mode"], Path(task["out"])
    try:
        folder = system([(name, Path(path)) for name, path in task["files"]], scratch)
        broken = ""
        try:
            submission = read_submission(folder, task["id"])
        except SubmissionError as error:
            submission, broken = Submission(task["id"], None, {}), str(error)
        command = f"python -m grader checkout {shlex.quote(task['id'])} --{mode}"
        wish = Wish(submission, PHASES, Limits(**task["limits"]), task["seed"], 0, command, mode, broken=broken)
        run(wish, out, lambda step: None)
        write(out, out)
    except AmbiguousError as error:
        return fresh(lab, key, 0, AMBIGUOUS, error.reason, error.mend)
    except SubmissionError as error:
        return fresh(lab, key, 0, UNREADABLE, error.reason, error.mend)
    except (UsageError, VoidError, OSError) as error:
        return fresh(lab, key, 0, VOID, str(error), "run the same command again")
    except KeyboardInterrupt:  # the class has been interrupted, and the run has ended its processes
        raise SystemExit(1) from None
    except Exception as error:  # a mistake in the grader must not end the grading of the others
        return fresh(lab, key, 0, VOID, f"the grader itself failed ({text_of(error)})", "tell its authors")
    found = result(json.loads((out / "report.json").read_text()), lab, key)
    return {**found, "mode": mode, "report": f"{out.name}/report.html"}


def result(report: Mapping[str, Any], lab: int, key: Mapping[str, str]) -> Found:
    """Return the result for the content of a report.json.

    It is void if the run is. It is unfinished if the run is a fail, and the machine kept a phase from being judged.
    """
    tier, rest = report["sandbox"]["tier"], report["at_most"] is not None
    if report["verdict"] == "void":
        return fresh(lab, key, tier, VOID, report["why"], "run the same command again, on an idle machine")
    ended = bool(report["why"]) and not rest
    parts = {part["name"]: part for part in report["score_parts"]}
    found = [violation_of(told) for told in report["violations"]]
    checks = [_check(name, report["phases"], parts, found, ended) for name in ASKED]
    why = f"The system did not run to the end: {report['why']}" if ended else ""
    why, mend = (report["why"], "run the same command again for the rest") if rest else (why, "")
    unsafe = any(one.rule in SAFETY for one in found)
    return {**fresh(lab, key, tier, UNFINISHED if rest else GRADED, why, mend), "unsafe": unsafe, "checks": checks}


def _check(
    name: str, phases: Mapping[str, Any], parts: Mapping[str, Any], found: list[Violation], ended: bool
) -> dict[str, Any]:
    """Return one check. A system that did not run to the end earns nothing, as in its report."""
    asked = ASKED[name]
    check = {
        "check": name,
        "task": asked.task,
        "rule": asked.promise,
        "number": None,
        "hidden": False,
        "case": 0,
        "flags": [],
    }
    texts = {"trace": "", "right": "", "got": "", "says": ""}
    reached = not ended and parts.get(name, {"measured": UNJUDGED})["measured"] != UNJUDGED
    if name in JUDGED:
        reached = not ended and phases[name]["verdict"] not in ("void", "not_tested")
    mine = tuple(one for one in found if one.phase == name or name == "false_refusals" and one.rule == "false_refusal")
    first = named(mine)
    if asked.measured and reached:
        part = parts[name]
        share = round(part["points"] / part["most"], 6) if part["most"] else 0
        return {**check, **texts, "outcome": Outcome.MEASURED, "got": part["measured"], "share": str(share)}
    if asked.measured or not reached and (first is None or phases[first.phase]["verdict"] == "void"):
        return {**check, **texts, "outcome": Outcome.UNREACHED, "got": phases[name]["why"] if name in JUDGED else ""}
    if first is None:
        return {**check, **texts, "outcome": Outcome.PASS}
    order = f"order {first.label} ({first.order_id}) " if first.label else ""
    others = f", and {len(mine) - 1:,} more" if len(mine) > 1 else ""
    got = f"{first.rule}: {order}{first.detail}{others}"
    return {**check, **texts, "outcome": Outcome.FAIL, "got": got, "says": cause_of(first).usual}
