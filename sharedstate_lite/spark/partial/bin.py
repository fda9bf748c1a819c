"""One bin of one stage of partial state: operators of the graph, with state for the filled keys of this bin.

A bin delivers its messages one at a time, in the order in which they were sent. After each message, it delivers all
messages that result within the bin, and collects those for other bins and for the driver. In addition to its runs (see
`spark.rounds.runs`), it stores:

    NAME keys    the filled keys of a piece of state
    open         open upqueries (`upquery_codec`), the lookup that waits for them, and the number of the last tag

All of this is written together. Another worker therefore finds the bin either as it was before a micro-batch or as it
was after the micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...partial import describe
from ...partial.filled_keys import FilledKeys
from ...partial.messages import Message
from ...partial.nodes import BaseNode, PartialEdge, PartialNode, ReaderNode
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import Dictionary, Words
from ..bins.channels import COMPACT
from ..rounds.bin import Bin, Recipe
from ..rounds.message import BinMessage, Store
from ..rounds.runs import RunsBin
from ..rounds.strings import worker_strings
from .messages import (
    ANSWER,
    EVICTED,
    GRAPH,
    LOOKUP,
    OUT,
    REPORT,
    UPQUERY,
    DecodedMessage,
    decode_message,
    encode_message,
)
from .nodes import ALL, BinGraph, GatherNode, RemoteEdge, types_of
from .placement import Placement
from .upquery_codec import UpqueryCodec


@dataclass
class PartialRecipe(Recipe):
    """The recipe of partial state: ``make`` builds the placement."""

    make: Callable[[], Placement]

    def build(self, stage: int, number: int) -> Bin:
        """See `Recipe.build`."""
        return PartialBin(self, stage, number)


@dataclass
class WaitingLookup:
    """A lookup that waits for holes to be filled. ``open`` is whether it has an unanswered upquery."""

    view: str
    keys: Words
    open: bool = False


@dataclass
class PartialBin(RunsBin):
    """Runs the operators of one stage for the keys of one bin; see the module's docstring."""

    recipe: PartialRecipe
    lookup: WaitingLookup | None = None
    extras: dict[tuple[str, str], bytes] = field(init=False, default_factory=dict)
    """(part, name) -> the blob that was last stored there. It contains all stored blobs except runs."""
    encoded: dict[str, Words] = field(init=False, default_factory=dict)
    """Piece of state -> its filled keys when they were last encoded.

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
        # A lookup of filled keys changes nothing, so it does not have to be stored.
        self.changed = any(m.channel != LOOKUP for m in messages)
        decoded = [(m.channel, decode_message(m, self.strings)) for m in messages if m.channel != COMPACT]
        self.graph.now = max([self.graph.now, *(message.head.get("now", 0) for _, message in decoded)])
        for channel, message in sorted(decoded, key=lambda pair: pair[1].order):
            self._take(channel, message)
            self.graph.drain()
        if len(decoded) < len(messages):
            for part in self.parts.values():
                part.arrangement.compact()
        self._answer_lookup()
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
            self._look_up(reader, WaitingLookup(reader.view, keys))
        else:
            self._obey(message)

    def _deliver(self, message: DecodedMessage) -> None:
        """Deliver a message to the operator at the end of its edge."""
        head, graph = message.head, self.graph
        edge, kind = self.placement.edges[head["e"]], head["k"]
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
        if kind == "upquery":
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
        head = {"e": edge.number, "k": kind, "b": self.number, "t": tag, "a": asked}
        for number, some, rows in parts:
            order = {"by": f"{self.stage:06d}.{self.number:06d}", "n": len(self.out)}
            to = (stage, number, channel)
            self.out.append(encode_message(to, head | order, self.strings, some, key_types, rows, types))
            self._record(kind, edge, some, rows)

    def _record(self, kind: str, edge: PartialEdge, keys: Words | None, delta: Delta | None) -> None:
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
        # The operators of another view in this bin can fill the hole within this micro-batch.
        self.changed |= not filled.all()
        self.lookup = lookup
        self._ask(reader, lookup)

    def _ask(self, reader: ReaderNode, lookup: WaitingLookup) -> None:
        holes = lookup.keys.compress(~reader.filled.mask(lookup.keys, self.strings), axis=1)
        if holes.shape[1] and not lookup.open:
            lookup.open = True
            self.graph.send("upquery", reader.inputs[0], keys=holes, tag=self.graph.tag(), asked=self.graph.now)

    def on_filled(self, reader: PartialNode, keys: Words) -> None:
        """See `GraphHost.on_filled`. A lookup of these keys no longer has an unanswered upquery."""
        lookup = self.lookup
        if lookup is not None and lookup.view == reader.view and self.graph.among(keys, lookup.keys).any():
            lookup.open = False

    def _answer_lookup(self) -> None:
        """Answer the lookup if its keys are all filled. Send another upquery for keys that were evicted meanwhile."""
        lookup = self.lookup
        if lookup is None:
            return
        reader = self._reader(lookup.view)
        if not lookup.open:
            self._ask(reader, lookup)
            self.graph.drain()
        if not lookup.open and reader.filled.mask(lookup.keys, self.strings).all():
            _, rows, diffs = reader.rows.match(lookup.keys, self.strings)
            self._send_rows(ANSWER, reader, Delta(rows, diffs[0]))
            self.lookup = None

    # --- to the driver ----------------------------------------------------------

    def _send_changes(self) -> None:
        for node in self.nodes:
            if isinstance(node, ReaderNode) and node.emitted:
                change = concat([d for ds in node.emitted.values() for d in ds], len(node.plan.schema))
                node.emitted = {}
                self._send_rows(OUT, node, change)

    def _send_rows(self, channel: int, reader: ReaderNode, rows: Delta) -> None:
        types, head = tuple(c.type for c in reader.plan.schema), {"view": reader.view}
        self.out.append(encode_message((0, self.number, channel), head, self.strings, delta=rows, types=types))

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
        self.out.append(encode_message((0, self.number, REPORT), {"trace": events}, self.strings))

    # --- commands -----------------------------------------------------------------

    def _obey(self, message: DecodedMessage) -> None:
        command = message.head["o"]
        if command == "evict":
            node = next(n for n in self.nodes if n.name == message.head["node"] and n.filled is not None)
            assert node.filled is not None
            node.evict(node.filled.keys if message.keys is None else message.keys)
            self.graph.settle(node)
        else:
            self.lookup = None
            for node in self.nodes:
                self.codec.read(node, None)
            if command == "forget":
                self._forget()

    def _forget(self) -> None:
        for part in self.parts.values():
            part.arrangement.runs.clear()
            part.arrangement.merges.clear()
        for filled in self._filled_keys().values():
            filled.remove(filled.keys, self.strings)

    def _filled_keys(self) -> dict[str, FilledKeys]:
        """Return the filled keys of each piece of state, by its name."""
        return describe.filled_parts(self.nodes)

    # --- the store --------------------------------------------------------------

    def extra_state(self) -> tuple[dict[str, Any], list[tuple[str, str, bytes]]]:
        """See `RunsBin.extra_state`. Filled keys and open upqueries become blobs."""
        extras: dict[tuple[str, str], bytes] = {}
        for part, filled in self._filled_keys().items():
            place = (f"{part} keys", "0")
            if self.encoded.get(part) is filled.keys:
                extras[place] = self.extras[place]
                continue
            extras[place] = wire.encode([*filled.keys, filled.used], filled.types, self.strings)
            self.encoded[part] = filled.keys
        upqueries = {
            str(n): found for n, node in enumerate(self.nodes) if (found := self.codec.write(node)) is not None
        }
        x = self.lookup
        lookup = None if x is None else [x.view, self._encoded_keys(x), x.open]
        content = {"open": upqueries, "lookup": lookup, "tags": self.graph.tag_count}
        extras["open", "0"] = json.dumps(content).encode()
        added = [(*place, blob) for place, blob in extras.items() if self.extras.get(place) != blob]
        self.extras = extras
        return {}, added

    def save(self, store: Store) -> None:
        """See `Bin.save`."""
        arrangements = list(self.arrangements())
        self.time = max([self.time, *(arrangement.upper for arrangement in arrangements)])
        super().save(store)
        for arrangement in arrangements:
            arrangement.upper = self.time + 1  # as after `load`, so that a task that runs again writes the same

    def _encoded_keys(self, lookup: WaitingLookup) -> list[Any]:
        reader = self._reader(lookup.view)
        return self.codec.encode_words(lookup.keys, types_of(reader.plan, reader.ask))

    def load(self, head: dict[str, Any], store: Store) -> None:
        """See `Bin.load`."""
        super().load(head, store)
        self.encoded.clear()
        for part, filled in self._filled_keys().items():
            blob = self.extras[f"{part} keys", "0"] = store.run(f"{part} keys", "0")
            lines = wire.decode(blob, self.strings)
            filled.put(lines[:-1], lines[-1], self.strings)
        blob = self.extras["open", "0"] = store.run("open", "0")
        content = json.loads(blob)
        for n, node in enumerate(self.nodes):
            self.codec.read(node, content["open"].get(str(n)))
        self.lookup = None
        if content["lookup"] is not None:
            view, keys, still_open = content["lookup"]
            self.lookup = WaitingLookup(view, self.codec.decode_words(keys), still_open)
        self.graph.tag_count = content["tags"]
