"""Pages without a script: feedback.html for a student, and class.html for the teacher.

All text from outside is escaped. A colour never stands without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from statistics import mean, median
from typing import Any

from ..lab.judge import ALONE
from ..outcomes import Outcome
from ..report.style import STYLE
from ..report.words import code, counted, safe, sign
from .gradebook import Out, Row, states
from .points import NOTHING, TRACE, Rubric, number, share
from .results import GRADED, UNFINISHED, VOID, Found, sentence
from .work import BREAK, kind_of

_LONG = 2000
_WORDS: dict[str, str] = {outcome: outcome.word for outcome in Outcome}
_FINE = (Outcome.PASS, Outcome.MEASURED, Outcome.EXPOSED)
_REPORTED = (
    "<p>Of each phase, this page shows the gravest mistake. The report shows all of them, and for one order every "
    "request, every kill and the balances afterwards.</p>"
)
_UNCLEAR = "It is not clear which files are your submission. Your teacher has the details; ask your teacher what to do."
_FAILED = "The machine has failed, and not your submission. It will be graded again."
_ALL_OR_NOTHING = "A check that passes has all of its points."
_SHARES = "A phase that passes has all of its points. What is measured has a share."
_STYLE = (Path(__file__).resolve().parent / "page.css").read_text(encoding="utf-8")
Check = Mapping[str, Any]


def page(title: str, body: Sequence[str]) -> str:
    """Return a page with the title and the parts of its body, which are HTML."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">"
    parts = [f'<!doctype html><html lang="en"><head>{head}{policy}<title>{safe(title)}</title>']
    parts.append(f"<style>{STYLE}{_STYLE}</style></head><body><main>")
    return "\n".join([*parts, *body, "</main></body></html>", ""])


