"""The CSS of the pages: a light and a dark theme, the light one in print, and a single column below 700 pixels."""

from __future__ import annotations

from pathlib import Path

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
