"""A question that the reader answers before the notebook shows the answer.

``question`` binds a question to its answer and its explanations, and ``predict`` displays it. The reader types a guess
or chooses one, and page.js judges it in the browser: a wrong guess gets its explanation, and can be tried again; the
answer is shown if it is right, or if the reader asks for it. A text that is not an answer is asked again. The call
returns at once, so "run all" works, and the question still waits for a guess afterwards. If the variable
SHAREDSTATE_LITE_UNATTENDED is set, as in the tests and for the site, there is no widget, and the output has the data
for the site's page. Without a script, the answer is folded. In a learner's copy of a notebook, an answer is kept
(`system.answers`). After a restart, the box shows it with its verdict; if the cell is run once more, it asks again.

>>> from sharedstate_lite import show
>>> stored = show.question("How many rows?", 2, {1: "Both copies are stored."})
>>> show.predict(stored, guess="one row")
How many rows?
  ✗ You said one row. It was 2.
  Both copies are stored.
>>> show.predict(stored, guess="some")
How many rows?
  ? You said some. Type one whole number, such as 12.

Source: Crouch et al., Classroom demonstrations: learning tools or entertainment?, 2004 (predict before you see).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..errors import ViewError, shorten
from ..system import answers
from .answers import NumberAnswer, form, text_of
from .checks import checks
from .page import STYLE
from .page.data import question_data
from .page.output import PageOutput
from .palette import style

if TYPE_CHECKING:
    from .page.widget import PageWidget


class Prediction:
    """A question with its answer, what is near enough to it, and the explanations of the right and of wrong answers."""

    def __init__(
        self, text: str, answer: Any, whys: Mapping[Any, str], tolerance: float | range, choices: Sequence[str]
    ) -> None:
        self.text, self.answer, self.tolerance, self.choices = text, answer, tolerance, tuple(choices)
        self.because = whys.get("right", "")
        self.whys = {wrong: why for wrong, why in whys.items() if wrong != "right"}
        self.displayed = False
        """Whether a box has shown it in this kernel. The first box shows the answer that was kept, a later one asks."""
        self.form = form(text, answer, self.whys, choices)
        self.right = self.form.wanted(answer)
        self.wrong = {wrong: self.form.wanted(wrong) for wrong in self.whys}
        # A reader's change may make a wrong answer right. It is then judged right.
        with checks():
            self._check()

    def _check(self) -> None:
        asked = f"question({self.text!r})"
        if not self.judge(self.shown):
            raise ViewError(f"{asked}: the answer {shorten(self.answer)} is not judged right; is it in choices?")
        for wrong, read in self.wrong.items():
            if read is None or self.judge(text_of(wrong)) or self._explains(self.shown, read):
                raise ViewError(f"{asked}: {shorten(wrong)} has a why, but it is right, or not an answer")

    def judge(self, guess: Any) -> bool | None:
        """Return whether a guess is right, or None if it is not an answer.

        A guess is text as a reader types it, or a Python value.
        """
        typed = text_of(guess)
        read = self.form.read(typed)
        if read is None or self.right is None:
            return None if read is None else False
        right = self._near(read) if isinstance(self.form, NumberAnswer) else self.form.equal(read, self.right)
        return None if not right and self.form.unclear(typed) else right

    def _near(self, read: float | str) -> bool:
        if isinstance(read, str):
            return False
        if isinstance(self.tolerance, range):
            return min(self.tolerance) <= read <= max(self.tolerance)
        low, high = sorted((read, float(self.answer)))
        return self.form.equal(read, self.right) or 0 < low and high <= self.tolerance * low

    def why(self, guess: Any) -> str:
        """Return the explanation of a wrong guess; if it has none and is a number, whether it is too high or too low.

        For an answer with several parts, an explanation such as that of ``left 1`` is of one part.
        """
        number = self.form if isinstance(self.form, NumberAnswer) else None
        direction = number.direction(number.read(text_of(guess)), self.right) if number else ""
        return self._listed(guess) or direction

    def _listed(self, guess: Any) -> str:
        typed = text_of(guess)
        return next((self.whys[wrong] for wrong, read in self.wrong.items() if self._explains(typed, read)), "")

    def _explains(self, typed: str, wrong: Any) -> bool:
        read = self.form.read(typed)
        return read is not None and wrong is not None and self.form.equal(read, wrong)

    @property
    def shown(self) -> str:
        """The answer as a reader would type it."""
        return text_of(self.answer)

    @property
    def near(self) -> str:
        """What else is right, in words; "" if nothing is."""
        if isinstance(self.tolerance, range):
            low, high = (abs(end - self.answer) for end in (min(self.tolerance), max(self.tolerance)))
            return f"A number up to {low:g} away is right." if low == high else "A rough number is right."
        return f"A number within a factor of {self.tolerance:g} is right." if self.tolerance > 1 else ""

    def verdict(self, guess: Any) -> dict[str, Any]:
        """Return what the reader is shown after a guess (None: skipped): right, text, why, and again if it was none."""
        if guess is None:
            whys = [f"Not {text_of(wrong)}: {text}" for wrong, text in self.whys.items()]
            why = " ".join(filter(None, [self.because, *whys]))
            return {"right": None, "text": f"It was {self.shown}.", "why": why, "again": False}
        right, typed = self.judge(guess), text_of(guess).strip()
        said = f"You said {typed}{'' if typed.endswith(('.', '?', '!')) else '.'}" if typed else ""
        if right is None:
            point = "A point is a decimal point; a comma is for thousands." if self.form.unclear(typed) else ""
            text = " ".join(filter(None, [said, point, self.form.hint]))
            return {"right": None, "text": text, "why": "", "again": True}
        why = " ".join(filter(None, ["" if right else self._listed(guess), self.because]))
        text = f"Right. {said}" if right else f"{said} It was {self.shown}."
        return {"right": right, "text": text, "why": why, "again": False}


class PredictionBox(PageOutput):
    """A prediction as it is displayed: as a widget, or as text with the answer folded or the guess judged."""

    def __init__(self, prediction: Prediction, guess: Any) -> None:
        self.prediction, self.guess = prediction, guess

    def _given(self) -> tuple[str, dict[str, Any]]:
        given = self.prediction.verdict(self.guess)
        return {True: "✓", False: "✗", None: "?"}[given["right"]], given

    def __repr__(self) -> str:
        if self.guess is None:
            return f"{self._question()}\n  (not answered yet)"
        mark, given = self._given()
        return "\n  ".join([self._question(), f"{mark} {given['text']}", *filter(None, [given["why"]])])

    @property
    def live(self) -> bool:  # type: ignore[override]
        """Whether the reader is asked in the page, and did not answer in the cell."""
        return self.guess is None

    def data(self) -> dict[str, Any]:
        """Return the question for the page's script."""
        return {"kind": "prediction", **question_data(self.prediction)}

    def widget(self) -> PageWidget:
        """Return the widget, with the answer of an earlier kernel if there is one."""
        from .page.widget import PageWidget

        lesson, text = PurePath(os.environ.get("JPY_SESSION_NAME", "")).stem, self.prediction.text
        kept = None if self.prediction.displayed else answers.read(lesson, text)
        self.prediction.displayed = True
        return PageWidget(self.data(), partial(answers.write, lesson, text), kept)

    def _question(self) -> str:
        return " ".join(filter(None, [self.prediction.text, self.prediction.near]))

    def html(self) -> str:
        """The question with its verdict if there is a guess, else with the answer and its explanation folded."""
        inside = f"<p><b>Predict.</b> {escape(self._question())}</p>"
        if self.guess is None:
            shown = escape(self.prediction.shown)
            because = f"<p>{escape(self.prediction.because)}</p>" if self.prediction.because else ""
            inside += f"<details><summary>The answer</summary><p><code>{shown}</code></p>{because}</details>"
        else:
            mark, given = self._given()
            inside += f"<p class='{'right' if given['right'] else 'wrong'}'>{mark} {escape(given['text'])}</p>"
            inside += f"<p>{escape(given['why'])}</p>" if given["why"] else ""
        return f"<style>{style()}{STYLE}</style><div class='ssl ssl-predict'>{inside}</div>"


def question(
    text: str,
    answer: Any,
    whys: Mapping[Any, str] | None = None,
    tolerance: float | range = 1,
    choices: Sequence[str] | None = None,
) -> Prediction:
    """Return a question for ``predict`` to display. docs/predictions.md says how answers are read.

    ``answer`` is a number; a tuple of numbers, or a list of numbers whose length is part of the answer; a set of
    numbers; rows as tuples; a dictionary of parts; or, out of ``choices``, a name or a set of names. ``whys`` maps
    wrong answers to explanations; its entry ``"right"`` explains the right answer. With a ``tolerance``, a number is
    also right if the larger of the two is at most ``tolerance`` times the smaller one, or, if ``tolerance`` is a
    range, if it is in the range. Unattended, raises ViewError if the answer is not judged right, or a wrong one is.
    """
    return Prediction(text, answer, whys or {}, tolerance, choices or ())


def predict(question: Prediction, guess: Any = None) -> PredictionBox:
    """Ask for a prediction, for a notebook to display. ``guess`` is the answer of a reader who types it here."""
    return PredictionBox(question, guess)


__all__ = ["Prediction", "PredictionBox", "predict", "question"]
