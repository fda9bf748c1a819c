"""The stepper, which shows, step by step, what one message does to the state of every operator.

A reader can predict a step, take it, go back, or edit a message and follow the fork. The input is a recording
(`replay.recording`) and the function that made it. The stepper never uses an engine directly.

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

Modules, from the bottom: ``glyphs`` draws marks, and ``cells`` the fields of a row; ``time_axis`` draws the batches of
an arrangement by epoch; ``table_blocks`` draws tables with marks, ``chips`` messages, and ``nodes`` operators.
``diagram`` turns a recording into these, ``diagram_layout`` places them, and ``fitting`` shrinks them to a width.
``message_lines`` draws messages as lines between operators over time, and ``recorded_messages`` reads them from a
recording. ``timeline`` draws the slider, and ``frames`` draws one step. ``session`` steps without pictures,
``notebook`` adds pictures, and ``widget``, with widget.js and widget.css, runs in JupyterLab.

Source: Guo, Online Python Tutor: Embeddable Web-Based Program Visualization, SIGCSE 2013.
"""

from .frames import Pages
from .notebook import Stepper, static, stepper
from .recorded_messages import space_time

__all__ = ["Pages", "Stepper", "space_time", "static", "stepper"]
