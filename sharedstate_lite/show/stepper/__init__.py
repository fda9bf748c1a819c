"""The stepper: what one message does to the state of every operator, step by step.

A reader predicts a step, takes it, goes back, or edits a message and follows the fork. The input is a
recording (`replay.recording`) and the function that made it, never an engine.

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.show import stepper
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> session = stepper(ss.replay("full", [longest]), ["+1 visit Potato, 50", "+1 visit Potato, 60"], at=(2, 1))
>>> session.question.text
'What will MAX(length) send?'
>>> session.predict("-U Potato 50, +U Potato 60").text
'Right.'
>>> session.fork(2, "+1 visit Potato, 40").current.label
'+1 visit Potato, 60 → +1 visit Potato, 40'

Modules, from the bottom: ``glyphs`` and ``cells`` are marks and the fields of a row; ``time_axis`` draws the batches
of an arrangement by epoch; ``table_blocks`` is a table with marks; ``chips`` are messages, ``nodes`` operators.
``diagram`` turns a recording into these, ``diagram_layout`` places them, ``fitting`` shrinks them to a width,
``timeline`` is the slider, ``frames`` draws one step. ``session`` steps without pictures, ``notebook`` with them, and
``widget`` in JupyterLab (widget.js, widget.css).

Source: Guo, Online Python Tutor: Embeddable Web-Based Program Visualization, SIGCSE 2013.
"""

from .frames import Pages
from .notebook import Stepper, static, stepper

__all__ = ["Pages", "Stepper", "static", "stepper"]
