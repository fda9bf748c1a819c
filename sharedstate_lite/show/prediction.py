"""A question that the reader answers before the notebook shows the answer.

The reader types a guess and presses Enter, or skips the question. Only then are the answer and the explanations shown.
The call returns at once, so "run all" works, and the question still waits for a guess afterwards. If the variable
SHAREDSTATE_LITE_UNATTENDED is set, as in the tests and on the site, the answer is shown folded instead.

>>> from sharedstate_lite import show
>>> asked = show.predict("How many rows?", 2, {1: "Both copies are stored."}, guess=1)
>>> asked
How many rows?
  ✗ You said 1. It was 2.
  Both copies are stored.

Source: Crouch et al., Classroom demonstrations: learning tools or entertainment?, 2004 (predict before you see).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from ..errors import ViewError, shorten
from .palette import style
from .predict import agrees, near

UNATTENDED = "SHAREDSTATE_LITE_UNATTENDED"
"""The environment variable that is set if a notebook runs without a reader."""
_HERE = Path(__file__).parent
_STYLE = (_HERE / "prediction.css").read_text(encoding="utf-8")


class Prediction:
    """A question with its answer and the explanations of wrong answers. Displayed as a widget, or as folded text."""

    def __init__(self, question: str, answer: Any, whys: Mapping[Any, str], guess: Any, factor: float) -> None:
        self.question, self.answer, self._factor = question, answer, factor
        self._whys = dict(whys)
        self._because = self._whys.pop("right", "")
        self.guess = guess
        if not self.judge(answer):
            raise ViewError(
                f"predict({question!r}): the answer {shorten(answer)} is not judged right; use plain values"
            )
        for wrong in self._whys:
            if self._is(answer, answer, wrong) or self.judge(wrong):
                raise ViewError(f"predict({question!r}): {shorten(wrong)} has a why, but it is right")

    def judge(self, guess: Any) -> bool:
        """Return whether a guess is right. A guess is a Python value, or text as a reader types it."""
        if isinstance(self.answer, range):
            low, high = min(self.answer), max(self.answer)
            return any(_number(guess, low, high))
        if isinstance(self.answer, Mapping) and isinstance(guess, str):
            guess = _pairs(guess)
        return agrees(guess, self.answer) or near(guess, self.answer, self._factor)

    def why(self, guess: Any) -> str:
        """Return the explanation of a wrong guess; "" if it has none.

        For an answer with several parts, a key such as ``left 1`` explains one part.
        """
        parts = _pairs(guess) if isinstance(guess, str) and isinstance(self.answer, Mapping) else guess
        return next((text for wrong, text in self._whys.items() if self._is(guess, parts, wrong)), "")

    def _is(self, guess: Any, parts: Any, wrong: Any) -> bool:
        if isinstance(self.answer, Mapping) and isinstance(wrong, str) and isinstance(parts, Mapping):
            return any(agrees(parts.get(name, ""), value) for name, value in _pairs(wrong).items())
        return agrees(guess, wrong)

    @property
    def shown(self) -> str:
        """The answer as text, as a reader would type it."""
        return _text(self.answer)

    def verdict(self, guess: Any) -> dict[str, Any]:
        """Return what the reader is shown after a guess (None: skipped): right, text, why."""
        if guess is None:
            whys = [f"Not {_text(wrong)}: {text}" for wrong, text in self._whys.items()]
            return {
                "right": None,
                "text": f"It was {self.shown}.",
                "why": " ".join(filter(None, [self._because, *whys])),
            }
        right = self.judge(guess)
        said = f"You said {_text(guess)}." if right else f"You said {_text(guess)}. It was {self.shown}."
        whys = ["" if right else self.why(guess), self._because]
        return {"right": right, "text": f"Right. {said}" if right else said, "why": " ".join(filter(None, whys))}

    def __repr__(self) -> str:
        if self.guess is None:
            return f"{self.question}\n  (not answered yet)"
        given = self.verdict(self.guess)
        lines = [self.question, f"  {'✓' if given['right'] else '✗'} {given['text']}", *filter(None, [given["why"]])]
        return "\n".join([*lines[:2], *(f"  {line}" for line in lines[2:])])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if self.guess is None and not os.environ.get(UNATTENDED):
            from .prediction_widget import PredictionWidget

            return PredictionWidget(self.question, self.verdict)._repr_mimebundle_(**kwargs)
        return {"text/plain": repr(self), "text/html": self.html()}

    def html(self) -> str:
        """The question with its verdict if there is a guess, else with the answer and the explanations folded."""
        inside = f"<p><b>Predict.</b> {escape(self.question)}</p>"
        if self.guess is None:
            inside += f"<details><summary>The answer</summary><p><code>{escape(self.shown)}</code></p>{self._list()}"
            inside += "</details>"
        else:
            given = self.verdict(self.guess)
            kind, mark = ("right", "✓") if given["right"] else ("wrong", "✗")
            inside += f"<p class='{kind}'>{mark} {escape(given['text'])}</p>"
            inside += f"<p>{escape(given['why'])}</p>" if given["why"] else ""
        return f"<style>{style()}{_STYLE}</style><div class='ssl ssl-predict'>{inside}</div>"

    def _list(self) -> str:
        because = f"<p>{escape(self._because)}</p>" if self._because else ""
        return because + "".join(
            f"<p>Not <code>{escape(_text(wrong))}</code>: {escape(text)}</p>" for wrong, text in self._whys.items()
        )


def predict(
    question: str, answer: Any, whys: Mapping[Any, str] | None = None, *, guess: Any = None, factor: float = 1
) -> Prediction:
    """Ask for a prediction of ``answer``, for a notebook to display.

    ``whys`` maps wrong answers to explanations; its entry ``"right"`` explains the right answer. ``guess`` is the
    reader's answer if it is typed into the cell. A number is also right if the larger of the two numbers is at most
    ``factor`` times the smaller one. If ``answer`` is a range, every number in it is right. Raises ViewError if the
    answer is not judged right, or a wrong answer is.
    """
    return Prediction(question, answer, whys or {}, guess, factor)


def _number(guess: Any, low: int, high: int) -> list[bool]:
    try:
        return [low <= float(str(guess).replace(",", "")) <= high]
    except ValueError:
        return [isinstance(guess, range) and low <= min(guess) and max(guess) <= high]


def _pairs(text: str) -> dict[str, str]:
    """Parse ``left 1, right: 2`` into names and values."""
    pairs = (part.replace(":", " ").replace("=", " ").rsplit(maxsplit=1) for part in text.strip("{} ").split(","))
    return {pair[0].strip("'\" "): pair[1] for pair in pairs if len(pair) == 2}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, range):
        return f"{min(value):,} to {max(value):,}"
    if isinstance(value, list | tuple | set | frozenset):
        if not value:
            return "nothing"
        parts = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return ", ".join(" ".join(map(str, part)) if isinstance(part, list | tuple) else str(part) for part in parts)
    return f"{value:,}" if type(value) is int else str(value)


__all__ = ["UNATTENDED", "Prediction", "predict"]
