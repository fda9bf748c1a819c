"""Plays a learner who brings a file of their own to notebook 04. The files are two of those of tests/data."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import lesson_rules as rules
from test_data_writers import READ, written

FILES = {
    "R csv": ("SELECT s, MAX(x) AS top FROM mine GROUP BY s", "100000.0"),
    "Excel of Germany csv": ("SELECT d, SUM(x) AS total FROM mine GROUP BY d", "1234.5"),
}
"""The query on each file, and a value of its answer."""


def brought(notebook: Any, folder: Path) -> dict[str, Any]:
    """Run the cells of the own table once more for each file, at the end of the notebook, with the path as text.

    Return, by value, the cells that show the answers.
    """
    codes = rules.code(notebook)
    first = next(at for at, cell in enumerate(codes) if cell.source.startswith("path = folder"))
    last = next(at for at, cell in enumerate(codes) if at > first and "check" in rules.tags(cell))
    shown = {}
    for name, (query, value) in FILES.items():
        write, options, *_ = READ[name]
        cells = [deepcopy(cell) for cell in codes[first : last + 1] if "show.predict(" not in cell.source]
        (folder / str(len(shown))).mkdir()
        path = written(folder / str(len(shown)), name, write)
        given = "".join(f", {option}={setting!r}" for option, setting in options.items())
        for old, new in (
            (r"^path = .*", f"path = {str(path)!r}"),
            (r"^query = .*", f'query = "{query}"'),
            (r"data\.load\(path\)", f"data.load(path{given})"),
        ):
            cells[0].source, changed = re.subn(old, lambda _, new=new: new, cells[0].source, flags=re.M)
            assert changed == 1, old
        for cell in cells:
            cell["id"] = f"{cell['id']}-{len(shown)}"
            if "working_rows = " in cell.source:  # the page's own question stays
                cell.source = cell.source.replace("working_rows = ", "again = ") + "\ndel again"
        notebook.cells += cells
        shown[value] = next(cell for cell in cells if cell.source.startswith('engine.read("answer")'))
    return shown
