"""Moves bins between worker processes while rows arrive, and measures the latency of every epoch.

The driver has a channel to each worker, and the workers have channels to each other. All channels are pipes: first in,
first out. The driver sends each row to the worker that owns the row's bin. To move bins, it writes a *Move* into the
channel of every worker, before the rows of an epoch. So all workers agree which rows are before the Move:

- The old owner processes all rows before the Move. Then it sends the state of the bin, with its pending timers, to the
  new owner, and continues with the bins that it still has.
- The new owner processes rows of its other bins at once. Rows of this bin wait until its state has arrived. A state
  that arrives before the Move is kept aside until the Move: the two come through different channels, in any order.

At every position in the stream, a bin has one owner. A worker waits for another one only before it sends a bin that has
not arrived yet. It sends in a thread, so two workers can send each other large bins without waiting for each other. But
while it copies the state of a bin that it sends, it processes no rows.

If a worker is killed, `WorkerProcesses.restore` starts new ones from the last checkpoint, and sends them the rows and
Moves after the checkpoint again. A bin whose Move was under way is then moved again.

>>> moved = []
>>> one, two = (BinWorker(n, Pauses(bins=1), lambda *message: moved.append(message), print) for n in (1, 2))
>>> one.own, _ = {0}, two.state.take([0])
>>> move = [BinMove(bin=0, source=1, target=2)]
>>> one.step(1, np.array([[7, 7, 8], [10, 20, 30]]))          # keys, and values; prints the epoch, and the bytes sent
1 0
>>> one.step(2, np.array([[], []], dtype=int), move)
2 96
>>> two.step(2, np.array([[7], [40]]), move)                  # waits for the bin
>>> two.arrive(*moved[0][1:])
2 0
>>> two.state.table()[:, :3].tolist()                         # key, rows, sum
[[7, 3, 70], [8, 1, 30]]

Source: Mai et al., Chi: A scalable and programmable control plane for distributed stream processing systems, VLDB 2018
(control messages in data channels); Hoffmann et al., Megaphone, VLDB 2019 (moving state and pending timers by bin).
"""

from __future__ import annotations

import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import combinations
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import StateError
from ..managed import bins
from ..managed.bins import BinMove
from ..plan.nodes import Type
from ..storage.batch import hash_rows
from ..storage.encoding import Dictionary, Words

NEVER = int(np.iinfo(np.int64).max)
"""The time of a timer that is not set."""


class Pauses:
    """For each key: its rows, the sum of their values, and how often a pause of ``quiet`` epochs followed a row.

    A row is a key and a value. Each row sets the timer of its key to ``quiet`` epochs later, and a timer that fires
    counts a pause. The state of a bin is a table int64[5, n], sorted by key: key, rows, sum, pauses, and the time of
    the pending timer. ``keys`` are there from the start, with 40 bytes each; others are added when they appear.
    """

    def __init__(self, keys: Iterable[int] = (), bins: int = 256, quiet: int = 3) -> None:
        self.bins, self.quiet = bins, quiet
        known = np.unique(np.fromiter(keys, dtype=np.int64))
        where = key_bins(known, bins)
        parts = np.split(known[where.argsort(kind="stable")], np.bincount(where, minlength=bins).cumsum()[:-1])
        self.tables = {number: _table(part) for number, part in enumerate(parts)}
        self._timers: dict[int, dict[int, Words]] = {number: {} for number in self.tables}

    def step(self, time: int, rows: Words, own: Sequence[int]) -> None:
        """Process the rows int64[2, n] of an epoch. All are in the bins ``own``, whose watermark is then ``time``."""
        where = key_bins(rows[0], self.bins)
        rows = rows[:, where.argsort(kind="stable")]
        ends = [0, *np.bincount(where, minlength=self.bins).cumsum().tolist()]
        for number in own:
            if ends[number] < ends[number + 1]:
                self._update(number, time, rows[:, ends[number] : ends[number + 1]])
            if time in self._timers[number]:
                table = self.tables[number]
                at = table[0].searchsorted(self._timers[number].pop(time))
                at = at[table[4, at] == time]  # later rows have replaced the other timers
                table[3, at] += 1
                table[4, at] = NEVER

    def _update(self, number: int, time: int, rows: Words) -> None:
        keys, index = np.unique(rows[0], return_inverse=True)
        table = self.tables[number]
        at = table[0].searchsorted(keys)
        if (new := table[0].searchsorted(keys, side="right") == at).any():
            table = self.tables[number] = np.insert(table, at[new], _table(keys[new]), axis=1)
            at = table[0].searchsorted(keys)
        table[1, at] += np.bincount(index)
        np.add.at(table[2], at[index], rows[1])
        table[4, at] = time + self.quiet
        self._timers[number][time + self.quiet] = keys

    def take(self, own: Sequence[int]) -> bytes:
        """Remove bins, with their pending timers, and return them: for each, its number, its keys, and its table."""
        parts = [(number, self.tables.pop(number), self._timers.pop(number)) for number in own]
        return b"".join(np.array([number, table.shape[1]]).tobytes() + table.tobytes() for number, table, _ in parts)

    def give(self, blob: bytes) -> None:
        """Add the bins that `take` returned."""
        words, at = np.frombuffer(blob, dtype=np.int64), 0
        while at < len(words):
            number, size = words[at : at + 2].tolist()
            table = self.tables[number] = words[at + 2 : at + 2 + 5 * size].reshape(5, size).copy()
            times = np.unique(table[4, table[4] < NEVER]).tolist()
            self._timers[number] = {time: table[0, table[4] == time] for time in times}
            at += 2 + 5 * size

    def table(self, keys: Iterable[int] | None = None) -> Words:
        """Return key, rows, sum, pauses and timer of ``keys`` (None: of all keys with rows), int64[n, 5], by key."""
        table = np.concatenate([np.empty((5, 0), np.int64), *self.tables.values()], axis=1)
        chosen = table[1] > 0 if keys is None else np.isin(table[0], list(keys))
        return table[:, chosen][:, table[0, chosen].argsort()].T


