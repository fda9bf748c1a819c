"""A few frames one below the other: the stepper where no widget runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..palette import style
from ..svg import Drawing
from .frame import Frames

FRAMES = 10
"""Frames that one output holds at most."""


class Pages:
    """Frames of a recording, one a step: in HTML, as one SVG, and in words."""

    def __init__(self, frames: Frames, steps: Sequence[int], width: float) -> None:
        self.frames, self.steps, self.width = frames, list(steps), width

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def drawings(self) -> list[Drawing]:
        """The frames."""
        return [self.frames.page(n, self.width) for n in self.steps]

    def _label(self, number: int) -> str:
        from .frame import caption

        return f"step {number}: {caption(self.frames.recording, number)}"

    def html(self, theme: str | None = None) -> str:
        """The frames for a page, with their style; one that is too narrow scrolls."""
        drawn = zip(self.steps, self.drawings, strict=True)
        out = [d.svg(self._label(n), alone=False) for n, d in drawn]
        rules = f"{style(theme)}.ssl-pages{{overflow-x:auto}}.ssl-pages svg{{display:block;margin:0 0 10px}}"
        return f'<div class="ssl-pages"><style>{rules}</style>{"".join(out)}</div>'

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_svg_(self) -> str:
        y, inside, widest = 0.0, [], 0.0
        for drawing in self.drawings:
            inside.append(f'<g transform="translate(0 {y:g})">{drawing.body}</g>')
            y, widest = y + drawing.height + 10, max(widest, drawing.width)
        return Drawing(widest, y, "".join(inside)).svg(repr(self).splitlines()[0], alone=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "image/svg+xml": self._repr_svg_(), "text/html": self._repr_html_()}

    def save(self, path: str | Path, theme: str | None = None) -> None:
        """Write a page of its own (``.html``), or one SVG (any other name)."""
        where = Path(path)
        if where.suffix == ".html":
            look = f"<style>:root{{color-scheme:{theme or 'light dark'}}}</style>"
            page = f'<!doctype html><meta charset="utf-8"><title>{self.frames.title}</title>{look}{self.html(theme)}'
            where.write_text(page, encoding="utf-8")
        else:
            where.write_text(self._repr_svg_(), encoding="utf-8")

    def __repr__(self) -> str:
        return "\n".join([self.frames.title, *(self._label(n) for n in self.steps)])
