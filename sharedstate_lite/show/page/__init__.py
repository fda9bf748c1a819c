"""What JupyterLab, VS Code and the site have in common: one script, one style sheet, and JSON between them and Python.

``data`` makes the JSON of a question, ``still`` shows a recording without a script, ``output`` displays both, and
``widget`` is the script in JupyterLab and VS Code. The site has the script and the style sheet as files
(website/publish.py), and a page has the JSON of each question, chart and recording.

>>> from sharedstate_lite.show.page import SCRIPT
>>> SCRIPT.splitlines()[0]
'// @ts-check'
"""

from pathlib import Path

_HERE = Path(__file__).parent
QUESTIONS = (_HERE / "page.js").read_text(encoding="utf-8")
"""The script of predictions, charts, and the widget of JupyterLab and VS Code."""
SCRIPT = QUESTIONS + (_HERE / "stepper.js").read_text(encoding="utf-8")
"""The script of a page: page.js, then stepper.js."""
STYLE = (_HERE / "page.css").read_text(encoding="utf-8")
"""The style sheet of predictions, charts and their tables."""
STEPPER_STYLE = (_HERE / "stepper.css").read_text(encoding="utf-8")
"""The style sheet of steppers and of pictures of graphs."""
PAGE = "application/vnd.sharedstate-lite.page+json"
"""The type of an output that the site mounts: {"kind": "prediction", ...}, with the data of page.js."""

__all__ = ["PAGE", "QUESTIONS", "SCRIPT", "STEPPER_STYLE", "STYLE"]
