"""The stepper as a notebook has it: a session with a picture, live where a widget runs, else as frames.

A notebook gets both: JupyterLab shows the widget, an exported page the frames of the
message that one stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import Error
from ...replay.forks import Branch
from ...replay.recording import Recording
from .frames import FRAMES, Frames, Pages
from .session import Replay, StepperSession

if TYPE_CHECKING:
    from .widget import StepperWidget


class Stepper(StepperSession):
    """Steps through what ``messages`` do to an engine; :data:`stepper` by its lower-case name.

    ``replay`` makes a recording of messages (``ss.replay(kind, views)``), and is called
    again for every fork. ``at`` is where to begin: the number of a message, whose end it
    is, or (message, step). ``width`` in px is for pictures without a widget. ``predict``
    asks before steps what they will do. Raises Error for a place that is not there.
    """

    def __init__(
        self,
        replay: Replay,
        messages: Sequence[Any],
        *,
        at: Any = None,
        width: float | None = None,
        predict: bool = True,
        title: str | None = None,
    ) -> None:
        super().__init__(replay, messages, at=at, predict=predict)
        self.width, self._title = 800.0 if width is None else float(width), title
        self.look = 0
        """Counts changes of what is folded; frames drawn before such a change are stale."""
        self._drawn: dict[str, Frames] = {}
        self._folded: set[str] = set()
        self._live: StepperWidget | None = None

    @property
    def frames(self) -> Frames:
        """The drawings of the history one is in."""
        return self.drawn(self.current)

    def drawn(self, branch: Branch) -> Frames:
        """The drawings of one history."""
        if branch.name not in self._drawn:
            self._drawn[branch.name] = Frames(branch.recording, self._title or "", frozenset(self._folded))
        return self._drawn[branch.name]

    @property
    def title(self) -> str:
        """What stands over the picture."""
        return self.frames.title

    @property
    def asks(self) -> bool:
        """Whether questions are asked."""
        return self._asks

    def fold(self, operator: str) -> Stepper:
        """Fold an operator to a plate, or open it again. Raises Error for one that is not there."""
        names = [o.name for o in self.recording.operators]
        if operator not in names:
            raise Error(f"operator {operator!r}: there is {', '.join(names)}")
        self._folded ^= {operator}
        self._drawn.clear()
        self.look += 1
        self.changed()
        return self

    def changed(self) -> None:
        if self._live is not None:
            self._live.update()

    # --- pictures -----------------------------------------------------------------

    def svg(self, width: float | None = None, theme: str | None = None) -> str:
        """This step as an SVG of its own, ``width`` px wide; ``theme`` is light, dark, or the reader's own."""
        if theme not in (None, "light", "dark"):
            raise Error(f"theme {theme!r}: light, dark, or None for the reader's own")
        drawing = self.frames.page(self.step, self.width if width is None else width)
        return drawing.svg(f"{self.title}, {self.caption}", alone=True, theme=theme)

    def pages(self, steps: Sequence[int] | None = None, width: float | None = None) -> Pages:
        """Frames as pictures: those of the message that one stands in, or those of ``steps``."""
        return Pages(self.frames, self._steps() if steps is None else list(steps), width or self.width)

    def _steps(self) -> list[int]:
        recording: Recording = self.recording
        told = recording.message_of(self.step or recording.last)
        return [0] if told is None else list(range(told.first, told.last + 1))[:FRAMES]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.pages()._repr_mimebundle_()

    def _ipython_display_(self, **_: Any) -> None:
        """The frames and the widget, as two outputs: an exporter that prefers the widget must not lose the frames.

        Where the widget runs, its style sheet hides the frames.
        """
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        if getattr(get_ipython(), "kernel", None) is not None:
            display(self.widget)  # type: ignore[no-untyped-call]

    @property
    def widget(self) -> StepperWidget:
        """The live picture, made when it is first asked for."""
        from .widget import StepperWidget

        if self._live is None:
            self._live = StepperWidget(self)
        return self._live

    def __repr__(self) -> str:
        return f"{self.title}, step {self.step} of {self.recording.last}: {self.caption}"


stepper = Stepper
"""What a notebook calls: ``show.stepper(replay, messages)``."""


def static(
    replay: Replay,
    messages: Sequence[Any],
    *,
    at: int | None = None,
    steps: Sequence[int] | None = None,
    width: float = 800,
    title: str | None = None,
) -> Pages:
    """The steps of message ``at`` (default: the last one) as pictures, or those of ``steps`` in the whole history.

    Raises Error for a message or a step that is not there.
    """
    made = Stepper(replay, messages, at=at, width=width, predict=False, title=title)
    for n in steps or ():
        if not 0 <= n <= made.recording.last:
            raise Error(f"step {n}: this history has the steps 0 to {made.recording.last}")
    return made.pages(steps)
