"""Writes the reports of an exploration: explore.json, and explore.html, which is drawn from it alone.

`page` makes the whole page, `diagram` draws one run as a table of steps with their messages, and `usual` knows what a
system must expect after each kind of fault. docs/explore.schema.json describes explore.json.

This is a folder of its own, so that a change of it changes no grade: `class` keeps a hash of what judges a system.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...files import as_json, write
from .page import as_html

JSON, PAGE = "explore.json", "explore.html"


def write_explored(told: Mapping[str, Any], out: Path) -> Path:
    """Write both files into a folder, each whole or not at all, and return the path of the page.

    Raises VoidError if a file cannot be written.
    """
    write(out / JSON, as_json(told))
    write(out / PAGE, as_html(told))
    return out / PAGE


__all__ = ["JSON", "PAGE", "as_html", "write_explored"]
