"""Makes report.html, a single file without scripts or external resources.

The page starts with the verdict and the score. The next sections are the phases, the story of one order, the violations
by pattern, latencies, speed, the parts of the score, the list of what was not tested, the environment and a glossary.
`words.safe` escapes every value that comes from a submission, and the page's content security policy forbids scripts
and external resources.
"""

from __future__ import annotations

from ..outcomes import Verdict
from ..record import Record
from ..table import JUDGED, TABLE
from ..verdict import Judgement
from ..verdict.score import Score
from ..verdict.story import Story, example, longest, named, story
from ..verdict.violations import Violation
from .causes import cause_of
from .charts import steps, waiting
from .groups import CANDIDATES, exchange, groups, headline, rules_table
from .model import result_of
from .powercut import sentence
from .style import STYLE
from .timeline import facts, log_lines, sums, timeline
from .words import ID, LINE, TEXT, code, counted, row, safe, seconds, sign, table

_GRADED = "good enough for a grade"
"""The only entry in the sandbox's list of threats that is not a threat."""
WORDS = (
    ("Attempt", "one request to check out an order. An order can have several attempts, but it must take effect once "
     "or not at all."),
    ("Done", "answered 2xx, which promises that the order is paid."),
    ("Refused", "answered 4xx, which promises that the checkout has no effect, now or later."),
    ("No promise", "answered 5xx, timed out or disconnected. The checkout may or may not have taken effect."),
    ("Kill, pause", "a kill (kill -9) stops a process without warning. A pause (SIGSTOP) freezes it for a few "
     "seconds."),
    ("Finding the order", "the amounts of a user's orders are based on different powers of 8, so a wrong balance shows "
     "which order took effect more than once or not at all."),
    ("Candidates", "the orders that may have broken a rule, if the balances do not identify a single one."),
    ("p50, p99", "half of the checkouts took less than p50, and 99% took less than p99, measured from the time when "
     "each was due."),
    ("Sustained", "a rate at which at least 99% of the checkouts are done, p99 is at most 1 s and all balances are "
     "right."),
    ("Void", "the machine was too busy, or the grader failed. There is no verdict and no score, so run it again."),
)  # fmt: skip


def _most(score: Score) -> str:
    return f"{sum(part.most for part in score.parts):g}"


def _upper(text: str) -> str:
    said = safe(text, TEXT)
    return said if said[:1] == "&" else said[:1].upper() + said[1:]


def _limit(name: str, value: float) -> str:
    """Return the value of a field of `terms.Limits` with its unit."""
    if name in ("memory", "disk"):
        return f"{value / 2**30:g} GiB"
    if name in ("files", "top_rate"):
        return f"{value:,}{'/s' if name == 'top_rate' else ''}"
    return f"{100 * value:g}%" if name == "success" else f"{value:g} s"


def _lead(judgement: Judgement, first: Violation | None) -> str:
    if judgement.verdict == "void":
        return f"No verdict: {safe(judgement.why.partition(chr(10))[0], LINE)}."
    if first is not None:
        return headline(first)
    return safe(judgement.why.partition("\n")[0], LINE) or "No rule was broken in the phases that ran."


def _verdict(record: Record, judgement: Judgement, first: Violation | None, told: Story | None) -> str:
    word, score = judgement.verdict, judgement.score
    points = f"<span>{score.points:g} of {_most(score)}</span>" if score else "<span>no score</span>"
    cap = f"<em>{score.total:g} before the cap for a broken safety rule</em>" if score and score.capped else ""
    if judgement.at_most is not None:
        points = f"<span>at most {judgement.at_most.points:g} of {_most(judgement.at_most)}</span>"
        cap = f"<em>run it again for the rest: {safe(judgement.why.partition(chr(10))[0], LINE)}</em>"
    elif score is None and word != "void":
        cap = "<em>a score requires phases 1 to 5</em>"
    parts = [f"<section class='verdict {word}'><div class='stamp'><b>{sign(word)}{word.upper()}</b>{points}{cap}</div>"]
    parts.append(f"<div class='lead'><h2>{_lead(judgement, first)}</h2>")
    if word == "void":
        seen = f" Observed in phase {safe(first.phase)}: {safe(first.detail)}." if first is not None else ""
        parts.append(f"<p>A void run says nothing about the submission. Run it again on an idle machine.{seen}</p>")
    elif first is not None:
        parts.append(f"<p>{_upper(first.detail)}.</p>")
        more = len(judgement.violations) - 1
        parts.append("<p><a href='#order'>The full story</a>")
        parts.append(f" · <a href='#rules'>{counted(more, 'more violation')}</a></p>" if more else "</p>")
    elif word == "pass":
        missing = [name for name in JUDGED if judgement.phases[name].verdict == Verdict.NOT_TESTED]
        parts.append("<p>All balances are right, all acknowledged orders are paid, and no refused order is paid.</p>")
        parts.append(f"<p>Phases that did not run: {', '.join(missing)}.</p>" if missing else "")
    if first is not None and told is not None:
        cells = (
            f"<div class='{'' if right else 'no'}'><dt>{ask}</dt><dd>"
            f"{sign('pass' if right else 'fail', 'good' if right else 'bad')}{said}</dd></div>"
            for _, ask, said, right in facts(judgement, first.rule, first.order, told)
        )
        parts.append(f"<dl class='facts'>{''.join(cells)}</dl>")
    return "".join([*parts, "</div></section>"])


