"""The stepper: what one message does to the state of every operator, step by step.

    stepper   steps through a recorded run: predict, step, go back, change the past
    static    the same as pictures, for where no widget runs

The rooms, from the bottom up:

    glyphs, fields             marks, and what stands in one place of a row
    ruler, blocks, tables      an arrangement in time, a table with marks, recorded tables as such
    chips, nodes               messages on edges, operators
    script                     a recording as nodes, looks and loads
    stage, fitting, groups     where everything goes, and what gives way where it is narrow
    timeline                   the slider
    frame, pages               a step as a drawing, several as a page
    session, face, widget      stepping without a picture, with one, and in JupyterLab (widget.js, widget.css)

Takes a recording (:mod:`sharedstate_lite.replay.recording`) and, for forks, the function that
made it; never an engine.
"""

from .frames import Pages
from .notebook import Stepper, static, stepper

__all__ = ["Pages", "Stepper", "static", "stepper"]
