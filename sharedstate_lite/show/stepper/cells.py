"""The fields of a table row: a value, a changed value, a bag of values, or a hole.

A field measures itself in its widest style, so a mark never widens its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..svg import number, rect, text
from ..table import slot
from ..text import width
from .glyphs import minus, plus, stroke

ARROW = "→"
ITEM = 10.0
"""The number of px by which the box of a bag's item is wider than its text."""


class Field(Protocol):
    """The interface of everything that can be placed in a column."""

    @property
    def width(self) -> float:
        """The smallest width of the field, in px."""

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        """Return the SVG of the field, ``wide`` px wide, in a row that is 18 px high and has its upper edge at ``y``.

        If ``right`` is True, a value is aligned to the right.
        """


@dataclass(frozen=True)
class Cell:
    """A value. ``style`` lists classes (b, i, m, s, u) of the style sheet; ``tip`` is the full text of a cut value."""

    words: str
    style: str = ""
    tip: str = ""

    @property
    def width(self) -> float:
        return width(self.words, bold=True)

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        at = (x + wide, y + 13) if right else (x, y + 13)
        return text(at, self.words, kind=self.style, anchor="end" if right else "start", tip=self.tip)


@dataclass(frozen=True)
class Changed:
    """A changed value in a box: the old value is struck through, and the new one is bold.

    ``tight`` omits the arrow between them. The box is darker if the value changed in this step (``now``).
    """

    old: str
    new: str
    tight: bool = False
    now: bool = True

    @property
    def _between(self) -> float:
        return 6.0 if self.tight else width(ARROW) + 8

    @property
    def width(self) -> float:
        return width(self.old) + self._between + width(self.new, bold=True) + 8

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        left = x + wide - self.width if right else x
        out = [rect(left, y + 1, self.width, 16, fill="page", stroke="ink" if self.now else "frame", radius=2)]
        out.append(text((left + 4, y + 13), self.old, kind="s", fill="deleted"))
        at = left + 4 + width(self.old)
        if not self.tight:
            out.append(text((at + 4, y + 13), ARROW))
        out.append(text((at + self._between, y + 13), self.new, kind="b"))
        return "".join(out)


@dataclass(frozen=True)
class BagItem:
    """One value in a bag. ``now`` says whether it changed in this step."""

    words: str
    mark: str = ""
    now: bool = False


@dataclass(frozen=True)
class BagField:
    """The values of a group, each in a box. ``before`` and ``after`` count the values that are not shown."""

    items: tuple[BagItem, ...]
    before: int = 0
    after: int = 0

    def _counts(self) -> tuple[str, str]:
        return f"+{self.before:,}" if self.before else "", f"+{self.after:,}" if self.after else ""

    @property
    def width(self) -> float:
        boxes = sum(width(i.words, bold=True) + ITEM + 4 for i in self.items)
        return boxes + sum(width(c) + 4 for c in self._counts() if c)

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        before, after = self._counts()
        out, at = [], x
        if before:
            out.append(text((at, y + 13), before, kind="m i"))
            at += width(before) + 4
        for item in self.items:
            w = width(item.words, bold=True) + ITEM
            out.append(_item(item, at, y, w))
            at += w + 4
        if after:
            out.append(text((at, y + 13), after, kind="m i"))
        return "".join(out)


def _item(item: BagItem, x: float, y: float, wide: float) -> str:
    tone = item.mark if item.mark in ("inserted", "deleted") else "hairline"
    fill = f"{item.mark}-tint" if item.mark in ("inserted", "deleted") and item.now else "page"
    dashes = ' stroke-dasharray="3 2"' if item.mark == "deleted" else ""
    style = {"inserted": "b", "deleted": "s", "looked": "u"}.get(item.mark, "")
    box = rect(x, y + 1, wide, 16, fill=fill, stroke=tone, radius=2).replace("/>", f"{dashes}/>")
    sign = plus(x + wide, y + 2, 3) if item.mark == "inserted" else ""
    sign = minus(x + wide, y + 2, 3) if item.mark == "deleted" else sign
    return box + text((x + wide / 2, y + 13), item.words, kind=style, anchor="middle") + sign


@dataclass(frozen=True)
class FieldGroup:
    """Several fields next to each other."""

    parts: tuple[Field, ...]

    @property
    def width(self) -> float:
        return sum(p.width + 8 for p in self.parts) - 8

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        out = []
        for part in self.parts:
            out.append(part.draw(x, y, part.width, False))
            x += part.width + 8
        return "".join(out)


@dataclass(frozen=True)
class Hole:
    """A key that is not filled, drawn as a slot. If the key has no column, ``words`` name it before the slot."""

    now: bool = False
    words: str = ""

    @property
    def width(self) -> float:
        return 44.0 + (width(self.words, bold=True) + 8 if self.words else 0)

    def draw(self, x: float, y: float, wide: float, right: bool) -> str:
        before = text((x, y + 13), self.words) if self.words else ""
        gone = width(self.words, bold=True) + 8 if self.words else 0.0
        x, wide, edge = x + gone, wide - gone, ""
        if self.now:
            n = number
            edge = stroke(f"M{n(x)} {n(y + 17)}H{n(x + wide)}", "deleted", 1, dashes="3 2")
        return before + slot(x, y + 3, wide) + edge


def columns_width(widths: Sequence[float], between: float) -> float:
    """Return the total width of columns that are ``between`` px apart."""
    return sum(widths) + between * max(len(widths) - 1, 0)
