"""Who turns the rounds of partial state: several callers' lookups and epochs over one stream, a micro-batch at a time.

What a lookup misses goes up through the feedback edge: questions that a micro-batch
sends upwards, or to a base table, are the input of the next one. So an answer takes as
many rounds as there are hops, and all lookups that are under way share them. Whoever
calls turns rounds until his answer is there, for everybody; the others wait for him.

An epoch is a micro-batch of its own, and may come between two rounds of a lookup. It
moves in the order of the calls; a lookup that comes after it waits until it is done, and
one that was under way is answered as of it.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import Error
from ...storage.batch import Delta
from ...storage.encoding import Strings
from ..bins.messages import BinMessage
from .messages import ASK, EVICTED, OUT, REPORT, UPQUERY, BaseUpquery, DecodedMessage, decode_message

TRIES = 2
"""How often a lookup that an epoch has overtaken is put again before epochs wait for it."""


@dataclass
class Request:
    """What a caller wants. ``out`` is what came for it."""

    out: list[BinMessage] = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False


@dataclass
class LookupRequest(Request):
    """Some keys of a view; ``messages`` makes the rows of the stream that ask for them, as of ``epoch``."""

    messages: Callable[[int, int], list[BinMessage]] = lambda number, clock: []
    number: int = 0
    left: int = 0
    epoch: int = 0
    tries: int = 0
    alone: bool = False


@dataclass
class EpochRequest(Request):
    """One epoch: its rows, net."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    strings: Strings = field(default_factory=Strings)
    number: int = 0


@dataclass
class ExclusiveRequest(Request):
    """Something that nothing else may be under way for: ``run`` turns its own rounds."""

    run: Callable[[], Any] = lambda: None
    result: Any = None


