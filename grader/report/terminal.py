"""The end of a run in words, for a terminal."""

from __future__ import annotations

from ..judge import Judgement
from ..record import Record
from .model import found, sentence
from .powercut import sentence as sentence_of_cut

_MARKS = {"pass": "pass", "fail": "FAIL", "void": "void", "not_tested": "not tested", "measured": "measured"}
_SHOWN = 5
"""Violations; all are in report.json and on the page."""


def plain(text: str) -> str:
    """Without what could steer a terminal: a name or an id comes from the submission."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def line(text: str) -> str:
    """One line: a name or an answer with line breaks could write a verdict of its own below ours."""
    return " ".join(plain(text).split())


def _sentence(judgement: Judgement) -> list[str]:
    """The verdict's reason; what a process printed is quoted, line by line."""
    if judgement.violations:
        return [f"  {line(sentence(judgement))}"]
    first, *printed = plain(sentence(judgement)).split("\n")
    return [f"  {first}", *(f"  | {each}" for each in printed)]


def told(record: Record, judgement: Judgement) -> str:
    """Verdict, phases, the first violations, sandbox, how to run it again."""
    about = record.about
    lines = [f"{line(about['submission']['name'])}: {judgement.verdict.upper()}", *_sentence(judgement), ""]
    for name, phase in judgement.phases.items():
        figures = phase.figures
        said = phase.why
        if figures:
            said = found(record, judgement, name)
        lines.append(f"  {name:<11} {_MARKS[phase.verdict]:<11} {said}")
    cut = judgement.powercut
    # A reason may quote what a process printed: its first line is enough here.
    said = line(sentence_of_cut(cut).partition("\n")[0])
    lines.append(f"  {'power cut':<11} {'apart' if cut.tested else 'not tested':<11} {said}")
    if judgement.violations:
        lines += ["", f"  {len(judgement.violations):,} violations, the first of them:"]
        for v in judgement.violations[:_SHOWN]:
            whose = v.label or (f"one of {', '.join(v.candidates[:4])}, ..." if v.candidates else "no order")
            lines.append(f"    {v.rule}: {whose}: {line(v.detail)}")
    if judgement.score is not None:
        cap = f" ({judgement.score.total} before the cap for a broken safety rule)" if judgement.score.capped else ""
        lines += ["", f"  score {judgement.score.points} of 100{cap}"]
    sandbox = about["sandbox"]
    lines += ["", f"  sandbox tier {sandbox['tier']}: {sandbox['name']}", f"  again: {about['repeat']}"]
    return plain("\n".join(lines))
