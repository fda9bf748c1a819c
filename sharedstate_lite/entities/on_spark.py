"""Entities on Spark: the bins of `EntityBin` in one stateful operator of a streaming query.

Each micro-batch is a round. A bin handles the messages that were sent to it in the micro-batch before. Its state is in
Spark's state store. The driver receives all messages to other bins, and writes them, with new requests, into the input
file of the next micro-batch. The files are those of `spark.query`: an input file is logged before Spark
can read it, and an output file is written once. If Spark gives up a micro-batch, an empty file replaces its input, and
`SparkEntities.run` raises. The messages are then sent again with the next call.

The folder contains each request, each answer, and the messages of the last micro-batch. After ``kill -9``,
`SparkEntities` finishes the micro-batch that was in progress and continues with the messages that it sent. Each block
has one effect. A request has one answer, which is returned if the request is sent again.

Spark gives the messages to a bin in any order, and a micro-batch that runs again must decide as it did before. A bin
therefore handles them in the order of their requests. A request has at most one message in a micro-batch, because a
method waits for its answer.

There are no transactions: `transactional` has no effect, as with `rounds`.

    with SparkEntities(Program(Item), "folder", bins=8) as front:
        front.run([AskMessage(0, Item["apple"], "__init__", ("apple", 3), None)])
        front.run([AskMessage(1, Item["apple"], "put", (2,), None)])     # {1: 5}
        front.state()["Item", "apple"]["stock"]                          # 5, from Spark's state store
        front.rounds                                                     # 2 micro-batches

Source: Psarakis et al., Stateful Entities, EDBT 2024; Spark 4's transformWithState.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, Error, is_integer, shorten
from ..spark.bins.bin import BinFactory
from ..spark.bins.bin_placement import grouping_keys
from ..spark.bins.messages import OUT, BinMessage, Store
from ..spark.bins.stored_bin import StoredBin
from ..spark.driver.store import StateReader
from ..spark.query.query import Query
from ..spark.session.checks import stateful, usable
from ..spark.session.paths import absolute, made
from ..spark.session.session import session as running
from ..system.scratch import lock_folder
from .bins import FRONT, AnswerMessage, AskMessage, EntityBin, EntityMessage, Name, State, Waiting, bin_of, outcome
from .declare import copied
from .program import Program
from .serve import head as version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "entities.json"
FORMAT = 1
_IN, _PART = 1, "entities"


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
    """A bin that handles messages in the order of their requests. ``touched`` has the entities that got a message."""

    def __init__(self, program: Program, number: int, bins: int) -> None:
        super().__init__(program, number, bins)
        self.touched: set[Name] = set()

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of one round. ``touched`` is then of this round."""
        self.touched = set()
        return super().handle(sorted(messages, key=lambda message: message.request))

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message, and note its entity."""
        to = message if isinstance(message, AskMessage) else message.back
        assert to is not None
        self.touched.add((to.who.cls, to.who.key))
        return super().one(message)


@dataclass
class EntityBinFactory(BinFactory):
    """The data from which a worker builds bins. ``make`` returns the program."""

    def bin(self, stage: int, number: int) -> StoredBin:
        """Return a new bin without state."""
        return StoredEntities(self, stage, number)


@dataclass
class StoredEntities(StoredBin):
    """A bin of entities, which is also in a state store.

    A run is a blob with the entities that got a message in a micro-batch. A new run is merged with older ones that are
    less than twice as large, so a bin of n entities has at most log2(n) + 1 runs. The names of runs are numbers that
    increase. No run says that an entity was removed: only a failed ``__init__`` removes one, in the round that made it.
    """

    def __post_init__(self) -> None:
        self.parts, self.stored = {}, {}
        self.entities = OrderedBin(self.plan.make(), self.number, self.plan.bins)
        self.runs: dict[str, set[Name]] = {}

    def run(self, messages: list[BinMessage]) -> list[BinMessage]:
        """Handle the messages of one micro-batch. Return what the bin sends, as one message to the driver for each bin
        to which it sends; ``what`` is the number of this bin."""
        sent: dict[int, list[EntityMessage]] = {}
        for to, message in self.entities.handle(each for given in messages for each in unpack(given.blob)):
            sent.setdefault(to, []).append(message)
        self.entities.touched &= self.entities.state.keys()
        self.changed = bool(self.entities.touched)
        return [BinMessage(0, self.number, OUT, str(to), pack(sent[to])) for to in sorted(sent)]

    def save(self, store: Store) -> None:
        """Write the entities that the last `run` touched, and the head with a new token."""
        self.token = sha256(f"{self.plan.salt} {self.token}".encode()).hexdigest()[:16]
        new, removed = f"{int(max(self.runs, default='0')) + 1:08d}", []
        names = set(self.entities.touched)
        while self.runs and len(self.runs[last := max(self.runs)]) < 2 * len(names):
            names |= self.runs.pop(last)
            removed.append((_PART, last))
        self.runs[new] = names
        blob = pickle.dumps({name: self.entities.state[name] for name in sorted(names)})
        head = {"token": self.token, "port": self.port, "runs": sorted(self.runs)}
        store.write(json.dumps(head), [(_PART, new, blob)], removed)

    def load(self, head: dict[str, Any], store: Store) -> None:
        """Replace the state by the one in the store."""
        blobs = {name: store.run(_PART, name) for name in head["runs"]}
        self.token = head["token"]
        self.runs = {name: set(pickle.loads(blob)) for name, blob in blobs.items()}
        self.entities.state = dict(entities_in(blobs))


class SparkEntities:
    """The entities of a program on Spark, with the interface of `Epochs` and `Locks`. It is a context manager.

    ``folder`` is the checkpoint; if it exists already, the program continues from it. ``bins`` cannot change then.
    ``session`` is a running session (default: the one of ``ss.spark.session()``). ``answers`` has all answers by
    request: values, or the exceptions that ended the requests.

    Raises CheckpointError if the folder belongs to another program, to another version of the kit or of Python, or to
    another number of bins, if another process uses it, or if one of its files is lost. Raises Error for a session that
    cannot be used, and for a number of bins that is not an integer of at least 1.
    """

    def __init__(
        self, program: Program, folder: str | os.PathLike[str], bins: int = 8, session: SparkSession | None = None
    ) -> None:
        if not is_integer(bins) or bins < 1:
            raise Error(f"bins={shorten(bins)}: pass an integer of at least 1")
        self.program, self.bins, location = program, int(bins), absolute(folder, "folder")
        self.session = running() if session is None else session
        usable(self.session, "a program of entities")
        self.answers: dict[int, Any] = {}
        self._questions: dict[int, int] = {}
        self._waiting: list[BinMessage] = []
        self._labels = grouping_keys(self.bins)
        self._lock = lock_folder(made(location, "folder"))
        try:
            self._claim(location)
            # Each start has a new generation, so no worker uses the bins of an earlier one.
            factory = EntityBinFactory(secrets.token_hex(8), self.bins, lambda: program)
            numbers = {label: number for number, label in enumerate(self._labels)}
            self._query = Query(self.session, made(location / "query"), factory, 1, numbers, 0)
            self._query.keep_from = lambda: 0  # the answers are only there
            self._query.start()
            for entry in self._query.inbox.entries:
                if not entry.void:
                    self._ended(entry.about["requests"], self._query.output(entry.number))
        except BaseException:
            self.close()
            raise

    def _claim(self, location: Path) -> None:
        """Write the file that says whose folder this is, or compare with it."""
        file, mine = location / FILE, {"format": FORMAT} | version_of(self.program) | {"bins": self.bins}
        if file.exists():
            try:
                found = dict(json.loads(file.read_text()))
            except (ValueError, TypeError) as error:
                raise CheckpointError(f"{file} cannot be read ({error}); use another folder") from error
            for name, value in mine.items():
                if found.get(name) != value:
                    raise CheckpointError(f"{location}: the {name} of this folder is {found.get(name)}, not {value}; "
                                          "use the same, or another folder")  # fmt: skip
            return
        if any(not each.name.startswith(".") for each in location.iterdir()):
            raise CheckpointError(f"{location} is not empty and has no {FILE}; use a new folder")
        stateful(self.session, "a program of entities")
        unfinished = file.with_name(f".{FILE}")
        unfinished.write_text(json.dumps(mine))
        unfinished.replace(file)

    @property
    def rounds(self) -> int:
        """The number of micro-batches in the folder."""
        return sum(not entry.void for entry in self._query.inbox.entries)

    def run(self, requests: Iterable[AskMessage]) -> dict[int, Any]:
        """Run requests, and all that a killed driver left unfinished, to the end. Return the answers by request.

        A request that is in the folder already is not run again; its answer is returned. Raises Error, before anything
        is sent, if it was another question, and NotPlain if arguments are not data. If Spark gives up a micro-batch,
        its error is raised, and the new requests in this micro-batch are not in the folder.
        """
        asked = [each._replace(args=copied(each.args, f"request {each.request}")) for each in requests]
        questions, new = dict(self._questions), []
        for each in asked:
            question = zlib.crc32(repr((each.who, each.what, each.args)).encode())
            if each.request not in questions:
                new.append(each)
            if questions.setdefault(each.request, question) != question:
                raise Error(f"request {each.request} was another question before; give each request its own number")
        while new or self._waiting:
            self._round(new, [(each.request, questions[each.request]) for each in new])
            new = []
        return {each.request: self.answers[each.request] for each in asked}

    def _round(self, new: list[AskMessage], questions: list[tuple[int, int]]) -> None:
        """Run one micro-batch, with the messages that wait and new requests."""
        by: dict[int, list[EntityMessage]] = {}
        for each in new:
            by.setdefault(bin_of(each.who, self.bins), []).append(each)
        messages = self._waiting + [self._message(to, pack(by[to])) for to in sorted(by)]
        number = len(self._query.inbox.entries)
        self._ended(questions, self._query.run(messages, "epoch", number + 1, {"requests": questions}))
        self._query.raise_interrupt()

    def _message(self, to: int, blob: bytes) -> BinMessage:
        return BinMessage(1, self._labels[to], _IN, "", blob)

    def _ended(self, questions: Iterable[tuple[int, int]], sent: list[BinMessage]) -> None:
        """Take over what a micro-batch has sent: messages for the next one, and answers."""
        self._questions |= dict(questions)
        self._waiting = []
        for to, blob in ((int(each.what), each.blob) for each in sent):
            if to != FRONT:
                self._waiting.append(self._message(to, blob))
            else:
                ended = [each for each in unpack(blob) if isinstance(each, AnswerMessage)]
                self.answers |= {each.request: outcome(self.program, each) for each in ended}

    def state(self) -> dict[Name, State]:
        """Return the entities after the last micro-batch, by class and key, as Spark's state reader reads them."""
        if not self._query.committed:
            return {}
        reader = StateReader(self.session, self._query.checkpoint, lambda: SimpleNamespace(stages=1))
        runs: dict[int, dict[str, bytes]] = {}
        for label, _, name, blob in reader.runs(1).collect():
            runs.setdefault(label, {})[name] = bytes(blob)
        return {name: state for bin in runs.values() for name, state in entities_in(bin).items()}

    def close(self) -> None:
        """Stop the query. To continue, start `SparkEntities` with the same folder. Closing again has no effect."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            with contextlib.suppress(AttributeError):  # the query was not made
                self._query.close()
            os.close(lock)

    def __enter__(self) -> SparkEntities:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(
    program: Program,
    requests: Iterable[AskMessage],
    folder: str | os.PathLike[str],
    bins: int = 8,
    session: SparkSession | None = None,
) -> dict[int, Any]:
    """Run requests on Spark, and return the answers by request; see `SparkEntities`, which this starts and closes."""
    with SparkEntities(program, folder, bins, session) as front:
        return front.run(requests)


__all__ = ["SparkEntities", "run"]
