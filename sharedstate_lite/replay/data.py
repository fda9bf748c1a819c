"""A recording as one JSON value, which the stepper in a page draws (docs/recording.md).

The operators and edges of the whole run are listed once. Each step has its caption, its totals, the question that is
asked before it, and the states of the operators that it changed. Values are texts. A table lists at most eight
rows: those with a mark first.

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.replay.data import recording_data
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> data = recording_data(ss.replay("full", [longest])(["+1 visit Potato, 50"]))
>>> data["steps"][1]["states"]["visit"]["tables"][0]["rows"]
[{'values': ['Potato', '50'], 'before': 0, 'now': True}]
>>> [move["chips"] for move in data["moves"]]
[[['+1', 'Potato', '50']], [['+I', 'Potato', '50']]]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .questions import Question
from .recording import Amount, Move, Recording, RowChange
from .texts import counted, shown

VERSION = 1
"""The version of the schema. A page's script refuses a recording of another version."""
Data = dict[str, Any]


def recording_data(recording: Recording, title: str = "", at: int = 0, asks: bool = True) -> Data:
    """Return a recording as JSON. ``at`` is the step that is shown first; ``asks``: whether steps have questions."""
    dropped = {
        move.number: (step.number, len(step.dropped) >= len(move.rows))
        for step in recording.steps
        if len(step.dropped)
        for move in step.taken
        if not move.upstream
    }
    read = {(e.source, e.target) for e in recording.edges if e.kind == "read"}
    moves = {m.number: m for step in recording.steps for m in (*step.sent, *step.taken)}
    before: Mapping[str, Data] = {}
    steps = []
    for number in range(recording.last + 1):
        step, totals = recording.step(number), recording.totals(number)
        states = recording.state(number)
        question = recording.steps[number].question if asks and number < recording.last else None
        steps.append(
            {
                "caption": recording.caption(number),
                "operator": step.operator if step else "",
                "epoch": step.epoch if step else 0,
                "totals": {column: _amount(getattr(totals, column)) for column in ("durable", "working", "cached")},
                "states": {name: each for name, each in states.items() if before.get(name) != each},
            }
            | ({} if question is None else {"question": question_data(question)})
        )
        before = states
    return {
        "version": VERSION,
        "strategy": recording.kind,
        "title": title,
        "sql": [" ".join(sql.split()) for sql in recording.sql],
        "at": at,
        "operators": [
            {
                "name": o.name,
                "kind": o.kind,
                "title": o.title,
                "detail": o.detail,
                "holds": bool(o.tables),
                "added": o.added_at,
                "removed": o.removed_at,
            }
            for o in recording.operators
        ],
        "edges": [
            {"source": e.source, "target": e.target, "kind": e.kind, "added": e.added_at, "removed": e.removed_at}
            for e in recording.edges
        ],
        "messages": [
            {"text": m.text, "first": m.first, "last": m.last, "epoch": m.epoch, "refused": m.refused}
            for m in recording.messages
        ],
        "moves": [
            {
                "source": m.source,
                "target": m.target,
                "kind": m.kind,
                "chips": _span(recording, m) if (m.source, m.target) in read and m.kind == "change" else chips(m),
                "sent": m.sent,
                "taken": m.taken,
            }
            | (dict(zip(("dropped", "whole"), dropped[m.number], strict=True)) if m.number in dropped else {})
            for m in moves.values()
        ],
        "steps": steps,
    }


def _amount(amount: Amount) -> Data:
    return {"rows": amount.rows, "bytes": amount.bytes, "before": amount.rows_before}


# --- messages ---------------------------------------------------------------------


def chips(move: Move) -> list[list[str]]:
    """Return a message as one chip, or as two if one row replaces another. A chip is its badge and its values."""
    if move.kind == "upquery":
        return [["?", *_key_words(move)]]
    if move.kind == "evict":
        return [["−", *(["all keys"] if move.keys is None else _key_words(move))]]
    rows: Sequence[RowChange] = move.rows.first(1000)
    if move.kind == "response":
        return [["=", *(map(shown, rows[0].row) if len(rows) == 1 else [_rows(len(move.rows))])]]
    if len(move.rows) == 2 and sorted(c.kind for c in rows) == ["+U", "-U"]:
        return [[_badge(c), *map(shown, c.row)] for c in sorted(rows, key=lambda c: c.kind != "-U")]
    if len(move.rows) == 1:
        return [[_badge(rows[0]), *map(shown, rows[0].row)]]
    badges = {f"{c.diff:+d}".replace("-", "−") for c in rows}
    return [[badges.pop() if len(badges) == 1 else "±" if badges else "0", _rows(len(move.rows))]]


def _span(recording: Recording, move: Move) -> list[list[str]]:
    """A batch that is read through a trace handle, as its epochs."""
    step = recording.step(move.sent)
    return [["", f"[{step.epoch},{step.epoch + 1})" if step else ""]]


def _badge(change: RowChange) -> str:
    return (change.kind or f"{change.diff:+d}").replace("-", "−")


def _rows(n: int) -> str:
    return counted(n, "row") if n else "no rows"


def _key_words(move: Move) -> list[str]:
    keys = move.keys or ()
    return ([*map(shown, keys[0])] or ["all"]) if len(keys) == 1 else [counted(len(keys), "key")]


# --- questions --------------------------------------------------------------------


def question_data(question: Question) -> Data:
    """Return a question for the page's judge. What gives the answer away is sealed: base64 of JSON."""
    sealed = json.dumps(question.sealed(), ensure_ascii=False).encode()
    return {"text": question.text, "hint": question.hint, "sealed": base64.b64encode(sealed).decode()}


__all__ = ["VERSION", "chips", "recording_data"]
