"""Draws a method that was compiled to blocks: its source lines by block, its questions, and what travels with each.

The blocks stand below one another. Beside a block, at the line that asks, are the questions: who is asked, for what,
and the frame, which has the names that the method needs later. An arrow leads from a question to the block that runs
when the answer is there. On the left, an arrow leads to a block that runs without a question, and a dashed one to a
handler. An ellipsis marks a line that a question divides between two blocks.

>>> from sharedstate_lite import show
>>> from sharedstate_lite.entities import Program, entity
>>> @entity
... class Item:
...     def __init__(self, item_id: str, price: int):
...         self.item_id, self.price = item_id, price
...     def __key__(self):
...         return self.item_id
...     def total(self, n: int, other: Item) -> int:
...         price = other.price
...         return n * (self.price + price)
>>> show.machine(Program(Item).machine(Item.total))
Item.total(n, other)
block 0 asks other.price, frame n, then block 1
block 1 ends
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple, Protocol

from .svg import Drawing, Picture, arrow, line, rect, text
from .text import width, wrap

Question = tuple[str, str, str, tuple[str, ...] | None, str, int, tuple[str, ...]]
"""Who is asked, of which class, for what, the arguments (None: an attribute), the name of the answer, the block that
runs then, and the names in the frame."""
LINE, PAD, MARGIN, TRACK, GAP, TOP = 17.0, 10.0, 14.0, 10.0, 16.0, 54.0
NUMBERS, LABEL, MOST = 28.0, 46.0, 250.0
"""The widths of line numbers, of the word "frame" and its like, and the largest width of a list of names, in px."""

ASKED = "what is asked, and the frame that travels"


class BlockLike(Protocol):
    """What is drawn of a block: the names that it needs, numbered source lines, edges with labels, and questions."""

    @property
    def live(self) -> Sequence[str]: ...
    @property
    def lines(self) -> Sequence[tuple[int, str]]: ...
    @property
    def edges(self) -> Sequence[tuple[int, str]]: ...
    @property
    def asks(self) -> Sequence[Question]: ...


class MachineLike(Protocol):
    """What is drawn of a compiled method; a ``Machine`` of the entities is one."""

    @property
    def cls(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def parameters(self) -> Sequence[str]: ...
    @property
    def blocks(self) -> Mapping[int, BlockLike]: ...


class _Part(NamedTuple):
    """A block as text: the names that it needs, its lines, its edges without a question, and its questions: the call,
    the frame, the block that runs then, and which of the lines asks."""

    needs: list[str]
    code: list[tuple[str, str]]
    jumps: list[tuple[int, str]]
    asks: list[tuple[str, list[str], int, int]]

    @property
    def high(self) -> float:
        return LINE * (len(self.needs) + len(self.code) + sum(bool(label) for _, label in self.jumps)) + PAD


def machine(machine: MachineLike, *, title: str = "") -> Picture:
    """Return a picture of a compiled method. Without a ``title``, it is the method's name and parameters."""
    title = title or f"{machine.cls}.{machine.method}({', '.join(machine.parameters)})"
    parts = _parts(machine.blocks)
    said = [f"block {n} {'; '.join(_told(part)) or 'ends'}" for n, part in parts.items()]
    return Picture("\n".join([title, *said]), *(_draw(parts, title, machine.cls, beside) for beside in (True, False)))


def _told(part: _Part) -> Iterator[str]:
    for call, frame, then, _ in part.asks:
        yield f"asks {call}, frame {' '.join(frame)}, then block {then}"
    for to, label in part.jumps:
        yield f"{label}: block {to}" if label else f"goes to block {to}"


def _parts(blocks: Mapping[int, BlockLike]) -> dict[int, _Part]:
    """Return the text of each block. A line that a question divides ends, and goes on, with an ellipsis."""
    source = {n: words for block in blocks.values() for n, words in block.lines}
    source = dict(zip(source, textwrap.dedent("\n".join(source.values())).split("\n"), strict=True))
    parts = {}
    for number, block in blocks.items():
        after = {n for ask in block.asks for n, _ in blocks[ask[5]].lines if ask[5] != number}
        askers = [b for b in blocks.values() if b is not block and any(ask[5] == number for ask in b.asks)]
        before = {n for asker in askers for n, _ in asker.lines}
        code = []
        for n, _ in block.lines:
            words = source[n].lstrip()
            indent = source[n][: -len(words)]
            code.append((str(n), indent + "… " * (n in before) + words + " …" * (n in after)))
        needs = wrap(", ".join(block.live), MOST, 4)
        asks = [
            (_call(ask), wrap(", ".join(ask[6]) or "empty", MOST, 4), ask[5], _asking(block, blocks[ask[5]]))
            for ask in block.asks
        ]
        jumps = [edge for edge in dict.fromkeys(block.edges) if not edge[1] or edge[1].startswith("except ")]
        parts[number] = _Part(needs, code, sorted(jumps, key=lambda edge: edge[1]), asks)
    return parts


def _asking(block: BlockLike, then: BlockLike) -> int:
    """Return which line of a block asks: the last that goes on in the block of the answer, or the last before that."""
    after = [n for n, _ in then.lines]
    divided = [at for at, (n, _) in enumerate(block.lines) if n in after and block is not then]
    before = [at for at, (n, _) in enumerate(block.lines) if after and n < after[0]]
    return [len(block.lines) - 1, *before, *divided][-1]


