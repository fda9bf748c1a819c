"""The prediction in JupyterLab: the browser sends a guess, and Python answers with the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from .palette import style

HERE = Path(__file__).parent


class PredictionWidget(anywidget.AnyWidget):
    """The widget of one prediction.

    ``given`` is empty until the reader has typed an answer or skipped. ``again`` is the reply to the last text that was
    not an answer.
    """

    _esm = (HERE / "prediction.js").read_text(encoding="utf-8")
    _css = style() + (HERE / "prediction.css").read_text(encoding="utf-8")
    question = traitlets.Unicode().tag(sync=True)
    given = traitlets.Dict().tag(sync=True)
    again = traitlets.Dict().tag(sync=True)

    def __init__(self, question: str, verdict: Callable[[str | None], dict[str, Any]]) -> None:
        self._verdict = verdict
        super().__init__(question=question)
        self.on_msg(self._received)

    def _received(self, _: Any, message: Any, __: Any) -> None:
        """Judge a guess. An empty guess is not judged; the browser says so."""
        if not isinstance(message, dict) or self.given:
            return
        guess = None if message.get("skip") else str(message.get("guess", ""))[:500].strip()
        if guess == "":
            return
        verdict = self._verdict(guess)
        if verdict["again"]:
            # The number makes a second equal reply a change, which the browser hears.
            self.again = {"text": verdict["text"], "number": self.again.get("number", 0) + 1}
        else:
            self.given = verdict
