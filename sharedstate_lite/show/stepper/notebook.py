"""The stepper in a notebook: a session with pictures, live in JupyterLab and as frames elsewhere.

A cell has both outputs. JupyterLab shows the widget; an exported page shows the frames of the
current message.
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
    """Steps through what messages do to an engine; ``show.stepper`` in a notebook.

    ``replay`` makes a recording of messages (``ss.replay(kind, views)``), and is called again for each
    fork. ``at`` is where to begin: the number of a message, for the step at its end, or (message, step).
    ``width`` in px is for pictures without the widget. ``predict`` asks questions before steps.
    Raises Error for a place that does not exist.
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
        """Counts changes of the folded operators. Frames of an older count are stale."""
        self._drawn: dict[str, Frames] = {}
        self._folded: set[str] = set()
        self._live: StepperWidget | None = None

    @property
    def frames(self) -> Frames:
        """The drawings of the current history."""
        return self.drawn(self.current)

    def drawn(self, branch: Branch) -> Frames:
        """The drawings of a history."""
        if branch.name not in self._drawn:
            self._drawn[branch.name] = Frames(branch.recording, self._title or "", frozenset(self._folded))
        return self._drawn[branch.name]

    @property
    def title(self) -> str:
        """The title over the picture."""
        return self.frames.title

    @property
    def asks(self) -> bool:
        """Whether questions are asked."""
        return self._asks

    def fold(self, operator: str) -> Self:
        """Fold an operator to a plate, or open it. Raises Error for an operator that does not exist."""
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
        """This step as an SVG file, ``width`` px wide. ``theme`` is light, dark, or None for the reader's."""
        if theme not in (None, "light", "dark"):
            raise Error(f"theme {theme!r}: use light, dark, or None for the reader's theme")
        drawing = self.frames.page(self.step, self.width if width is None else width)
        return drawing.svg(f"{self.title}, {self.caption}", alone=True, theme=theme)

    def pages(self, steps: Sequence[int] | None = None, width: float | None = None) -> Pages:
        """Frames as pictures: those of ``steps``, or those of the current message."""
        return Pages(self.frames, self._steps() if steps is None else list(steps), width or self.width)

    def _steps(self) -> list[int]:
        recording: Recording = self.recording
        message = recording.message_of(self.step or recording.last)
        return [0] if message is None else list(range(message.first, message.last + 1))[:FRAMES]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.pages()._repr_mimebundle_()

    def _ipython_display_(self, **_: Any) -> None:
        """Display the frames and the widget as two outputs, so that an exporter that drops one keeps the other.

        The widget's style sheet hides the frames.
        """
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        if getattr(get_ipython(), "kernel", None) is not None:
            display(self.widget)  # type: ignore[no-untyped-call]

    @property
    def widget(self) -> StepperWidget:
        """The widget, made on first access."""
        from .widget import StepperWidget

        if self._live is None:
            self._live = StepperWidget(self)
        return self._live

    def __repr__(self) -> str:
        return f"{self.title}, step {self.step} of {self.recording.last}: {self.caption}"


stepper = Stepper
"""What a notebook calls: ``show.stepper(replay, messages)``."""


def static(
    replay: Play,
    messages: Sequence[Any],
    *,
    at: int | None = None,
    steps: Sequence[int] | None = None,
    width: float = 800,
    title: str | None = None,
) -> Pages:
    """The steps of message ``at`` (default: the last one) as pictures, or those of ``steps`` in the whole history.

    Raises Error for a message or a step that does not exist.
    """
    made = Stepper(replay, messages, at=at, width=width, predict=False, title=title)
    for n in steps or ():
        if not 0 <= n <= made.recording.last:
            raise Error(f"step {n}: this history has steps 0 to {made.recording.last}")
    return made.pages(steps)
