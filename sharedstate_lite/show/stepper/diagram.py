"""Turns a recording into what is drawn: the nodes that all steps share, and each step's contents and messages.

A *lane* is an edge together with a direction. Changes, reads and responses move forward, and upqueries move back. Each
lane shows its newest message, which was sent in this step, is waiting, or was received in an earlier step of the
current input message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...replay.messages import Hold
from ...replay.recording import Move, OperatorState, RecordedEdge, RecordedOperator, Recording, Table
from ..outline import _FUNCTION, _upper
from ..table import counted, shown
from ..text import width, wrap
from .chips import DROPPED, NOW, PAST, WAITS, Chip, EdgeMessage, badges
from .glyphs import badge
from .nodes import NodeContent, OperatorNode
from .table_blocks import StepperLimits, TableBlock, TableLayout, TableTraits, block, traits

Lane = tuple[int, bool]
"""The number of an edge, and whether the lane runs in the opposite direction."""
SHOWN = 160
"""If a recording has more steps than this, only every nth step is measured."""
GONE = "dropped at the hole"
COUNTED = 50
"""The largest number of a message's rows that are read to choose its badge."""


@dataclass(frozen=True)
class DiagramEdge:
    """An edge to draw. ``two`` says whether upqueries go back along it.

    If the edge is a read, it starts at the time axis of the source's table number ``table``.
    """

    source: str
    target: str
    read: bool
    two: bool
    table: int | None