def table(kind: str, caption: str, head: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Return a table. ``head`` has the title and the class of each column; the first cell of a row names it."""
    top = "".join(f'<th scope="col" class="{mark}">{title}</th>' for title, mark in head)
    body = []
    for first, *cells in rows:
        rest = "".join(f'<td class="{mark}">{cell}</td>' for cell, (_, mark) in zip(cells, head[1:], strict=True))
        body.append(f'<tr><th scope="row">{first}</th>{rest}</tr>')
    caption = f"<caption>{caption}</caption>"
    return f'<table class="{kind}">{caption}<thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _outcome(outcome: str, measured: str = "") -> str:
    if outcome == Outcome.MEASURED:
        return safe(measured)
    good = outcome in (Outcome.PASS, Outcome.EXPOSED)
    return f'<span class="{"good" if good else "bad"}">{sign("pass" if good else "fail")}{_WORDS[outcome]}</span>'


def feedback(row: Row, out: Out, rubric: Rubric) -> str:
    """Return the page for one student. What it shows of hidden checks is the rubric's policy."""
    lab = out.run["lab"]
    title = f"Lab {row.lab}: {lab['title']}"
    team = "" if (place := out.place(row.id)) == row.id else f", team {code(place)}"
    body = [f"<h1>{safe(title)}</h1>", f'<p class="about"><span>Submission of {code(row.id)}{team}</span></p>']
    again = "with fewer points" if row.kept and out.newest[place]["status"] == GRADED else "without a grade"
    body.append(_verdict(row, lab.get("cap", ""), again))
    if report := row.found.get("report"):
        said = f"{row.found['mode']} run, seed {lab['seed']}"
        body.append(f'<section><h2>The run</h2><p><a href="{safe(report)}">The report of the {said}</a></p></section>')
    visible = [check for check in row.found["checks"] if not check["hidden"]]
    hidden = [check for check in row.found["checks"] if check["hidden"]]
    if read := list(dict.fromkeys([*row.found["notes"], *row.found.get("look", [])])):
        notes = "".join(f"<li>{safe(note)}</li>" for note in read)
        body.append(f"<section><h2>How the file was read</h2><ul>{notes}</ul></section>")
    if row.status not in (GRADED, UNFINISHED):
        return page(title, body)
    points = rubric.of(out.points)
    if "histories" in row.found:
        return page(title, [*body, *_broken(row.found, points)])
    head = [("Check", ""), ("What it checks", "rule"), ("Result", "word"), ("Points", "num")]
    rows = [[code(check["check"]), safe(check["rule"]), *_marks(check, points)] for check in visible]
    checks = table("checks", _SHARES if report else _ALL_OR_NOTHING, head, rows)
    body.append(f"<section><h2>{'Phases' if report else 'Visible checks'}</h2>{checks}</section>")
    if hidden:
        body.append(f"<section><h2>Hidden checks</h2>{_hidden(hidden, points, rubric.hidden)}</section>")
    shown = [*visible, *(hidden if rubric.hidden == TRACE else [])]
    if (not row.found["why"] or row.status == UNFINISHED) and (
        failed := [check for check in shown if check["outcome"] not in _FINE]
    ):
        told = _REPORTED if report else "<p>Each check shows its smallest failing case. Start with the first one.</p>"
        body.append(f"<section><h2>What failed</h2>{told}{''.join(map(_case, failed))}</section>")
    return page(title, body)


def _broken(found: Found, points: Mapping[str, Decimal]) -> list[str]:
    """Return the results of a student's histories, and which wrong solutions they expose."""
    head, lines = [("Line", "num"), ("History", ""), ("Result", "rule")], []
    for one in found["histories"]:
        line, column = one["at"]
        said = f"line {line}, column {column}: {one['word']}" if line else one["word"]
        said = said or f"exposes {', '.join(map(str, one['exposes'])) or 'no wrong solution'}"
        lines.append([str(one["line"]), code(one["text"], _LONG), safe(said)])
    told = table("class", "a history that does not count has the place and the reason", head, lines)
    head = [("Wrong solution", ""), ("What is wrong", "rule"), ("Result", "word"), ("Points", "num")]
    lines = [
        [code(check["check"]), "" if check["outcome"] == Outcome.AT_LARGE else safe(check["rule"], _LONG)]
        + list(_marks(check, points))
        for check in found["checks"]
    ]
    wrong = table("checks", "what is wrong is shown where it is exposed", head, lines)
    return [f"<section><h2>Histories</h2>{told}</section>", f"<section><h2>Wrong solutions</h2>{wrong}</section>"]


def _verdict(row: Row, cap: str, again: str) -> str:
    lead = []
    if row.status == UNFINISHED:
        lead.append(f"<h2>A rule was broken: at most {number(row.at_most)} of {number(row.of)} points</h2>")
        lead.append("<p>The machine could not judge the rest. It will be run again.</p>")
    elif row.status != GRADED:
        lead.append(f"<h2>This submission could not be graded: {row.status}</h2><p>{safe(_why(row.found), _LONG)}</p>")
    else:
        lead.append(f"<h2>{_passed(row.found['checks'])}</h2>")
        if row.found["why"]:
            lead.append(f'<p class="bad">{safe(row.found["why"], _LONG)}</p>')
        what = "wrong solutions" if "histories" in row.found else "checks"
        lead.append(f"<p>{number(row.points)} of {number(row.of)} points for {what}.</p>")
        if row.found.get("unsafe"):
            lead.append(f"<p>Money or stock was wrong, which limits the points to {safe(cap)}.</p>")
        if row.at_most is not None:
            said = "An earlier run broke a rule before it could be finished"
            lead.append(f"<p>{said}, which limits the points to {number(row.at_most)}.</p>")
        if row.late_days:
            free = f", {row.free_days} of them free" if row.free_days else ""
            late = f"{counted(row.late_days, 'late day')}{free}"
            most = f", because more than {row.most_days} late days leave no points" if row.too_late else ""
            lead.append(f"<p>{late}: a penalty of {number(row.penalty)} points{most}.</p>")
        if row.kept:
            lead.append(f"<p>The same submission was graded again {again}; the earlier result counts.</p>")
    if row.graded_by_hand:
        lead.append("<p>It was graded by hand.</p>")
    lead += [f"<p>{_signed(one.points)} points: {safe(one.reason)}</p>" for one in row.adjusted]
    score = f"<b>{number(row.score)}</b><span>of {number(row.of)} points</span>"
    stamp = "<b>no grade</b>" if row.score is None else score
    left = f'<div class="stamp {"pass" if row.points == row.of else "void"}">{stamp}</div>'
    return f'<div class="verdict">{left}<div class="lead">{"".join(lead)}</div></div>'


def _why(found: Found) -> str:
    """Return for the student why there is no grade. The teacher's reason can name files of others or of the machine."""
    if found["status"] == VOID:
        return _FAILED
    return sentence(found) if found["submission"] else _UNCLEAR


def _signed(points: Decimal) -> str:
    return f"{'−' if points < 0 else '+'}{number(abs(points))}"


def _passed(checks: Sequence[Check]) -> str:
    parts = []
    if wrong := [check for check in checks if check["outcome"] in (Outcome.EXPOSED, Outcome.AT_LARGE)]:
        return f"{sum(check['outcome'] == Outcome.EXPOSED for check in wrong)} of {len(wrong)} wrong solutions exposed"
    for word, some in (("visible", False), ("hidden", True)):
        if those := [check for check in checks if check["hidden"] == some and check["outcome"] != Outcome.MEASURED]:
            good = sum(check["outcome"] == Outcome.PASS for check in those)
            parts.append(f"{word}: {good} of {len(those)} checks pass")
    return "; ".join(parts).capitalize()


def _marks(check: Check, points: Mapping[str, Decimal]) -> tuple[str, str]:
    of = points.get(check["check"], Decimal(0))
    got = f"{number(of * share(check))} of {number(of)}"
    return _outcome(check["outcome"], check["got"]), "none" if check["outcome"] == Outcome.MEASURED and not of else got


def _hidden(checks: Sequence[Check], points: Mapping[str, Decimal], policy: str) -> str:
    of = sum((points.get(check["check"], Decimal(0)) for check in checks), Decimal(0))
    if policy == NOTHING:
        passed = [check for check in checks if check["outcome"] == Outcome.PASS]
        got = sum((points.get(check["check"], Decimal(0)) for check in passed), Decimal(0))
        return f"<p>{_passed(checks)}: {number(got)} of {number(of)} points.</p>"
    head = [("Check", ""), ("What it checks", ""), ("Result", "word"), ("Points", "num")]
    rows = [
        [f'<span class="id">hidden {at}</span>', safe(check["rule"]), *_marks(check, points)]
        for at, check in enumerate(checks, 1)
    ]
    said = _ALL_OR_NOTHING if policy == TRACE else "Not shown: what these checks do with your code."
    return table("checks", said, head, rows)


def _case(check: Check) -> str:
    """Return the case in which a check has failed."""
    parts = [("rule", safe(check["rule"]) + (f" (rule {check['number']})" if check["number"] is not None else ""))]
    if check["says"]:
        term = "the usual cause" if check["outcome"] == Outcome.FAIL else "the mistake"
        parts.append((term, safe(check["says"], _LONG)))
    if check["trace"]:
        parts.append(("what happens", code(check["trace"], _LONG)))
        parts.append(("right answer", code(check["right"], _LONG)))
    terms = {Outcome.WRONG: "your answer", Outcome.DIFFER: "your answer", Outcome.FAIL: "what happened"}
    parts.append((terms.get(check["outcome"], "your code"), code(check["got"], _LONG)))
    if check["outcome"] == Outcome.DIFFER:
        parts.append(("asked again", code(check["other"], _LONG)))
    elif check.get("alone"):  # results of earlier versions have no such field
        parts.append(("the case", safe(ALONE)))
    elif check["case"] and not check["hidden"]:
        parts += [("note", safe(flag)) for flag in check["flags"]]
        parts.append(("run it", code(f"python -m grader check --case {check['check']}:{check['case']}")))
    told = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in parts)
    return f'<div class="case"><h3>{code(check["check"])}: {_outcome(check["outcome"])}</h3><dl>{told}</dl></div>'


