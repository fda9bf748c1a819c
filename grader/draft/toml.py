"""Writes values as TOML."""

from __future__ import annotations

import json
from typing import Any


def value(given: Any) -> str:
    """Return a string, a number, a list or a dict as TOML on one line, except for strings with line breaks."""
    if isinstance(given, dict):
        inside = ", ".join(f"{key(name)} = {value(each)}" for name, each in given.items())
        return f"{{ {inside} }}"
    if isinstance(given, list | tuple):
        return f"[{', '.join(map(value, given))}]"
    if isinstance(given, str) and "\n" in given and "'''" not in given:
        return f"'''\n{given}'''"
    # The strings of JSON are strings of TOML, except that JSON does not escape the character 127.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """Return a key, in quotes if it needs them."""
    return name if name and all(c.isascii() and (c.isalnum() or c in "_-") for c in name) else value(name)
