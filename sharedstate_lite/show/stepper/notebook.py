"""The stepper in a notebook: a recording that the page's script draws, and the histories that fork from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import Error
from ...replay.data import recording_data
from ...replay.forks import Branch, BranchTree, Play
from ...replay.recording import Recording
from ..page.output import PageOutput
from ..page.still import still

if TYPE_CHECKING:
    from ..page.widget import StepperWidget

TITLES = {"full": "Full state", "shared": "Shared state", "partial": "Partial state"}


class Stepper(PageOutput):
    """Steps through what messages do to an engine. Notebooks call this class ``show.stepper``.

    ``replay`` is a function that makes a recording from messages (``ss.replay(kind, views)``). It is called again for
    each fork. ``at`` is the step that is shown first: a message number, which means the last step of that message, or a
    pair (message, step), both counted from 1. If ``predict`` is True, questions are asked before steps. Raises Error if
    the message or the step does not exist.
    """

    def __init__(
        self, replay: Play, messages: Sequence[Any], *, at: Any = None, predict: bool = True, title: str | None = None
    ) -> None:
        self._tree = BranchTree.of(replay, messages)
        self._predict, self._title = predict, title
        self.step = 0 if at is None else self._place(*(at if isinstance(at, tuple) else (at,)))
        """The step that is shown first."""

    @property
    def recording(self) -> Recording:
        """The recording of the original history."""
        return self._tree.main.recording

    @property
    def histories(self) -> list[Branch]:
        """All histories, with the original one first."""
        return list(self._tree.all)

    @property
    def title(self) -> str:
        """The title above the picture."""
        return self._title or TITLES.get(self.recording.kind, self.recording.kind)

    def _place(self, message: int, step: int | None = None) -> int:
        messages = self.recording.messages
        if message == 0:
            return 0
        if not 0 < message <= len(messages):
            raise Error(f"message {message} does not exist; use 1 to {len(messages)}, or 0 for the start")
        here = messages[message - 1]
        if step is not None and not 1 <= step <= here.last - here.first + 1:
            raise Error(f"step {step} does not exist; message {message} has steps 1 to {here.last - here.first + 1}")
        return here.last if step is None else here.first + step - 1

    def fork(self, message: int, text: Any = None, *, insert: bool = False, history: str = "main") -> Branch:
        """Fork a history at message number ``message``, counted from 1, and return the fork.

        ``text`` is a typed message or one of `replay.messages`. It replaces the message, or is inserted before it if
        ``insert`` is True. If ``text`` is None, the message is removed. An edit that has no effect returns the history
        itself. Raises Error, and does not change anything, if the text cannot be parsed, if the engine refuses the
        message, or if the message or the history does not exist.
        """
        known = {branch.name: branch for branch in self._tree.all}
        if history not in known:
            raise Error(f"history {history!r} does not exist; the histories are {', '.join(known)}")
        try:
            made, word = self._tree.edit(known[history], message, text, insert)
        except IndexError as error:
            raise Error(str(error)) from None
        if made is None:
            raise Error(word)
        return made

    def _asked(self, edit: dict[str, Any]) -> dict[str, Any]:
        """Answer the page: an edit's history, with its recording."""
        made = self.fork(int(edit["message"]), str(edit["text"]), insert=bool(edit["insert"]), history=edit["history"])
        return {"name": made.name, "label": made.label, "data": self._data(made.recording, 0)}

    def _data(self, recording: Recording, at: int) -> dict[str, Any]:
        return recording_data(recording, self.title, at, self._predict)

    def data(self) -> dict[str, Any]:
        """Return the recording of the original history as JSON (docs/recording.md)."""
        return {"kind": "stepper", **self._data(self.recording, self.step)}

    def html(self) -> str:
        """Return the tables of the step that is shown first as HTML, which needs no script."""
        return still(self._data(self.recording, self.step))

    def widget(self) -> StepperWidget:
        """Return a widget for JupyterLab and VS Code."""
        from ..page.widget import StepperWidget

        return StepperWidget(self.data(), self._asked)

    def __repr__(self) -> str:
        return f"{self.title}, step {self.step} of {self.recording.last}: {self.recording.caption(self.step)}"


stepper = Stepper
"""The name by which notebooks call `Stepper`: ``show.stepper(replay, messages)``."""
