"""Makes the summary of a run for a terminal."""

from __future__ import annotations

from ..record import Record
from ..verdict import Judgement
from .model import result_of, sentence
from .powercut import sentence as sentence_of_cut
from .words import counted

_SHOWN = 5
"""The maximum number of violations to show. report.json lists all of them."""


def plain(text: str) -> str:
    """Replace control characters with "?", because names and ids come from the submission."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def line(text: str) -> str:
    """Return the text on one line, because a name with line breaks could otherwise fake a verdict."""
    return " ".join(plain(text).split())


def _sentence(judgement: Judgement) -> list[str]:
    """Return the lines that state the reason for the verdict. Lines that a process printed start with "|"."""
    if judgement.violations:
        return [f"  {line(sentence(judgement))}"]
    first, *printed = plain(sentence(judgement)).split("\n")
    return [f"  {first}", *(f"  | {each}" for each in printed)]


def summary(record: Record, judgement: Judgement) -> str:
    """Return the summary: verdict, phases, first violations, score, sandbox, and the command to repeat the run."""
    about = record.about
    lines = [f"{line(about['submission']['name'])}: {judgement.verdict.upper()}", *_sentence(judgement), ""]
    for name, phase in judgement.phases.items():
        result = result_of(record, judgement, name) if phase.figures else phase.why
        lines.append(f"  {name:<11} {phase.verdict.word:<11} {result}")
    cut = judgement.powercut
    # The sentence can quote the output of a process. Only its first line is shown.
    result = line(sentence_of_cut(cut).partition("\n")[0])
    lines.append(f"  {'power cut':<11} {'separate' if cut.tested else 'not tested':<11} {result}")
    if judgement.violations:
        lines += ["", f"  {counted(len(judgement.violations), 'violation')}, starting with:"]
        for v in judgement.violations[:_SHOWN]:
            whose = v.label or (f"one of {', '.join(v.candidates[:4])}, ..." if v.candidates else "no single order")
            lines.append(f"    {v.rule}: {whose}: {line(v.detail)}")
    if judgement.score is not None:
        cap = f" ({judgement.score.total} before the cap for a broken safety rule)" if judgement.score.capped else ""
        lines += ["", f"  score {judgement.score.points} of 100{cap}"]
    if judgement.at_most is not None:
        most = f"at most {judgement.at_most.points:g} of 100 points"
        lines += ["", f"  {most}; run it again for the rest: {line(judgement.why)}"]
    sandbox = about["sandbox"]
    lines += ["", f"  sandbox tier {sandbox['tier']}: {sandbox['name']}", f"  to repeat: {about['repeat']}"]
    return plain("\n".join(lines))
