"""Measures the width of text without a browser; every layout uses it.

For printable ASCII, the widths are those of Arial, Liberation Sans and Helvetica, in thousandths of the font size. For
other characters, they are estimates. Pictures set SVG's ``textLength`` on every text element, so a browser with another
font squeezes or stretches the text to its measured width, and it does not overlap its neighbour.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Advance widths of ASCII 32 to 126.
_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 "
    "584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 "
    "333 611 556 778 556 556 500 389 280 389 584"
)
_WIDTHS = {
    bold: {chr(32 + i): int(w) for i, w in enumerate(table.split())}
    for bold, table in ((False, _REGULAR), (True, _BOLD))
}
_MONO = 600
_EXTRA = {"…": 1000, "→": 1000, "⋈": 1000, "⟕": 1000, "–": 556, "—": 1000, "·": 278}
_UNKNOWN = 700
"""The width of a letter that is not in the tables: between that of a typical and of the widest Cyrillic letter."""


@lru_cache(maxsize=4096)
def _advance(char: str, bold: bool) -> int:
    table = _WIDTHS[bold]
    if char in table:
        return table[char]
    if char in _EXTRA:
        return _EXTRA[char]
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return 0
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return 1000
    plain = unicodedata.normalize("NFD", char)[0]
    return table.get(plain, _UNKNOWN)


def width(text: str, size: float = 12, bold: bool = False, mono: bool = False) -> float:
    """Return the width of ``text`` in px at a font size of ``size`` px."""
    if mono:
        wide = sum(unicodedata.east_asian_width(c) in ("W", "F") for c in text)
        return (len(text) * _MONO + wide * (1000 - _MONO)) * size / 1000
    return sum(_advance(c, bold) for c in text) * size / 1000


def fit(text: str, most: float, size: float = 12, bold: bool = False, mono: bool = False) -> str:
    """Return ``text`` if it fits into ``most`` px, otherwise its longest prefix that fits with an ellipsis."""
    if not text or width(text, size, bold, mono) <= most + 0.05:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if width(text[:middle].rstrip() + "…", size, bold, mono) <= most + 0.05:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def wrap(text: str, most: float, lines: int, size: float = 12, bold: bool = False, mono: bool = False) -> list[str]:
    """Break ``text`` at spaces into at most ``lines`` lines of ``most`` px. A line that is too long is cut."""
    words, out = text.split(), [""]
    for number, word in enumerate(words):
        longer = f"{out[-1]} {word}".strip()
        if width(longer, size, bold, mono) <= most or not out[-1]:
            out[-1] = longer
        elif len(out) < lines:
            out.append(word)
        else:
            out[-1] = " ".join([out[-1], *words[number:]])
            break
    return [fit(line, most, size, bold, mono) for line in out]
