"""Publishes every frame of a stepper. This is an IPython extension, and runs in the kernel of an executed notebook.

The kernel is started with ``--ext website.stepping``. A stepper that a cell displays then has the output type `FRAMES`:
all frames of its history at each width, in the form in which the widget would request them.
"""

from __future__ import annotations

from typing import Any

from sharedstate_lite.show import Stepper
from sharedstate_lite.show.stepper.widget import frame, history, line

FRAMES = "application/vnd.sharedstate-lite.frames+json"
WIDTHS = (800.0, 560.0)
"""The widths of the frames in px, for a normal page and for a narrow one."""
SLIDERS = (800.0, 560.0, 360.0)
"""The widths of the slider in px. It does not scroll, so it also has to fit on a phone."""


def load_ipython_extension(shell: Any) -> None:
    """Display steppers with all their frames, and without a widget."""
    shell.display_formatter.ipython_display_formatter.for_type(Stepper, publish)


def publish(stepper: Stepper) -> None:
    """Display a stepper as an output with all its frames, and with the pictures of its current message."""
    from IPython.display import display

    display({**stepper._repr_mimebundle_(), FRAMES: frames(stepper)}, raw=True)  # type: ignore[no-untyped-call]


def frames(stepper: Stepper) -> dict[str, Any]:
    """Return what the browser side of the stepper needs in order to run without Python."""
    here = stepper.current
    steps = range(here.recording.last + 1)
    state = {"branch": here.name, "step": stepper.step, "version": 0, "seq": 0, "answers": {}, "branches": [here.name]}
    score = {"last": [], "right": 0, "total": 0, "skipped": 0}
    return {
        "state": {**state, "score": score},
        "history": {**history(stepper), "fixed": True},
        "frames": {int(wide): [frame(stepper, here, n, wide) for n in steps] for wide in WIDTHS},
        "lines": {int(wide): line(stepper, here, wide) for wide in SLIDERS},
    }
