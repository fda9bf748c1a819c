"""How high each box of a layout stands, the order of every column being given.

The tallest column comes first and the others follow outwards: a box goes to the mean of
its neighbours' ports, as near as the boxes above and below it allow (isotonic
regression, by pooling adjacent violators). At last boxes are moved a little where that
makes a bent link straight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NEAR = 16.0
"""A link that is bent by no more than this is straightened where there is room."""


@dataclass(frozen=True)
class Box:
    """A box to place: its size in px, how high above it its title reaches, and whether it is only a lane."""

    name: str
    width: float
    height: float
    above: float = 0.0
    lane: bool = False


@dataclass(frozen=True)
class Link:
    """An edge from one box to another, ports in px below the boxes' upper edges."""

    source: str
    target: str
    out: float
    into: float


def heights(
    order: Sequence[Sequence[str]],
    size: Mapping[str, Box],
    links: Sequence[Link],
    apart: float,
    most: float | None = None,
) -> dict[str, float]:
    """The upper edge of each box; the highest title reaches up to 0.

    Straight links may make the whole higher than its tallest column. Where that is more
    than ``most``, columns are moved together, and links bend.
    """
    tops: dict[str, float] = {}
    if not order:
        return tops
    tall = [sum(size[n].height + size[n].above + apart for n in column) for column in order]
    start = tall.index(max(tall))
    y = 0.0
    for n in order[start]:
        tops[n] = y + size[n].above
        y = tops[n] + size[n].height + apart
    outwards = [*range(start + 1, len(order)), *range(start - 1, -1, -1)]
    for c in outwards * 3:
        _settle(order[c], size, links, tops, apart)
    for c in [*range(len(order)), *range(len(order) - 1, -1, -1)]:
        _straighten(order[c], size, links, tops, apart)
    if most is not None:
        _together(order, size, tops, apart, max(most, max(tall) - apart))
    highest = min(tops[n] - size[n].above for n in tops)
    return {n: t - highest for n, t in tops.items()}


def _together(
    order: Sequence[Sequence[str]], size: Mapping[str, Box], tops: dict[str, float], apart: float, most: float
) -> None:
    """Push what sticks out of a window of height ``most`` back into it, the others of its column with it."""
    low = min(tops[n] - size[n].above for n in tops)
    high = max(tops[n] + size[n].height for n in tops)
    if high - low <= most:
        return
    low, high = (low + high - most) / 2, (low + high + most) / 2
    for column in order:
        edge = low
        for n in column:
            tops[n] = max(tops[n], edge + size[n].above)
            edge = tops[n] + size[n].height + apart
        edge = high
        for n in reversed(column):
            tops[n] = min(tops[n], edge - size[n].height)
            edge = tops[n] - size[n].above - apart


def _settle(
    column: Sequence[str], size: Mapping[str, Box], links: Sequence[Link], tops: dict[str, float], apart: float
) -> None:
    """Move a column's boxes to where their placed neighbours want them."""
    shifts, weights, offsets, y = [], [], [], 0.0
    for n in column:
        wanted, weight = _wanted(n, size, links, tops)
        offsets.append(y + size[n].above)
        shifts.append((offsets[-1] if wanted is None else wanted) - offsets[-1])
        weights.append(weight)
        y = offsets[-1] + size[n].height + apart
    for n, shift, offset in zip(column, isotonic(shifts, weights), offsets, strict=True):
        tops[n] = shift + offset


def _wanted(
    name: str, size: Mapping[str, Box], links: Sequence[Link], tops: Mapping[str, float]
) -> tuple[float | None, float]:
    """The mean of the upper edges at which the box's links would be straight, and how much it matters."""
    total = weight = 0.0
    for k in links:
        here, there, shift = (
            (k.target, k.source, k.out - k.into) if k.target == name else (k.source, k.target, k.into - k.out)
        )
        if here == name and there in tops:
            # A lane that bends looks worse than a box's own link does.
            w = 8.0 if size[here].lane and size[there].lane else 1.0
            total, weight = total + w * (tops[there] + shift), weight + w
    return (total / weight, weight) if weight else (None, 0.1)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to ``values`` in weighted squares."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, n), (b, w, m) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, n + m)]
    return [value for value, _, n in blocks for _ in range(n)]


def _straighten(
    column: Sequence[str], size: Mapping[str, Box], links: Sequence[Link], tops: dict[str, float], apart: float
) -> None:
    """Move boxes by what makes one of their links straight, where none is straight yet and there is room."""
    for i, n in enumerate(column):
        bends = [tops[k.source] + k.out - tops[k.target] - k.into for k in links if k.target == n]
        bends += [tops[k.target] + k.into - tops[k.source] - k.out for k in links if k.source == n]
        bends.sort(key=abs)
        if not bends or abs(bends[0]) < 0.5:
            continue
        for bend in bends:
            above = tops[column[i - 1]] + size[column[i - 1]].height + apart if i else float("-inf")
            under = tops[column[i + 1]] - size[column[i + 1]].above - apart if i + 1 < len(column) else float("inf")
            top = tops[n] + bend
            if abs(bend) <= NEAR and above <= top - size[n].above and top + size[n].height <= under:
                tops[n] = top
                break
