"""The page's script in JupyterLab and VS Code. The browser has all data, and sends the reader's answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ..palette import style
from . import SCRIPT, STYLE


class PageWidget(anywidget.AnyWidget):
    """A widget of the page's script. ``data`` names its kind; ``answers`` are those of a prediction.

    ``answers`` has the first answer, which counts, and the last one, and whether each is right.
    """

    _esm = f"{SCRIPT}\nexport default globalThis.sharedstate.widget;\n"
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
