"""The stepper in JupyterLab: answers the browser's requests from a `Stepper`.

The browser side is an ES module (anywidget), which does not need a build step or network access. The browser requests
frames ahead of time, so it can move without waiting for Python. The position, the predictions and the histories are
kept in Python. The answer to an invalid input is an error message, which the browser shows next to the input field.
"""

from __future__ import annotations

import atexit
import weakref
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import anywidget
import traitlets

from ...errors import Error
from ...replay.forks import Branch
from ...replay.questions import Verdict
from ...replay.recording import Recording
from ..palette import style
from .frames import Frames, counts, one_line
from .session import Answered, Score
from .timeline import TimelineRow, timeline

HERE = Path(__file__).parent
KEPT = 12
"""The number of frames that a saved page contains."""
WIDTH = 800.0


class StepperView(Protocol):
    """The part of a stepper that the widget uses."""

    version: int

    @property
    def recording(self) -> Recording: ...
    @property
    def step(self) -> int: ...
    @property
    def current(self) -> Branch: ...
    @property
    def branches(self) -> list[Branch]: ...
    @property
    def score(self) -> Score: ...
    @property
    def answers(self) -> dict[int, Answered]: ...
    @property
    def title(self) -> str: ...
    @property
    def asks(self) -> bool: ...
    @property
    def frames(self) -> Frames: ...
    def drawn(self, branch: Branch) -> Frames: ...
    def next(self) -> StepperView: ...
    def goto(self, message: int | None = None, step: int | None = None) -> StepperView: ...
    def branch(self, name: str | None = None) -> StepperView: ...
    def fold(self, operator: str) -> StepperView: ...
    def predict(self, text: str) -> Verdict: ...
    def fork(self, message: int, text: str | None = None, *, insert: bool = False) -> StepperView: ...


