"""Pictures: every text is readable and stands free, for any view that the kit supports."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pandas as pd
import pytest
from cases import CASES, DOMAINS, RELATIONS
from contrast import contrast
from drawn import TAKEN

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.show.palette import DARK, LIGHT
from sharedstate_lite.show.svg import Drawing

Rect = tuple[float, float, float, float]
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["full", "shared", "partial"]
SQL = "CREATE VIEW v AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"
HOSTILE = ["<script>alert(1)</script>", "a & b \"c\" 'd'", "\x00\x1f\n\t", "北京市 🍎 مرحبا", "W" * 80, "", None]


def texts(svg: ET.Element) -> Iterator[tuple[Rect, str]]:
    """The box of each text, and the text."""
    for each in svg.iter(SVG + "text"):
        told = re.search(r"font-size:([\d.]+)", each.get("style", ""))
        size = float(told[1]) if told else 12.0
        x, y, long = (float(each.get(k, "nan")) for k in ("x", "y", "textLength"))
        x -= {"start": 0.0, "middle": long / 2, "end": long}[each.get("text-anchor", "start")]
        yield (x, y - 0.75 * size, x + long, y + 0.22 * size), each.text or ""


def panels(svg: ET.Element) -> Iterator[Rect]:
    """The frames of the operators."""
    for each in svg.iter(SVG + "rect"):
        if "--frame" in each.get("stroke", ""):
            x, y, w, h = (float(each.get(k, "nan")) for k in ("x", "y", "width", "height"))
            yield x, y, x + w, y + h


def strokes(svg: ET.Element) -> Iterator[Rect]:
    """The straight stretches of the lines between operators, as boxes of their own thickness."""
    for each in svg.iter(SVG + "path"):
        if not re.search("--(frame|handle|upquery)", each.get("stroke", "")):
            continue
        points = [(float(a), float(b)) for a, b in re.findall(r"(-?[\d.]+) (-?[\d.]+)", each.get("d", ""))]
        for (a, b), (c, d) in zip(points, points[1:], strict=False):
            yield min(a, c) - 0.5, min(b, d) - 0.5, max(a, c) + 0.5, max(b, d) + 0.5


def meets(a: Rect, b: Rect, slack: float = 0.6) -> bool:
    """Whether two boxes have more than an edge in common."""
    return a[0] + slack < b[2] and b[0] + slack < a[2] and a[1] + slack < b[3] and b[1] + slack < a[3]


def check(drawing: Drawing) -> None:
    """Nothing overlaps, nothing sticks out, nothing is too small to read."""
    svg = ET.fromstring(drawing.svg("test", alone=True))
    written, frames = list(texts(svg)), list(panels(svg))
    assert written and frames
    for box, words in written:
        assert words.strip() and box[0] >= 0 and box[2] <= drawing.width and box[3] <= drawing.height, words
    for (a, one), (b, other) in combinations(written, 2):
        assert not meets(a, b), f"{one!r} lies on {other!r}"
    for a, b in combinations(frames, 2):
        assert not meets(a, b)
    for line in strokes(svg):
        assert not any(meets(line, frame, 0.8) for frame in frames)
        assert not any(meets(line, box) for box, _ in written), [w for b, w in written if meets(line, b)]
    for size in re.findall(r"font-size:([\d.]+)px", drawing.body):
        assert float(size) >= 12


def engine(kind: str, case: Any, rows: int) -> ss.Engine:
    """An engine with the case's views and some rows in every relation."""
    _, views = case.declare()
    made = ss.engine(kind, views)
    for relation, schema in RELATIONS.items():
        columns = [c.split()[0] for c in schema.split(", ")]
        values = [tuple(DOMAINS[c][n * (i + 1) % len(DOMAINS[c])] for i, c in enumerate(columns)) for n in range(rows)]
        made.step({relation: [(row, 1 + n % 2) for n, row in enumerate(values)]})
    if kind == "partial":
        width = len(views[-1].key)
        made.read(views[-1].name, key=tuple([None] * width))
    return made


def drawn(made: ss.Engine, carried: bool = False) -> show.Picture:
    """The graph of an engine."""
    edges = made.trace.rows_by_edge() if carried else None
    return show.graph(
        made.graph(), made.state, title=f"{made.kind} state", filled=getattr(made, "filled", None), carried=edges
    )


