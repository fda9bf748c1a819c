"""Groups violations by pattern, and describes how often an order was charged and its stock was taken."""

from __future__ import annotations

from collections import Counter

from ..record import Record
from ..terms import RULES
from ..verdict import Judgement
from ..verdict.story import answers, fault_of, faults
from ..verdict.violations import Violation
from .causes import CAUSES, cause_of
from .words import LINE, TEXT, code, counted, row, safe, table

GROUPS, ORDERS, CANDIDATES = 8, 6, 6
"""The maximum number of groups, orders per group and candidates per violation to show. The others are only counted."""


def pattern(violation: Violation) -> tuple[object, ...]:
    """Return the key by which a violation is grouped: what it is about, besides the order and its amounts."""
    effect = (violation.times is None, violation.times or 0, violation.due is None, violation.due or 0)
    return violation.rule, violation.phase, violation.order >= 0, violation.lost, *effect


def times(judgement: Judgement, order: int, rule: str, paid: bool) -> tuple[str, bool]:
    """Return in words how often an order was charged (or its stock was taken), and whether that is right.

    ``rule`` is charged_times or taken_times, and ``paid`` is whether the order is paid.
    """
    for v in judgement.violations:
        if v.rule == rule and v.order == order:
            return _often(v.times) or "wrong total", False
    return ("once" if paid else "never"), True


def _often(times: int | None) -> str:
    """Return in words how often an order took effect, or "" if only a total is known."""
    return "" if times is None else {0: "never", 1: "once", 2: "twice"}.get(times, f"{times} times")


def headline(violation: Violation) -> str:
    """Return the headline about a violation's order or, if it does not name one, about its phase."""
    said = cause_of(violation)
    who = f"Order {code(violation.label)}" if violation.label else f"Phase {safe(violation.phase)}"
    often = _often(violation.times)
    if often and violation.label:
        tail = ", but it is not paid" if often == "once" else ""
        money = violation.rule == "charged_times"
        if often == "never":
            return f"{who} was never charged." if money else f"{who} never took its stock."
        return f"{who} was charged {often}{tail}." if money else f"{who} took its stock {often}{tail}."
    return f"{who} {safe(said.told)}." if violation.label and said.told else f"{who}: {safe(said.name)}."


def rules_table(judgement: Judgement) -> str:
    """Return a table of all rules with the number of violations of each, as HTML."""
    count = Counter(v.rule for v in judgement.violations)
    rows = [row("Rule", "What it requires", "Violations", kind="th", classes=("", "wide", "num"))]
    for rule in RULES:
        said = CAUSES[rule]
        number = f"<b class='bad'>{count[rule]:,}</b>" if count[rule] else "0"
        name = f"<b>{safe(said.name)}</b><br>{code(rule)}"
        rows.append(row(name, safe(said.rule), number, classes=("", "wide", "num"), mark="some" if count[rule] else ""))
    return table("rules", *rows)


def groups(record: Record, judgement: Judgement) -> str:
    """Return the groups of violations as HTML: first that of the headline, then the largest."""
    by_pattern: dict[tuple[object, ...], list[Violation]] = {}
    for violation in judgement.violations:
        by_pattern.setdefault(pattern(violation), []).append(violation)
    ordered = sorted(by_pattern.items(), key=lambda p: (p[1][0] != judgement.violations[0], -len(p[1]), p[0]))
    parts, seen, known = [], set(), faults(record)
    for _, members in ordered[:GROUPS]:
        first, phase = members[0], members[0].phase
        cause = cause_of(first)
        head = safe(first.detail if len({member.detail for member in members}) == 1 else cause.rule)
        parts.append(f"<div class='group'><h3>{safe(cause.name)}: {counted(len(members), 'violation')} ")
        parts.append(f"in phase {safe(phase)}</h3><p>{head}</p>")
        if cause.usual not in seen:
            parts.append(f"<p class='soft'><b>Usual cause:</b> {safe(cause.usual)}</p>")
        seen.add(cause.usual)
        parts.append(_orders(record, members, known) if first.order >= 0 else _loose(members))
        if len(members) > ORDERS:
            parts.append(f"<p class='soft'>and {len(members) - ORDERS:,} more in report.json</p>")
        parts.append("</div>")
    rest = sum(len(members) for _, members in ordered[GROUPS:])
    if rest:
        parts.append(f"<p class='soft'>{counted(len(ordered) - GROUPS, 'more group')} with ")
        parts.append(f"{counted(rest, 'violation')}: see report.json.</p>")
    return "".join(parts)


def _orders(record: Record, members: list[Violation], known: list[tuple[float, str]]) -> str:
    rows = [row("Order", "Id in your system", "Answers", "Nearest fault in time", kind="th", classes=("", "wide"))]
    for violation in members[:ORDERS]:
        tries = answers(record, violation.order)
        said = ", ".join(_short(status) for _, _, _, status in tries[:5]) + (", …" if len(tries) > 5 else "")
        at = fault_of(known, tries[0][0], max(done for _, _, done, _ in tries)) if tries else -1
        fault = f"{at + 1}: {safe(known[at][1], 60)}" if at >= 0 else "none"
        rows.append(
            row(code(violation.label), code(violation.order_id, 40), said or "none", fault, classes=("", "wide"))
        )
    return table("orders", *rows)


def _loose(members: list[Violation]) -> str:
    rows = []
    for v in members[:ORDERS]:
        names = ", ".join(code(name) for name in v.candidates[:CANDIDATES])
        more = len(v.candidates) - CANDIDATES
        among = f"<br><span class='soft'>One of {len(v.candidates):,}: {names}" if names else ""
        tail = f", and {more:,} more" if more > 0 else ""
        rows.append(f"<li>{safe(v.detail, TEXT)}{among}{tail}{'</span>' if among else ''}</li>")
    return f"<ul>{''.join(rows)}</ul>"


def _short(status: int) -> str:
    return str(status) if status >= 100 else {-1: "timeout", -2: "lost", -3: "not HTTP"}.get(status, "not sent")


def exchange(record: Record) -> str:
    """Return the first wrong answer of the contract phase as HTML: the request, the expected and the actual answer."""
    wrong = next((each for each in record.exchanges if not each.agreed and each.asked), None)
    if wrong is None:
        return ""
    cells = {"Request": wrong.request, "Expected": wrong.expected, "Got": wrong.got, "All answers": wrong.differs}
    rows = [row(name, code(text, TEXT)) for name, text in cells.items() if text]
    return f"<p>{safe(wrong.title, LINE)}</p>{table('pairs', *rows)}"
