"""report.html in a first form: one file, no script, nothing from outside; every value from a system is escaped."""

from __future__ import annotations

from html import escape

from ..judge import Judgement
from ..judge.story import named, story
from ..record import Record
from .model import found, sentence

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --band: #f3f5f7; --ink: #1a1e23; --soft: #535c66; --line: #cfd6dd;
 --good: #0b5394; --bad: #a33800; }
@media (prefers-color-scheme: dark) { :root { --bg: #15181c; --band: #1d2227; --ink: #e6e9ed; --soft: #a5afba;
 --line: #3a424b; --good: #82bdf2; --bad: #ffa270; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1096px; margin: 0 auto; padding: 20px 24px 56px; overflow-wrap: break-word; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 20px; margin: 32px 0 4px; } .soft { color: var(--soft); }
.verdict { border: 1px solid var(--line); border-left: 12px solid var(--c); padding: 14px 20px; margin-top: 16px; }
.verdict b { color: var(--c); font-size: 32px; } .fail { --c: var(--bad); } .pass { --c: var(--good); }
.void { --c: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: 14px; } th { text-align: left; color: var(--soft); }
th, td { padding: 6px 12px 6px 0; border-top: 1px solid var(--line); vertical-align: top; font-weight: 400; }
td.fail { color: var(--bad); font-weight: 650; } td.pass { color: var(--good); font-weight: 650; }
pre, code { font-family: ui-monospace, monospace; font-size: 13px; white-space: pre-wrap; }
@media print { :root { color-scheme: light; } }
"""
_SHOWN = 60
"""Violations in the page; the rest is in report.json."""


def _row(*cells: object, kind: str = "td", classes: tuple[str, ...] = ()) -> str:
    marks = [*classes, *[""] * (len(cells) - len(classes))]
    told = (
        f"<{kind}{f' class={c!r}' if c else ''}>{escape(str(x))}</{kind}>" for x, c in zip(cells, marks, strict=True)
    )
    return f"<tr>{''.join(told)}</tr>"


def as_html(record: Record, judgement: Judgement) -> str:
    """The page."""
    about, violations = record.about, judgement.violations
    title = f"{about['submission']['name']}: {judgement.verdict}"
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(about['submission']['name'])}: checkout assignment</h1>",
        f"<p class='soft'>Run it again: <code>{escape(about['repeat'])}</code></p>",
        f"<section class='verdict {judgement.verdict}'><b>{judgement.verdict.upper()}</b>",
        f"<p>{escape(sentence(judgement))}</p></section>",
        "<h2>Phases</h2><table>",
        _row("Phase", "Verdict", "Found", kind="th"),
    ]
    for name, phase in judgement.phases.items():
        said = phase.why or found(record, judgement, name)
        parts.append(_row(name, phase.verdict.replace("_", " "), said, classes=("", phase.verdict)))
    parts.append("</table>")
    first = named(violations)
    if first is not None and first.order >= 0:
        told = story(record, first)
        parts.append(f"<h2>What happened to order <code>{escape(told.label)}</code></h2>")
        parts.append(f"<p>In the system it is <code>{escape(told.order_id)}</code>. Rule {escape(first.rule)}: ")
        parts.append(f"{escape(first.detail)}.</p><table>")
        parts.append(_row("Second of the run", "Who", "What", kind="th"))
        parts += [_row(f"{moment.at:.4f}", moment.lane, moment.what) for moment in told.moments]
        parts.append("</table>")
    if violations:
        parts.append(f"<h2>{len(violations):,} violations</h2><table>")
        parts.append(_row("Rule", "Phase", "Order", "Detail", kind="th"))
        for v in violations[:_SHOWN]:
            among = f"one of {len(v.candidates)}: {', '.join(v.candidates[:6])}" if v.candidates and not v.label else ""
            parts.append(_row(v.rule, v.phase, v.label or among, v.detail))
        parts.append("</table>")
        if len(violations) > _SHOWN:
            parts.append(f"<p>and {len(violations) - _SHOWN:,} more in report.json</p>")
    if judgement.score is not None:
        parts.append(f"<h2>Score: {judgement.score.points} of 100</h2><table>")
        parts.append(_row("Part", "Measured", "Points", "Of", kind="th"))
        parts += [_row(part.name, part.measured, part.points, part.most) for part in judgement.score.parts]
        parts.append(_row("sum", "before the cap" if judgement.score.capped else "", judgement.score.total, ""))
        parts.append("</table>")
    parts.append("<h2>What was not tested, and why</h2><table>")
    parts += [_row(what, why) for what, why in judgement.not_tested]
    parts.append("</table>")
    parts.append(f"<h2>Sandbox</h2><p>Tier {about['sandbox']['tier']}: {escape(about['sandbox']['name'])}. ")
    parts.append(f"{escape(about['sandbox']['why'])}</p><table>")
    parts.append(_row("A submission that", "is stopped", kind="th"))
    parts += [_row(threat, "yes" if stopped else "no") for threat, stopped in about["sandbox"]["stops"]]
    parts.append("</table>")
    if about.get("failure"):
        parts.append(f"<h2>Why it ended early</h2><pre>{escape(about['failure']['why'])}</pre>")
    parts.append("</main></body></html>\n")
    return "".join(parts)
