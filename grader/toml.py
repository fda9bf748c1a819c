"""A TOML file that knows the lines of its keys, which tomllib does not tell."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[=.]""")


class Toml:
    """The content of a file, as ``values``. Raises ValueError if it is not valid TOML."""

    def __init__(self, name: str, text: str, parse_float: Callable[[str], Any] = float) -> None:
        """``name``: how messages call the file."""
        self.name, self.lines = name, text.splitlines()
        self.values: dict[str, Any] = tomllib.loads(text, parse_float=parse_float)

    def line(self, key: str, table: str = "", nth: int = 0) -> int:
        """Return the line of a key in a table; if there is none, that of the table; 0 if there is neither.

        ``table``: "" for the top of the file; ``nth``: which of several tables [[table]], counted from 0.

        >>> file = Toml("lab.toml", '[a]\\n"x.y" = 1\\n[[b]]\\n[[b]]\\nz = 2\\n[b.c]\\nd = 3\\n[e]\\nz = 4')
        >>> [file.line(*at) for at in (("x.y", "a"), ("z", "b", 1), ("z", "b"), ("c", "b", 1), ("z", "e"), ("z",))]
        [2, 5, 3, 6, 9, 0]
        """
        here, counts, first = "", Counter[str](), 0
        for number, text in enumerate(self.lines, 1):
            if header := _HEADER.match(text):
                here = re.sub("[\"']", "", header[1])
                counts[here] += 1
                inner = table and here == f"{table}.{key}" and counts[table] == nth + 1
                if inner or not table and here == key and counts[here] == nth + 1:
                    return number
                if here == table and counts[here] == nth + 1:
                    first = number
            elif here == table and counts[here] == (nth + 1 if table else 0) and (found := _KEY.match(text)):
                if key == next(name for name in found.groups() if name is not None):
                    return number
        return first

    def at(self, key: str, table: str = "", nth: int = 0) -> str:
        """Return the place of a key for a message, such as "lab.toml, line 4"; without a line if there is none."""
        line = self.line(key, table, nth)
        return f"{self.name}, line {line}" if line else self.name