def _table(keys: Words) -> Words:
    """Return the table of keys without rows."""
    return np.stack([keys, *np.zeros((3, len(keys)), np.int64), np.full(len(keys), NEVER)])


def key_bins(keys: Words, bins_: int) -> npt.NDArray[np.int64]:
    """Return the bin of each key, int64[n], by the hash of a BIGINT."""
    return bins.bin_of(hash_rows(keys[None, :], (Type.BIGINT,), Dictionary()), bins_)


class BinWorker:
    """What a worker does with each message. It does not know processes, so tests can deliver messages in any order.

    ``send(target, bin, blob)`` sends the state of a bin to another worker. ``done(time, size)`` reports that all rows
    of an epoch were processed, and how many bytes of state its Moves have sent.
    """

    def __init__(
        self, me: int, state: Pauses, send: Callable[[int, int, bytes], None], done: Callable[[int, int], None]
    ) -> None:
        self.me, self.state, self._send, self._done = me, state, send, done
        self.own: set[int] = set()
        self.held: dict[int, list[tuple[int, Words]]] = {}
        """For each bin that is still to arrive, the epochs since its Move, with the rows that wait."""
        self.early: dict[int, bytes] = {}
        """Bins that have arrived before their Moves: channels are only in order one by one."""
        self._open: list[tuple[int, int]] = []

    def ready(self, moves: Iterable[BinMove]) -> bool:
        """Return False if a bin that is to leave has not arrived yet. Then deliver the epoch after `arrive`."""
        return not any(move.source == self.me and move.bin in self.held for move in moves)

    def step(self, time: int, rows: Words, moves: Iterable[BinMove] = ()) -> None:
        """Obey the Moves of an epoch, process those of its rows whose bins are here, and hold the others.

        Raises StateError for a row of a bin that is neither here nor expected.
        """
        size = 0
        for number, source, target in moves:
            if source == self.me:
                self.own.remove(number)
                blob = self.state.take([number])
                size += len(blob)
                self._send(target, number, blob)
            elif target == self.me:
                self.held[number] = []
                if number in self.early:
                    self.arrive(number, self.early.pop(number))
        where = key_bins(rows[0], self.state.bins)
        if lost := set(where.tolist()) - self.own - self.held.keys():
            raise StateError(f"worker {self.me} has received a row of bin {min(lost)}, which another worker owns")
        for number, waiting in self.held.items():
            waiting.append((time, rows[:, where == number]))
        self.state.step(time, rows[:, ~np.isin(where, list(self.held))], sorted(self.own))
        self._open.append((time, size))
        self._report()

    def arrive(self, number: int, blob: bytes) -> None:
        """Add a bin, and process the rows that have waited for it. A bin that comes before its Move waits, too."""
        if number not in self.held:
            self.early[number] = blob
            return
        self.state.give(blob)
        self.own.add(number)
        for time, rows in self.held.pop(number):
            self.state.step(time, rows, [number])
        self._report()

    def _report(self) -> None:
        waiting = min((epochs[0][0] for epochs in self.held.values() if epochs), default=NEVER)
        while self._open and self._open[0][0] < waiting:
            self._done(*self._open.pop(0))