def _phases(record: Record, judgement: Judgement) -> str:
    rows = [
        row("Phase", "What the grader does", "Verdict", "Result", "Time", kind="th", classes=("", "", "", "", "num"))
    ]
    for number, (name, phase) in enumerate(judgement.phases.items(), 1):
        result = safe(phase.why or (result_of(record, judgement, name) if phase.figures else ""))
        broken = sum(violation.phase == name for violation in judgement.violations)
        text = f"<b>{counted(broken, 'violation')}.</b> {result}" if broken else result
        tone = {Verdict.PASS: "good", Verdict.FAIL: "bad"}.get(phase.verdict, "")
        word = f"<span class='{tone}'>{sign(phase.verdict)}{phase.verdict.word.lower()}</span>"
        figures = phase.figures
        took = seconds(figures["end_s"] - figures["begin_s"]) if "end_s" in figures and "begin_s" in figures else ""
        classes = ("name", "does", "word", "found", "num")
        cells = (f"{number} <b>{name}</b>", TABLE[name].does, word, text, took)
        rows.append(row(*cells, classes=classes, mark="broke" if phase.verdict == Verdict.FAIL else ""))
    return f"<section><h2>{counted(len(judgement.phases), 'phase')}</h2>{table('phases', *rows)}</section>"


def _named(record: Record, judgement: Judgement, first: Violation, told: Story | None) -> str:
    cause = cause_of(first)
    parts = ["<section id='order'>"]
    if told is not None:
        parts.append(f"<h2>What happened to order {code(told.label)}</h2><p class='soft'>Its id in your system: ")
        parts.append(f"{code(told.order_id)}. Times are relative to its first checkout, which was due ")
        parts.append(f"{seconds(told.begin)} into the run.</p>")
        parts.append(timeline(record, told, facts(judgement, first.rule, first.order, told)))
    else:
        parts.append(f"<h2>What happened in phase {safe(first.phase)}</h2><p>{_upper(first.detail)}.</p>")
        if first.rule == "contract":
            parts.append(exchange(record))
        if first.candidates:
            names = ", ".join(code(name) for name in first.candidates[:CANDIDATES])
            more = f", and {len(first.candidates) - CANDIDATES:,} more" if len(first.candidates) > CANDIDATES else ""
            parts.append(f"<p>The balances do not identify the order. It is one of {names}{more}.</p>")
            one = example(record, first)
            if one >= 0:
                other = story(record, one, first.phase)
                parts.append(f"<h3>One of them: {code(other.label)}, id in your system: {code(other.order_id)}</h3>")
                parts.append(timeline(record, other, facts(judgement, first.rule, one, other)))
    look = "".join(f"<li>{safe(place)}</li>" for place in cause.look)
    parts.append(f"<div class='why'><div class='rule'><h3>Broken rule: {safe(cause.name)}</h3>")
    parts.append(f"<p>{safe(cause.rule)}</p><p><b>Found:</b> {safe(first.detail)}.</p>")
    parts.append(sums(told, first.rule) if told is not None else "")
    parts.append(f"</div><div><h3>The usual cause</h3><p>{safe(cause.usual)}</p></div>")
    parts.append(f"<div><h3>Where to look</h3><ol>{look}</ol></div></div>")
    return "".join([*parts, log_lines(record, told) if told is not None else "", "</section>"])


def _survivor(record: Record, judgement: Judgement) -> str:
    """Return the section about the order that a fault delayed most, or "" if there is none. Used if the run passed."""
    order = longest(record)
    if order < 0:
        return ""
    told = story(record, order, "faults")
    seen = facts(judgement, "", order, told)
    head = f"<section id='order'><h2>The order that a fault delayed most: {code(told.label)}</h2>"
    return head + timeline(record, told, seen) + "</section>"


