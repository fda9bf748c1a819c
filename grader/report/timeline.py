"""Draws the story of one order as a table. Time runs downwards.

The grader, each service and the faults have a lane each. Each row also describes its event in a complete sentence,
because a narrow page hides the labels in the lanes. The rows are not to scale. A long story is shortened to its
beginning, its faults and its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from ..record import Record
from ..terms import Entity
from ..verdict import Judgement
from ..verdict.story import Moment, Story
from .groups import times
from .words import LINE, code, counted, row, safe, seconds, sign, table

LANES = ("order", "stock", "payment")
MOST_ROWS, KEPT = 14, 6
"""The maximum number of rows (one printed page), and the number of rows that a longer story keeps at each end."""
MOST_LOG, MOST_TRACE, LONG = 24, 10, 8
"""The maximum number of lines to show from each log and from the end of a traceback; the length of an id that is long
enough to be found without its route."""
SAYS = {
    "done": "answered 2xx: done",
    "refused": "answered 4xx: refused",
    "unknown": "no promise: an error or no answer",
    "never": "never sent",
    "kill": "killed",
    "pause": "paused",
    "up": "ready or resumed",
    "read": "read by the grader",
}
_EFFECT = {
    "done": "The system promises that the order is paid.",
    "refused": "The system promises that this request has no effect, now or later.",
    "unknown": "The checkout may or may not have taken effect. The client cannot know.",
    "never": "The request was not sent, so it has no effect.",
}


@dataclass
class _Row:
    at: float
    mark: str
    count: int = 1
    ends: dict[str, int] = field(default_factory=dict)
    moment: Moment | None = None
    numbers: list[int] = field(default_factory=list)
    """The attempts that were sent."""


def facts(judgement: Judgement, rule: str, order: int, story: Story) -> list[tuple[str, str, str, bool]]:
    """Return three facts about one order, as read at the end: (lane, label, value, whether the value is right)."""
    paid = story.paid == "paid"
    taken, taken_right = times(judgement, order, "taken_times", paid)
    charged, charged_right = times(judgement, order, "charged_times", paid)
    # If a balance is unreadable, it is unknown how often the order took effect.
    unread = {s.entity for s in story.sums if s.shown is None}
    if Entity.ITEM in unread:
        taken, taken_right = "unreadable", False
    if Entity.USER in unread:
        charged, charged_right = "unreadable", False
    wrong = story.paid not in ("paid", "not paid") or rule in ("ok_not_paid", "refused_but_paid")
    return [
        ("order", "Order service says", story.paid, not wrong),
        ("stock", "Stock was taken", taken, taken_right),
        ("payment", "The user was charged", charged, charged_right),
    ]


def _rows(moments: tuple[Moment, ...]) -> list[_Row]:
    """Return one row per event, but merge consecutive requests into one row and consecutive answers into another."""
    rows: list[_Row] = []
    for m in moments:
        last = rows[-1] if rows else None
        if m.lane == "faults":
            rows.append(_Row(m.at, m.mark, moment=m))
        elif m.mark == "sent":
            if last and last.mark == "sent":
                last.count += 1
            else:
                last = _Row(m.at, "sent", moment=m)
                rows.append(last)
            last.numbers.append(m.attempt)
        elif last and last.ends:
            last.ends[m.mark] = last.ends.get(m.mark, 0) + 1
            last.count += 1
        else:
            rows.append(_Row(m.at, m.mark, moment=m, ends={m.mark: 1}))
    return rows


def _cut(rows: list[_Row]) -> tuple[list[_Row], int, int]:
    """Return the rows to show (beginning, faults and end), the index of the gap, and the number of hidden rows.

    The index is -1 if no row is hidden.
    """
    if len(rows) <= MOST_ROWS:
        return rows, -1, 0
    middle = [r for r in rows[KEPT:-KEPT] if r.mark in ("kill", "pause")][: MOST_ROWS - 2 * KEPT]
    kept = rows[:KEPT] + middle + rows[-KEPT:]
    return kept, KEPT + len(middle), len(rows) - len(kept)


def _cell(line: str, mark: str = "", words: str = "", tone: str = "") -> str:
    inner = f"<span class='at'>{mark}</span><span class='lab'>{words}</span>" if mark else ""
    return f"<td class='lane {line} {tone}'>{inner}</td>"


def timeline(record: Record, story: Story, seen: list[tuple[str, str, str, bool]]) -> str:
    """Return the table of a story as HTML. ``seen`` contains the facts for the last row, as returned by `facts`."""
    own = _homes(record)
    rows, gap, missing = _cut(_rows(story.moments))
    heads = [
        ("Grader", "sends, reads"),
        *((lane.capitalize(), "service") for lane in LANES),
        ("Faults", "and restarts"),
    ]
    titles = "".join(f"<th scope='col' class='lane'><b>{a}</b> <span>{b}</span></th>" for a, b in heads)
    parts = ["<table class='story'><colgroup><col class='when'><col class='l' span='5'><col></colgroup><thead><tr>"]
    parts.append(f"<th scope='col' class='when'>Time</th>{titles}<th scope='col' class='say'>What happened</th></tr>")
    parts.append("</thead><tbody>")
    down: dict[str, str] = {}
    waiting = 0
    for place, r in enumerate(rows):
        if place == gap:
            dots = "".join(_cell("") for _ in range(5))
            parts.append(f"<tr><td class='when'>…</td>{dots}<td class='say soft'>{missing:,} more events.</td></tr>")
        parts.append(f"<tr{' class=hit' if r.mark in ('kill', 'pause') else ''}>")
        parts.append(f"<td class='when'>{seconds(r.at - story.begin)}</td>")
        before = waiting
        if r.mark == "sent":
            waiting += r.count
            number = f"{r.numbers[0] if r.count == 1 else r.count:,}"
            parts.append(_cell(_open(before, waiting), f"<i class='disc'>{number}</i>", "sent"))
        elif r.ends:
            waiting = max(0, waiting - r.count)
            main = max(r.ends, key=lambda k: r.ends[k])
            words = "done" if main == "done" else "refused" if main == "refused" else "no answer"
            parts.append(_cell(_open(before, waiting), sign(main), words if len(r.ends) == 1 else "mixed"))
        else:
            parts.append(_cell(_open(before, waiting)))
        parts += _services(r, own, down)
        parts.append(f"<td class='say'>{_sentence(r)}</td></tr>")
    parts.append(_last(story, seen))
    parts.append("</tbody></table><ul class='key'><li><i class='bar'></i>a request is open</li>")
    parts.append("<li><i class='run'></i>running</li><li><i class='off'></i>down or paused</li>")
    return "".join(parts) + "".join(f"<li>{sign(m)}{words}</li>" for m, words in SAYS.items()) + "</ul>"


def _homes(record: Record) -> dict[str, set[str]]:
    """Return the names of the processes that provide each lane's service.

    If no process has the role of a service, the gateways and other processes provide it. If there are none of these,
    all processes except the databases do.
    """
    processes = record.about["submission"]["processes"]
    rest = {str(p["name"]) for p in processes if p["role"] not in ("database", *LANES)}
    any_service = {str(p["name"]) for p in processes if p["role"] != "database"}
    return {lane: {str(p["name"]) for p in processes if p["role"] == lane} or rest or any_service for lane in LANES}


def _open(before: int, after: int) -> str:
    return f"{'top-open' if before else ''} {'end-open' if after else ''}"


def _services(r: _Row, own: dict[str, set[str]], down: dict[str, str]) -> list[str]:
    cells, m = [], r.moment
    process = m.process if m and m.lane == "faults" else ""
    for lane in LANES:
        mine = process in own[lane]
        top = "top-off" if lane in down else "top-run"
        if mine and r.mark in ("kill", "pause"):
            down[lane] = process
        elif mine and r.mark == "up":
            down.pop(lane, None)
        line = f"{top} {'end-off' if lane in down else 'end-run'}"
        shown = mine and r.mark in ("kill", "pause", "up")
        cells.append(_cell(line, sign(r.mark), "ready" if r.mark == "up" else SAYS[r.mark]) if shown else _cell(line))
    cells.append(_cell("", sign(r.mark), safe(m.what, 24)) if process and m else _cell(""))
    return cells


def _sentence(r: _Row) -> str:
    m = r.moment
    if m and m.lane == "faults":
        who = code(m.process)
        said = {"kill": "The grader kills {} (kill -9).", "pause": "The grader pauses {} (SIGSTOP)."}
        said["up"] = "The grader resumes {}." if m.what == "resume" else "{} is ready."
        return f"<b>{said[r.mark].format(who)}</b>" if r.mark in said else f"{who}: {safe(m.what, 60)}."
    if r.mark == "sent":
        if r.count > 1:
            return f"The grader sends the checkout {r.count:,} times at once (attempts {r.numbers[0]}-{r.numbers[-1]})."
        return (
            "The grader sends the checkout."
            if r.numbers[0] == 1
            else f"The grader sends the same checkout again, attempt {r.numbers[0]}."
        )
    if r.count > 1:
        return (
            "Answers: "
            + ", ".join(f"{n:,} {k.replace('unknown', 'uncertain')}" for k, n in sorted(r.ends.items()))
            + "."
        )
    words = safe(m.what) if m else ""
    return f"{words[:1].upper()}{words[1:]}. <small>{_EFFECT[r.mark]}</small>"


def _last(story: Story, seen: list[tuple[str, str, str, bool]]) -> str:
    when = f"<td class='when'>{seconds(story.read - story.begin)}</td>"
    parts = [f"<tr class='end'>{when}{_cell('', sign('read'), 'reads all')}"]
    for _, _, said, right in seen:
        tone, mark = ("right", sign("pass", "good")) if right else ("wrong", sign("fail", "bad"))
        parts.append(_cell("top-run", mark, said, tone))
    parts.append(_cell(""))
    listed = "".join(
        f"<li class='{'' if right else 'bad'}'>{sign('pass' if right else 'fail', 'good' if right else 'bad')}"
        f"{question}: {said}</li>"
        for _, question, said, right in seen
    )
    parts.append("<td class='say'><b>The grader reads every order, credit and stock.</b> ")
    parts.append("<small>The balances show how often the order took effect.</small>")
    return "".join(parts) + f"<ul class='now'>{listed}</ul></td></tr>"


def sums(story: Story, rule: str) -> str:
    """Return a table for each balance of the order, as HTML. The balances that violate ``rule`` are first."""
    parts = []
    first = Entity.ITEM if rule == "taken_times" else Entity.USER
    for s in sorted(story.sums, key=lambda s: s.entity != first):
        word = "credit of user" if s.entity == Entity.USER else "stock of item"
        shown = "unreadable" if s.shown is None else f"{s.shown:,}"
        rows = [
            row(f"{word} {code(s.id, 40)}, at the start", f"{s.start:,}", classes=("", "num")),
            row(f"minus {counted(s.orders, 'paid order')}", f"−{s.less:,}", classes=("", "num")),
            row("expected", f"{s.start - s.less:,}", classes=("", "num")),
            row("read", shown, classes=("", "num")),
        ]
        gap = 0 if s.shown is None else s.shown - (s.start - s.less)
        if gap:
            word = "missing" if gap < 0 else "too much"
            rows.append(row(f"<b>{word}</b>", f"<b>{abs(gap):,}</b>", classes=("bad", "num bad")))
        parts.append(table("sum", *rows))
    return "".join(parts)


def log_lines(record: Record, story: Story) -> str:
    """Return a few log lines per process as HTML: those about the order first, with the tracebacks below them."""
    homes, parts = _homes(record), []
    for name, text in sorted(record.logs.items()):
        patterns = _patterns(story, name in homes["stock"] - homes["order"])
        found, begin, quoted = list[tuple[int, list[str]]](), 0, 0
        for line in text.split("\n"):
            below = begin + len(line) + 1
            rank = next((n for n, p in enumerate(patterns) if begin >= quoted and p.search(line[:4000])), -1)
            if rank >= 0:
                trace = match[0].splitlines() if (match := _TRACEBACK.match(text, below)) else []
                quoted = match.end() if match else below
                left = [f"… {len(trace) - MOST_TRACE:,} more"] * (len(trace) > MOST_TRACE)
                found.append((rank, [line, *left, *trace[-MOST_TRACE:]]))
            begin = below
        if found:
            found.sort(key=lambda pair: pair[0])
            lines = [line for _, some in found for line in some]
            more = f"\n… {len(lines) - MOST_LOG:,} more" if len(lines) > MOST_LOG else ""
            shown = "\n".join(safe(line, LINE) for line in lines[:MOST_LOG])
            head = f"<h3>Log of {code(name)}: lines about this order, its user or its items</h3>"
            parts.append((found[0][0], f"<div class='log'>{head}<pre>{shown}{more}</pre></div>"))
    return "".join(part for _, part in sorted(parts, key=lambda pair: pair[0])[:4])


_FRAMES = r"Traceback \(.*\n(?:[ \t].*\n)*.*\n?"
_TRACEBACK = re.compile(rf"{_FRAMES}(?:\n.*\n\n{_FRAMES})*|(?:[ \t].*\n?)+")
"""The traceback below a line: Python's, with those that it was raised from, or other indented lines."""


