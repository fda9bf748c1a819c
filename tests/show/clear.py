"""Is a drawing clear? Looks at positions alone: boxes of texts, panels and messages, stretches of lines.

:func:`faults` returns what is wrong, one sentence each: texts that lie on each other,
stick out or are smaller than 12 px, panels and messages that meet, lines that run through
a panel or a label, and a drawing that is too wide or too high.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = r"-?\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Box:
    """An upright rectangle, and what it is."""

    x0: float
    y0: float
    x1: float
    y1: float
    what: str

    def meets(self, other: Box, slack: float = 0.7) -> bool:
        """Whether the two have more than an edge in common."""
        wide = min(self.x1, other.x1) - max(self.x0, other.x0)
        high = min(self.y1, other.y1) - max(self.y0, other.y0)
        return wide > slack and high > slack

    def holds(self, other: Box, slack: float = 1.0) -> bool:
        """Whether the other lies within."""
        return (
            self.x0 - slack <= other.x0
            and other.x1 <= self.x1 + slack
            and self.y0 - slack <= other.y0
            and other.y1 <= self.y1 + slack
        )


@dataclass
class Scene:
    """What a drawing consists of."""

    texts: list[Box] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    panels: list[Box] = field(default_factory=list)
    inside: list[tuple[Box, Box]] = field(default_factory=list)
    """A text of a panel, title included, and the panel."""
    loads: list[Box] = field(default_factory=list)
    labels: list[Box] = field(default_factory=list)
    """Texts that belong to no panel and lie on no message."""
    lines: list[Box] = field(default_factory=list)
    covers: list[tuple[Box, int]] = field(default_factory=list)
    """A page-coloured box, and how many of the lines it lies on."""


def read(svg: str) -> tuple[Scene, float, float]:
    """The parts of a drawing, its width and its height."""
    root = ET.fromstring(svg)
    scene = Scene()
    for child in root:
        _walk(child, 0, 0, scene, None, None)
    return scene, float(root.get("width", "nan")), float(root.get("height", "nan"))


def _walk(e: ET.Element, dx: float, dy: float, scene: Scene, panel: list[Box] | None, load: list[Box] | None) -> None:
    moved = re.fullmatch(rf"translate\(({NUMBER}) ({NUMBER})\)", e.get("transform", ""))
    if moved:
        dx, dy = dx + float(moved[1]), dy + float(moved[2])
    kinds = e.get("class", "").split()
    if "node" in kinds:
        panel = []
        frame = next(r for r in e if r.tag == SVG + "rect" and re.search("--(frame|ink)", r.get("stroke", "")))
        panel.append(_rect(frame, dx, dy, e.get("data-operator", "")))
        scene.panels.append(panel[0])
    if "load" in kinds:
        points = [p for path in e.iter(SVG + "path") for p in _points(path.get("d", ""))]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        load = [Box(min(xs) + dx, min(ys) + dy, max(xs) + dx, max(ys) + dy, f"message {''.join(e.itertext())!r}")]
        scene.loads.append(load[0])
    if e.tag == SVG + "text":
        box, size = _text(e, dx, dy)
        scene.texts.append(box)
        scene.sizes.append(size)
        if panel:
            scene.inside.append((box, panel[0]))
        elif not load:
            scene.labels.append(box)
    elif e.tag == SVG + "path" and not panel and not load and e.get("fill") == "none":
        if re.search("--(frame|handle|upquery|ink)", e.get("stroke", "")):
            scene.lines += list(_stretches(e.get("d", ""), dx, dy))
    elif e.tag == SVG + "rect" and not panel and not load and "--page" in e.get("fill", ""):
        scene.covers.append((_rect(e, dx, dy, "a cover"), len(scene.lines)))
    for child in e:
        _walk(child, dx, dy, scene, panel, load)


def _rect(e: ET.Element, dx: float, dy: float, what: str) -> Box:
    x, y, w, h = (float(e.get(k, "nan")) for k in ("x", "y", "width", "height"))
    return Box(x + dx, y + dy, x + w + dx, y + h + dy, what)


def _text(e: ET.Element, dx: float, dy: float) -> tuple[Box, float]:
    told = re.search(r"font-size:([\d.]+)", e.get("style", ""))
    size = float(told[1]) if told else 12.0
    x, y, long = (float(e.get(k, "nan")) for k in ("x", "y", "textLength"))
    x -= {"start": 0.0, "middle": long / 2, "end": long}[e.get("text-anchor", "start")]
    return Box(x + dx, y - 0.75 * size + dy, x + long + dx, y + 0.2 * size + dy, repr(e.text)), size


def _points(path: str) -> Iterator[tuple[float, float]]:
    """The corners of a path of M, L, H, V, Q and Z, all absolute."""
    x = y = 0.0
    for letter, given in re.findall(r"([MLHVQZ])([^MLHVQZ]*)", path):
        numbers = [float(n) for n in re.findall(NUMBER, given)]
        if letter == "H":
            x = numbers[0]
        elif letter == "V":
            y = numbers[0]
        elif letter in "MLQ":
            x, y = numbers[-2:]
        yield x, y


def _stretches(path: str, dx: float, dy: float) -> Iterator[Box]:
    points = list(_points(path))
    for (a, b), (c, d) in zip(points, points[1:], strict=False):
        yield Box(min(a, c) - 0.5 + dx, min(b, d) - 0.5 + dy, max(a, c) + 0.5 + dx, max(b, d) + 0.5 + dy, "a line")


def faults(svg: str, widest: float, tallest: float = 1e9) -> list[str]:
    """What is wrong with a drawing."""
    scene, width, height = read(svg)
    out = []
    if width > widest + 0.1:
        out.append(f"{width:.0f} px wide, {widest:.0f} are there")
    if height > tallest + 0.1:
        out.append(f"{height:.0f} px high, {tallest:.0f} are there")
    page = Box(0, 0, width, height, "page")
    out += [f"{t.what} sticks out" for t in [*scene.texts, *scene.panels, *scene.loads] if not page.holds(t)]
    out += [f"{t.what} has {s} px" for t, s in zip(scene.texts, scene.sizes, strict=True) if s < 12]
    out += [f"{a.what} lies on {b.what}" for a, b in combinations(scene.texts, 2) if a.meets(b)]
    solid = [*scene.panels, *scene.loads]
    out += [f"{a.what} meets {b.what}" for a, b in combinations(solid, 2) if a.meets(b)]
    for text, panel in scene.inside:
        title = Box(panel.x0, panel.y0 - 40, panel.x1, panel.y1, panel.what)
        if not title.holds(text):
            out.append(f"{text.what} leaves {panel.what}")
        out += [f"{text.what} lies on {p.what}" for p in solid if p is not panel and text.meets(p)]
    out += [f"label {t.what} lies on {p.what}" for t in scene.labels for p in solid if t.meets(p)]
    for n, line in enumerate(scene.lines):
        over = [cover for cover, lines in scene.covers if n < lines]
        out += [f"a line runs through {p.what}" for p in scene.panels if line.meets(p, 0.9)]
        open_to = (t for t in scene.labels if not any(cover.holds(t) for cover in over))
        out += [f"a line runs through {t.what}" for t in open_to if line.meets(t)]
        out += [f"a line runs through {t.what}" for t, _ in scene.inside if line.meets(t)]
    return out
