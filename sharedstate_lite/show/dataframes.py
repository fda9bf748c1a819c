"""Displays data frames in a notebook with text on the left and numbers on the right.

pandas aligns every cell to the right, which makes sentences hard to read. A long heading, such as an operator's name,
can wrap after a dot, so that the table fits into a narrow window. The data frame itself is not changed. If a data frame
has so many columns that pandas leaves some out, it is displayed as pandas displays it.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
from pandas.api import types

from .chart import TEXT_RULE
from .checks import attended
from .tracebacks import tracebacks

WIDEST = 120
"""The largest number of characters that are shown for a string."""
_HEADING = re.compile(r"<th[^>]*>[^<]+")
_DOT = re.compile(r"(?<=\w)\.(?=[a-z_])")


def tables() -> None:
    """Display data frames and Changes with left-aligned text, and the kit's errors briefly, in the current notebook.

    The text of charts gets the colour of the page's text. An unattended run, such as that of a test, keeps all frames
    of an error. Outside a notebook, this only sets pandas' ``display.max_colwidth`` to `WIDEST`.
    """
    pd.set_option("display.max_colwidth", WIDEST)
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        html = shell.display_formatter.formatters["text/html"]
        html.for_type(pd.DataFrame, aligned)
        html.for_type_by_name("sharedstate_lite.changelog.changes", "Changes", changed)
        tracebacks(full=not attended())
        if attended() and getattr(shell, "kernel", None) is not None:
            from IPython.display import HTML, display

            display(HTML(f"<style>{TEXT_RULE}</style>"))  # type: ignore[no-untyped-call]


def aligned(frame: pd.DataFrame) -> str | None:
    """Return pandas' own HTML for a data frame, with text columns and a text index aligned to the left."""
    html: str | None = frame._repr_html_()  # type: ignore[operator]
    if html is None or len(frame.columns) > (pd.get_option("display.max_columns") or 20):
        return html
    levels = [frame.index.get_level_values(n).to_series() for n in range(frame.index.nlevels)]
    return _left(html, frame, index=all(map(is_text, levels)))


def changed(changes: Any) -> str:
    """Return the HTML for Changes, with the kinds and text columns aligned to the left."""
    frame = changes.to_pandas()
    frame.insert(0, "kind", changes.kinds(), allow_duplicates=True)
    return _left(changes._repr_html_(), frame, index=False)


def _left(html: str, frame: pd.DataFrame, index: bool) -> str:
    html = _HEADING.sub(lambda found: _DOT.sub(".<wbr>", found[0]), html)
    # Columns are counted from the right, because pandas leaves out repeated cells of a multi-level index on the left.
    count = len(frame.columns)
    ends = [count - at for at in range(count) if is_text(frame.iloc[:, at])]
    cells = [f"{tag}:nth-last-child({end})" for end in ends for tag in ("td", "th")] + ["tbody th"] * index
    if not cells:
        return html
    name = "-".join(["ssl-text", *map(str, ends), *["index"] * index])
    rules = ", ".join(f".{name} table.dataframe {cell}" for cell in cells)
    return f'<div class="{name}"><style>{rules} {{ text-align: left; }}</style>{html}</div>'


def is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column contains values that are not numbers."""
    if types.is_numeric_dtype(column.dtype):
        return False
    there = column.dropna()
    return len(there) > 0 and not all(isinstance(v, int | float) or types.is_number(v) for v in there)
