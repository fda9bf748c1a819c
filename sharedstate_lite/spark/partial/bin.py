"""One bin of one stage of partial state: the core's operators for the keys that somebody has asked for here.

What :class:`~..bins.bin.Bin` is for the other strategies: a graph in memory, its arrangements
as runs in a state store, and beside them which keys are filled (``NAME keys``, with the
operation that last used each) and the questions that are open (``open``). Letters that
come in are delivered one after the other, each followed by all that it causes here;
what it causes elsewhere goes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...partial.join import JoinNode
from ...partial.messages import Message as Told
from ...partial.nodes import BaseNode, PartialEdge, PartialNode, ReaderNode
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import NULL, Words
from ..bins.bin import Plan
from ..bins.messages import BinMessage
from ..bins.strings import worker_strings
from .kept import StoredBin, WaitingLookup
from .messages import (
    ASK,
    COMMAND,
    COMPACT,
    EVICTED,
    GRAPH,
    OUT,
    REPORT,
    UPQUERY,
    DecodedMessage,
    decode_message,
    encode_message,
)
from .nodes import ALL, GatherNode, RemoteEdge, schema_of
from .placement import Placement
from .upquery_codec import UpqueryCodec

AGES = 32
"""Into how many classes a bin sorts its keys by their last use, when it tells of them."""


@dataclass
class PartialPlan(Plan):
    """What a worker needs: as for the other strategies, and whether there is a budget to report for."""

    budget: bool = False

    def bin(self, stage: int, number: int) -> Any:
        """A bin that holds nothing yet."""
        return PartialBin(self, stage, number)


@dataclass
class PartialBin(StoredBin):
    """See the module."""

    plan: PartialPlan

    def __post_init__(self) -> None:
        self.places: Placement = self.plan.make()
        self.graph = self.places.engine
        self.engine = self.graph  # type: ignore[assignment]
        self.graph.dictionary.strings = worker_strings.strings
        self.graph.place = (self.stage * self.plan.bins + self.number, (self.places.stages + 1) * self.plan.bins)
        self.graph.post, self.graph.found, self.graph.gone = self._post, self._found, self._gone_keys
        self.nodes = self.places.at(self.stage)
        self.parts = self.places.parts(self.stage)
        self.stored = {part: [] for part in self.parts}
        self.back: dict[tuple[int, int | None], PartialEdge] = {}
        for node in list(self.nodes):
            self._connect(node)
        self.memo = UpqueryCodec(self.strings, self._edge)
        self.out: list[BinMessage] = []
        self.told: dict[str, list[Words]] = {}

    def _connect(self, node: Any) -> None:
        """Put a GatherNode before each input that comes from other bins, and one edge to all of them after the node."""
        for slot, edge in enumerate(node.inputs):
            if isinstance(edge.source, BaseNode) or self.places.near(edge):
                self.back[edge.number, None] = edge
                continue
            gather = GatherNode(self.graph, node.name, edge.source.plan, node.view, edge.ask)
            gather.keyed = self.places.keyed(edge.source)
            gather.inputs = [
                RemoteEdge(edge.number, edge.source, gather, i, edge.ask, bin=i) for i in range(self.plan.bins)
            ]
            node.inputs[slot] = PartialEdge(edge.number, gather, node, slot, edge.ask)
            gather.outputs = [node.inputs[slot]]
            self.back[edge.number, None] = node.inputs[slot]
            self.nodes.append(gather) if gather not in self.nodes else None
        far = [
            e if self.places.near(e) else RemoteEdge(e.number, e.source, e.target, e.slot, e.ask) for e in node.outputs
        ]
        if not isinstance(node, GatherNode):
            node.outputs = far

    def _edge(self, number: int, where: int | None) -> PartialEdge:
        """The edge that a question came over: near, or from another bin."""
        if where is None:
            return self.back[number, None]
        edge = self.places.edges[number]
        return RemoteEdge(number, edge.source, edge.target, edge.slot, edge.ask, bin=where)

    # --- a micro-batch ----------------------------------------------------------

    def run(self, messages: list[BinMessage]) -> list[BinMessage]:
        """Take one micro-batch's messages; returns those that follow. Raises the kit's errors."""
        self.out, self.told = [], {}
        # A lookup that meets no hole changes no more than when keys were used; see _asked for one that does.
        self.changed = not all(m.channel == ASK or '"k": "touch"' in m.what for m in messages)
        self.time += 1
        letters: list[DecodedMessage] = []
        parts: dict[int, list[Delta]] = {}
        for message in messages:
            letter = decode_message(message, self.strings)
            self.graph.clock = max(self.graph.clock, letter.head.get("c", 0))
            self.graph.now = max(self.graph.now, letter.head.get("now", 0))
            self.draws = max(self.draws, letter.head.get("d", 0))
            letter.head = {**letter.head, "channel": message.channel}
            if letter.head.get("k") == "rows":
                assert letter.delta is not None
                parts.setdefault(letter.head["t"], []).append(letter.delta)
            else:
                letters.append(letter)
        self.graph.op = self.graph.clock
        for letter in sorted(letters, key=lambda x: x.order):
            if letter.head.get("k") == "response" and letter.delta is None:
                width = len(self.places.edges[letter.head["e"]].source.plan.schema)
                letter.delta = concat(parts.pop(letter.head["t"], []), width)
            self._take(letter)
            self.graph.drain()
        self._finish()
        return self.out

    def _take(self, letter: DecodedMessage) -> None:
        channel = letter.head["channel"]
        if channel == GRAPH:
            self._deliver(letter)
        elif channel == ASK:
            reader = self.graph.nodes["reader", letter.head["view"]]
            assert reader.filled is not None
            keys = reader.filled.keys if letter.keys is None else letter.keys
            self._asked(WaitingLookup(letter.head["id"], letter.head["view"], keys))
        elif channel == COMPACT:
            for held in self.parts.values():
                held.arrangement.compact()
        elif channel == COMMAND:
            self._obey(letter)

    def _deliver(self, letter: DecodedMessage) -> None:
        """Hand a letter to the operator whose edge it came over."""
        head, graph = letter.head, self.graph
        edge, kind = self.places.edges[head["e"]], head["k"]
        if kind in ("upquery", "touch"):
            over = self._edge(edge.number, head["b"])
            if kind == "touch":
                assert letter.keys is not None
                self._touch(edge.source, letter.keys)
                return
        elif isinstance(edge.source, BaseNode):
            over = edge
            rows = 0 if letter.delta is None else len(letter.delta.diffs)
            graph.trace.record(
                "response" if kind == "response" else "message", edge.source.name, edge.target.name, rows
            )
        else:
            gather = self.back[edge.number, None].source
            over = gather.inputs[head["b"]]
        graph.in_flight.send(
            Told(0, kind, over, graph.op, letter.keys, letter.delta, head.get("t", 0), {}, head.get("a", 0))
        )

    def _post(
        self, kind: str, edge: PartialEdge, keys: Words | None = None, delta: Delta | None = None, tag: int = 0,
        asked: int = 0, **_: Any,
    ) -> None:  # fmt: skip
        """Send to other bins, or to the driver."""
        plan, route = edge.source.plan, self.places.route
        head = {"e": edge.number, "k": kind, "b": self.number, "t": tag, "a": asked, "c": self.graph.clock}
        types, by = tuple(c.type for c in plan.schema), schema_of(plan, edge.ask)
        if kind in ("upquery", "touch"):
            to = (self.places.stage_of[edge.source], getattr(edge, "bin", self.number), GRAPH)
            if isinstance(edge.source, BaseNode):
                to = (0, self.number, UPQUERY)
            parts: list[tuple[int, Words | None, Delta | None]] = [(to[1], keys, delta)]
        else:
            logical = self.places.edges[edge.number]
            to = (self.places.stage_of[logical.target], 0, GRAPH)
            cut = [] if delta is None else wire.split(delta, route(logical), types, self.plan.bins, self.strings)
            if kind == "change":
                parts = [(n, None, part) for n, part in cut]
            elif kind == "response":
                where = edge.bin if isinstance(edge, RemoteEdge) else ALL
                parts = [(where, keys, dict(cut).get(where, Delta.empty(len(types))))]
            else:
                parts = [(n, keys, None) for n in range(self.plan.bins)]
        for where, some, rows in parts:
            told = {**head, "by": f"{self.stage:06d}.{self.number:06d}", "n": [self.time, len(self.out)]}
            self.out.append(encode_message((to[0], where, to[2]), told, self.strings, some, by, rows, types))
            self._trace(kind, edge, some, rows)

    def _trace(self, kind: str, edge: PartialEdge, keys: Words | None, delta: Delta | None) -> None:
        logical = self.places.edges[edge.number]
        ends = (logical.source.name, logical.target.name)
        rows = len(delta.diffs) if delta is not None else 0 if keys is None else keys.shape[1]
        name = {"change": "message", "evict": "message"}.get(kind, kind)
        if kind != "touch":
            self.graph.trace.record(
                name, *(ends[::-1] if kind == "upquery" else ends), rows, note="evict" if kind == "evict" else ""
            )

    # --- lookups ----------------------------------------------------------------

    def _asked(self, wait: WaitingLookup) -> None:
        reader = self.graph.nodes["reader", wait.view]
        assert isinstance(reader, ReaderNode)
        there = reader.filled.mask(wait.keys, self.strings)
        for name, count in (("hit", int(there.sum())), ("hole", int((~there).sum()))):
            if count:
                self.graph.trace.record(name, reader.name, rows=count)
        self._touch(reader, wait.keys.compress(there, axis=1))
        # It may be filled at once, with what another view's operators hold in this bin.
        self.changed |= not there.all()
        self.waits.append(wait)
        self._ask(reader, wait)

    def _ask(self, reader: ReaderNode, wait: WaitingLookup) -> None:
        holes = wait.keys.compress(~reader.filled.mask(wait.keys, self.strings), axis=1)
        if holes.shape[1] and not wait.open:
            wait.open = True
            self.graph.send("upquery", reader.inputs[0], keys=holes, tag=self.graph.tag(), asked=self.graph.now)

    def _found(self, reader: PartialNode, keys: Words) -> None:
        """Keys of a reader were answered: what was asked for them is asked no more."""
        schema = reader.plan.schema
        for wait in self.waits:
            if wait.view == reader.view and self.graph.among(keys, wait.keys, schema, reader.ask).any():
                wait.open = False

    def _finish(self) -> None:
        """Answer lookups that have all their keys, ask again for what was lost, tell of changes and of what is held."""
        left = []
        for wait in self.waits:
            reader = self.graph.nodes["reader", wait.view]
            assert isinstance(reader, ReaderNode)
            if not wait.open:
                self._ask(reader, wait)
                self.graph.drain()
            if wait.open or not reader.filled.mask(wait.keys, self.strings).all():
                left.append(wait)
                continue
            _, rows, diffs = reader.rows.match(wait.keys, self.strings)
            self._say({"view": wait.view, "id": wait.request}, reader, Delta(rows, diffs[0]))
        self.waits = left
        for node in self.nodes:
            if isinstance(node, ReaderNode) and node.emitted:
                change = concat([d for ds in node.emitted.values() for d in ds], len(node.plan.schema))
                node.emitted = {}
                self._say({"view": node.view}, node, change)
        sets = self._sets()
        for name, keys in self.told.items():
            types = sets[name].types
            self.out.append(
                encode_message(
                    (0, self.number, EVICTED), {"o": name}, self.strings, np.concatenate(keys, axis=1), types
                )
            )
        self._note()

    def _say(self, head: dict[str, Any], reader: ReaderNode, rows: Delta) -> None:
        types = tuple(c.type for c in reader.plan.schema)
        self.out.append(encode_message((0, self.number, OUT), head, self.strings, delta=rows, types=types))

    def _note(self) -> None:
        events = [[e.name, e.source, e.target, e.rows, e.note] for e in self.graph.trace]
        self.graph.trace.clear()
        told: dict[str, Any] = {"trace": events, "stage": self.stage}
        if self.plan.budget:
            used = np.concatenate([f.used for _, _, f in self._holders()] or [np.empty(0, dtype=np.int64)])
            used.sort()
            told |= {
                "rows": sum(h.arrangement.rows for h in self.parts.values()),
                "bytes": sum(h.arrangement.nbytes for h in self.parts.values())
                + sum(f.nbytes for _, _, f in self._holders()),
                "ages": [[int(a[-1]), len(a)] for a in np.array_split(used, min(AGES, len(used)) or 1) if len(a)],
            }
        self.out.append(encode_message((0, self.number, REPORT), told, self.strings))

    # --- use, eviction ----------------------------------------------------------

    def _touch(self, node: PartialNode, keys: Words) -> None:
        """Note the use of keys here and in what they stand on, in other bins too."""
        if not keys.shape[1] or isinstance(node, BaseNode):
            return
        clock = self.graph.clock
        if isinstance(node, GatherNode):
            # Only a budget asks how long ago a key was used.
            for far in node.inputs if self.plan.budget else ():
                part = node._part(keys, far.slot)
                if part.shape[1]:
                    self._post("touch", far, keys=part)
            return
        if node.filled is not None:
            node.filled.touch(keys, self.strings, clock)
        if not isinstance(node, JoinNode):
            for edge in node.inputs:
                self._touch(edge.source, keys)
            return
        first = node.route.primary
        mine, other = node.cached[first], node.cached[1 - first]
        if node.route.rest or mine is None or other is None:
            return
        mine[2].touch(keys, self.strings, clock)
        _, rows, _ = mine[0].match(keys, self.strings)
        partners = rows[list(node.keys[first])]
        other[2].touch(partners.compress((partners != NULL).all(axis=0), axis=1), self.strings, clock)
        self._touch(node.inputs[first].source, keys)

    def _gone_keys(self, part: str, keys: Words) -> None:
        self.told.setdefault(part, []).append(keys)

    def _obey(self, letter: DecodedMessage) -> None:
        what = letter.head["o"]
        if what == "evict":
            node = next(n for n in self.nodes if n.name == letter.head["node"] and n.filled is not None)
            assert node.filled is not None
            node.evict(node.filled.keys if letter.keys is None else letter.keys)
            self.graph.settle(node)
        elif what == "shed":
            self._shed(letter.head["limit"])
        elif what in ("forget", "abandon"):
            self.waits = []
            for node in self.nodes:
                self.memo.read(node, None)
            if what == "forget":
                self._forget()

    def _shed(self, limit: int) -> None:
        """Make holes of the keys that were last used by operation ``limit`` or before."""
        for held in self.parts.values():
            held.arrangement.compact()
        for node, side, filled in self._holders():
            keys = filled.keys.compress(filled.used <= limit, axis=1)
            if keys.shape[1]:
                node.evict_side(side, keys) if isinstance(node, JoinNode) else node.evict(keys)
                self.graph.settle(node)
                self.graph.drain()
        for held in self.parts.values():
            held.arrangement.compact()

    def _forget(self) -> None:
        for held in self.parts.values():
            held.arrangement.runs.clear()
            held.arrangement.merges.clear()
        for filled in self._sets().values():
            filled.remove(filled.keys, self.strings)


__all__ = ["PartialBin", "PartialPlan", "WaitingLookup"]
