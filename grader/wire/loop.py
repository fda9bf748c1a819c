"""The open-loop generator: one thread with one epoll object, which sends each request when it is due.

A request is sent even if earlier requests are unanswered. Latency is measured from the due time, so a system that
stalls cannot hide its latency by slowing down the requests (coordinated omission). A connection is opened when a
request is due and no connection is free, and is then kept open. A line that has just answered is polled again before it
is reused, because the other side may close it after the answer.

``run`` is one long function on purpose: at 10,000 requests per second, one function call per request costs half a
percent of a core.

Source: Gil Tene, How NOT to Measure Latency, 2013.
"""

from __future__ import annotations

import select
import time
from array import array
from collections import deque
from collections.abc import Callable

import numpy as np

from ..terms import Status
from .http import TO_EOF, Malformed, read_head
from .jobs import EACH, ROOM, Job, Result, Target, Word
from .line import IDLE, Line, Refused
from .ticks import Timer

_TICK = 0.02
"""Seconds between two checks for timeouts."""
_BATCH = 128
"""The maximum number of requests to send before reading answers, and of answers to read before sending requests."""
_READ = 16_384


class Loop:
    """Runs jobs one after another. Connections stay open between them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._timer = Timer()
        # Edge-triggered, so the timer does not have to be read before it is armed again.
        self._epoll.register(self._timer.fd, select.EPOLLIN | select.EPOLLET)
        self._lines: dict[int, Line] = {}
        self._idle: dict[Target, list[Line]] = {}
        self._heads: dict[bytes, int] = {}
        self._closers: set[Target] = set()
        self._ended = self._opened = self._room = 0

    def close(self) -> None:
        """Close every connection."""
        for line in list(self._lines.values()):
            self._drop(line)
        self._epoll.close()
        self._timer.close()

    def hang_up(self) -> None:
        """Close all connections between two jobs."""
        for line in list(self._lines.values()):
            self._drop(line)

    def run(self, job: Job, word: Callable[[Word], None], stopped: Callable[[], bool]) -> Result:
        """Run a job. ``word`` is called with progress. When ``stopped`` returns true, unsent requests are dropped."""
        n = len(job.middles)
        clock, poll = time.monotonic_ns, self._epoll.poll
        start = job.start or clock()
        cpu = time.process_time()
        due = array("q", (job.due + start).tobytes())
        shape_of = array("q", job.shape.astype(np.int64).tobytes())
        shapes = [(s.target, s.before, s.after) for s in job.shapes]
        middles, bodies = job.middles, [b""] * n if job.bodies else None
        pools = [self._idle.setdefault(target, []) for target in job.targets]
        sent, done = array("q", bytes(8 * n)), array("q", bytes(8 * n))
        status, waited = array("h", bytes(2 * n)), bytearray(n)
        self._job, self._start, self._sent, self._done, self._status = job, start, sent, done, status
        self._began, self._ended, self._opened = array("q", bytes(8 * n)), 0, 0
        self._room = ROOM + EACH * n
        self._order: list[int] = []
        self._oldest = self._late = self._before = 0
        began, order, heads, lines, timer = self._began, self._order, self._heads, self._lines, self._timer
        while len(lines) > job.connections and self._free_one(None):
            continue  # an earlier job had more connections
        waiting: deque[int] = deque()
        cooling: list[tuple[list[Line], Line]] = []
        upcoming, armed, beat, tick = 0, 0, start, 0
        told, told_sent = job.tell_after == 0, job.tell_sent == 0
        ended = 0
        while ended + self._ended < n:
            now = clock()
            pause = _TICK
            if (cooling and waiting) or (upcoming < n and due[upcoming] <= now):
                pause = 0.0
            elif upcoming < n and armed != due[upcoming] < now + 20_000_000:
                armed = due[upcoming]
                timer.arm(armed)
            events = poll(pause, _BATCH)
            cooled, cooling = cooling, []
            for fd, _ in events:
                if fd == timer.fd:
                    continue
                line = lines[fd]
                i = line.request
                if i == IDLE:
                    self._closed(line)
                    continue
                if line.connecting:
                    self._connected(line)
                    continue
                try:
                    data = line.recv(_READ)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not line.parts:
                    head, _, body = data.partition(b"\r\n\r\n")
                    code = heads.get(head, 0)
                    if code and len(body) == code >> 10:
                        done[i] = line.at = clock()
                        status[i] = code & 1023
                        if bodies is not None:
                            self._room -= len(body)
                            bodies[i] = body if self._room >= 0 else b""
                        ended += 1
                        line.request = IDLE
                        line.served += 1
                        cooling.append((pools[line.target], line))
                        continue
                if self._slowly(line, data, bodies):
                    cooling.append((pools[line.target], line))
            for pool, line in cooled:
                if line.fd >= 0:
                    if self._closers and line.where in self._closers:
                        self._drop(line)
                    else:
                        pool.append(line)
            now = clock()
            if now > tick:
                tick = now + 20_000_000
                self._expire(now, ended + self._ended)
                if stopped() or self._late >= job.silence > 0:
                    for i in (*waiting, *range(upcoming, n)):
                        self._end(i, Status.DROPPED)
                    waiting.clear()
                    upcoming = n
                if now > beat:
                    beat = now + job.beat
                    word(Word(len(order), ended + self._ended, now))
            if not told and ended + self._ended >= job.tell_after:
                told = True
                word(Word(len(order), ended + self._ended, clock()))
            least = now - job.patience if job.patience else 0
            while waiting and due[waiting[0]] < least:
                self._end(waiting.popleft(), Status.DROPPED)
            last = min(upcoming + _BATCH, n)
            while True:
                if waiting:
                    i = waiting[0]
                elif upcoming < last and due[upcoming] <= now:
                    i = upcoming
                else:
                    break
                target, before, after = shapes[shape_of[i]]
                pool = pools[target]
                while pool:
                    line = pool.pop()
                    if line.fd >= 0:
                        break
                else:
                    if len(lines) >= job.connections and not self._free_one(pool):
                        while upcoming < n and due[upcoming] <= now:
                            waited[upcoming] = 1
                            waiting.append(upcoming)
                            upcoming += 1
                        break
                    if waiting:
                        waiting.popleft()
                    else:
                        upcoming += 1
                    self._open(i, target)
                    continue
                if waiting:
                    waiting.popleft()
                else:
                    upcoming += 1
                line.request, line.target = i, target
                began[i] = sent[i] = clock()
                order.append(i)
                try:
                    line.send(before + middles[i] + after)
                except OSError:
                    self._drop(line)
                    self._end(i, Status.RESET)
            if not told_sent and len(order) >= job.tell_sent:
                told_sent = True
                word(Word(len(order), ended + self._ended, clock()))
        for pool, line in cooling:
            pool.append(line)
        return self._result(bodies, waited, cpu)

    def _result(self, bodies: list[bytes] | None, waited: bytearray, cpu: float) -> Result:
        """Return the result of the job that has just ended."""
        return Result(
            np.frombuffer(self._sent, np.int64).copy(),
            np.frombuffer(self._done, np.int64).copy(),
            np.frombuffer(self._status, np.int16).copy(),
            np.frombuffer(waited, np.uint8).copy(),
            bodies or [],
            cpu=time.process_time() - cpu,
            opened=self._opened,
        )

    def _end(self, i: int, status: int) -> None:
        """Record the status and the time of the end of a request. The fast path does this inline."""
        self._status[i] = status
        self._done[i] = time.monotonic_ns()
        self._ended += 1

    def _drop(self, line: Line) -> None:
        """Close a line. A pool can still contain it, and recognizes it by its fd."""
        self._lines.pop(line.fd, None)
        line.close()

    def _closed(self, line: Line) -> None:
        """Close a line that the other side has closed. If the server closes every line, no longer reuse its lines."""
        if line.closes_always(time.monotonic_ns()):
            self._closers.add(line.where)
        self._drop(line)

    def _free_one(self, wanted: list[Line] | None) -> bool:
        """Close an idle line of any pool except ``wanted``. Returns false if there is none."""
        for pool in self._idle.values():
            while pool is not wanted and pool:
                line = pool.pop()
                if line.fd >= 0:
                    self._drop(line)
                    return True
        return False

    def _open(self, i: int, target: int) -> None:
        """Open a line for request i, and send the request if the connection is established immediately."""
        self._began[i] = time.monotonic_ns()
        self._order.append(i)
        try:
            line = Line(target, self._job.targets[target])
        except Refused:
            return self._end(i, Status.REFUSED)
        except OSError:
            return self._end(i, Status.UNCONNECTED)
        self._opened += 1
        self._lines[line.fd] = line
        line.request = i
        line.watch(self._epoll)
        if not line.connecting:
            self._send(line)

    def _connected(self, line: Line) -> None:
        """Send the request of a line that has connected, or end the request if connecting failed."""
        i = line.request
        try:
            line.connected()
        except OSError as error:
            self._drop(line)
            return self._end(i, Status.REFUSED if isinstance(error, Refused) else Status.UNCONNECTED)
        self._epoll.modify(line.fd, select.EPOLLIN)
        self._send(line)

    def _send(self, line: Line) -> None:
        """Send the request of a new line."""
        i = line.request
        shape = self._job.shapes[int(self._job.shape[i])]
        self._sent[i] = time.monotonic_ns()
        try:
            line.send(shape.before + self._job.middles[i] + shape.after)
        except OSError:
            self._drop(line)
            self._end(i, Status.RESET)

    def _slowly(self, line: Line, data: bytes, bodies: list[bytes] | None) -> bool:
        """Parse an answer that arrives in pieces or has a new head. Returns whether the line is free again."""
        i = line.request
        try:
            answer = line.more(data)
            if answer is None:
                return False
        except (Malformed, ConnectionResetError) as error:
            self._closed(line)
            self._end(i, Status.GARBAGE if isinstance(error, Malformed) else Status.RESET)
            return False
        head, _, body = line.parts[0].partition(b"\r\n\r\n")
        self._end(i, answer.status)
        line.at = self._done[i]
        if bodies is not None:
            self._room -= len(answer.body)
            bodies[i] = answer.body if self._room >= 0 else b""
        if not answer.keep:
            self._drop(line)
            return False
        said = read_head(head)
        if said.status >= 200 and said.length > TO_EOF + 1 and said.length == len(body):
            if len(self._heads) > 256:  # the Date header changes every second
                self._heads.clear()
            self._heads[head] = said.length << 10 | said.status
        line.ready()
        return True

    def _expire(self, now: int, ended: int) -> None:
        """End requests that have waited longer than the timeout. ``ended``: how many requests have ended so far."""
        order, done, began, timeout = self._order, self._done, self._began, self._job.timeout
        at, late = self._oldest, set()
        while at < len(order) and (done[order[at]] or began[order[at]] + timeout < now):
            if not done[order[at]]:
                late.add(order[at])
            at += 1
        self._oldest = at
        if late:
            self._late = len(late) + (self._late if ended == self._before else 0)
            self._before = ended + len(late)
            for line in [line for line in self._lines.values() if line.request in late]:
                self._drop(line)
                self._end(line.request, Status.TIMEOUT if self._sent[line.request] else Status.UNCONNECTED)