@pytest.mark.parametrize(("kind", "name"), TAKEN)
def test_every_view_is_drawn_free(kind: str, name: str) -> None:
    """For every view and every strategy that takes it, texts, panels and lines keep clear, at each width drawn."""
    with engine(kind, CASES[name], 6) as made:
        for drawing in drawn(made, carried=len(name) % 2 == 0).drawings:
            check(drawing)


def test_hostile_data() -> None:
    """Markup, control characters, wide, long, empty and absent values are shown as data, in valid XML."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(
        "CREATE VIEW v AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"
    )
    for kind in KINDS:
        with ss.engine(kind, [view]) as made:
            made.step({"info": [((p, p), 1) for p in HOSTILE], "visit": [((p, p, 7), 1) for p in HOSTILE]})
            made.read("v", key=HOSTILE[0])
            picture = drawn(made)
            assert "<script>" not in picture._repr_html_()
            for drawing in picture.drawings:
                check(drawing)


def test_large_state_is_counted_not_listed() -> None:
    """A table of many rows shows the first ones and counts the rest; a huge one is not even fetched."""
    view = ss.Catalog(visit="product STRING, length INT").view(
        "CREATE VIEW v AS SELECT product, MAX(length) AS m FROM visit GROUP BY product"
    )
    asked: list[str] = []
    with ss.engine("full", [view]) as made:
        made.step({"visit": [((f"p{n % 300}", n), 1) for n in range(21_000)]})

        def state(operator: str | None = None) -> pd.DataFrame:
            asked.append(operator or "")
            return made.state(operator)

        picture = show.graph(made.graph(), state)
    assert "293 more rows" in picture._repr_svg_() and "21,000 rows" in picture._repr_svg_()
    assert [a for a in asked if a] == ["v"]


@pytest.mark.parametrize(
    ("kind", "sizes"), [("full", (2, 4, 0)), ("shared", (2, 4, 0)), ("partial", (2, 3, 2))], ids=KINDS
)
def test_a_picture_has_the_bill(kind: str, sizes: tuple[int, int, int]) -> None:
    """The rows of the three columns of the bill; a join's side has its table's name, also without unused columns."""
    with ss.engine(kind, [ss.Catalog(**RELATIONS).view(SQL)]) as engine:
        engine.step({"info": [(("Kiwi", "Fruit"), +1)], "visit": [(("Kiwi", "Eve", 5), +1)]})
        engine.read("v", key="Fruit")
        svg = show.graph(engine.graph(), engine.state)._repr_svg_()
        assert sizes == tuple(engine.bill()["rows"].head(3))
    words = [f"{n} row{'s' * (n != 1)}" for n in sizes]
    assert f"durable inputs {words[0]} · working state {words[1]} · cached answers {words[2]}" in svg
    assert (">visit side<" in svg) == (kind == "full")


def test_a_picture_needs_no_engine() -> None:
    """Frames made by hand are drawn like an engine's: what is drawn is what was handed over."""
    operators = pd.DataFrame(
        [["t", "source", "t", "", ("t[a]",), ""], ["v", "view", "v", "", (), "v"]],
        columns=["name", "kind", "title", "detail", "tables", "view"],
    )
    edges = pd.DataFrame([["t", "v", "change"]], columns=["source", "target", "kind"])
    held = pd.DataFrame(
        [["t[a]", "t", ("a",), 1, 8, "base", "durable"]],
        columns=["operator", "relation", "key", "rows", "bytes", "kind", "bill"],
    )
    rows = pd.DataFrame({"a": ["only"], "diff": [1]})
    picture = show.graph((operators, edges), lambda name=None: held if name is None else rows)
    assert ">only<" in picture._repr_svg_() and "t: 1 row -> v" in repr(picture)


def test_themes() -> None:
    """A picture follows JupyterLab's theme, else the reader's system; text has a contrast of 4.5, frames of 3."""

    for colours in (LIGHT, DARK):
        for under in ("page", "panel"):
            assert all(contrast(colours[k], colours[under]) >= 4.5 for k in ("ink", "muted", "deleted", "upquery"))
            assert contrast(colours["frame"], colours[under]) >= 3
        assert all(contrast(colours["badge"], colours[k]) >= 4.5 for k in ("inserted", "deleted", "upquery", "handle"))
        assert contrast(colours["badge"], colours["frame"]) >= 3
    html = show.rungs_chart({}, "rows").html
    assert "prefers-color-scheme:dark" in html and "data-jp-theme-light=false" in html
