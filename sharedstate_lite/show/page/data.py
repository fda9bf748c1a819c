"""A question as JSON, for the page's script: what the reader sees first, and sealed, what comes after an answer.

The sealed part is base64, so that a reader who looks at the source of a page does not see the answer by accident.

>>> from sharedstate_lite import show
>>> from sharedstate_lite.show.page.data import question_data, unsealed
>>> data = question_data(show.question("How many rows?", 2, {1: "Both copies are stored."}))
>>> data["question"], data["choices"]
('How many rows?', [])
>>> unsealed(data)["whys"]
[{'wrong': 1.0, 'said': '1', 'why': 'Both copies are stored.'}]
"""

from __future__ import annotations

import base64
import json
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

from ...replay.questions import orders, signs
from ..answers import Form, NamesAnswer, NumberAnswer, RowsAnswer, text_of

KINDS = {
    "NumberAnswer": "number",
    "NumbersAnswer": "numbers",
    "NamesAnswer": "names",
    "PartsAnswer": "parts",
    "RowsAnswer": "rows",
}


class QuestionLike(Protocol):
    """What the page gets of a `Prediction`. ``right`` and ``wrong`` are answers as ``form`` reads them."""

    text: str
    answer: Any
    tolerance: float | range
    choices: tuple[str, ...]
    because: str
    whys: dict[Any, str]
    form: Form
    right: Any
    wrong: dict[Any, Any]

    @property
    def shown(self) -> str: ...
    @property
    def near(self) -> str: ...


def question_data(asked: QuestionLike) -> dict[str, Any]:
    """Return a question for the page: question, near (what else is right), hint, choices, many and sealed.

    ``choices`` has the names for buttons, and is empty if the reader types; with ``many``, several can be chosen.
    """
    form, tolerance = asked.form, asked.tolerance
    number = isinstance(form, NumberAnswer)
    sealed = {
        "form": _form(form),
        "right": _wanted(form, asked.right),
        "answer": float(asked.answer) if number else None,
        "tolerance": [min(tolerance), max(tolerance)] if isinstance(tolerance, range) else tolerance,
        "shown": asked.shown,
        "because": asked.because,
        "whys": [
            {"wrong": _wanted(form, asked.wrong[each]), "said": text_of(each), "why": why}
            for each, why in asked.whys.items()
        ],
    }
    names = form if isinstance(form, NamesAnswer) else None
    return {
        "question": asked.text,
        "near": asked.near,
        "hint": form.hint,
        "choices": list(names.choices) if names else [],
        "many": bool(names and names.many),
        "sealed": base64.b64encode(json.dumps(sealed, ensure_ascii=False).encode()).decode(),
    }


def unsealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the sealed part of a question's data."""
    found: dict[str, Any] = json.loads(base64.b64decode(data["sealed"]))
    return found


def _form(form: Form) -> dict[str, Any]:
    assert is_dataclass(form)
    return {
        "kind": KINDS[type(form).__name__],
        **{each.name: _plain(getattr(form, each.name)) for each in fields(form)},
    }


def _wanted(form: Form, value: Any) -> Any:
    """An answer as its form reads it. A row becomes the accepted words of its sign, and the ways to type its values."""
    if value is None or not isinstance(form, RowsAnswer):
        return _plain(value)
    if not form.signed:
        return [[[], orders(row)] for row in value]
    return [[[signs(str(row[0]))], orders(row[1:])] for row in value]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else value
