"""The stepper, which shows, step by step, what one message does to the state of every operator.

A reader can predict a step, take it, go back, or edit a message and follow the fork. The input is a recording
(`replay.recording`) and the function that made it; the page's script (show/page/stepper.js) draws it and needs Python
for a fork only. The stepper never uses an engine directly.

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.show import stepper
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> made = stepper(ss.replay("full", [longest]), ["+1 visit Potato, 50", "+1 visit Potato, 60"], at=(2, 1))
>>> made
Full state, step 4 of 6: visit receives +1 (Potato, 60).
>>> made.data()["steps"][4]["question"]["text"]
'What will MAX(length) send?'
>>> made.fork(2, "+1 visit Potato, 40").label
'+1 visit Potato, 60 → +1 visit Potato, 40'

Modules, from the bottom: ``glyphs`` draws marks, and ``chips`` messages. ``message_lines`` draws messages as lines
between operators over time, and ``recorded_messages`` reads them from a recording. ``notebook`` displays a stepper.

Source: Guo, Online Python Tutor: Embeddable Web-Based Program Visualization, SIGCSE 2013.
"""

from .notebook import Stepper, stepper
from .recorded_messages import space_time

__all__ = ["Stepper", "space_time", "stepper"]