def _tables(record: Record, judgement: Judgement) -> str:
    about, score = record.about, judgement.score
    parts = []
    if score is not None:
        rows = [row("Part", "Measured", "Points", "Maximum", kind="th", classes=("", "", "num", "num"))]
        for part in score.parts:
            cells = (safe(part.name.replace("_", " ")), safe(part.measured), f"{part.points:.1f}", f"{part.most:g}")
            rows.append(row(*cells, classes=("", "", "num", "num")))
        rows.append(row("<b>total</b>", "", f"<b>{score.total:.1f}</b>", _most(score), classes=("", "", "num", "num")))
        if score.capped:
            cells = ("<b>cap</b>", "a safety rule is broken", f"<b>{score.points:.1f}</b>", "")
            rows.append(row(*cells, classes=("bad", "bad", "num bad", "")))
        parts.append(f"<section><h2>Score</h2>{table('score', *rows)}</section>")
    left = "".join(row(f"<b>{safe(what, ID)}</b>", safe(why)) for what, why in judgement.not_tested)
    if judgement.powercut.tested:
        said = f"A separate run, which affects neither verdict nor score. {sentence(judgement.powercut)}"
        left += row("<b>Tested separately: power cut</b>", safe(said, 2 * TEXT))
    parts.append(f"<section><h2>What was not tested, and why</h2>{table('env', left)}</section>")
    machine = ", ".join(f"{name} {value}" for name, value in sorted(about.get("machine", {}).items()))
    names = ", ".join(f"{p['name']} ({p['role']})" for p in about["submission"]["processes"][:20])
    box = about["sandbox"]
    limits = ", ".join(f"{n.replace('_', ' ')} {_limit(n, v)}" for n, v in sorted(about["limits"].items()))
    pairs = [
        ("Machine", safe(machine)),
        ("Processes", safe(names)),
        ("Hash of the submission", code(about["submission"].get("hash", ""), ID)),
        ("Seed", safe(about["seed"])),
        ("Limits", safe(limits, 600)),
        ("Sandbox", f"tier {safe(box['tier'])}: {safe(box['name'])}. {safe(box['why'])}"),
        (_GRADED.capitalize(), "yes" if dict(box["stops"]).get(_GRADED) else "no: self-check only"),
    ]
    stops = [
        row(safe(threat), f"{sign('done' if stopped else 'never')}{'yes' if stopped else 'no'}")
        for threat, stopped in box["stops"]
        if threat != _GRADED
    ]
    head = row("A submission that …", "… is stopped", kind="th")
    parts.append(f"<section><h2>Environment</h2>{table('env', *(row(*pair) for pair in pairs))}")
    return "".join([*parts, table("score", head, *stops), "</section>"])


def as_html(record: Record, judgement: Judgement) -> str:
    """Return the text of report.html. This is a pure function of the record and its judgement."""
    about, first = record.about, named(judgement.violations)
    name = safe(about["submission"]["name"], ID)
    told = story(record, first.order, first.phase) if first is not None and first.order >= 0 else None
    ends = [notes.end_s or 0.0 for notes in record.phases.values()]
    points = f", {judgement.score.points:g} of {_most(judgement.score)}" if judgement.score else ""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<meta name='color-scheme' content='light dark'>",
        f"<title>{name}: {judgement.verdict}{points}</title><style>{STYLE}</style></head><body><main>",
        f"<header><h1>{name}: checkout assignment</h1><p class='about'><span>{safe(about['mode'])} run</span>",
        f"<span>took {seconds(max(ends, default=0.0))}</span><span>seed {safe(about['seed'])}</span>",
        f"<span>sandbox tier {safe(about['sandbox']['tier'])}</span></p>",
        f"<p class='soft'>To repeat this run: {code(about['repeat'], 600)}</p></header>",
        _verdict(record, judgement, first, told),
        _phases(record, judgement),
    ]
    if about.get("failure"):
        why = "\n".join(safe(line) for line in str(about["failure"]["why"]).splitlines()[:60])
        parts.append(f"<section><h2>Why the run ended early</h2><pre>{why}</pre></section>")
    if first is not None and judgement.verdict != "void":
        parts.append(_named(record, judgement, first, told))
    elif judgement.verdict == "pass":
        parts.append(_survivor(record, judgement))
    parts.append(f"<section id='rules'><h2>{counted(len(judgement.violations), 'violation')} by rule</h2>")
    parts.append(f"{rules_table(judgement)}{groups(record, judgement)}</section>")
    chart, table = waiting(record, judgement), steps(judgement)
    parts.append(f"<section><h2>How long a checkout took</h2>{chart}</section>" if chart else "")
    if table:
        speed = judgement.speed
        best = (
            f"The system sustained {'at least ' if speed['at_least'] else ''}{speed['sustained_per_s']:,.0f} per second"
            if speed
            else "The system did not sustain any rate"
        )
        parts.append(f"<section><h2>Checkouts per second</h2><p>{best}, with 99% done, p99 at most 1 s from the time ")
        parts.append(f"when each was due, and all balances right.</p>{table}</section>")
    parts.append(_tables(record, judgement))
    words = "".join(f"<div><dt>{word}</dt><dd>{meaning}</dd></div>" for word, meaning in WORDS)
    parts.append(f"<section><h2>Terms</h2><dl class='words'>{words}</dl></section><footer>report.json contains the ")
    parts.append("same findings. <code>python -m grader replay</code> recreates this page from the record.</footer>")
    return "".join([*parts, "</main></body></html>\n"])