def _call(ask: Question) -> str:
    who, cls, what, args, *_ = ask
    name = cls if what == "__init__" else f"{who}.{what}"
    return name if args is None else f"{name}({', '.join(args)})"


def _draw(parts: Mapping[int, _Part], title: str, cls: str, beside: bool) -> Drawing:
    """Draw blocks, and questions ``beside`` them, or below them for a narrow page."""
    into = sorted({to for part in parts.values() for to, _ in part.jumps})
    back = sorted({then for part in parts.values() for _, _, then, _ in part.asks})
    left = MARGIN + (GAP + TRACK * len(into) if into else 0)
    asked = [
        max(width(call, mono=True), *(LABEL + width(names) for names in frame))
        for p in parts.values()
        for call, frame, *_ in p.asks
    ]
    code = [NUMBERS + width(words, mono=True) for part in parts.values() for _, words in part.code]
    heads = [100 + width(names) for part in parts.values() for names in part.needs]
    wide = max([*code, *heads, *([] if beside else asked)]) + 2 * PAD
    right = left + wide
    gap = 2 * GAP + TRACK * max(len(back) - 1, 0) if asked else 0.0
    ask_x, ask_wide = (right + gap, max([width(ASKED), *asked]) + 2 * PAD) if beside else (left, wide)
    y, tops, places = TOP, {}, {}
    for number, part in parts.items():
        tops[number] = y
        at = y + (PAD + LINE if beside else part.high)
        for n, (_, frame, _, row) in enumerate(part.asks):
            if beside:  # so that the arrow leaves at the middle of the line
                at = max(at, y + LINE * (len(part.needs) + row + 1) - 17)
            places[number, n] = at
            at += LINE * (1 + len(frame)) + PAD + (PAD if beside else 0)
        y = max(y + part.high, at if part.asks else 0.0) + GAP
    out = [text((MARGIN, 20), title, kind="b", size=14), text((left, 44), f"runs at {cls}", kind="m")]
    out += [text((ask_x, 44), ASKED, kind="m")] if asked and beside else []
    for number, part in parts.items():
        top = tops[number]
        out.append(_block(number, part, left, top, wide))
        port = top + LINE * (len(part.needs) + len(part.code))
        for to, label in part.jumps:
            port += LINE * bool(label)
            x = left - GAP - TRACK * into.index(to)
            end = left, tops[to] + 14
            out.append(
                line([(left, port), (x, port), (x, end[1]), end], "frame", dashes="4 3" if label else "", radius=4)
            )
            out.append(arrow(end, "frame"))
        for n, (call, frame, then, _) in enumerate(part.asks):
            y0 = places[number, n]
            y1 = y0 + LINE * (1 + len(frame)) + PAD
            out.append(_question(call, frame, ask_x, y0, ask_wide))
            if beside:
                out += [line([(right, y0 + 13), (ask_x, y0 + 13)], "handle"), arrow((ask_x, y0 + 13), "handle")]
            x, end = right + GAP + TRACK * back.index(then), (right, tops[then] + 14)
            out.append(
                line([(ask_x if beside else right, y1 - 13), (x, y1 - 13), (x, end[1]), end], "upquery", radius=4)
            )
            out.append(arrow(end, "upquery", leftwards=True))
    edge = (ask_x + ask_wide if asked and beside else right + gap) + MARGIN
    return Drawing(max(edge, width(title, 14, bold=True) + 2 * MARGIN), y, "".join(out))


def _block(number: int, part: _Part, x: float, y: float, wide: float) -> str:
    out = [rect(x, y, wide, part.high, fill="panel", stroke="frame", radius=4)]
    at = y + 4
    out.append(text((x + PAD, at + 13), f"block {number}", kind="b"))
    for n, names in enumerate(part.needs):
        at += LINE
        if names:
            out.append(text((x + 60, at - 4), "" if n else "needs", kind="m") + text((x + 100, at - 4), names))
    for digits, words in part.code:
        at += LINE
        indent = len(words) - len(words.lstrip())
        out.append(text((x + NUMBERS, at - 4), digits, kind="m", anchor="end"))
        place = x + PAD + NUMBERS + width(" " * indent, mono=True), at - 4
        out.append(text(place, words.lstrip(), kind="mono"))
    for _, label in part.jumps:
        if label:
            at += LINE
            out.append(text((x + PAD, at - 4), label, kind="m"))
    return f'<g class="node" data-operator="block {number}">{"".join(out)}</g>'


def _question(call: str, frame: list[str], x: float, y: float, wide: float) -> str:
    out = rect(x, y, wide, LINE * (1 + len(frame)) + PAD, fill="handle-tint", stroke="frame", radius=4)
    out += text((x + PAD, y + 17), call, kind="mono") + text((x + PAD, y + LINE + 17), "frame", kind="m")
    for n, names in enumerate(frame):
        out += text((x + PAD + LABEL, y + LINE * (n + 1) + 17), names)
    return f'<g class="node" data-operator="{escape(call)}">{out}</g>'


__all__ = ["machine"]