class Diagram:
    """The nodes, contents and messages that are drawn for a recording, independent of the width."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.operators = {o.name: o for o in recording.operators}
        asked = {(e.target, e.source) for e in recording.edges if e.kind == "upquery"}
        self.edges = [self._edge(e, (e.source, e.target) in asked) for e in recording.edges if e.kind != "upquery"]
        self.letters = self._letters()
        self.seen: set[int] = set()
        """The steps for which the nodes are known to have room. In a long recording, not all steps are measured."""
        self._seen: dict[str, list[list[Table]]] = {name: [] for name in self.operators}
        self._foot = dict.fromkeys(self.operators, 0)
        self._footing = dict.fromkeys(self.operators, 0.0)
        self._counts = dict.fromkeys(self.operators, "")
        for n in _sample(recording):
            self._see(n)
        self._traits = self._know()
        self.messages = lru_cache(maxsize=256)(self._messages)
        self.sizes = self._sizes()

    def _edge(self, edge: RecordedEdge, two: bool) -> DiagramEdge:
        table = None
        if edge.kind == "read":
            state = self.recording.state(self.recording.last).get(edge.source)
            tables = state.tables if state else ()
            table = next((n for n, t in enumerate(tables) if t.form == "arrangement"), None)
        return DiagramEdge(edge.source, edge.target, edge.kind == "read", two, table)

    def _letters(self) -> dict[str, str]:
        """Return a letter for each reader of an arrangement. The letters are distinct if possible."""
        out: dict[str, str] = {}
        readers = dict.fromkeys(w.target for w in self.edges if w.read)
        outside = [t.message.reader for t in self.recording.messages if isinstance(t.message, Hold)]
        for name in [*readers, *outside]:
            if name not in out:
                title = self.operators[name].title if name in self.operators else name
                wanted = [badge(title[n:]) for n in range(len(title))] + list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
                out[name] = next((c for c in wanted if c not in out.values()), "?")
        return out

    def see(self, number: int) -> None:
        """Make room in the nodes for one more step."""
        self._see(number)
        self._traits = self._know()

    def _know(self) -> dict[str, list[TableTraits]]:
        return {name: [traits(t) for t in tables] for name, tables in self._seen.items()}

    def _see(self, number: int) -> None:
        self.seen.add(number)
        for name, state in self.recording.state(number).items():
            if name not in self._seen:
                continue
            seen = self._seen[name]
            for at, table in enumerate(state.tables):
                if at == len(seen):
                    seen.append([])
                if not seen[at] or seen[at][-1] is not table:
                    seen[at].append(table)
            foot = _foot(state)
            self._foot[name] = max(self._foot[name], len(foot))
            self._footing[name] = max([self._footing[name], *(width(w, bold=True) for w in foot)])
            self._counts[name] = max(self._counts[name], counted(state.rows, "row"), key=width)

    # --- nodes --------------------------------------------------------------------

    def plain(self, operator: RecordedOperator) -> bool:
        """Return whether an operator is a source whose rows a join also stores. Such a source shows only its count."""
        keeping = {o.name for o in self.operators.values() if o.kind == "join" and o.tables}
        return operator.kind == "source" and any(
            w.source == operator.name and w.target in keeping and not w.read for w in self.edges
        )

    def nodes(self, limits: StepperLimits) -> dict[str, OperatorNode]:
        """Return the nodes of all operators in the recording, with room for every measured step."""
        out = {}
        asking = {w.target for w in self.edges if w.two} | {w.source for w in self.edges if w.two}
        for o in self.operators.values():
            inputs = sum(w.target == o.name for w in self.edges)
            tables = self._seen[o.name] if not self.plain(o) else []
            shapes = [self._shape(o, at, limits) for at in range(len(tables))]
            out[o.name] = OperatorNode(
                o.name,
                _FUNCTION.sub(_upper, o.title),
                "" if o.kind in ("filter", "map") or (o.kind == "source" and not shapes) else o.detail,
                holds=bool(o.tables),
                letter=self.letters.get(o.name, ""),
                shapes=shapes,
                words=self._words(o, limits) if not shapes else (),
                counts=self._counts[o.name] if o.tables else "",
                foot=self._foot[o.name],
                footing=self._footing[o.name],
                inputs=inputs,
                two_ways=o.name in asking,
                pitch=60.0 if o.name in asking else 40.0,
            )
        return out

    def _words(self, o: RecordedOperator, limits: StepperLimits) -> tuple[str, ...]:
        if o.kind == "source":
            return "base", self._counts[o.name]
        if o.kind in ("filter", "map") and o.detail:
            return tuple(wrap(o.detail, limits.cell * 1.4, 3))
        return ("no state",)

    def _shape(self, o: RecordedOperator, at: int, limits: StepperLimits) -> TableLayout:
        shape, known = TableLayout(), self._traits[o.name][at]
        for table in self._seen[o.name][at]:
            shape.grow(self._block(o, table, limits, known))
        return shape

    def _block(self, o: RecordedOperator, table: Table, limits: StepperLimits, known: TableTraits) -> TableBlock:
        title = o.title.lower()
        return block(table, limits, known, self.letters, "min(" in title and "max(" not in title)

    def contents(self, number: int, limits: StepperLimits) -> dict[str, NodeContent]:
        """Return what each operator shows at a step, for the operators that exist at that step."""
        step = self.recording.step(number)
        states = self.recording.state(number)
        out = {}
        for o in self.recording.graph_at(number)[0]:
            state = states.get(o.name, OperatorState(o.name))
            plain = self.plain(o)
            blocks: list[TableBlock | None] = []
            for at, _ in enumerate([] if plain else self._seen[o.name]):
                here = at < len(state.tables)
                known = self._traits[o.name][at]
                blocks.append(self._block(o, state.tables[at], limits, known) if here else None)
            words = ("base", counted(state.rows, "row")) if o.kind == "source" and not blocks else ()
            acts = step is not None and step.operator == o.name
            out[o.name] = NodeContent(tuple(blocks), _foot(state), counted(state.rows, "row"), words, acts)
        return out

    # --- messages --------------------------------------------------------------------

    def lane(self, move: Move) -> Lane | None:
        """Return the lane of a message, or None if its edge is not drawn."""
        ends = (move.target, move.source) if move.upstream else (move.source, move.target)
        number = next((n for n, w in enumerate(self.edges) if (w.source, w.target) == ends), None)
        return None if number is None else (number, move.upstream)

    def _messages(self, number: int) -> dict[Lane, EdgeMessage]:
        """Return the message on each lane after a step."""
        recording, out = self.recording, {}
        step = recording.step(number)
        if step is None:
            return {}
        first = recording.messages[step.message - 1].first
        dropped = {
            m.number: s
            for s in recording.steps[first - 1 : number]
            if len(s.dropped)
            for m in s.taken
            if not m.upstream
        }
        past = sorted(recording.trail(number), key=lambda m: (m.sent, m.number))
        for move in past:
            if (lane := self.lane(move)) is not None:
                drop = dropped.get(move.number)
                word = (
                    f"dropped at the hole{'' if drop is None or len(drop.dropped) >= len(move.rows) else ', in part'}"
                )
                fresh = drop is not None and drop.number == number
                status = DROPPED if drop else PAST
                out[lane] = EdgeMessage(self._chips(move, lane), status, move.sent, word if drop else "", fresh)
        for move in recording.waiting(number):
            if (lane := self.lane(move)) is not None and (lane not in out or out[lane].status not in (NOW, WAITS)):
                out[lane] = EdgeMessage(self._chips(move, lane), NOW if move.sent == number else WAITS, move.sent)
        return out

    def _chips(self, move: Move, lane: Lane) -> tuple[Chip, ...]:
        """Return a message's chips. A batch that is read through a trace handle is shown without its rows."""
        if not self.edges[lane[0]].read or lane[1]:
            return chips(move)
        step = self.recording.step(move.sent)
        return (Chip("", (f"[{step.epoch},{step.epoch + 1})" if step else "",)),)

    def _sizes(self) -> dict[Lane, list[EdgeMessage]]:
        """Return the messages on each lane over all steps, one for each size."""
        out: dict[Lane, dict[tuple[object, ...], EdgeMessage]] = {}
        for step in self.recording.steps:
            for move in step.sent:
                if (lane := self.lane(move)) is not None:
                    message = EdgeMessage(self._chips(move, lane), NOW, move.sent)
                    out.setdefault(lane, {}).setdefault((message.size(False), message.size(True)), message)
            for move in step.taken if len(step.dropped) else ():
                if (lane := self.lane(move)) is not None and not move.upstream:
                    out.setdefault(lane, {})["dropped",] = EdgeMessage(
                        self._chips(move, lane), DROPPED, move.sent, GONE, True
                    )
        return {lane: list(messages.values()) for lane, messages in out.items()}