def class_page(rows: Sequence[Row], out: Out, rubric: Rubric, problems: Sequence[Sequence[object]]) -> str:
    """Return the page for the teacher: states, scores, pass rate by check, commonest mistakes, problems."""
    lab = out.run["lab"]
    title = f"Lab {out.lab}: {lab['title']}"
    graded = list({out.place(row.id): row for row in rows if row.status == GRADED}.values())  # a team counts once
    body = [f"<h1>{safe(title)}</h1>", f'<p class="about"><span>Bundle {code(out.run["bundle"][:12])}</span></p>']
    said = states(rows)
    scores = [row.score for row in rows if row.score is not None]
    body.append(f"<section><h2>{counted(len(rows), 'student')}: {said}</h2>{_spread(scores)}</section>")
    points = rubric.of(out.points)
    if graded:
        broken = kind_of(lab) == BREAK
        body.append(
            f"<section><h2>{'Wrong solutions' if broken else 'Checks'}</h2>{_rates(graded, points, broken)}</section>"
        )
        if not broken:
            body.append(f"<section><h2>Commonest mistakes</h2>{_mistakes(graded)}</section>")
    if problems:
        head = [("Student", ""), ("State", "word"), ("Problem", ""), ("What to do", "rule")]
        lines = [[code(id), safe(status), safe(why), safe(mend)] for id, _, status, why, mend in problems]
        body.append(f"<section><h2>Problems</h2>{table('class', 'as in problems.csv', head, lines)}</section>")
    return page(title, body)


