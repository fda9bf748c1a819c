"""Lines between placed boxes: straight, or with one vertical stretch in a gap between two columns.

Every vertical stretch of a gap has a track of its own, except that links which leave
from one port share theirs up to where they part. Tracks are chosen so that no two links
lie on each other, and then so that few cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from .layout import Piece

TRACK = 9.0
"""Px between two vertical stretches."""
STRAIGHT = 0.5
"""Heights nearer than this are one height."""
EDGE = 14.0
"""Px between a panel and the nearest vertical stretch."""

Track = tuple[str, float]
"""Pieces with one source and one height there share a track."""


def track_of(piece: Piece) -> Track:
    """The track that a piece belongs to."""
    return piece.source, round(piece.y0, 1)


def tracks(pieces: Sequence[Piece]) -> list[Track]:
    """The tracks of one gap's bent pieces, left to right."""
    bent = [p for p in pieces if abs(p.y0 - p.y1) > STRAIGHT]
    found = list(dict.fromkeys(track_of(p) for p in bent))
    # Upper ones turn last when they go down, lower ones when they go up: that crosses least.
    down = [t for t in found if all(p.y1 > p.y0 for p in bent if track_of(p) == t)]
    up = [t for t in found if t not in down]
    best = [*sorted(down, key=lambda t: -t[1]), *sorted(up, key=lambda t: t[1])]
    if len(found) <= 5:
        return min((list(o) for o in permutations(best)), key=lambda o: _cost(o, pieces))
    least = _cost(best, pieces)
    for i in range(len(best)):
        for j in range(i):
            tried = list(best)
            tried[i], tried[j] = tried[j], tried[i]
            if (cost := _cost(tried, pieces)) < least:
                best, least = tried, cost
    return best


def _cost(order: Sequence[Track], pieces: Sequence[Piece]) -> float:
    """Crossings, and a thousand for each pair of links that lie on each other."""
    at = {t: i + 1.0 for i, t in enumerate(order)}
    turn = [at.get(track_of(p), 0.0) if abs(p.y0 - p.y1) > STRAIGHT else 0.0 for p in pieces]
    total = 0.0
    for i, a in enumerate(pieces):
        for j, b in enumerate(pieces):
            if i == j or track_of(a) == track_of(b) or not turn[j]:
                continue
            far = turn[i] or len(order) + 1.0
            # a's first stretch and b's last one, at the same height, b turning before a does.
            if abs(a.y0 - b.y1) < 3 and turn[j] < far:
                total += 1000
            low, high = sorted((b.y0, b.y1))
            total += low < (a.y0 if turn[j] < far else a.y1) < high
    return total


def gap_width(pieces: Sequence[Piece], least: float) -> float:
    """The width that a gap needs for its tracks."""
    return max(least, 2 * EDGE + TRACK * max(len(tracks(pieces)) - 1, 0))


def turns(pieces: Sequence[Piece], left: float, right: float) -> dict[Track, float]:
    """The x of each track between x = left and x = right, in the middle."""
    order = tracks(pieces)
    start = (left + right) / 2 - TRACK * (len(order) - 1) / 2
    return {t: start + TRACK * i for i, t in enumerate(order)}
