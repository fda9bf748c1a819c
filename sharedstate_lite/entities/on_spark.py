"""Entities on Spark: the bins of `EntityBin` in one stateful operator of a streaming query.

Each micro-batch is a round. A bin handles the messages that were sent to it in the micro-batch before. Its state is in
Spark's state store. The driver receives all messages to other bins, and writes them, with new requests, into the input
file of the next micro-batch. The files are those of `spark.rounds`: an input file is synced and logged before Spark
can read it, and an output file is written once. If Spark gives up a micro-batch, an empty file replaces its input, and
`SparkEntities.run` raises. The messages are then sent again with the next call.

Before an input file, the driver appends a line to a log of its own: which requests are new in this file, and which
answers were in the output before. The newest output and this log are all that a start needs, so older files are
deleted, and a snapshot replaces the older part of the log. After ``kill -9``, `SparkEntities` finishes the micro-batch
that was in progress and continues with the messages that it sent. Each block has one effect. A request has one answer,
which is returned if the request is sent again. A request whose input file was not written has never been.

Spark gives the messages to a bin in any order, and a micro-batch that runs again must decide as it did before. A bin
therefore handles them in the order of their requests. A request has at most one message in a micro-batch, because a
method waits for its answer.

With one bin, a `transactional` method runs alone. With several, its transaction runs at the front, on entities that the
front fetches (`fetched`): this takes one micro-batch, or one more for each entity that it finds through another one.
Other methods have no isolation, as with `rounds`, and each message to another bin takes a micro-batch.

There are not more bins than Spark has partitions. Bins of one partition run one after the other in one process, so
messages between them would take micro-batches for nothing.

    with SparkEntities(Program(Item), "folder", bins=8) as front:
        front.run([AskMessage(0, Item["apple"], "__init__", ("apple", 3), None)])
        front.run([AskMessage(1, Item["apple"], "put", (2,), None)])     # {1: 5}
        front.state()["Item", "apple"]["stock"]                          # 5, from Spark's state store
        front.rounds                                                     # 2 micro-batches

Source: Psarakis et al., Stateful Entities, EDBT 2024; Spark 4's transformWithState.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, Error, is_integer, shorten
from ..spark.rounds import home
from ..spark.rounds.bin import Bin, Recipe
from ..spark.rounds.inbox import RoundKind
from ..spark.rounds.message import BinMessage, Store
from ..spark.rounds.query import Query, partitions
from ..spark.rounds.reader import StateReader
from ..spark.session.checks import stateful, usable
from ..spark.session.paths import absolute, made
from ..system.notes import continues
from ..system.scratch import lock_folder
from .bins import (
    FRONT,
    AnswerMessage,
    AskMessage,
    EntityBin,
    EntityMessage,
    Name,
    State,
    Waiting,
    bin_of,
    outcome,
)
from .declare import Reference, copied, text_of
from .epochs import GET, PUT, Copies, Sent, alone, is_transaction
from .fetched import FetchingFront
from .log import RequestLog, ServeError, from_json, to_json
from .plain import PlainStore
from .program import Program
from .routes import MANY, Routes
from .serve import LOG_SIZE, MOST_KEYS
from .serve import head as version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Question = tuple[Reference, str, tuple[Any, ...] | None]
"""What a request asks: the entity, the method or the attribute, and arguments."""
_IN, _PART = 1, "entities"


def text_of_question(question: Question) -> str:
    """Return a question as text.

    >>> text_of_question((Reference("Item", "apple"), "put", (2,)))
    "Item['apple'].put(2)"
    """
    who, what, args = question
    return f"{who!r}.{what}" + ("" if args is None else f"({', '.join(map(repr, args))})")


def pack(messages: Iterable[EntityMessage]) -> bytes:
    """Encode messages. The methods that wait become a list, because pickle cannot nest as deeply as methods can."""
    flat = []
    for message in messages:
        waits, back = [], message.back
        while back is not None:
            waits.append(back._replace(back=None))
            back = back.back
        flat.append((message._replace(back=None), waits))
    return pickle.dumps(flat)


def unpack(blob: bytes) -> list[EntityMessage]:
    """Decode messages.

    >>> from sharedstate_lite.entities import AskMessage, Reference
    >>> first = Waiting(Reference("User", "u"), "buy", 0, 1, "price", {"n": 2}, None, 1)
    >>> ask = AskMessage(7, Reference("Item", "apple"), "price", None, first._replace(back=first, depth=2))
    >>> unpack(pack([ask])) == [ask]
    True
    """
    out = []
    for message, waits in pickle.loads(blob):
        back: Waiting | None = None
        for each in reversed(waits):
            back = each._replace(back=back)
        out.append(message._replace(back=back))
    return out


def entities_in(runs: Mapping[str, bytes]) -> dict[Name, State]:
    """Return the entities that the runs of one bin contain. ``runs`` maps the name of each run to its blob."""
    found: dict[Name, State] = {}
    for name in sorted(runs):
        found |= pickle.loads(runs[name])
    return found


class OrderedBin(EntityBin):
    """A bin that handles messages in the order of their requests. ``installed`` has its entities, and ``touched`` names
    those that a round has changed."""

    def __init__(self, program: Program, number: int, bins: int) -> None:
        super().__init__(program, number, bins)
        self.installed: dict[Name, State] = {}
        self.touched: set[Name] = set()

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of one round. ``touched`` is then of this round."""
        self.touched = set()
        return super().handle(sorted(messages, key=_order))

    def bin_of(self, message: EntityMessage) -> int:
        """Return the number of the bin that a message is for. The front begins transactions if there are more bins."""
        return FRONT if self.bins > 1 and self._begins(message) else super().bin_of(message)

    def _begins(self, message: EntityMessage) -> bool:
        return isinstance(message, AskMessage) and not message.inside and is_transaction(self.program, message)

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message, and note the entities that it has changed. A single bin runs a transaction to its end."""
        if isinstance(message, AskMessage):
            if message.what == MANY:
                return self._many(message)
            if message.what == GET:
                found = [(name, self.installed.get(name)) for name in message.args or ()]
                return [AnswerMessage(0, found, None, None, True)]
            if message.what == PUT:
                self._install(dict(message.args or ()))
                return []
        copies = Copies(self.installed)
        if isinstance(message, AskMessage) and self._begins(message):
            end = alone(self.program, message, copies)
            if end.error is None:
                self._install(copies.written())
            return [end._replace(back=message.back, inside=False)]
        self.state = copies
        sent, written = self.step(message), copies.written()
        if not message.inside:
            self._install(written)
        elif written:
            text = f"a read changed {' '.join(min(written))}; use a POST route"
            sent = AnswerMessage(message.request, None, ("TypeError", text, ""), None)
        return [sent._replace(inside=message.inside)]

    def _install(self, states: dict[Name, State]) -> None:
        self.installed |= states
        self.touched |= states.keys()

    def _many(self, message: AskMessage) -> list[EntityMessage]:
        """Create the entities of this bin among those that a request creates. Every bin is asked; bin 0 answers."""
        assert message.args is not None
        store = PlainStore(self.program)
        reply = Routes(self.program).all[message.who.key].run(store, message.args, "")
        for key, me in store.tables[message.who.cls].items():
            if bin_of(Reference(message.who.cls, key), self.bins) == self.number:
                self.installed[message.who.cls, key] = copied(vars(me))
                self.touched.add((message.who.cls, key))
        error = (*text_of(reply.error), "") if reply.error else None
        return [] if self.number else [AnswerMessage(message.request, reply.value, error, None)]


def _order(message: EntityMessage) -> tuple[int, int]:
    """Entities that come back are first, then messages in the order of their requests, then what the front fetches."""
    rank = {PUT: 0, GET: 2}.get(message.what, 1) if isinstance(message, AskMessage) else 1
    return rank, message.request


@dataclass
class EntityRecipe(Recipe):
    """The recipe of entities."""

    program: Program

    def build(self, stage: int, number: int) -> Bin:
        """See `Recipe.build`."""
        return StoredEntities(self, stage, number)


@dataclass
class StoredEntities(Bin):
    """A bin of entities, which is also in a state store.

    A run is a blob with the entities that got a message in a micro-batch. A new run is merged with older ones that are
    less than twice as large, so a bin of n entities has at most log2(n) + 1 runs. The names of runs are numbers that
    increase. No run says that an entity was removed: only a failed ``__init__`` removes one, in the round that made it.
    """

    def __post_init__(self) -> None:
        self.entities = OrderedBin(self.recipe.program, self.number, self.recipe.bins)
        self.runs: dict[str, set[Name]] = {}

    def step(self, messages: list[BinMessage]) -> list[BinMessage]:
        """Handle the messages of one micro-batch. Return what the bin sends, as one message to the driver for each bin
        to which it sends; ``what`` is the number of this bin."""
        sent: dict[int, list[EntityMessage]] = {}
        for to, message in self.entities.handle(each for given in messages for each in unpack(given.blob)):
            sent.setdefault(to, []).append(message)
        self.changed = bool(self.entities.touched)
        return [BinMessage(0, self.number, _IN, str(to), pack(sent[to])) for to in sorted(sent)]

    def save(self, store: Store) -> None:
        """Write the entities that the last `step` touched, and the head."""
        names, removed = set(self.entities.touched), []
        new = f"{int(max(self.runs, default='0')) + 1:08d}"
        while self.runs and len(self.runs[last := max(self.runs)]) < 2 * len(names):
            names |= self.runs.pop(last)
            removed.append((_PART, last))
        self.runs[new] = names
        blob = pickle.dumps({name: self.entities.installed[name] for name in sorted(names)})
        store.write(self.head(runs=sorted(self.runs)), [(_PART, new, blob)], removed)

    def load(self, head: dict[str, Any], store: Store) -> None:
        """Replace the state by the one in the store."""
        blobs = {name: store.run(_PART, name) for name in head["runs"]}
        self.runs = {name: set(pickle.loads(blob)) for name, blob in blobs.items()}
        self.entities.installed = entities_in(blobs)


class SparkEntities:
    """The entities of a program on Spark, with the interface of `Epochs` and `Locks`. It is a context manager.

    ``folder`` is the checkpoint; if it exists already, the program continues from it. ``bins`` cannot change then.
    There are not more bins than partitions in Spark (``spark.sql.shuffle.partitions``, when the folder is made).
    ``session`` is a running session (default: the one of ``ss.spark.session()``). The folder has the answers to the
    last 100,000 requests whose numbers are not negative. A request with a negative number is not recorded.

    Raises CheckpointError if the folder belongs to another program, to another version of the kit or of Python, or to
    another number of bins, if another process uses it, or if one of its files is lost. Raises Error for a session that
    cannot be used, and for a number of bins that is not an integer of at least 1.
    """

    def __init__(
        self, program: Program, folder: str | os.PathLike[str], bins: int = 8, session: SparkSession | None = None
    ) -> None:
        if not is_integer(bins) or bins < 1:
            raise Error(f"bins={shorten(bins)}: pass an integer of at least 1")
        self.program, location = program, absolute(folder, "folder")
        self.session = usable(session, "a program of entities")
        self.log_size = LOG_SIZE
        self.questions: dict[int, Question] = {}
        """What the requests asked that are recorded, by their numbers."""
        self._ends: dict[int, AnswerMessage] = {}
        self._unsent: list[AskMessage] = []
        self._logged = ""
        """The state of the front of transactions in the log."""
        self._new_ends: list[AnswerMessage] = []
        """The answers that are not in the log yet."""
        self._waiting: list[BinMessage] = []
        self.continued = ""
        """Where the program continued: a folder and its last round, as text. Empty for a new one."""
        self._lock = lock_folder(made(location, "folder"))
        try:
            self.bins, known = self._claim(location, int(bins))
            self._front = FetchingFront(program, self.bins)
            self._log = RequestLog(made(location / "requests"), {})
            # Each start has a new generation, so no worker uses the bins of an earlier one.
            recipe = EntityRecipe(secrets.token_hex(8), self.bins, program)
            self._query = Query(self.session, made(location / "query"), recipe, 1, 0)
            self._query.ahead = True
            self._restore()
        except BaseException:
            self.close()
            raise
        if known:
            self.continued = continues(folder, f"round {self.rounds}")

    def _restore(self) -> None:
        """Read the log, finish the micro-batch in progress, and take over what it has sent."""
        batch, asked, fronts = -1, [], {}
        try:
            for kind, row in self._log.read():
                if kind == "epoch":
                    batch, asked, ends, fronts[row[0]] = row
                    self.questions |= {number: (Reference(*who), what, from_json(args))
                                        for number, who, what, args in asked}  # fmt: skip
                    self._record(AnswerMessage(number, from_json(value), error and tuple(error), None)
                                 for number, value, error in ends)  # fmt: skip
                elif len(row) == 2:
                    fronts[row[0]] = row[1]
                else:
                    number, who, what, args, end = row
                    self.questions[number] = Reference(*who), what, from_json(args)
                    if end:
                        self._ends[number] = AnswerMessage(number, from_json(end[0]), end[1] and tuple(end[1]), None)
            self._log.open()
        except ServeError as error:
            raise CheckpointError(str(error)) from error
        self._query.start()
        pending = self._query.pending()
        last = pending[0].number if pending else -1
        if batch > last:  # its input file was not written
            for number, *_ in asked:
                self.questions.pop(number, None)
        self._logged = fronts[max(known)] if (known := [each for each in fronts if each <= last]) else ""
        if self._logged:
            (*rest, begins), self._waiting = pickle.loads(base64.b64decode(self._logged))
            self._front.restore((*rest, unpack(begins)))
        if pending:
            self.end(pending[1])
        self._save()

    def _claim(self, location: Path, bins: int) -> tuple[int, bool]:
        """Write the file that says whose folder this is, or compare with it. Return the bins, and if it was there."""
        mine = version_of(self.program) | {"bins": bins}
        if found := home.known(location, "entities"):
            home.check_same(location, found, mine)
            return found["partitions"], True
        stateful(self.session, "a program of entities")
        most = partitions(self.session, bins)
        home.write(location, "entities", mine | {"partitions": most})
        return most, False

    @property
    def rounds(self) -> int:
        """The number of micro-batches in the folder."""
        return sum(not entry.void for entry in self._query.inbox.entries)

    @property
    def unfinished(self) -> bool:
        """Whether there is something for the next micro-batch."""
        return bool(self._unsent or self._waiting or self._front.begins)

    def run(self, requests: Iterable[AskMessage]) -> dict[int, Any]:
        """Run requests, and all that a killed driver left unfinished, to the end. Return the answers by request.

        A request that is in the folder already is not run again; its answer is returned. Raises Error, before anything
        is sent, if it was another question, and NotPlain if arguments are not data. If Spark gives up a micro-batch,
        its error is raised, and the next call sends the new requests in this micro-batch again.
        """
        asked = [each._replace(args=copied(each.args, f"request {each.request}")) for each in requests]
        before = len(self._unsent)
        try:
            ended = {each.request: end for each in asked if (end := self.ask(each))}
        except Error:
            for each in self._unsent[before:]:
                self.questions.pop(each.request, None)
            del self._unsent[before:]
            raise

        def take(sent: list[BinMessage]) -> list[BinMessage]:
            ended.update(self.end(sent))
            self._query.raise_interrupt()
            return self.begin()

        self.deliver(self.begin(), take)
        return {each.request: outcome(self.program, ended[each.request]) for each in asked}

    def ask(self, request: AskMessage) -> AnswerMessage | None:
        """Return the recorded answer to a request. If there is none, the request is sent with the next micro-batch,
        unless it was sent before. Raises Error if its number was that of another question."""
        question = (request.who, request.what, request.args)
        known = self.questions.get(request.request)
        if known is None:
            self._unsent.append(request)
            if request.request >= 0:
                self.questions[request.request] = question
        elif repr(known) != repr(question):
            raise Error(f"request {request.request} was another question before ({text_of_question(known)}); "
                        "give each request its own number")  # fmt: skip
        return self._ends.get(request.request)

    def begin(self) -> list[BinMessage]:
        """Log the next micro-batch, and return its messages: those that wait, and new requests; none if all is done."""
        if not self.unfinished:
            return []
        asked = [self._row(each.request) for each in self._unsent if each.request >= 0]
        new: Sent = []
        for each in self._unsent:
            if each.what == MANY:
                new += [(to, each) for to in range(self.bins)]
            elif self.bins > 1 and not each.inside and is_transaction(self.program, each):
                self._front.begins[each.request] = each
            else:
                new.append((bin_of(each.who, self.bins), each))
        self._unsent = []
        self._waiting += self._packed(new + self._front.start())
        commands, before, self._logged = self._packed(self._front.commands), self._logged, ""
        if self._front.begins:
            *rest, begins = self._front.state()
            state = (*rest, pack(begins)), self._waiting if commands else []
            self._logged = base64.b64encode(pickle.dumps(state)).decode()
        if asked or self._new_ends or self._logged or before:
            ends = [[each.request, to_json(each.value), each.error] for each in self._new_ends]
            self._log.append([len(self._query.inbox.entries), asked, ends, self._logged])
            self._new_ends = []
        return commands or self._waiting

    def deliver(self, messages: list[BinMessage], take: Callable[[list[BinMessage]], list[BinMessage]]) -> None:
        """Run micro-batches with the messages from `begin` until none is left. Another thread may call `ask` then.

        ``take`` passes what a micro-batch has sent to `end`, and returns the messages of the next one, from `begin`.
        """
        if messages:
            self._query.settle(messages, RoundKind.EPOCH, len(self._query.inbox.entries) + 1, take)

    def end(self, sent: list[BinMessage]) -> dict[int, AnswerMessage]:
        """Take over what a micro-batch has sent: messages for the next one, and answers, which are returned."""
        if not self._front.commands:
            self._waiting = []
        self._waiting += [self._message(int(each.what), each.blob) for each in sent if int(each.what) != FRONT]
        out = self._front.take(each for given in sent if int(given.what) == FRONT for each in unpack(given.blob))
        self._waiting += self._packed(each for each in out if each[0] != FRONT)
        ended = {end.request: end for to, end in out if to == FRONT and isinstance(end, AnswerMessage)}
        new = [end for number, end in ended.items() if number >= 0 and number not in self._ends]
        self._new_ends += new
        self._record(new)
        if self._log.size > max(self.log_size, self._log.snapshot_size):
            self._save()
        return ended

    def _save(self) -> None:
        """Replace the log by a snapshot of the requests that were sent, and of the front before the last output."""
        unsent = {each.request for each in self._unsent}
        rows = [self._row(each, True) for each in self.questions if each not in unsent]
        number, self._new_ends = self._log.rotate(), []
        last = self._query.inbox.last()
        self._log.save(number, [[last.number if last else -1, self._logged], *rows])
        self._log.saved(number)

    def _packed(self, sent: Iterable[tuple[int, EntityMessage]]) -> list[BinMessage]:
        by: dict[int, list[EntityMessage]] = {}
        for to, message in sent:
            by.setdefault(to, []).append(message)
        return [self._message(to, pack(by[to])) for to in sorted(by)]

    def _message(self, to: int, blob: bytes) -> BinMessage:
        return BinMessage(1, to, _IN, "", blob)

    def _row(self, number: int, ended: bool = False) -> list[Any]:
        """Return a request as a row of the log, or of a snapshot, with its answer."""
        who, what, args = self.questions[number]
        row = [number, [who.cls, who.key], what, to_json(args)]
        end = self._ends.get(number)
        return [*row, end and [to_json(end.value), end.error]] if ended else row

    def _record(self, ends: Iterable[AnswerMessage]) -> None:
        """Keep answers, and forget the oldest."""
        self._ends |= {each.request: each for each in ends}
        while len(self._ends) > MOST_KEYS:
            oldest = next(iter(self._ends))
            del self._ends[oldest], self.questions[oldest]

    def state(self) -> dict[Name, State]:
        """Return the entities after the last micro-batch, by class and key, as Spark's state reader reads them."""
        self._query.commit()
        if not self._query.committed:
            return {}
        reader = StateReader(self.session, self._query.checkpoint, 1)
        runs: dict[int, dict[str, bytes]] = {}
        for number, part, name, blob in reader.runs(1).collect():
            if part == _PART:
                runs.setdefault(number, {})[name] = bytes(blob)
        return {name: state for bin in runs.values() for name, state in entities_in(bin).items()}

    def close(self) -> None:
        """Stop the query. To continue, start `SparkEntities` with the same folder. Closing again has no effect."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            with contextlib.suppress(AttributeError):  # they were not made
                self._log.close()
                self._query.close()
            os.close(lock)

    def __repr__(self) -> str:
        since = f", continued from {self.continued}" if self.continued else ""
        return f"<entities on Spark, bins={self.bins}, rounds={self.rounds}{since}>"

    def __enter__(self) -> SparkEntities:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["SparkEntities"]
