"""One bin of one stage of partial state: operators of the graph, with state for the filled keys of this bin.

A bin delivers its messages one at a time, in the order in which they were sent. After each message, it delivers all
messages that result within the bin, and collects those for other bins and for the driver. In addition to its runs (see
`spark.rounds.runs`), it stores:

    NAME keys    the filled keys of a piece of state, each with the number of the operation that last used it
    open         open upqueries (`upquery_codec`), lookups that wait for them, and the number of the last tag

All of this is written together. Another worker therefore finds the bin either as it was before a micro-batch or as it
was after the micro-batch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...partial import describe
from ...partial.budget import filled_keys_of
from ...partial.filled_keys import FilledKeys
from ...partial.join import JoinNode
from ...partial.messages import Message
from ...partial.nodes import BaseNode, PartialEdge, PartialNode, ReaderNode
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import NULL, Dictionary, Words
from ..rounds.bin import Bin, Recipe
from ..rounds.message import BinMessage, Store
from ..rounds.runs import RunsBin
from ..rounds.strings import worker_strings
from .messages import (
    COMMAND,
    COMPACT,
    EVICTED,
    GRAPH,
    LOOKUP,
    OUT,
    REPORT,
    UPQUERY,
    DecodedMessage,
    decode_message,
    encode_message,
    is_touch,
)
from .nodes import ALL, BinGraph, GatherNode, RemoteEdge, types_of
from .placement import Placement
from .upquery_codec import UpqueryCodec

AGE_CLASSES = 32
"""The number of classes in the histogram in which a bin reports the ages of its filled keys."""


@dataclass
class PartialRecipe(Recipe):
    """The recipe of partial state: ``make`` builds the placement. If ``budget``, bins report how much they store."""

    make: Callable[[], Placement]
    budget: bool = False

    def build(self, stage: int, number: int) -> Bin:
        """See `Recipe.build`."""
        return PartialBin(self, stage, number)


@dataclass
class WaitingLookup:
    """A lookup that waits for holes to be filled. ``open`` is whether it has an unanswered upquery."""

    request: int
    view: str
    keys: Words
    open: bool = False


@dataclass
class PartialBin(RunsBin):
    """Runs the operators of one stage for the keys of one bin; see the module's docstring."""

    recipe: PartialRecipe
    lookups: list[WaitingLookup] = field(default_factory=list)
    draws: int = 0
    """The number of random evictions that the driver has made. It is stored so that a restart continues from it."""
    extras: dict[tuple[str, str], bytes] = field(init=False, default_factory=dict)
    """(part, name) -> the blob that was last stored there. It contains all stored blobs except runs."""
    encoded: dict[str, tuple[Words, Words]] = field(init=False, default_factory=dict)
    """Piece of state -> its filled keys, and their last uses, when they were last encoded.

    An array of keys is replaced instead of changed in place, so its identity shows whether the keys have changed.
    """

    def __post_init__(self) -> None:
        self.placement = self.recipe.make()
        self.graph: BinGraph = self.placement.engine
        self.graph.dictionary.strings = worker_strings.strings
        self.graph.host = self
        self.graph.host_number = self.stage * self.recipe.bins + self.number
        self.graph.host_count = (self.placement.stages + 1) * self.recipe.bins
        self.nodes: list[PartialNode] = self.placement.at(self.stage)
        self.parts = self.placement.parts(self.stage)
        self.stored = {part: [] for part in self.parts}
        self.inputs: dict[int, PartialEdge] = {}
        """Number of an edge of the graph -> the edge in this bin that leads to the same operator."""
        for node in list(self.nodes):
            self._connect(node)
        self.codec = UpqueryCodec(self.strings, self._upquery_edge)
        self.out: list[BinMessage] = []
        self.evicted: dict[str, list[Words]] = {}

    def _connect(self, node: Any) -> None:
        """Replace the edges of a node that cross bins.

        An input becomes a gather node with an edge from each bin, and an output becomes a remote edge.
        """
        for slot, edge in enumerate(node.inputs):
            if isinstance(edge.source, BaseNode) or self.placement.is_local(edge):
                self.inputs[edge.number] = edge
                continue
            gather = GatherNode(self.graph, node.name, edge.source.plan, node.view, edge.ask)
            gather.keyed = self.placement.is_keyed(edge.source)
            gather.inputs = [
                RemoteEdge(edge.number, edge.source, gather, i, edge.ask, bin=i) for i in range(self.recipe.bins)
            ]
            node.inputs[slot] = PartialEdge(edge.number, gather, node, slot, edge.ask)
            gather.outputs = [node.inputs[slot]]
            self.inputs[edge.number] = node.inputs[slot]
            self.nodes.append(gather)
        node.outputs = [
            e if self.placement.is_local(e) else RemoteEdge(e.number, e.source, e.target, e.slot, e.ask)
            for e in node.outputs
        ]

    def _upquery_edge(self, number: int, sender: int | None) -> PartialEdge:
        """Return the edge on which an upquery arrived, from the bin ``sender``, or from this bin if it is None."""
        if sender is None:
            return self.inputs[number]
        edge = self.placement.edges[number]
        return RemoteEdge(number, edge.source, edge.target, edge.slot, edge.ask, bin=sender)

    # --- a micro-batch ----------------------------------------------------------

    @property
    def strings(self) -> Dictionary:
        """See `RunsBin.strings`."""
        return self.graph.dictionary.strings

    def step(self, messages: list[BinMessage]) -> list[BinMessage]:
        """See `Bin.step`. Raises the kernels' errors."""
        self.out, self.evicted = [], {}
        # A lookup of filled keys changes only the record of their last use, which does not have to be stored.
        self.changed = not all(m.channel == LOOKUP or is_touch(m) for m in messages)
        self.time += 1
        ordered: list[tuple[int, DecodedMessage]] = []
        rows: dict[int, list[Delta]] = {}
        for message in messages:
            decoded = decode_message(message, self.strings)
            head = decoded.head
            self.graph.clock = max(self.graph.clock, head.get("c", 0))
            self.graph.now = max(self.graph.now, head.get("now", 0))
            self.draws = max(self.draws, head.get("d", 0))
            if head.get("k") == "rows":
                assert decoded.delta is not None
                rows.setdefault(head["t"], []).append(decoded.delta)
            else:
                ordered.append((message.channel, decoded))
        self.graph.op = self.graph.clock
        for channel, decoded in sorted(ordered, key=lambda pair: pair[1].order):
            if decoded.head.get("k") == "response" and decoded.delta is None:
                width = len(self.placement.edges[decoded.head["e"]].source.plan.schema)
                decoded.delta = concat(rows.pop(decoded.head["t"], []), width)
            self._take(channel, decoded)
            self.graph.drain()
        self._answer_lookups()
        self._send_changes()
        self._send_evicted()
        self._send_report()
        return self.out

    def _take(self, channel: int, message: DecodedMessage) -> None:
        if channel == GRAPH:
            self._deliver(message)
        elif channel == LOOKUP:
            reader = self._reader(message.head["view"])
            keys = reader.filled.keys if message.keys is None else message.keys
            self._look_up(reader, WaitingLookup(message.head["id"], reader.view, keys))
        elif channel == COMPACT:
            self._compact()
        elif channel == COMMAND:
            self._obey(message)

    def _deliver(self, message: DecodedMessage) -> None:
        """Deliver a message to the operator at the end of its edge."""
        head, graph = message.head, self.graph
        edge, kind = self.placement.edges[head["e"]], head["k"]
        if kind == "touch":
            assert message.keys is not None
            self._touch(edge.source, message.keys)
            return
        if kind == "upquery":
            arrived = self._upquery_edge(edge.number, head["b"])
        elif isinstance(edge.source, BaseNode):
            arrived = edge
            rows = 0 if message.delta is None else len(message.delta.diffs)
            event = "response" if kind == "response" else "message"
            graph.trace.record(event, edge.source.name, edge.target.name, rows)
        else:
            arrived = self.inputs[edge.number].source.inputs[head["b"]]
        graph.in_flight.send(
            Message(0, kind, arrived, graph.op, message.keys, message.delta, head.get("t", 0), {}, head.get("a", 0))
        )

    def send_remote(
        self,
        kind: str,
        edge: PartialEdge,
        keys: Words | None = None,
        delta: Delta | None = None,
        tag: int = 0,
        asked: int = 0,
        **_: Any,
    ) -> None:
        """Send a message of the graph to other bins, or an upquery for a base table to the driver."""
        plan, placement = edge.source.plan, self.placement
        types, key_types = tuple(c.type for c in plan.schema), types_of(plan, edge.ask)
        channel = GRAPH
        parts: list[tuple[int, Words | None, Delta | None]]
        if kind in ("upquery", "touch"):
            stage = placement.stage_of[edge.source]
            parts = [(edge.bin if isinstance(edge, RemoteEdge) else self.number, keys, delta)]
            if isinstance(edge.source, BaseNode):
                stage, channel, parts = 0, UPQUERY, [(self.number, keys, delta)]
        else:
            edge_of_graph = placement.edges[edge.number]
            stage = placement.stage_of[edge_of_graph.target]
            columns = placement.route(edge_of_graph)
            by_bin = [] if delta is None else wire.split(delta, columns, types, self.recipe.bins, self.strings)
            if kind == "change":
                parts = [(number, None, part) for number, part in by_bin]
            elif kind == "response":
                asker = edge.bin if isinstance(edge, RemoteEdge) else ALL
                parts = [(asker, keys, dict(by_bin).get(asker, Delta.empty(len(types))))]
            else:
                parts = [(number, keys, None) for number in range(self.recipe.bins)]
        head = {"e": edge.number, "k": kind, "b": self.number, "t": tag, "a": asked, "c": self.graph.clock}
        for number, some, rows in parts:
            order = {"by": f"{self.stage:06d}.{self.number:06d}", "n": [self.time, len(self.out)]}
            to = (stage, number, channel)
            self.out.append(encode_message(to, head | order, self.strings, some, key_types, rows, types))
            self._record(kind, edge, some, rows)

    def _record(self, kind: str, edge: PartialEdge, keys: Words | None, delta: Delta | None) -> None:
        if kind == "touch":
            return
        edge = self.placement.edges[edge.number]
        ends = (edge.source.name, edge.target.name)
        rows = len(delta.diffs) if delta is not None else 0 if keys is None else keys.shape[1]
        name = {"change": "message", "evict": "message"}.get(kind, kind)
        self.graph.trace.record(
            name, *(ends[::-1] if kind == "upquery" else ends), rows, note="evict" if kind == "evict" else ""
        )

    # --- lookups ----------------------------------------------------------------

    def _reader(self, view: str) -> ReaderNode:
        reader = self.graph.nodes["reader", view]
        assert isinstance(reader, ReaderNode)
        return reader

    def _look_up(self, reader: ReaderNode, lookup: WaitingLookup) -> None:
        filled = reader.filled.mask(lookup.keys, self.strings)
        for name, count in (("hit", int(filled.sum())), ("hole", int((~filled).sum()))):
            if count:
                self.graph.trace.record(name, reader.name, rows=count)
        self._touch(reader, lookup.keys.compress(filled, axis=1))
        # The operators of another view in this bin can fill the hole within this micro-batch.
        self.changed |= not filled.all()
        self.lookups.append(lookup)
        self._ask(reader, lookup)

    def _ask(self, reader: ReaderNode, lookup: WaitingLookup) -> None:
        holes = lookup.keys.compress(~reader.filled.mask(lookup.keys, self.strings), axis=1)
        if holes.shape[1] and not lookup.open:
            lookup.open = True
            self.graph.send("upquery", reader.inputs[0], keys=holes, tag=self.graph.tag(), asked=self.graph.now)

    def on_filled(self, reader: PartialNode, keys: Words) -> None:
        """See `GraphHost.on_filled`. Lookups of these keys no longer have an unanswered upquery."""
        for lookup in self.lookups:
            if lookup.view == reader.view and self.graph.among(keys, lookup.keys).any():
                lookup.open = False

    def _answer_lookups(self) -> None:
        """Answer each lookup whose keys are all filled. Send another upquery for keys that were evicted meanwhile."""
        waiting = []
        for lookup in self.lookups:
            reader = self._reader(lookup.view)
            if not lookup.open:
                self._ask(reader, lookup)
                self.graph.drain()
            if lookup.open or not reader.filled.mask(lookup.keys, self.strings).all():
                waiting.append(lookup)
                continue
            _, rows, diffs = reader.rows.match(lookup.keys, self.strings)
            self._send_rows({"view": lookup.view, "id": lookup.request}, reader, Delta(rows, diffs[0]))
        self.lookups = waiting

    # --- to the driver ----------------------------------------------------------

    def _send_changes(self) -> None:
        for node in self.nodes:
            if isinstance(node, ReaderNode) and node.emitted:
                change = concat([d for ds in node.emitted.values() for d in ds], len(node.plan.schema))
                node.emitted = {}
                self._send_rows({"view": node.view}, node, change)

    def _send_rows(self, head: dict[str, Any], reader: ReaderNode, rows: Delta) -> None:
        types = tuple(c.type for c in reader.plan.schema)
        self.out.append(encode_message((0, self.number, OUT), head, self.strings, delta=rows, types=types))

    def on_evicted(self, part: str, keys: Words) -> None:
        """See `GraphHost.on_evicted`."""
        self.evicted.setdefault(part, []).append(keys)

    def _send_evicted(self) -> None:
        filled = self._filled_keys()
        for part, keys in self.evicted.items():
            words, types = np.concatenate(keys, axis=1), filled[part].types
            self.out.append(encode_message((0, self.number, EVICTED), {"o": part}, self.strings, words, types))

    def _send_report(self) -> None:
        events = [[e.name, e.source, e.target, e.rows, e.note] for e in self.graph.trace]
        self.graph.trace.clear()
        report: dict[str, Any] = {"trace": events, "stage": self.stage}
        if self.recipe.budget:
            every = [filled for _, _, filled in self._evictable()]
            used = np.sort(np.concatenate([f.used for f in every] or [np.empty(0, dtype=np.int64)]))
            classes = np.array_split(used, min(AGE_CLASSES, len(used)) or 1)
            stored = [part.arrangement for part in self.parts.values()]
            report |= {
                "rows": sum(a.rows for a in stored),
                "bytes": sum(a.nbytes for a in stored) + sum(f.nbytes for f in every),
                "ages": [[int(c[-1]), len(c)] for c in classes if len(c)],
            }
        self.out.append(encode_message((0, self.number, REPORT), report, self.strings))

    # --- use and eviction ---------------------------------------------------------

    def _touch(self, node: PartialNode, keys: Words) -> None:
        """Record the use of an operator's keys, and of the state above it from which they were computed."""
        if not keys.shape[1] or isinstance(node, BaseNode):
            return
        clock = self.graph.clock
        if isinstance(node, GatherNode):
            # When keys in other bins were last used matters only under a budget.
            for edge in node.inputs if self.recipe.budget else ():
                part = node.keys_of_bin(keys, edge.slot)
                if part.shape[1]:
                    self.send_remote("touch", edge, keys=part)
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

    def _obey(self, message: DecodedMessage) -> None:
        command = message.head["o"]
        if command == "evict":
            node = next(n for n in self.nodes if n.name == message.head["node"] and n.filled is not None)
            assert node.filled is not None
            node.evict(node.filled.keys if message.keys is None else message.keys)
            self.graph.settle(node)
        elif command == "shed":
            self._shed(message.head["limit"])
        elif command in ("abandon", "forget"):
            self.lookups = []
            for node in self.nodes:
                self.codec.read(node, None)
            if command == "forget":
                self._forget()

    def _shed(self, limit: int) -> None:
        """Evict the keys that were last used by operation ``limit`` or by an earlier one."""
        self._compact()
        for node, side, filled in self._evictable():
            keys = filled.keys.compress(filled.used <= limit, axis=1)
            if keys.shape[1]:
                node.evict_side(side, keys) if isinstance(node, JoinNode) else node.evict(keys)
                self.graph.settle(node)
                self.graph.drain()
        self._compact()

    def _compact(self) -> None:
        for part in self.parts.values():
            part.arrangement.compact()

    def _forget(self) -> None:
        for part in self.parts.values():
            part.arrangement.runs.clear()
            part.arrangement.merges.clear()
        for filled in self._filled_keys().values():
            filled.remove(filled.keys, self.strings)

    def _filled_keys(self) -> dict[str, FilledKeys]:
        """Return the filled keys of each piece of state, by its name."""
        return describe.filled_parts(self.nodes)

    def _evictable(self) -> list[tuple[PartialNode, int, FilledKeys]]:
        """Return the non-empty sets of filled keys, each as (operator, side of a join, filled keys)."""
        return [(node, side, filled) for node in self.nodes for side, filled in filled_keys_of(node)]

    # --- the store --------------------------------------------------------------

    def extra_state(self) -> tuple[dict[str, Any], list[tuple[str, str, bytes]]]:
        """See `RunsBin.extra_state`. The head gets the clock and draws; filled keys and open upqueries become blobs."""
        extras: dict[tuple[str, str], bytes] = {}
        for part, filled in self._filled_keys().items():
            place, before = (f"{part} keys", "0"), self.encoded.get(part)
            if before is not None and before[0] is filled.keys and np.array_equal(before[1], filled.used):
                extras[place] = self.extras[place]
                continue
            extras[place] = wire.encode([*filled.keys, filled.used], filled.types, self.strings)
            self.encoded[part] = (filled.keys, filled.used.copy())
        upqueries = {
            str(n): found for n, node in enumerate(self.nodes) if (found := self.codec.write(node)) is not None
        }
        lookups = [[x.request, x.view, self._encoded_keys(x), x.open] for x in self.lookups]
        content = {"open": upqueries, "waits": lookups, "tags": self.graph.tag_count}
        extras["open", "0"] = json.dumps(content).encode()
        added = [(*place, blob) for place, blob in extras.items() if self.extras.get(place) != blob]
        self.extras = extras
        return {"clock": self.graph.clock, "draws": self.draws}, added

    def save(self, store: Store) -> None:
        """See `Bin.save`."""
        self.time = max([self.time, *(part.arrangement.upper for part in self.parts.values())])
        super().save(store)

    def renew_token(self) -> None:
        """Replace the token by a random one.

        A task that Spark runs again may write something else, because a read changes a bin in memory only. With a
        token of its own, no worker takes one state for the other.
        """
        self.token = secrets.token_hex(8)

    def _encoded_keys(self, lookup: WaitingLookup) -> list[Any]:
        reader = self._reader(lookup.view)
        return self.codec.encode_words(lookup.keys, types_of(reader.plan, reader.ask))

    def load(self, head: dict[str, Any], store: Store) -> None:
        """See `Bin.load`."""
        super().load(head, store)
        self.encoded.clear()
        self.graph.clock, self.draws = head["clock"], head["draws"]
        for part, filled in self._filled_keys().items():
            blob = self.extras[f"{part} keys", "0"] = store.run(f"{part} keys", "0")
            lines = wire.decode(blob, self.strings)
            filled.put(lines[:-1], lines[-1], self.strings)
        blob = self.extras["open", "0"] = store.run("open", "0")
        content = json.loads(blob)
        for n, node in enumerate(self.nodes):
            self.codec.read(node, content["open"].get(str(n)))
        self.lookups = [WaitingLookup(r, v, self.codec.decode_words(k), o) for r, v, k, o in content["waits"]]
        self.graph.tag_count = content["tags"]