def _patterns(story: Story, at_stock: bool) -> list[re.Pattern[str]]:
    """Return the patterns of lines to quote: the order's checkout, other lines about it, and its user or items.

    ``at_stock``: whether the line is from the stock service, where /find/ID is an item's route.
    """
    # After a port, /find/ID is a request that this process sends, perhaps to the stock service.
    finds_order, finds_item = ("", "/find") if at_stock else (r"|(?<!stock)(?<!\d)/find", "stock/find")
    balances = []
    for s in story.sums:
        kind = ("item", f"/(?:subtract|add)|{finds_item}")
        balances.append(_about(*(kind if s.entity == Entity.ITEM else ("user", "/(?:pay|add_funds|find_user)")), s.id))
    order = _about("order", f"/addItem{finds_order}", story.order_id)
    checkout = f"/checkout/{_literal(story.order_id)}{_END}"
    return [re.compile(pattern) for pattern in (checkout, order, "|".join(balances))]


_END = r"(?![\w%~-]|\.\w)"
"""The end of a component of a path."""


def _about(kind: str, routes: str, name: str) -> str:
    """Return the pattern of an id as a word. A short one or a number must follow a route or the word ``kind``."""
    if len(name) >= LONG and not name.isdigit():
        return rf"(?<![^\W_]){_literal(name)}(?![^\W_])"
    return rf"(?:(?:{routes})/|\b(?i:{kind}(?:[_-]?id)?)[^\w/]{{1,4}}){_literal(name)}{_END}"


def _literal(name: str) -> str:
    """Return the pattern of an id as it is and as it is quoted in a path."""
    return f"(?:{re.escape(name[:LINE])}|{re.escape(quote(name[:LINE], safe=''))})"
