"""One bin of one stage: an in-process engine that is given only the rows of its keys.

The operators, the kernels and the arrangements are those of :mod:`...dataflow.full` and
:mod:`...dataflow.shared`, as they are. What this adds is the outside: messages in and out as
blobs, and arrangements that live in a state store as runs, each written once.

    head    time, and for each arrangement its runs: [name, rows, bytes]; and a token, and who wrote it, at which port
    runs    (arrangement, run) -> blob

The token is drawn anew at every write. A bin that is still in memory counts only if its
token is the one that the store gives: whoever wrote last was then this very object, and
nothing else has been here since. Otherwise its runs are looked at one by one; those
that are in memory under the same name are the same, since a name holds the token of
its writer. A bin is taken out of memory while it works, so that a failed attempt leaves
none. Merges under way are not stored; a process that has not seen the last epochs goes on
with its own as far as their inputs are still there.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from socket import gethostname
from typing import Any

import numpy as np

from ...dataflow.dataflow import Dataflow
from ...dataflow.operators import apply
from ...plan.nodes import Type
from ...storage import wire
from ...storage.batch import Batch, Delta, Layout, concat
from ...storage.encoding import NULL, Strings
from ...storage.wire import pack, split
from . import files
from .messages import ASK, COMPACT, OUT, TICK, Asked, Done, Message, Near, Place, Store
from .route import Chain, Channel, Port, Route

AROUND = 64
"""Bins that a process keeps in memory, of all engines together."""


LEAST = 1 << 20
"""As many strings a process may keep before it asks which of them are in use."""


@dataclass
class Plan:
    """What a worker needs to build the engine of a bin: the same in all of them.

    ``checked`` False has it believe what it finds in its memory, without a look at the store's
    token: for tests and lessons, to see what the token is for.
    """

    generation: str
    bins: int
    make: Callable[[], Any]
    checked: bool = True
    near: bool = True
    """Whether a process may ask another that has a bin in memory; if not, it reads the bin anew."""

    def bin(self, stage: int, number: int) -> Bin:
        """A bin that holds nothing yet."""
        return Bin(self, stage, number)


@dataclass
class Bin:
    """See the module."""

    plan: Plan
    stage: int
    number: int
    engine: Dataflow = field(init=False)
    route: Route = field(init=False)
    token: str = ""
    time: int = 0
    found: str = "new"
    """What the process that took it for an epoch had of it: one of ``FOUND``."""
    port: int = 0
    """Where that process can be asked for it; 0 if it cannot."""
    changed: bool = False
    """Whether the messages that were taken last may have changed what is held."""

    def __post_init__(self) -> None:
        self.route = self.plan.make()
        self.engine = self.route.engine
        self.engine.dictionary.strings = names.strings
        self.parts = self.route.parts(self.stage)
        self.stored: dict[str, list[tuple[Batch, str, int]]] = {part: [] for part in self.parts}
        """Arrangement -> the runs that are in the store too: the run, its name and the bytes of its blob there."""
        self.order = self.route.at(self.stage)
        for held in self.engine.held():
            # What an engine starts with is made by one bin alone, when it is told to.
            held.arrangement.runs.clear()

    @property
    def strings(self) -> Strings:
        """The dictionary, that of all bins of this process."""
        return self.engine.dictionary.strings

    # --- an epoch ---------------------------------------------------------------

    def run(self, messages: list[Message]) -> list[Message]:
        """Take one epoch's messages; returns those that follow from them. Raises the kit's errors."""
        out: list[Message] = []
        waiting: dict[Port, list[Delta]] = {}
        # Only the first one counts: whoever cannot know whether it is the first sends one each time.
        ticked = self.time == 0 and any(m.channel == TICK for m in messages)
        by: dict[int, list[Delta]] = {}
        for message in messages:
            if message.channel > 0:
                delta, told = files.brought(message, self.route, self.plan.bins, self.strings)
                if len(delta.diffs):
                    by.setdefault(message.channel, []).append(delta)
                out += told
        self.changed = bool(by) or any(m.channel in (COMPACT, TICK) for m in messages)
        if by or ticked:
            before, now = self.time, self.time + 1
            for held in self.parts.values():
                held.arrangement.upper = now
            for number in sorted(by):
                self._arrive(self.route.channels[number - 1], by[number], waiting)
            forced = set(self.route.globals()) if ticked else set()
            for n in self.order:
                self._step(n, before, n in forced, waiting, out)
            self._readers(waiting, out)
            self.time = now
            for held in self.parts.values():
                held.arrangement.commit(now + 1)
        for message in messages:
            if message.channel == COMPACT:
                for held in self.parts.values():
                    held.arrangement.compact()
            elif message.channel == ASK:
                out += self._answer(message)
        return out

    def _arrive(self, channel: Channel, parts: list[Delta], waiting: dict[Port, list[Delta]]) -> None:
        delta = concat(parts, len(channel.types))
        relation = self.route.relation(channel)
        if channel.base and relation is not None:
            netted = {relation: delta}
            # Nets the rows, and refuses a retraction of what is not there.
            self.engine._insert_bases(netted)
            delta = netted[relation]
        for chain, port in channel.takers:
            waiting.setdefault(port, []).append(self._through(chain, delta))

    def _through(self, chain: Chain, delta: Delta) -> Delta:
        for at in chain:
            delta = apply(self.route.operators[at].node, delta, self.strings)
        return delta

    def _step(self, n: int, before: int, forced: bool, waiting: dict[Port, list[Delta]], out: list[Message]) -> None:
        operator = self.route.operators[n]
        given = [concat(waiting.pop((n, at), []), below.width) for at, below in enumerate(operator.inputs)]
        if not forced and not any(len(delta.diffs) for delta in given):
            return
        change = operator.step(given, before)
        if not len(change.diffs):
            return
        for chain, port in self.route.local.get(n, []):
            waiting.setdefault(port, []).append(self._through(chain, change))
        for chain, view in self.route.exits.get(n, []):
            self._tell(view, self._through(chain, change), out)
        for number, channel in enumerate(self.route.channels, 1):
            if channel.origin == n:
                out += ship(
                    number, channel, self._through(channel.early, change), self.plan.bins, self.strings, net=True
                )

    def _readers(self, waiting: dict[Port, list[Delta]], out: list[Message]) -> None:
        for number, name in enumerate(self.route.views):
            parts = waiting.pop((-1 - number, 0), [])
            reader = self.engine.readers[name]
            if any(len(part.diffs) for part in parts):
                delta = concat(parts, len(reader.columns))
                body = reader.arrangement.insert(delta.rows, delta.diffs, self.strings)
                k = len(reader.columns)
                self._tell(number, Delta(body[1 : 1 + k], body[1 + k]), out)

    def _tell(self, view: int, delta: Delta, out: list[Message], kind: str = "") -> None:
        if len(delta.diffs):
            types = [c.type for c in self.engine.views[self.route.views[view]].schema]
            out.append(
                Message(0, self.number, OUT, f"{kind}{self.route.views[view]}", wire.pack(delta, types, self.strings))
            )

    # --- questions --------------------------------------------------------------

    def _answer(self, message: Message) -> list[Message]:
        """The rows of a view, or of one key of it, that are in this bin."""
        asked = json.loads(message.what)
        number = self.route.views.index(asked["view"])
        if self.route.reader_stage[number] != self.stage:
            return []
        view = self.engine.views[asked["view"]]
        key = wire.decode(message.blob, self.strings) if message.blob else None
        out: list[Message] = []
        self._tell(number, self.engine._rows(view, key, None), out)
        return out

    # --- the store --------------------------------------------------------------

    def save(self, store: Store) -> None:
        """Write the runs that are new, remove those that are gone, then the head."""
        self.token = secrets.token_hex(8)
        head: dict[str, list[list[Any]]] = {}
        fresh: list[tuple[str, str, bytes]] = []
        gone: list[tuple[str, str]] = []
        for part, held in self.parts.items():
            arrangement = held.arrangement
            known = {id(batch): (name, size) for batch, name, size in self.stored[part]}
            kept = []
            for batch in arrangement.runs:
                if id(batch) not in known:
                    blob = wire.encode(list(batch.body[1:]), arrangement.layout.types, self.strings)
                    known[id(batch)] = (f"{self.token}-{len(fresh)}", len(blob))
                    fresh.append((part, known[id(batch)][0], blob))
                kept.append((batch, *known[id(batch)]))
            names = {name for _, name, _ in kept}
            gone += [(part, name) for _, name, _ in self.stored[part] if name not in names]
            self.stored[part] = kept
            head[part] = [[name, size, len(batch), batch.lower] for batch, name, size in kept]
        told = {
            "token": self.token,
            "time": self.time,
            "port": self.port,
            "by": [f"{os.getpid()}@{gethostname()}", self.found],
        }
        store.write(json.dumps(told | {"runs": head}), fresh, gone)

    def load(self, head: dict[str, Any], store: Store) -> None:
        """Become what the store says; runs of the same name that are here stay, and so do merges of such runs."""
        self.token, self.time = head["token"], head["time"]
        for part, runs in head["runs"].items():
            arrangement, here = self.parts[part].arrangement, {name: batch for batch, name, _ in self.stored[part]}
            self.stored[part] = [
                (here[name] if name in here else self._read(part, store.run(part, name), lower), name, size)
                for name, size, _, lower in runs
            ]
            arrangement.runs[:] = [batch for batch, _, _ in self.stored[part]]
            arrangement.upper = self.time + 1
            there = {id(batch) for batch in arrangement.runs}
            arrangement.merges[:] = [m for m in arrangement.merges if all(id(b) in there for b in m.inputs)]

    def _read(self, part: str, blob: bytes, lower: int) -> Batch:
        layout = self.parts[part].arrangement.layout
        lines = wire.decode(blob, self.strings)
        words = layout.sort_words(lines[: layout.columns], self.strings)
        return Batch(np.concatenate([words[None, :], lines]), lower)


@dataclass
class Names:
    """Strings that outlive a micro-batch. Past ``limit`` of them, what no bin in memory uses is forgotten."""

    strings: Strings = field(default_factory=Strings)
    limit: int = 0

    def tidy(self) -> None:
        """Begin anew, and let bins be read anew, if most strings are of no use any more."""
        if len(self.strings) <= max(LEAST, self.limit):
            return
        used = np.zeros(len(self.strings), dtype=bool)
        for each in _AROUND.values():
            for held in each.parts.values():
                lines = [1 + i for i, kind in enumerate(held.arrangement.layout.types) if kind is Type.STRING]
                for words in (batch.body[line] for batch in held.arrangement.runs for line in lines):
                    used[words[words != NULL]] = True
        self.limit = max(LEAST, 2 * int(used.sum()))
        if len(self.strings) > self.limit:
            _AROUND.clear()
            self.strings = Strings()


names = Names()
alone = threading.Lock()
"""Whoever works on the bins of this process, or gives codes to strings: Spark's task, or a neighbour's request."""
_AROUND: OrderedDict[tuple[str, int, int], Bin] = OrderedDict()


def work(
    plan: Plan, stage: int, number: int, messages: list[Message], store: Store, near: Near | None = None
) -> list[Message]:
    """One bin's share of a micro-batch: what this process keeps is used, or a neighbour does it, if the store confirms.

    ``near`` is where this process can be asked, and how it asks; see :mod:`.worker_rpc`.
    """
    place = (plan.generation, stage, number)
    told = store.head()
    head = None if told is None else json.loads(told)
    port = near.port if near is not None and plan.checked and plan.near else 0
    token = None if head is None else head["token"]
    if port and head is not None and head.get("port", 0) not in (0, port) and not _has(place, token):
        done = near.ask(head["port"], place, head["token"], messages) if near is not None else None
        if done is not None:
            for written in done[1]:
                store.write(*written)
            return done[0]
    with alone:
        names.tidy()
        cached = _AROUND.pop(place, None)
        found = "new" if head is None else "missing" if cached is None else "used"
        if cached is None or head is None:
            cached = plan.bin(stage, number)
        if head is not None and token != cached.token and (plan.checked or found == "missing"):
            found = "missing" if found == "missing" else "stale"
            cached.load(head, store)
        return _done(place, cached, found, messages, store, port)


def answer(place: Place, token: str, messages: list[Message], port: int) -> Done | None:
    """The same for a neighbour, who writes: None where the bin is not in memory under this token."""
    with alone:
        names.tidy()
        if not _has(place, token):
            return None
        asked = Asked()
        return _done(place, _AROUND.pop(place), "used", messages, asked, port), asked.written


def _has(place: Place, token: str | None) -> bool:
    each = _AROUND.get(place)
    return each is not None and each.token == token


def _done(place: Place, each: Bin, found: str, messages: list[Message], store: Store, port: int) -> list[Message]:
    each.found, each.port = found, port
    out = each.run(messages)
    if each.changed:
        each.save(store)
    _AROUND[place] = each
    while len(_AROUND) > AROUND:
        _AROUND.popitem(last=False)
    return out


# fmt: off
def ship(number: int, channel: Channel, delta: Delta, bins: int, strings: Strings, net: bool = False) -> list[Message]:
    """A delta as the messages of a channel, one a bin; ``net`` adds up equal rows first."""
    if net and len(delta.diffs) > 1:
        layout = Layout(channel.types, tuple(range(len(channel.types))))
        body = layout.body(delta.rows, delta.diffs, strings)
        delta = Delta(body[1 : 1 + layout.columns], body[1 + layout.columns])
    parts = split(delta, channel.columns, channel.types, bins, strings)
    return [Message(channel.stage, where, number, "", pack(part, channel.types, strings)) for where, part in parts]


__all__ = [
    "ASK", "COMPACT", "OUT", "TICK", "Bin", "Message", "Names", "Plan", "Store",
    "alone", "answer", "names", "ship", "work",
]