class RoundScheduler(ABC):
    """See the module."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._queue: deque[Request] = deque()
        self._busy = False
        self._lookups: dict[int, LookupRequest] = {}
        self._step: EpochRequest | None = None
        self._letters: list[BinMessage] = []
        self._lazy: list[BinMessage] = []
        self._questions: list[BaseUpquery] = []
        self._just_stepped = self._broken = False
        self._numbers = self.clock = self.rounds = 0
        self._draws = 0
        """How often keys were drawn: each draw has a number, so that those after a restart are new ones."""
        self._gone: list[BinMessage] = []
        self.names = Strings()
        """Strings of the keys that are asked for, as long as somebody waits."""

    # --- what the engine gives --------------------------------------------------

    epoch = 0

    @abstractmethod
    def _run(self, messages: list[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        """Run one micro-batch; returns what came out of it, whether for the driver or for bins of the next one."""

    @abstractmethod
    def _answers(self, asked: list[BaseUpquery], upto: int, rest: list[BinMessage]) -> list[BinMessage] | Path:
        """A micro-batch: ``rest``, and what the base tables held after epoch ``upto``, for those who asked."""

    @abstractmethod
    def _epoch_begins(self, job: EpochRequest, epoch: int) -> list[BinMessage]:
        """Check an epoch and write it to the base tables; returns its letters. Raises the kit's errors."""

    @abstractmethod
    def _take_back(self, epoch: int, late: bool) -> None:
        """The base tables as they were after ``epoch``; ``late`` if the epoch after it was a micro-batch already."""

    @abstractmethod
    def _orders(self, what: str, **more: Any) -> list[BinMessage]:
        """An order to all bins."""

    @abstractmethod
    def _keep_budget(self) -> None:
        """Nothing is under way: keep the budget."""

    @abstractmethod
    def _noted(self, letter: DecodedMessage, place: tuple[int, int]) -> None:
        """A bin tells what has happened, and what it holds."""

    # --- for callers ------------------------------------------------------------

    def _do(self, job: Any) -> Any:
        """Have a job done; returns it, or raises what it came to."""
        with self._turn:
            self._queue.append(job)
            while self._busy and not job.done:
                self._turn.wait()
            mine = not job.done
            self._busy = self._busy or mine
        if mine:
            try:
                while not job.done:
                    self._round()
            finally:
                with self._turn:
                    self._busy = False
                    self._turn.notify_all()
        if job.error is not None:
            raise job.error
        return job

    # --- rounds -----------------------------------------------------------------

    @property
    def _quiet(self) -> bool:
        return not (self._letters or self._questions or self._lookups or self._step)

    def _round(self) -> None:
        """One micro-batch, or the end of what is under way."""
        try:
            if self._broken:
                self._mend()
        except BaseException as error:
            # Nothing can be asked of the bins, so nobody waits any longer; the next call tries again.
            while self._queue:
                job = self._queue.popleft()
                job.error, job.done = error, True
            return
        try:
            asks = self._admit()
            if self._letters or self._questions or asks:
                self._turn_once(asks)
            if not (self._letters or self._questions):
                self._rest()
        except BaseException as error:
            self._fail(error)

    def _admit(self) -> list[BinMessage]:
        """Take jobs from the queue, in order, as far as they may begin; returns the lookups' rows."""
        asks: list[BinMessage] = []
        while self._queue:
            job = self._queue[0]
            if isinstance(job, ExclusiveRequest):
                if self._quiet and not asks:
                    self._queue.popleft()
                    self._errand(job)
                    continue
                break
            if self._step is not None:
                break
            if isinstance(job, EpochRequest):
                if asks or (self._just_stepped and (self._letters or self._questions)):
                    break
                if any(lookup.tries >= TRIES for lookup in self._lookups.values()):
                    break
                self._queue.popleft()
                self._start(job)
                break
            assert isinstance(job, LookupRequest)
            alone = job.alone or any(x.alone for x in self._lookups.values())
            if alone and self._lookups:
                break
            self._queue.popleft()
            asks += self._ask(job)
        return asks

    def _ask(self, job: LookupRequest) -> list[BinMessage]:
        self._numbers += 1
        self.clock += 1
        job.number, job.epoch, job.out = self._numbers, self.epoch, []
        # Before anything can fail: who is in neither the queue nor here waits for ever.
        self._lookups[job.number] = job
        rows = job.messages(job.number, self.clock)
        job.left = len(rows)
        return rows

    def _errand(self, job: ExclusiveRequest) -> None:
        try:
            job.result = job.run()
        except BaseException as error:
            job.error = error
            self._broken = self._broken or not isinstance(error, Error) or bool(self._letters or self._questions)
        job.done = True

    def _start(self, job: EpochRequest) -> None:
        """An epoch's own micro-batch."""
        self.clock += 1
        number = job.number = self.epoch + 1
        try:
            out = self._run(self._epoch_begins(job, number), "epoch", number)
        except BaseException as error:
            # It is in the queue no more, so whatever fails here has to be told; of two base tables one may be written.
            job.error, job.done = error, True
            self._take_back(self.epoch, late=False)
            if not isinstance(error, Error):
                raise
            return
        self._step, self._just_stepped = job, True
        self._collect(out)

    def _turn_once(self, asks: list[BinMessage], kind: str = "") -> None:
        """Send on what waits, with the answers of base tables, and collect what comes."""
        upto = self.epoch + (self._step is not None)
        questions, self._questions = self._questions, []
        rest, self._letters, self._lazy = [*self._letters, *self._lazy, *asks], [], []
        kind = kind or ("read" if asks and not questions else "round")
        self._just_stepped = False
        messages = self._answers(questions, upto, rest) if questions else rest
        self._collect(self._run(messages, kind, self.epoch))

    def _collect(self, out: Sequence[BinMessage]) -> None:
        self.rounds += 1
        for message in out:
            if message.stage > 0:
                lazy = '"k": "touch"' in message.what
                (self._lazy if lazy else self._letters).append(message)
            elif message.channel == UPQUERY:
                self._questions.append(BaseUpquery.of(message, self.names))
            elif message.channel == OUT:
                self._came(message)
            elif message.channel == EVICTED:
                self._gone.append(message)
            elif message.channel == REPORT:
                letter = decode_message(message, self.names)
                self._noted(letter, (letter.head["stage"], message.bin))

    def _came(self, message: BinMessage) -> None:
        if change(message):
            # Where no epoch is under way nobody waits for it (it was a killed driver's).
            if self._step is not None:
                self._step.out.append(message)
            return
        job = self._lookups.get(json.loads(message.what)["id"])
        if job is not None:
            job.out.append(message)
            job.left -= 1
            if not job.left and self._step is None and job.epoch == self.epoch:
                job.done = True
                del self._lookups[job.number]

    def _rest(self) -> None:
        """Nothing is on its way: epochs end here, and lookups that one has overtaken are put again."""
        self._gone = []
        if self._step is not None:
            step, self._step = self._step, None
            self.epoch += 1
            step.done = True
            self._keep_budget()
        elif not self._lookups:
            self._keep_budget()
            self.names = Strings()
        for job in list(self._lookups.values()):
            job.tries += 1
            if job.epoch == self.epoch:
                raise Error("a lookup has no answer and nothing is under way for it; the state is inconsistent")
            del self._lookups[job.number]
            self._queue.appendleft(job)

    def _turn_all(self, messages: list[BinMessage], kind: str) -> None:
        """Within an errand: a micro-batch of orders, and all rounds that follow from it."""
        self._collect(self._run([*messages, *self._lazy], kind, self.epoch))
        self._lazy = []
        while self._letters or self._questions:
            self._turn_once([], "round")

    # --- failures ---------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """A round has failed: nobody's question is answered any more. See :meth:`_mend` for the bins."""
        self._broken = True
        jobs = list(self._lookups.values())
        if self._step is not None:
            self._step.error, self._step.done = error, True
        elif isinstance(error, Error) and len(jobs) > 1:
            # One of them is the cause; the others shall not be told so.
            for job in reversed(jobs):
                job.alone = True
                self._queue.appendleft(job)
            jobs = []
        if self._step is not None and isinstance(error, Error):
            for job in reversed(jobs):
                self._queue.appendleft(job)
            jobs = []
        for job in jobs:
            job.error, job.done = error, True
        self._lookups = {}
        if not isinstance(error, Error):
            while self._queue:
                other = self._queue.popleft()
                other.error, other.done = error, True
        if self._step is not None:
            # At once: its caller is told that it has not happened.
            self._take_back(self.epoch, late=True)

    def _mend(self) -> None:
        """After a failed round: if it was an epoch's, all keys become holes; else only the questions end."""
        self._letters, self._lazy, self._questions = [], [], []
        self._collect(self._run(self._orders("abandon" if self._step is None else "forget"), "mend", self.epoch))
        self._letters, self._lazy, self._questions = [], [], []
        self._broken, self._step = False, None


def change(message: BinMessage) -> bool:
    """Whether a message is a view's change, as an epoch makes it, and no answer to a lookup."""
    return message.stage == 0 and message.channel == OUT and "id" not in json.loads(message.what)


__all__ = ["ASK", "RoundScheduler", "EpochRequest", "ExclusiveRequest", "Request", "LookupRequest", "change"]
