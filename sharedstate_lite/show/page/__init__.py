"""What JupyterLab, VS Code and the site have in common: one script, one style sheet, and JSON between them and Python.

``data`` makes the JSON of a question, and ``widget`` is the script in JupyterLab and VS Code. The site has the script
and the style sheet as files (website/publish.py), and a page has the JSON of each question and chart.

>>> from sharedstate_lite.show.page import SCRIPT
>>> SCRIPT.splitlines()[0]
'// @ts-check'
"""

from pathlib import Path

_HERE = Path(__file__).parent
SCRIPT = (_HERE / "page.js").read_text(encoding="utf-8")
"""The script of a page: predictions, charts, and the widget of JupyterLab and VS Code."""
STYLE = (_HERE / "page.css").read_text(encoding="utf-8")
"""The style sheet of predictions, charts and their tables."""
PAGE = "application/vnd.sharedstate-lite.page+json"
"""The type of an output that the site mounts: {"kind": "prediction", ...}, with the data of page.js."""

__all__ = ["PAGE", "SCRIPT", "STYLE"]
