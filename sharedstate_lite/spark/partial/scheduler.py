"""Scheduling for partial state on Spark: the lookups and epochs of several callers share the micro-batches of a query.

A lookup of a hole needs several micro-batches, which are called *rounds*. Messages that operators send upwards or to a
base table in one round are the input of the next round. All open lookups share the rounds. The thread of one of the
waiting callers runs the rounds for all callers until its own request is done.

An epoch starts in its own micro-batch, which can be between two rounds of a lookup. The lookup then returns rows as of
that epoch. Requests start in the order of the calls. A lookup does not start until all epochs that were submitted
before it are complete.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...errors import Error
from ...storage.batch import Delta
from ...storage.encoding import Dictionary
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from .messages import EVICTED, OUT, REPORT, UPQUERY, BaseUpquery, DecodedMessage, decode_message, is_change, is_touch

MAX_RESTARTS = 2
"""If epochs have restarted a lookup this many times, the next epoch waits until the lookup is done."""


@dataclass
class Request:
    """A call whose caller waits until it is ``done``. ``out`` contains the messages that have arrived for it."""

    out: list[BinMessage] = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False


@dataclass
class LookupRequest(Request):
    """A lookup of keys of a view. ``messages(number, clock)`` creates the messages that start it in the bins."""

    messages: Callable[[int, int], list[BinMessage]] = lambda number, clock: []
    number: int = 0
    missing: int = 0
    """The number of bins that have not answered yet."""
    epoch: int = 0
    restarts: int = 0
    alone: bool = False
    """Whether it must not share rounds with other lookups, because one of them failed and it may be this one."""


@dataclass
class EpochRequest(Request):
    """A call of ``step``: ``deltas`` are the net changes by relation, and ``number`` is the number of the epoch."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    strings: Dictionary = field(default_factory=Dictionary)
    number: int = 0


@dataclass
class ExclusiveRequest(Request):
    """A call that starts only when no other request is open. Its function ``run`` runs its own rounds."""

    run: Callable[[], Any] = lambda: None
    result: Any = None


R = TypeVar("R", bound=Request)