def _spread(scores: Sequence[Decimal]) -> str:
    if not scores:
        return "<p>No submission has a score.</p>"
    said = {"mean": mean(scores), "median": median(scores), "lowest": min(scores), "highest": max(scores)}
    return f"<p>Scores: {', '.join(f'{name} {number(value)}' for name, value in said.items())}.</p>"


def _rates(rows: Sequence[Row], points: Mapping[str, Decimal], broken: bool) -> str:
    words = ("Wrong solution", "What is wrong", "Exposed by") if broken else ("Check", "What it checks", "Passed")
    head = [(words[0], ""), (words[1], "rule"), ("Points", "num"), (words[2], "num"), ("Share", "bar")]
    lines = []
    checks = {check["check"]: check for row in rows for check in row.found["checks"]}
    for id, check in checks.items():
        good = sum(share(one) for row in rows for one in row.found["checks"] if one["check"] == id)
        percent = 100 * good // len(rows)
        bar = f'<span class="rate"><i style="width:{percent}%"></i></span>'
        name = code(id) + (" (hidden)" if check["hidden"] else "")
        rate = f"{number(Decimal(good))} of {len(rows)} ({percent}%)"
        lines.append([name, safe(check["rule"]), number(points.get(id, Decimal(0))), rate, bar])
    return table("class", f"the share of the graded submissions that {'expose it' if broken else 'pass'}", head, lines)


def _mistakes(rows: Sequence[Row]) -> str:
    """Return the mistakes that the first failing checks show, the commonest first."""
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        first = next((check for check in row.found["checks"] if check["outcome"] not in _FINE), None)
        if first is not None and row.found["why"]:
            found[first["check"], row.found["why"].partition(":")[0] + "."] += 1
        elif first is not None:
            said = first["says"] or f"{first['rule']} ({_WORDS[first['outcome']]})"
            found[first["check"], said] += 1
    if not found:
        return "<p>None: every check passes.</p>"
    head = [("Submissions", ""), ("First failing check", "word"), ("Mistake", "")]
    lines = [[str(many), code(check), safe(said)] for (check, said), many in found.most_common(20)]
    return table("class", "by the first failing check of each submission", head, lines)
