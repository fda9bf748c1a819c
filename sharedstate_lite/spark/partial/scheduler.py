"""Scheduling of partial state on Spark: lookups and epochs of several callers share the micro-batches of one stream.

A lookup of a hole takes several micro-batches, called *rounds*: what operators send upwards or to a base table in one
round is the input of the next. All open lookups share the rounds. The thread of one waiting caller runs them, for all
callers, until its own request is done.

An epoch starts in a micro-batch of its own, which may come between two rounds of a lookup; the lookup is then answered
as of that epoch. Requests start in the order of the calls. No lookup starts before an epoch that was submitted earlier
is complete.
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
from ..bins.messages import BinMessage
from .messages import EVICTED, OUT, REPORT, UPQUERY, BaseUpquery, DecodedMessage, decode_message, is_change, is_touch

MAX_RESTARTS = 2
"""Epochs wait for a lookup that other epochs have restarted this often."""


@dataclass
class Request:
    """What a caller waits for. ``out`` are the messages that arrived for it."""

    out: list[BinMessage] = field(default_factory=list)
    error: BaseException | None = None
    done: bool = False


@dataclass
class LookupRequest(Request):
    """A lookup of keys of a view. ``messages`` makes its messages from the lookup's number and the clock."""

    messages: Callable[[int, int], list[BinMessage]] = lambda number, clock: []
    number: int = 0
    missing: int = 0
    """How many bins have not answered yet."""
    epoch: int = 0
    restarts: int = 0
    alone: bool = False
    """Whether it must not share rounds: one of several lookups failed, and it may be this one."""


@dataclass
class EpochRequest(Request):
    """One epoch: its net changes by relation."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    strings: Dictionary = field(default_factory=Dictionary)
    number: int = 0


@dataclass
class ExclusiveRequest(Request):
    """A call during which nothing else may be open; ``run`` runs its own rounds."""

    run: Callable[[], Any] = lambda: None
    result: Any = None


R = TypeVar("R", bound=Request)


class RoundScheduler(ABC):
    """See the module."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[Request] = deque()
        self._busy = False
        self._lookups: dict[int, LookupRequest] = {}
        self._epoch_request: EpochRequest | None = None
        self._messages: list[BinMessage] = []
        """Messages to bins, for the next round."""
        self._touches: list[BinMessage] = []
        """Messages that only record the use of keys; they cause no round of their own."""
        self._upqueries: list[BaseUpquery] = []
        self._after_epoch = self._failed = False
        self._lookup_count = self.clock = self.rounds = 0
        self._draws = 0
        """How many random evictions there were. The number is part of the seed, so a restart repeats none."""
        self._evicted: list[BinMessage] = []
        self.key_strings = Dictionary()
        """The dictionary of open upqueries' keys."""

    # --- what the engine provides -----------------------------------------------

    epoch = 0

    @abstractmethod
    def _run(self, messages: list[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        """Run one micro-batch; returns its messages to the driver and those to bins for the next round."""

    @abstractmethod
    def _answer_upqueries(
        self, upqueries: list[BaseUpquery], epoch: int, messages: list[BinMessage]
    ) -> list[BinMessage] | Path:
        """The input of a micro-batch: ``messages``, and the responses of base tables as of ``epoch``."""

    @abstractmethod
    def _begin_epoch(self, request: EpochRequest, epoch: int) -> list[BinMessage]:
        """Check an epoch and write it to the base tables; returns its messages. Raises the errors of ``step``."""

    @abstractmethod
    def _take_back(self, epoch: int, started: bool) -> None:
        """Remove changes after ``epoch`` from base tables; ``started``: the next epoch had a micro-batch already."""

    @abstractmethod
    def _commands(self, command: str, **more: Any) -> list[BinMessage]:
        """A command to all bins."""

    @abstractmethod
    def _keep_budget(self) -> None:
        """Evict until the budget is kept; called when nothing is open."""

    @abstractmethod
    def _on_report(self, report: DecodedMessage, place: tuple[int, int]) -> None:
        """Take in the report of a bin, at (stage, bin)."""

    # --- for callers ------------------------------------------------------------

    def _submit(self, request: R) -> R:
        """Wait until a request is done; returns it, or raises its error."""
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
        """Start requests, run one micro-batch, and complete what has its answer."""
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
        """Start queued requests, in order, as far as they may start; returns the messages of lookups."""
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
        # Before anything can fail: a request that is in neither the queue nor here would wait without end.
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
            out = self._run(self._begin_epoch(request, number), "epoch", number)
        except BaseException as error:
            # Already dequeued: report every failure to the caller. Some base tables may be written already.
            request.error, request.done = error, True
            self._take_back(self.epoch, started=False)
            if not isinstance(error, Error):
                raise
            return
        self._epoch_request, self._after_epoch = request, True
        self._collect(out)

    def _run_round(self, messages: list[BinMessage], kind: str = "") -> None:
        """One micro-batch: what waits, the responses of base tables, and ``messages``."""
        epoch = self.epoch + (self._epoch_request is not None)
        upqueries, self._upqueries = self._upqueries, []
        waiting, self._messages, self._touches = [*self._messages, *self._touches, *messages], [], []
        kind = kind or ("read" if messages and not upqueries else "round")
        self._after_epoch = False
        given = self._answer_upqueries(upqueries, epoch, waiting) if upqueries else waiting
        self._collect(self._run(given, kind, self.epoch))

    def _run_rounds(self, messages: list[BinMessage], kind: str) -> None:
        """For exclusive requests: a micro-batch, and all rounds that follow from it."""
        self._collect(self._run([*messages, *self._touches], kind, self.epoch))
        self._touches = []
        while self._messages or self._upqueries:
            self._run_round([], "round")

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
            # After a restart there may be changes of the epoch of a driver that was killed.
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
        """With no message left: complete the epoch, and restart lookups that were open when it came."""
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
                    "a lookup has no answer and no message is open for it: the state of the bins is inconsistent"
                )
            del self._lookups[lookup.number]
            self._queue.appendleft(lookup)

    # --- failures ---------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """A round has failed: end or restart the open requests. `_recover` then resets the bins."""
        self._failed = True
        lookups = list(self._lookups.values())
        if self._epoch_request is not None:
            self._epoch_request.error, self._epoch_request.done = error, True
        # The epoch caused the error, or one of several lookups did. Restart the lookups, these one at a time.
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
            # At once, because its caller learns now that the epoch has failed.
            self._take_back(self.epoch, started=True)

    def _recover(self) -> None:
        """After a failed round: drop open upqueries. If an epoch failed, drop all state of the bins with them."""
        self._messages, self._touches, self._upqueries = [], [], []
        command = "abandon" if self._epoch_request is None else "forget"
        self._collect(self._run(self._commands(command), "recovery", self.epoch))
        self._messages, self._touches, self._upqueries = [], [], []
        self._failed, self._epoch_request = False, None