class StepperWidget(anywidget.AnyWidget):
    """The widget of one stepper, which sends frames and state to the browser and handles its requests."""

    _esm = (HERE / "widget.js").read_text(encoding="utf-8")
    _css = style() + (HERE / "widget.css").read_text(encoding="utf-8")
    state = traitlets.Dict().tag(sync=True)
    history = traitlets.Dict().tag(sync=True)
    kept = traitlets.Dict().tag(sync=True)

    def __init__(self, stepper: StepperView) -> None:
        self._stepper, self._seq, self._shown = stepper, 0, ""
        self._done: dict[str, int] = {}
        # JupyterLab handles the first comm messages in the main thread, and later ones in another thread.
        self._turn = RLock()
        message = stepper.recording.message_of(stepper.step)
        first = stepper.step if message is None else message.first - 1
        steps = [n for n in range(first, first + KEPT) if n <= stepper.recording.last]
        kept = {"branch": stepper.current.name, "width": WIDTH, "line": line(stepper, stepper.current, WIDTH)}
        kept["frames"] = {n: frame(stepper, stepper.current, n, WIDTH) for n in steps}
        super().__init__(state=self._state(), history=history(stepper), kept=kept)
        self._shown = stepper.current.name
        self.on_msg(self._received)
        _LIVE.add(self)

    def let_go(self) -> None:
        """Drop the reference to the stepper, and stop answering messages."""
        self.unobserve_all()
        self.__dict__.pop("_stepper", None)

    def _state(self) -> dict[str, Any]:
        stepper = self._stepper
        score = stepper.score
        return {
            "branch": stepper.current.name,
            "step": stepper.step,
            "version": stepper.version,
            "seq": self._seq,
            "answers": answers(stepper),
            "branches": [b.name for b in stepper.branches],
            "score": {
                "last": list(score.answers[-10:]),
                "right": score.right,
                "total": len(score.answers),
                "skipped": score.skipped,
            },
        }

    def update(self) -> None:
        """Send the stepper's current state to the browser."""
        with self.hold_sync():
            if self._shown != self._stepper.current.name:
                self._shown = self._stepper.current.name
                self.history = history(self._stepper)
            self.state = self._state()

    def _received(self, _: Any, message: Any, __: Any) -> None:
        """Handle a message from the browser. A failed request is answered with an error and does not change anything.

        Every message is acknowledged, and the browser repeats messages that were not acknowledged. A repeated or older
        request is not applied again.
        """
        if not isinstance(message, dict) or "_stepper" not in self.__dict__:
            return
        with self._turn:
            seq, view = int(message.get("seq", 0)), str(message.get("view", ""))
            if message.get("do") == "frames":
                self.send(self._frames(message) | {"seq": seq, "view": view})
                return
            if seq > self._done.get(view, 0):
                self._done[view], self._seq = seq, max(self._seq, seq)
                where = "edit" if message.get("do") == "fork" else "predict"
                try:
                    self._do(message)
                except Error as error:
                    self.send({"type": "error", "where": where, "text": str(error)})
            self.send({"type": "ack", "seq": seq, "view": view})

    def _do(self, message: dict[str, Any]) -> None:
        stepper, did = self._stepper, message.get("do")
        if did == "next":
            stepper.next()
        elif did == "goto":
            stepper.goto(step=int(message["step"]))
        elif did == "branch":
            stepper.branch("main" if message.get("first") else None)
        elif did == "fold":
            stepper.fold(str(message["operator"]))
        elif did == "predict":
            verdict = stepper.predict(str(message["text"]))
            if verdict.right is None:
                self.send({"type": "error", "where": "predict", "text": verdict.text})
        elif did == "fork":
            stepper.fork(int(message["message"]), str(message["text"]), insert=bool(message.get("insert")))
            self.send({"type": "forked"})

    def _frames(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return frames of the history that the request names, even if it is not the current one."""
        stepper, wide = self._stepper, min(max(float(message["width"]), 560.0), 1400.0)
        branch = next((b for b in stepper.branches if b.name == message["branch"]), stepper.current)
        steps = [int(n) for n in message["steps"] if 0 <= int(n) <= branch.recording.last][:64]
        return {
            "type": "frames",
            "branch": branch.name,
            "width": message["width"],
            "version": stepper.version,
            "frames": {n: frame(stepper, branch, n, wide) for n in steps},
            "line": line(stepper, branch, wide),
        }


_LIVE: weakref.WeakSet[StepperWidget] = weakref.WeakSet()


@atexit.register
def _let_go() -> None:
    """Release all recordings at exit, because ipywidgets keeps every widget until its modules are unloaded."""
    for widget in list(_LIVE):
        widget.let_go()


def answers(stepper: StepperView) -> dict[int, dict[str, Any]]:
    """Return the answers that were given in this history, by step."""
    out = {}
    for step, answer in stepper.answers.items():
        asked = stepper.recording.steps[step - 1].question
        right, reply = answer.verdict.right, answer.verdict.text
        out[step] = {"text": answer.text, "right": right, "reply": reply, "question": asked.text if asked else ""}
    return out


def history(stepper: StepperView) -> dict[str, Any]:
    """Return the parts of a history that are the same at every step: its messages, title, SQL and legend."""
    recording = stepper.recording
    messages = [{"first": t.first, "last": t.last, "text": t.text, "refused": t.refused} for t in recording.messages]
    legend, wide = stepper.frames.legend()
    return {
        "last": recording.last,
        "messages": messages,
        "title": stepper.title,
        "sql": one_line(recording.sql),
        "predict": stepper.asks,
        "example": messages[-1]["text"] if messages else "",
        "legend": f'<svg class="ssl" aria-hidden="true" width="{wide:.0f}" height="20">{legend}</svg>',
    }


def frame(stepper: StepperView, branch: Branch, number: int, wide: float) -> dict[str, Any]:
    """Return one step for the browser: its two pictures, the header's numbers, the caption and the next question."""
    recording = branch.recording
    header = counts(recording, number)
    asked = recording.steps[number].question if stepper.asks and number < recording.last else None
    caption = recording.caption(number)
    return {
        "svg": stepper.drawn(branch).scene(number, wide - 2).svg(caption, alone=False),
        "messages": stepper.drawn(branch).messages(number, wide - 2).svg(caption, alone=False),
        "caption": caption,
        "counts": header.pairs,
        "bill": header.bill,
        "asks": None if asked is None else {"text": asked.text, "hint": asked.hint},
    }


def line(stepper: StepperView, here: Branch, wide: float) -> dict[str, Any]:
    """Return the slider for the browser: a history and, if there is one, a fork below it."""
    lower = here if here.parent is not None else next((b for b in reversed(stepper.branches) if b.parent is here), None)
    upper = here.parent or here
    rows = [TimelineRow(upper.recording)]
    if lower is not None:
        rows.append(TimelineRow(lower.recording, lower.forked_at, f"{lower.name}: {lower.label}"))
    drawn = timeline(rows, wide - 2, len(stepper.branches) - len(rows))
    names = [upper.name, *([lower.name] if lower else [])]
    places = [
        {"branch": name, "xs": [round(x, 1) for x in xs], "y": y, "begin": round(begin, 1)}
        for name, xs, y, begin in zip(names, drawn.xs, drawn.ys, drawn.begins, strict=True)
    ]
    return {"svg": drawn.svg, "rows": places}
