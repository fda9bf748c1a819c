"""Bins that move while rows arrive: in any order of messages, between real processes, and after a kill."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.errors import StateError
from sharedstate_lite.managed import bins
from sharedstate_lite.managed.bins import BinMove
from sharedstate_lite.protocols.moving import BinWorker, Pauses, WorkerProcesses, key_bins, timeline
from sharedstate_lite.storage.encoding import Words

BINS, QUIET = 8, 2
Rows = list[tuple[int, int]]
EPOCHS = st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 5)), max_size=5), min_size=1, max_size=8)


def words(rows: Rows) -> Words:
    """Keys and values as two lines."""
    return np.array(rows, dtype=np.int64).reshape(-1, 2).T


def expected(epochs: Sequence[Rows], quiet: int = QUIET) -> list[list[int]]:
    """Key, rows, sum, pauses, and the epochs since the last row, kept in a dict without bins or workers."""
    table: dict[int, list[int]] = {}
    for time, rows in enumerate(epochs, 1):
        for key, value in rows:
            found = table.setdefault(key, [key, 0, 0, 0, 0])
            found[1], found[2], found[4] = found[1] + 1, found[2] + value, time
        for found in table.values():
            found[3] += time == found[4] + quiet
    return [table[key] for key in sorted(table)]


class Network:
    """Workers and their channels in this process. Messages wait until they are delivered."""

    def __init__(self, workers: int, owners: list[int]) -> None:
        self.owners, self.time, self.done = owners, 0, [0] * workers
        self.channels: dict[tuple[Any, int], deque[Any]] = {}
        self.workers = []
        for me in range(workers):
            state = Pauses(bins=BINS, quiet=QUIET)
            state.take([b for b in range(BINS) if owners[b] != me])
            worker = BinWorker(me, state, self._sender(me), self._counter(me))
            worker.own = set(state.tables)
            self.workers.append(worker)

    def _sender(self, me: int) -> Any:
        return lambda target, *message: self.channels.setdefault((me, target), deque()).append(message)

    def _counter(self, me: int) -> Any:
        def done(time: int, size: int) -> None:
            assert time == self.done[me] + 1, "epochs are done in their order"
            self.done[me] = time

        return done

    def step(self, rows: Rows, moves: Sequence[BinMove] = ()) -> None:
        """Put an epoch into the channel of every worker."""
        self.time += 1
        for move in moves:
            self.owners[move.bin] = move.target
        data = words(rows)
        owner = np.array(self.owners)[key_bins(data[0], BINS)]
        for me in range(len(self.workers)):
            message = (self.time, data[:, owner == me], list(moves))
            self.channels.setdefault(("driver", me), deque()).append(message)

    def deliverable(self) -> list[tuple[Any, int]]:
        """The channels whose oldest message can be delivered now."""
        return [
            (source, me)
            for (source, me), waiting in self.channels.items()
            if waiting and (source != "driver" or self.workers[me].ready(waiting[0][2]))
        ]

    def deliver(self, source: Any, me: int) -> None:
        """Deliver the oldest message of a channel."""
        message = self.channels[source, me].popleft()
        self.workers[me].step(*message) if source == "driver" else self.workers[me].arrive(*message)

    def check_owners(self) -> None:
        """Each bin is at exactly one worker, or on its way."""
        here = [number for worker in self.workers for number in [*worker.own, *worker.early]]
        sent = [message[0] for (source, _), queue in self.channels.items() if source != "driver" for message in queue]
        assert sorted(here + sent) == list(range(BINS))
        assert all(worker.own == set(worker.state.tables) for worker in self.workers)  # type: ignore[attr-defined]

    def contents(self) -> Pauses:
        """The state of all workers in one object."""
        whole = Pauses(bins=BINS, quiet=QUIET)
        for worker in self.workers:
            whole.tables.update(worker.state.tables)  # type: ignore[attr-defined]
        return whole


def drawn_moves(data: st.DataObject, owners: list[int], workers: int) -> Iterator[list[BinMove]]:
    """The steps of a plan to some number of workers, or of an arbitrary assignment, which moves in both directions."""
    if data.draw(st.booleans(), label="least moves"):
        new = bins.assign(owners, data.draw(st.integers(1, workers)))
    else:
        new = data.draw(st.lists(st.integers(0, workers - 1), min_size=BINS, max_size=BINS))
    yield from bins.steps(
        bins.moves(owners, new), data.draw(st.sampled_from(["all", "fluid", "batched", bins.chunks(3)]))
    )


@given(EPOCHS, st.integers(2, 3), st.data())
def test_rule_26_any_moves_in_any_order_of_messages(epochs: list[Rows], workers: int, data: st.DataObject) -> None:
    """The state, timers included, is that of one worker that never moved a bin; a bin has one owner at every time."""
    network = Network(workers, bins.assign([0] * BINS, workers))
    pending: list[list[BinMove]] = []
    for rows in epochs:
        if not pending and data.draw(st.booleans(), label="rescale"):
            pending = list(drawn_moves(data, network.owners, workers))
        network.step(rows, pending.pop(0) if pending else ())
        for _ in range(data.draw(st.integers(0, 4), label="deliveries")):
            if choices := network.deliverable():
                network.deliver(*data.draw(st.sampled_from(choices)))
                network.check_owners()
    while choices := network.deliverable():
        network.deliver(*data.draw(st.sampled_from(choices)))
        network.check_owners()
    assert not any(network.channels.values())
    assert network.done == [len(epochs)] * workers
    fixed = Pauses(bins=BINS, quiet=QUIET)
    for time, rows in enumerate(epochs, 1):
        fixed.step(time, words(rows), range(BINS))
    assert network.contents().table().tolist() == fixed.table().tolist()


@given(EPOCHS)
def test_the_operator_equals_a_dict(epochs: list[Rows]) -> None:
    """Rows, sums and pauses of every key, and the time of its timer."""
    state = Pauses(bins=BINS, quiet=QUIET)
    for time, rows in enumerate(epochs, 1):
        state.step(time, words(rows), range(BINS))
    found = state.table()
    right = expected(epochs)
    assert found[:, :4].tolist() == [row[:4] for row in right]
    last, pending = len(epochs), [row[4] + QUIET > len(epochs) for row in right]
    assert (found[:, 4] > last).all()
    assert found[pending, 4].tolist() == [row[4] + QUIET for row in right if row[4] + QUIET > last]


@given(EPOCHS, st.sets(st.integers(0, BINS - 1)))
def test_a_blob_holds_all_of_a_bin(epochs: list[Rows], own: set[int]) -> None:
    """Bins that are taken and given to another object are equal, and are no longer in the first one."""
    state, other = Pauses(bins=BINS, quiet=QUIET), Pauses(bins=BINS, quiet=QUIET)
    for time, rows in enumerate(epochs, 1):
        state.step(time, words(rows), range(BINS))
    before = {number: table.copy() for number, table in state.tables.items()}
    blob = state.take(sorted(own))
    assert set(state.tables) == set(range(BINS)) - own
    assert len(blob) == sum(16 + 40 * before[number].shape[1] for number in own)
    other.give(blob)
    assert all((other.tables[number] == before[number]).all() for number in own)


def test_a_row_of_a_bin_that_is_elsewhere_is_an_error() -> None:
    """A worker refuses the row instead of starting a second copy of the bin."""
    network = Network(2, [0] * BINS)
    with pytest.raises(StateError, match="worker 1 has received a row of bin .*, which another worker owns"):
        network.workers[1].step(1, words([(5, 1)]))


def some_epochs(seed: int, count: int, keys: int, each: int) -> list[Words]:
    """Random rows."""
    rng = np.random.default_rng(seed)
    return [np.stack([rng.integers(0, keys, each), rng.integers(0, 100, each)]) for _ in range(count)]


def fixed(keys: int, number: int, epochs: Sequence[Words]) -> list[list[int]]:
    """The contents that one worker has after the epochs."""
    state = Pauses(range(keys), bins=number)
    for time, rows in enumerate(epochs, 1):
        state.step(time, rows, range(number))
    return state.table().tolist()  # type: ignore[no-any-return]


def test_bytes_of_each_step_between_processes() -> None:
    """64 bins move back and forth by each plan: the bytes of every step are those of its bins; the totals are equal."""
    keys, number = 40_000, 128
    sent: list[Words] = []
    two = bins.assign([0] * number, 2)
    sizes = 16 + 40 * np.bincount(key_bins(np.arange(keys), number), minlength=number)
    with WorkerProcesses(3, Pauses(range(keys), bins=number), two) as workers:
        largest = {}
        for name, plan in {"all": "all", "chunks": bins.chunks(8), "fluid": "fluid"}.items():
            new = bins.assign(workers.owners, 3)
            steps = bins.steps(bins.moves(workers.owners, new), plan)
            epochs = some_epochs(len(sent), len(steps) + 4, keys, 50)
            found = timeline(workers, epochs, steps, first=2, every=0.0)
            sent += epochs
            assert workers.owners == new and [len(step) for step in steps] == found.bins[2:-2].tolist()
            right = [sum(int(sizes[m.bin]) for m in step) for step in steps]
            assert found.bytes.tolist() == [0, 0, *right, 0, 0]
            each = found[[f"ms of worker {worker}" for worker in range(3)]]
            assert (each > 0).all(axis=None) and found.ms.equals(each.max(axis=1))
            largest[name] = max(right)
            back = bins.steps(bins.moves(new, two), "all")
            sent += some_epochs(len(sent), 2, keys, 50)
            assert (timeline(workers, sent[-2:], back, first=0, every=0.0).ms > 0).all()
        assert largest["all"] > 5 * largest["chunks"] > 25 * largest["fluid"]
        assert [own for own, _ in workers.snapshot()] == [list(range(64)), list(range(64, 128)), []]
        assert workers.contents().table().tolist() == fixed(keys, number, sent)


def test_two_workers_exchange_large_bins() -> None:
    """Each sends more than a pipe holds while the other one sends too; then a worker is killed in a Move."""
    keys, number = 60_000, 2
    epochs = some_epochs(1, 6, keys, 200)
    swap = [BinMove(0, 0, 1), BinMove(1, 1, 0)]
    with WorkerProcesses(2, Pauses(range(keys), bins=number)) as workers:
        workers.step(epochs[0])
        workers.step(epochs[1], swap)
        workers.drain()
        assert workers.moved[2] > 2_000_000
        for rows in some_epochs(2, 6, keys, 40_000):  # bin and request arrive while the worker is busy with the rows
            epochs.insert(workers.epoch, rows)
            workers.step(rows, [BinMove(b, workers.owners[b], 1 - workers.owners[b]) for b in range(number)])
            workers.snapshot()
        workers.checkpoint()
        for rows, moves in zip(epochs[8:11], [[], [BinMove(0, 1, 0)], []], strict=True):
            workers.step(rows, moves)
        before = workers.pids
        assert before[0] is not None
        os.kill(before[0], signal.SIGKILL)  # the new owner; the bin has left, has arrived, or neither
        with pytest.raises(
            StateError, match=r"exit codes \[-9, .*restore\(\) continues from the checkpoint of epoch 8"
        ):
            workers.drain()
            workers.snapshot()
        workers.restore()
        workers.step(epochs[11])
        assert not set(before) & set(workers.pids)
        assert [own for own, _ in workers.snapshot()] == [[0, 1], []]
        assert workers.contents().table().tolist() == fixed(keys, number, epochs)
        with pytest.raises(StateError, match="bin 0 cannot move from worker 1 to 0: worker 0 of 0 to 1 owns it"):
            workers.step(epochs[0], [BinMove(0, 1, 0)])
        with pytest.raises(StateError, match="2 steps from epoch 1 on need 3 epochs, not 2"):
            timeline(workers, epochs[:2], [[], []], first=1, every=0.0)
        assert workers.epoch == 12
        workers.step(np.zeros((1, 3), dtype=np.int64))  # no values
        with pytest.raises(StateError, match=r"(?s)worker 0 failed:\n.*IndexError"):
            workers.drain()