def _work(me: int, state: Pauses, driver: Connection, peers: dict[int, Connection]) -> None:
    """Run a worker until the driver closes its channel, or another worker exits."""
    outgoing: SimpleQueue[tuple[int, int, bytes]] = SimpleQueue()
    worker = BinWorker(me, state, lambda *message: outgoing.put(message), lambda *done: driver.send(("done", *done)))

    def send_all() -> None:
        while True:
            target, *message = outgoing.get()
            try:
                peers[target].send(message)
            except OSError:
                return  # The other worker has exited, and this one is about to notice it.

    def receive(channels: Iterable[Connection]) -> None:
        """Obey one message. Bins come first, because rows may wait for them."""
        ready = cast(list[Connection], wait(channels))
        channel = next((each for each in ready if each is not driver), driver)
        message = channel.recv()
        if channel is driver:
            obey(*message)
        else:
            worker.arrive(*message)

    def obey(kind: str, *message: Any) -> None:
        if kind == "step":
            while not worker.ready(message[2]):
                receive(peers.values())
            worker.step(*message)
        elif kind == "start":
            worker.own.update(message[1])
            state.give(message[2])
            driver.send(("done", message[0], 0))
        else:
            while worker.held:
                receive(peers.values())
            own = sorted(worker.own)
            blob = state.take(own)
            state.give(blob)
            driver.send(("snapshot", own, blob))

    Thread(target=send_all, daemon=True).start()
    try:
        while True:
            receive([driver, *peers.values()])
    except (EOFError, OSError):
        pass  # A channel was closed, which is how a worker is stopped.
    except Exception:
        driver.send(("failed", traceback.format_exc()))


