"""The stepper in a notebook: a session with pictures, interactive in JupyterLab and static elsewhere.

A notebook cell contains both outputs. JupyterLab shows the widget, and an exported page shows the frames of the current
message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from ...errors import Error
from ...replay.forks import Branch, Play
from ...replay.recording import Recording
from .frames import FRAMES, Frames, Pages
from .session import StepperSession

if TYPE_CHECKING:
    from .widget import StepperWidget


class Stepper(StepperSession):
    """Steps through what messages do to an engine. Notebooks call this class ``show.stepper``.

    ``replay`` is a function that makes a recording from messages (``ss.replay(kind, views)``). It is called again for
    each fork. ``at`` is the initial position: a message number, which means the last step of that message, or a pair
    (message, step). ``width`` is the width in px of pictures outside the widget. If ``predict`` is True, questions are
    asked before steps. Raises Error if the initial position does not exist.
    """

    def __init__(
        self,
        replay: Play,
        messages: Sequence[Any],
        *,
        at: Any = None,
        width: float | None = None,
        predict: bool = True,
        title: str | None = None,
    ) -> None:
        super().__init__(replay, messages, at=at, predict=predict)
        self.width, self._title = 800.0 if width is None else float(width), title
        self.version = 0
        """How many times an operator was folded or opened. Frames of an older version are out of date."""
        self._drawn: dict[str, Frames] = {}
        self._folded: set[str] = set()
        self._live: StepperWidget | None = None

    @property
    def frames(self) -> Frames:
        """The drawings of the current history."""
        return self.drawn(self.current)

    def drawn(self, branch: Branch) -> Frames:
        """Return the drawings of a history."""
        if branch.name not in self._drawn:
            self._drawn[branch.name] = Frames(branch.recording, self._title or "", frozenset(self._folded))
        return self._drawn[branch.name]

    @property
    def title(self) -> str:
        """The title above the picture."""
        return self.frames.title

    @property
    def asks(self) -> bool:
        """Whether questions are asked before steps."""
        return self._asks

    def fold(self, operator: str) -> Self:
        """Fold an operator to a plate, or open it if it is folded. Raises Error if the operator does not exist."""
        names = [o.name for o in self.recording.operators]
        if operator not in names:
            raise Error(f"operator {operator!r} does not exist; the operators are {', '.join(names)}")
        self._folded ^= {operator}
        self._drawn.clear()
        self.version += 1
        self.changed()
        return self

    def changed(self) -> None:
        if self._live is not None:
            self._live.update()

    # --- pictures -----------------------------------------------------------------

    def svg(self, width: float | None = None, theme: str | None = None) -> str:
        """Return this step as an SVG file, ``width`` px wide. ``theme`` is light, dark, or None for the reader's theme.

        Raises Error for any other theme.
        """
        if theme not in (None, "light", "dark"):
            raise Error(f"theme {theme!r} does not exist; use light, dark, or None for the reader's theme")
        drawing = self.frames.page(self.step, self.width if width is None else width)
        return drawing.svg(f"{self.title}, {self.caption}", alone=True, theme=theme)

    def pages(self, steps: Sequence[int] | None = None, width: float | None = None) -> Pages:
        """Return pictures of the frames of ``steps``, or of the current message if ``steps`` is None."""
        return Pages(self.frames, self._steps() if steps is None else list(steps), width or self.width)

    def _steps(self) -> list[int]:
        recording: Recording = self.recording
        message = recording.message_of(self.step or recording.last)
        return [0] if message is None else list(range(message.first, message.last + 1))[:FRAMES]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.pages()._repr_mimebundle_()

    def _ipython_display_(self, **_: Any) -> None:
        """Display the frames and the widget as two outputs, so that an exporter that drops one keeps the other.

        If the widget is shown, its style sheet hides the frames.
        """
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        if getattr(get_ipython(), "kernel", None) is not None:
            display(self.widget)  # type: ignore[no-untyped-call]

    @property
    def widget(self) -> StepperWidget:
        """The widget, which is created on first access."""
        from .widget import StepperWidget

        if self._live is None:
            self._live = StepperWidget(self)
        return self._live

    def __repr__(self) -> str:
        return f"{self.title}, step {self.step} of {self.recording.last}: {self.caption}"


stepper = Stepper
"""The name by which notebooks call `Stepper`: ``show.stepper(replay, messages)``."""


def static(
    replay: Play,
    messages: Sequence[Any],
    *,
    at: int | None = None,
    steps: Sequence[int] | None = None,
    width: float = 800,
    title: str | None = None,
) -> Pages:
    """Return pictures of the steps of message ``at``, by default the last message, or of ``steps`` if it is given.

    ``steps`` are counted from the beginning of the history. Raises Error if a message or a step does not exist.
    """
    made = Stepper(replay, messages, at=at, width=width, predict=False, title=title)
    for n in steps or ():
        if not 0 <= n <= made.recording.last:
            raise Error(f"step {n} does not exist; this history has steps 0 to {made.recording.last}")
    return made.pages(steps)