class RoundScheduler(ABC):
    """Runs requests in rounds; see the module's docstring. A subclass runs the micro-batches."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[Request] = deque()
        self._busy = False
        self._lookups: dict[int, LookupRequest] = {}
        self._epoch_request: EpochRequest | None = None
        self._messages: list[BinMessage] = []
        """Messages to bins that are input of the next round."""
        self._touches: list[BinMessage] = []
        """Messages that only record the use of keys. They are sent with the next round but do not cause one."""
        self._upqueries: list[BaseUpquery] = []
        self._after_epoch = self._failed = False
        self._lookup_count = self.clock = self.rounds = 0
        self._draws = 0
        """The number of random evictions so far. It is part of the seed, so a restart does not repeat evictions."""
        self._evicted: list[BinMessage] = []
        self._told: set[str] = set()
        """The views about which a note was logged."""
        self.key_strings = Dictionary()
        """The dictionary for the strings in the keys of open upqueries."""

    # --- implemented by the engine ----------------------------------------------

    epoch = 0

    @abstractmethod
    def _run(self, messages: list[BinMessage] | Path, kind: RoundKind, epoch: int) -> list[BinMessage]:
        """Run one micro-batch. Returns its messages to the driver, and its messages to bins for the next round."""

    @abstractmethod
    def _answer_upqueries(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage]
    ) -> list[BinMessage] | Path:
        """Return the input of a micro-batch: ``messages``, and the responses of base tables as of ``epoch``."""

    @abstractmethod
    def _begin_epoch(self, request: EpochRequest, epoch: int) -> list[BinMessage]:
        """Check an epoch and write it to the base tables. Returns its messages. Raises the errors of ``step``."""

    @abstractmethod
    def _take_back(self, epoch: int, started: bool) -> None:
        """Remove changes after ``epoch`` from the base tables.

        ``started`` is whether a micro-batch of the next epoch has already run.
        """

    @abstractmethod
    def _commands(self, command: str, **more: Any) -> list[BinMessage]:
        """Return the messages that send a command to all bins."""

    @abstractmethod
    def _keep_budget(self) -> None:
        """Evict keys until the stored state is within the budget. Called when no messages are waiting."""

    @abstractmethod
    def _on_report(self, report: DecodedMessage, place: tuple[int, int]) -> None:
        """Process the report of the bin at ``place``, which is (stage, bin)."""

    # --- for callers ------------------------------------------------------------

    def _submit(self, request: R) -> R:
        """Queue a request and wait until it is done. Returns the request, or raises its error."""
        with self._condition:
            self._queue.append(request)
            while self._busy and not request.done:
                self._condition.wait()
            mine = not request.done
            self._busy = self._busy or mine
        if mine:
            try:
                while not request.done:
                    self._advance()
            finally:
                with self._condition:
                    self._busy = False
                    self._condition.notify_all()
        if request.error is not None:
            raise request.error
        return request

    # --- rounds -----------------------------------------------------------------

    @property
    def _idle(self) -> bool:
        return not (self._messages or self._upqueries or self._lookups or self._epoch_request)

    def _advance(self) -> None:
        """Start queued requests, run one micro-batch, and complete requests that have their answer."""
        try:
            if self._failed:
                self._recover()
        except BaseException as error:
            # The bins cannot be used, so all requests fail. The next call tries to recover again.
            while self._queue:
                request = self._queue.popleft()
                request.error, request.done = error, True
            return
        try:
            messages = self._start_requests()
            if self._messages or self._upqueries or messages:
                self._run_round(messages)
            if not (self._messages or self._upqueries):
                self._settle_requests()
        except BaseException as error:
            self._fail(error)

    def _start_requests(self) -> list[BinMessage]:
        """Start queued requests in order, until one has to wait. Returns the messages of the lookups."""
        messages: list[BinMessage] = []
        while self._queue:
            request = self._queue[0]
            if isinstance(request, ExclusiveRequest):
                if not self._idle or messages:
                    break
                self._queue.popleft()
                self._start_exclusive(request)
                continue
            if self._epoch_request is not None:
                break
            if isinstance(request, EpochRequest):
                if messages or (self._after_epoch and (self._messages or self._upqueries)):
                    break
                if any(lookup.restarts >= MAX_RESTARTS for lookup in self._lookups.values()):
                    break
                self._queue.popleft()
                self._start_epoch(request)
                break
            assert isinstance(request, LookupRequest)
            if self._lookups and (request.alone or any(x.alone for x in self._lookups.values())):
                break
            self._queue.popleft()
            messages += self._start_lookup(request)
        return messages

    def _start_lookup(self, request: LookupRequest) -> list[BinMessage]:
        self._lookup_count += 1
        self.clock += 1
        request.number, request.epoch, request.out = self._lookup_count, self.epoch, []
        # Do this before anything can fail. A request that is neither in the queue nor here would wait forever.
        self._lookups[request.number] = request
        messages = request.messages(request.number, self.clock)
        request.missing = len(messages)
        return messages

    def _start_exclusive(self, request: ExclusiveRequest) -> None:
        try:
            request.result = request.run()
        except BaseException as error:
            request.error = error
            self._failed = self._failed or not isinstance(error, Error) or bool(self._messages or self._upqueries)
        request.done = True

    def _start_epoch(self, request: EpochRequest) -> None:
        self.clock += 1
        number = request.number = self.epoch + 1
        try:
            out = self._run(self._begin_epoch(request, number), RoundKind.EPOCH, number)
        except BaseException as error:
            # The request is no longer in the queue, so report every failure to its caller. The epoch may already have
            # been written to some base tables.
            request.error, request.done = error, True
            self._take_back(self.epoch, started=False)
            if not isinstance(error, Error):
                raise
            return
        self._epoch_request, self._after_epoch = request, True
        self._collect(out)

    def _run_round(self, messages: list[BinMessage]) -> None:
        """Run one micro-batch on the waiting messages, the responses of base tables, and ``messages``."""
        epoch = self.epoch + (self._epoch_request is not None)
        upqueries, self._upqueries = self._upqueries, []
        waiting, self._messages, self._touches = [*self._messages, *self._touches, *messages], [], []
        kind = RoundKind.READ if messages and not upqueries else RoundKind.ROUND
        self._after_epoch = False
        given = self._answer_upqueries(upqueries, epoch, waiting) if upqueries else waiting
        self._collect(self._run(given, kind, self.epoch))

    def _run_rounds(self, messages: list[BinMessage], kind: RoundKind) -> None:
        """Run a micro-batch for an exclusive request, and all rounds that result from it."""
        self._collect(self._run([*messages, *self._touches], kind, self.epoch))
        self._touches = []
        while self._messages or self._upqueries:
            self._run_round([])

    def _collect(self, out: Sequence[BinMessage]) -> None:
        self.rounds += 1
        for message in out:
            if message.stage > 0:
                (self._touches if is_touch(message) else self._messages).append(message)
            elif message.channel == UPQUERY:
                self._upqueries.append(BaseUpquery.of(message, self.key_strings))
            elif message.channel == OUT:
                self._receive_rows(message)
            elif message.channel == EVICTED:
                self._evicted.append(message)
            elif message.channel == REPORT:
                report = decode_message(message, self.key_strings)
                self._on_report(report, (report.head["stage"], message.bin))

    def _receive_rows(self, message: BinMessage) -> None:
        if is_change(message):
            # After a restart, this can be a change from an epoch whose driver was killed.
            if self._epoch_request is not None:
                self._epoch_request.out.append(message)
            return
        request = self._lookups.get(json.loads(message.what)["id"])
        if request is not None:
            request.out.append(message)
            request.missing -= 1
            if not request.missing and self._epoch_request is None and request.epoch == self.epoch:
                request.done = True
                del self._lookups[request.number]

    def _settle_requests(self) -> None:
        """When no messages are left, complete the epoch, and restart the lookups that were open when it started."""
        self._evicted = []
        if self._epoch_request is not None:
            request, self._epoch_request = self._epoch_request, None
            self.epoch += 1
            request.done = True
            self._keep_budget()
        elif not self._lookups:
            self._keep_budget()
            self.key_strings = Dictionary()
        for lookup in list(self._lookups.values()):
            lookup.restarts += 1
            if lookup.epoch == self.epoch:
                raise Error(
                    "a lookup has not been answered, but no messages are left for it, so the state of the bins is "
                    "inconsistent; call the method again"
                )
            del self._lookups[lookup.number]
            self._queue.appendleft(lookup)

    # --- failures ---------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Fail or restart the open requests after a round has failed. `_recover` resets the bins afterwards."""
        self._failed = True
        lookups = list(self._lookups.values())
        if self._epoch_request is not None:
            self._epoch_request.error, self._epoch_request.done = error, True
        # Either the epoch or one of several lookups caused the error. Restart the lookups. If there was no epoch, run
        # them one at a time, so that only the lookup that caused the error fails.
        if isinstance(error, Error) and (self._epoch_request is not None or len(lookups) > 1):
            for lookup in reversed(lookups):
                lookup.alone = lookup.alone or self._epoch_request is None
                self._queue.appendleft(lookup)
            lookups = []
        for lookup in lookups:
            lookup.error, lookup.done = error, True
        self._lookups = {}
        if not isinstance(error, Error):
            while self._queue:
                other = self._queue.popleft()
                other.error, other.done = error, True
        if self._epoch_request is not None:
            # Do this now and not in `_recover`, because the caller is about to receive the error.
            self._take_back(self.epoch, started=True)

    def _recover(self) -> None:
        """Drop the open upqueries in the bins after a round has failed. If an epoch failed, also drop all state."""
        self._messages, self._touches, self._upqueries = [], [], []
        command = "abandon" if self._epoch_request is None else "forget"
        self._collect(self._run(self._commands(command), RoundKind.RECOVERY, self.epoch))
        self._messages, self._touches, self._upqueries = [], [], []
        self._failed, self._epoch_request = False, None
