"""The page's script in JupyterLab and VS Code. The browser has all data; it sends a reader's answers and edits back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ...errors import Error
from ..palette import style
from . import QUESTIONS, SCRIPT, STEPPER_STYLE, STYLE

_EXPORT = "\nexport default globalThis.sharedstate.widget;\n"


class PageWidget(anywidget.AnyWidget):
    """A widget of the page's script. ``data`` names its kind; ``answers`` are those of a prediction.

    ``answers`` has the first answer, which counts, and the last one, and whether each is right.
    """

    _esm = QUESTIONS + _EXPORT
    _css = style() + STYLE
    data = traitlets.Dict().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)

    def __init__(self, data: dict[str, Any], keep: Callable[[str], None], kept: str | None = None) -> None:
        """``keep``: is called with the last answer; ``kept``: the answer of an earlier kernel, which is shown first."""
        super().__init__(data=data, answers={} if kept is None else {"first": kept, "last": kept})
        self._keep = keep
        self.observe(self._answered, "answers")

    def _answered(self, change: Any) -> None:
        last = change.new.get("last")
        if isinstance(last, str) and last != change.old.get("last"):
            self._keep(last[:500])


class StepperWidget(anywidget.AnyWidget):
    """A stepper or the picture of a graph. A step sends nothing; ``ask`` answers an edit with a recording.

    An edit is {number, history, message, text, insert}. The answer has the same number, and either the new history's
    name, label and data, or an error in words.
    """

    _esm = SCRIPT + _EXPORT
    _css = style() + STEPPER_STYLE
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, data: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__(data=data)
        self._ask = ask
        self.on_msg(self._asked)

    def _asked(self, _: Any, message: Any, __: Any) -> None:
        try:
            answer = self._ask(message)
        except Error as error:
            answer = {"error": str(error)}
        self.send({"number": message["number"], **answer})