class WorkerProcesses:
    """Worker processes that own the bins of ``state`` and take over their contents. A context manager.

    ``owners`` has the worker that owns each bin at first; by default, all workers own equally many. A worker can own no
    bin until a Move gives it one. ``finished[epoch]`` has the time at which each worker had processed an epoch, in
    seconds of `time.monotonic`, and ``moved[epoch]`` the number of bytes of state that its Moves have sent.

    Every method raises StateError if a worker has exited or failed. Then call `restore`.
    """

    def __init__(self, workers: int, state: Pauses, owners: Sequence[int] | None = None) -> None:
        self.workers, self._empty = workers, state
        self.owners = list(bins.assign([0] * state.bins, workers) if owners is None else owners)
        self.moved: Counter[int] = Counter()
        self._log: list[tuple[Words, list[BinMove]]] = []
        self._saved = (0, self.owners, [state.take(self._owned(worker)) for worker in range(workers)])
        self._start()

    def _owned(self, worker: int) -> list[int]:
        return [number for number, owner in enumerate(self.owners) if owner == worker]

    def _start(self) -> None:
        """Start the processes from the checkpoint, and wait until they are ready."""
        self.epoch, owners, blobs = self._saved
        self.owners = list(owners)
        self.finished: defaultdict[int, dict[int, float]] = defaultdict(dict)
        context, names = get_context("spawn"), range(self.workers)
        peers: list[dict[int, Connection]] = [{} for _ in names]
        for one, other in combinations(names, 2):
            peers[one][other], peers[other][one] = context.Pipe()
        self._channels, theirs = zip(*(context.Pipe() for _ in names), strict=True)
        self._processes = [
            context.Process(target=_work, args=(n, self._empty, theirs[n], peers[n]), daemon=True) for n in names
        ]
        for number, process in enumerate(self._processes):
            process.start()
            for channel in (theirs[number], *peers[number].values()):
                channel.close()  # Only the worker has it now, so the others notice when it exits.
        for number in names:
            self._send(number, "start", self.epoch, self._owned(number), blobs[number])
        self.drain()

    @property
    def pids(self) -> list[int | None]:
        """The process id of each worker."""
        return [process.pid for process in self._processes]

    def step(self, rows: Words, moves: Iterable[BinMove] = ()) -> None:
        """Send the next epoch: Moves, and rows int64[k, n] whose first column is the key.

        Does not wait until the epoch was processed. Raises StateError if a bin to move has another owner.
        """
        moves = list(moves)
        for number, source, target in moves:
            if self.owners[number] != source or target not in range(self.workers):
                raise StateError(
                    f"bin {number} cannot move from worker {source} to {target}: worker {self.owners[number]} of 0 to "
                    f"{self.workers - 1} owns it; use bins.moves(owners, ...)"
                )
        self._log.append((rows, moves))
        self._route(rows, moves)

    def _route(self, rows: Words, moves: list[BinMove]) -> None:
        self.epoch += 1
        self.moved[self.epoch] = 0
        for number, _, target in moves:
            self.owners[number] = target
        owner = np.array(self.owners)[key_bins(rows[0], len(self.owners))]
        for worker in range(self.workers):
            self._send(worker, "step", self.epoch, rows[:, owner == worker], moves)

    def _send(self, worker: int, *message: Any) -> None:
        try:
            self._channels[worker].send(message)
        except OSError:
            self._lost(worker)

    def _lost(self, worker: int) -> None:
        self._processes[worker].join(1)
        codes = [process.exitcode for process in self._processes]
        raise StateError(
            f"a worker has exited (exit codes {codes}); restore() continues from the checkpoint of epoch "
            f"{self._saved[0]}"
        )

    def poll(self, until: float | None = None) -> None:
        """Receive reports of the workers until `time.monotonic` is ``until``, or until one arrives."""
        while True:
            for channel in wait(self._channels, None if until is None else max(0.0, until - monotonic())):
                worker = self._channels.index(channel)
                try:
                    self._receive(worker, *self._channels[worker].recv())
                except (EOFError, OSError):
                    self._lost(worker)
            if until is None or monotonic() >= until:
                return

    def _receive(self, worker: int, kind: str, *report: Any) -> None:
        if kind == "failed":
            raise StateError(f"worker {worker} failed:\n{report[0]}")
        if kind == "snapshot":
            self._snapshots[worker] = report
            return
        epoch, size = report
        self.moved[epoch] += size
        self.finished[epoch][worker] = monotonic()

    def drain(self) -> None:
        """Wait until all epochs that were sent have been processed."""
        while len(self.finished[self.epoch]) < self.workers:
            self.poll()

    def snapshot(self) -> list[tuple[list[int], bytes]]:
        """Return the bins of each worker and their state, after all epochs that were sent."""
        self._snapshots: dict[int, Any] = {}
        for worker in range(self.workers):
            self._send(worker, "snapshot")
        while len(self._snapshots) < self.workers:
            self.poll()
        return [self._snapshots[worker] for worker in range(self.workers)]

    def contents(self) -> Pauses:
        """Return the state of all workers in one object, after all epochs that were sent."""
        whole = deepcopy(self._empty)
        for _, blob in self.snapshot():
            whole.give(blob)
        return whole

    def checkpoint(self) -> None:
        """Keep a `snapshot` in the driver's memory, for `restore`."""
        self._saved = (self.epoch, list(self.owners), [blob for _, blob in self.snapshot()])
        self._log = []

    def restore(self) -> None:
        """Stop all workers, start new ones from the last checkpoint, and send the epochs after it again."""
        self.close()
        self._start()
        for rows, moves in self._log:
            self._route(rows, moves)

    def close(self) -> None:
        """Stop the workers. Closing again has no effect."""
        for channel in self._channels:
            channel.close()
        for process in self._processes:
            process.join(5)
            process.kill()
            process.join()

    def __enter__(self) -> WorkerProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def timeline(
    workers: WorkerProcesses, epochs: Sequence[Words], steps: Sequence[Sequence[BinMove]], first: int, every: float
) -> pd.DataFrame:
    """Send an epoch every ``every`` seconds, whether or not earlier ones were processed, and move bins meanwhile.

    ``steps`` comes from `bins.steps`. One step moves in each epoch from number ``first`` of ``epochs`` on, counted from
    0. Returns a row for each epoch: ``ms`` from the time at which it was due until all workers had processed it, the
    same for each worker, such as ``ms of worker 0``, and the ``bins`` and ``bytes`` that moved. Raises StateError if
    there are fewer epochs than steps.
    """
    if first + len(steps) > len(epochs):
        raise StateError(
            f"{len(steps)} steps from epoch {first} on need {first + len(steps)} epochs, not {len(epochs)}"
        )
    begin, before = monotonic(), workers.epoch + 1
    moving = dict(enumerate(steps, first))
    for number, rows in enumerate(epochs):
        workers.poll(begin + number * every)
        workers.step(rows, moving.get(number, ()))
    workers.drain()
    frame = pd.DataFrame({"epoch": range(len(epochs))})
    for worker in range(workers.workers):
        done = np.array([workers.finished[before + n][worker] for n in frame.epoch])
        frame[f"ms of worker {worker}"] = 1000 * (done - begin - frame.epoch * every)
    frame.insert(1, "ms", frame.iloc[:, 1:].max(axis=1))
    frame["bins"] = [len(moving.get(n, ())) for n in frame.epoch]
    frame["bytes"] = [workers.moved[before + n] for n in frame.epoch]
    return frame
