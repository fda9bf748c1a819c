"""How well one colour is seen on another."""

from __future__ import annotations


def luminance(colour: str) -> float:
    """Of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Between two colours, 1 to 21, as WCAG 2 defines it."""
    one, two = sorted((luminance(a), luminance(b)))
    return (two + 0.05) / (one + 0.05)