def chips(move: Move) -> tuple[Chip, ...]:
    """Return a message as one chip, or as two chips if one row replaces another."""
    if move.kind == "upquery":
        return (Chip("?", _key_words(move)),)
    if move.kind == "evict":
        return (Chip("−", (("all keys",) if move.keys is None else _key_words(move))),)
    if move.kind == "response":
        if len(move.rows) == 1:
            return (Chip("=", tuple(shown(v) for v in move.rows.first(1)[0].row)),)
        return (Chip("=", (counted(len(move.rows), "row") if len(move.rows) else "no rows",)),)
    rows = move.rows.first(COUNTED)
    if len(move.rows) == 2 and [c.kind for c in rows] in (["-U", "+U"], ["+U", "-U"]):
        pair = sorted(rows, key=lambda c: c.kind != "-U")
        return tuple(Chip(_badge(c.kind, c.diff), tuple(shown(v) for v in c.row)) for c in pair)
    if len(move.rows) == 1:
        return (Chip(_badge(rows[0].kind, rows[0].diff), tuple(shown(v) for v in rows[0].row)),)
    if not rows:
        return (Chip("0", ("no rows",)),)
    return (Chip(badges([_badge("", c.diff) for c in rows]), (counted(len(move.rows), "row"),)),)


def _badge(kind: str, diff: int) -> str:
    return (kind or f"{diff:+d}").replace("-", "−")


def _key_words(move: Move) -> tuple[str, ...]:
    keys = move.keys or ()
    if len(keys) == 1:
        return tuple(shown(v) for v in keys[0]) or ("all",)
    return (counted(len(keys), "key"),)


def _foot(state: OperatorState) -> tuple[str, ...]:
    """Return the lines that list what is pending at an operator: the keys of upqueries, and reads."""
    out: list[str] = []
    if state.pending_keys:
        out += ["in flight:", "? " + _several(state.pending_keys)]
    if state.pending_reads:
        out.append(f"{counted(len(state.pending_reads), 'read')} waiting: {_several(state.pending_reads)}")
    return tuple(out)


def _several(keys: Sequence[tuple[object, ...]]) -> str:
    if len(keys) == 1:
        return ", ".join(shown(v) for v in keys[0]) or "all"
    return counted(len(keys), "key")


def _sample(recording: Recording) -> list[int]:
    """Return the steps whose states are measured."""
    if recording.last <= SHOWN:
        return list(range(recording.last + 1))
    ends = {m.last for m in recording.messages}
    every = max(recording.last // SHOWN, 1)
    return [n for n in range(recording.last + 1) if n % every == 0 or (n in ends and len(ends) <= SHOWN)]
