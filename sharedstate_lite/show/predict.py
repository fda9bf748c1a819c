"""A prediction beside what happened: read leniently, judged strictly.

A reader types a Python value, or a text such as ``-U Vegetable 50, +U Vegetable 60``.
Case, lists for tuples, and +1 or -1 for a kind of change make no difference; nor does the
order of rows, or of a set. A missing or an added row does, and so does the order where
what happened is a list or tuple of plain values: there each place has its own meaning.
Nothing raises: a value that means nothing is simply not what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from html import escape
from typing import Any, Protocol

import pandas as pd

from .palette import colour, style

SIGNS = {"+i": "+1", "+u": "+1", "-u": "-1", "-d": "-1"}


class ChangesLike(Protocol):
    """What :func:`emitted` needs of Changes."""

    def to_pandas(self) -> pd.DataFrame:
        """Columns, then time and diff."""

    def kinds(self) -> list[str]:
        """+I, -U, +U or -D for each row."""


def emitted(changes: ChangesLike) -> list[tuple[Any, ...]]:
    """What a view emitted, as plain tuples: (kind, value, value, ...), one for each row of Changes."""
    rows = changes.to_pandas().iloc[:, :-2].astype(object)
    return [(kind, *row) for kind, row in zip(changes.kinds(), rows.itertuples(index=False, name=None), strict=True)]


class Comparison:
    """A prediction and what happened; ``right`` is None where nothing was predicted."""

    def __init__(self, prediction: Any, happened: Any, factor: float = 1) -> None:
        self.prediction, self.happened = prediction, happened
        self.right = None if prediction is None else agrees(prediction, happened) or near(prediction, happened, factor)

    @property
    def _said(self) -> str:
        return {None: "No prediction typed", True: "Right", False: "Not what happened"}[self.right]

    def __repr__(self) -> str:
        typed = "" if self.right is None else f"\n  you typed  {_text(self.prediction)}"
        return f"{self._said}.{typed}\n  it was     {_text(self.happened)}"

    def _repr_html_(self) -> str:
        tone = {None: "muted", True: "upquery", False: "deleted"}[self.right]
        mark = {None: "", True: "✓ ", False: "✗ "}[self.right]
        rows = [("it was", self.happened)]
        if self.right is not None:
            rows.insert(0, ("you typed", self.prediction))
        cells = "".join(
            f'<tr><td style="text-align:left;padding-right:1em;white-space:nowrap">{name}</td>'
            f'<td style="text-align:left"><code>{escape(_text(value))}</code></td></tr>'
            for name, value in rows
        )
        return (
            f'<style>{style()}</style><div class="ssl" style="background:none">'
            f'<b style="color:{colour(tone)}">{mark}{self._said}.</b><table>{cells}</table></div>'
        )


def compare(prediction: Any, happened: Any, factor: float = 1) -> Comparison:
    """The prediction beside what happened, for a notebook to show; None stands for no prediction.

    With a ``factor``, a number that is off by no more than that factor is right.
    """
    return Comparison(prediction, happened, factor)


def near(prediction: Any, happened: Any, factor: float) -> bool:
    """Whether two numbers greater than 0 differ by no more than a factor."""
    try:
        low, high = sorted((float(_word(prediction)), float(_word(happened))))
    except ValueError:
        return False
    return 0 < low and high <= factor * low


def agrees(prediction: Any, happened: Any) -> bool:
    """Whether the prediction means what happened; see the module for what makes no difference."""
    if isinstance(happened, Mapping):
        if not isinstance(prediction, Mapping):
            return False
        mine = {_word(k): v for k, v in prediction.items()}
        theirs = {_word(k): v for k, v in happened.items()}
        return mine.keys() == theirs.keys() and all(agrees(mine[k], v) for k, v in theirs.items())
    if isinstance(happened, list | tuple) and happened and not any(map(_many, happened)):
        return _places(prediction) == [_word(value) for value in happened]
    if isinstance(happened, Set) and isinstance(prediction, tuple):
        prediction = list(prediction)  # names without the braces
    if _many(happened):
        typed, rows = list(_rows(prediction)), list(_rows(happened))
        changes = all(r and r[0] in SIGNS for r in rows)
        if changes and rows and all(r and r[0] in ("1", "+1", "-1") for r in typed):
            typed = [(r[0] if r[0] == "-1" else "+1", *r[1:]) for r in typed]
            rows = [(SIGNS[r[0]], *r[1:]) for r in rows]
        return Counter(typed) == Counter(rows)
    return _word(prediction) == _word(happened)


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple | Set | pd.DataFrame)


def _places(value: Any) -> list[str]:
    """Plain values in their order, of a list, a tuple or a text with commas or blanks."""
    if isinstance(value, str):
        parts = value.replace(";", ",").split(",")
        value = parts if len(parts) > 1 else value.split()
    return [_word(each) for each in value] if isinstance(value, list | tuple) else []


def _rows(value: Any) -> Iterable[tuple[str, ...]]:
    if isinstance(value, str):
        return [tuple(_word(w) for w in part.split()) for part in value.replace(";", ",").split(",") if part.strip()]
    if isinstance(value, pd.DataFrame):
        return [tuple(map(_word, row)) for row in value.itertuples(index=False, name=None)]
    if not _many(value):
        return [(_word(value),)]
    if isinstance(value, tuple) and value and not any(map(_many, value)):
        return [tuple(map(_word, value))]
    return [_row(each) for each in value]


def _row(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(map(_word, value.split()))
    return tuple(map(_word, value)) if isinstance(value, list | tuple) else (_word(value),)


def _word(value: Any) -> str:
    """A value as it is compared: numbers by their value, text without case and outer blanks."""
    text = str(value).strip().casefold().replace("−", "-")
    try:
        return f"{float(text):.15g}" if not text.startswith("+") else text
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(repr, value))) + "}" if value else "set()"
    return repr(value)
