"""Frames without a widget: the steps of one message as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import Error
from .face import Stepper
from .pages import Pages
from .session import Replay


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
