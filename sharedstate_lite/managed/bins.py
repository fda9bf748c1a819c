"""Bins of state: which worker owns each bin, which bins move when workers are added or removed, and in which steps.

A *bin* is a range of key hashes: bin b of B contains the keys whose hash begins with the binary digits of b. All state
of a key, its timers included, is in the bin of the key, and a bin is always moved as a whole. B must be a power of 2
and never changes. An operator can therefore have at most B workers (Flink calls this limit the maximum parallelism).

`assign` decides who owns the bins after rescaling, and moves as few of them as possible. `steps` decides when each bin
moves: in each step, some bins move, and then the operator processes rows again before the next step. Small steps mean
short pauses.

    "all"      every bin in one step
    "fluid"    one bin in each step
    "batched"  in each step, a worker sends at most one bin and receives at most one; as few steps as possible
    chunks(n)  at most n bins in each step

>>> owners = assign([0] * 8, 2)                                      # 8 bins on 2 workers
>>> owners
[0, 0, 0, 0, 1, 1, 1, 1]
>>> moving = moves(owners, assign(owners, 4))
>>> [f"bin {m.bin}: {m.source} to {m.target}" for m in moving]
['bin 2: 0 to 2', 'bin 3: 0 to 2', 'bin 6: 1 to 3', 'bin 7: 1 to 3']
>>> [[m.bin for m in step] for step in steps(moving, "batched")]
[[2, 6], [3, 7]]

Source: Hoffmann et al., Megaphone: Latency-conscious state migration for distributed streaming dataflows, VLDB 2019
(bins; all at once, fluid and batched migration). The number of steps of "batched" is Kőnig's theorem on the edge
colouring of bipartite graphs, 1916. The steps are made equally large as in de Werra, Equitable colorations of graphs,
1971.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import StateError, is_integer, shorten


class BinMove(NamedTuple):
    """One bin that leaves worker ``source`` and arrives at worker ``target``."""

    bin: int
    source: int
    target: int


Migration = Callable[[Sequence[BinMove]], list[list[BinMove]]]
"""A function that distributes moves to steps, such as `batched` and what `chunks` returns."""


def bin_of(words: npt.NDArray[Any], bins: int) -> npt.NDArray[np.int64]:
    """Return the bin of each key, int64[n], from 0 to ``bins - 1``: the top bits of its word.

    ``words`` are hashes, uint64[n], or sort words, int64[n], whose upper halves are hashes (see `storage.batch`).
    """
    # Two shifts, because a shift of 64 bits is undefined and would be needed for a single bin.
    return ((words.view(np.uint64) >> np.uint64(32)) >> np.uint64(32 - _bits(bins))).astype(np.int64)


def word_range(bin: int, bins: int) -> tuple[int, int]:
    """Return the smallest and the largest sort word, as int64, of the keys in a bin."""
    size, half = 1 << 64 - _bits(bins), 1 << 63
    # Sort words are signed, so the upper half of the hashes comes first.
    low = (bin * size + half) % (2 * half) - half if bins > 1 else -half
    return low, low + size - 1


def assign(old: Sequence[int], workers: int) -> list[int]:
    """Return the worker that owns each bin after rescaling to ``workers`` workers. ``old`` has the present owners.

    Workers are numbered from 0. The numbers of bins that two workers own differ by at most 1, and no other such
    assignment moves fewer bins. Raises StateError unless there is at least one worker and at least one bin for each.
    """
    if not is_integer(workers) or not 1 <= workers <= len(old):
        raise StateError(
            f"cannot rescale {len(old)} bins to {shorten(workers)} workers: each worker needs at least one bin; "
            f"choose 1 to {len(old)} workers"
        )
    have = Counter(old)
    share, rest = divmod(len(old), workers)
    # The workers with the most bins keep the extra ones.
    extra = sorted(range(workers), key=lambda w: -have[w])[:rest]
    room = [share + (w in extra) for w in range(workers)]
    new = []
    for owner in old:
        stays = owner < workers and room[owner] > 0
        room[owner if stays else 0] -= stays
        new.append(owner if stays else -1)
    free = (w for w in range(workers) for _ in range(room[w]))
    return [next(free) if owner < 0 else owner for owner in new]


def moves(old: Sequence[int], new: Sequence[int]) -> list[BinMove]:
    """Return the bins whose owner differs, by number."""
    return [BinMove(number, a, b) for number, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]


def chunks(most: int) -> Migration:
    """Return a migration whose steps have at most ``most`` bins each, and whose sizes differ by at most 1."""
    if not is_integer(most) or most < 1:
        raise StateError(f"chunks({shorten(most)}): a step moves at least one bin; choose a whole number from 1")

    def chunked(moving: Sequence[BinMove]) -> list[list[BinMove]]:
        count = -(-len(moving) // most)
        edges = [len(moving) * step // count for step in range(count + 1)] if count else [0]
        return [list(moving[a:b]) for a, b in zip(edges, edges[1:], strict=False)]

    return chunked


def batched(moving: Sequence[BinMove]) -> list[list[BinMove]]:
    """Return steps in which each worker sends at most one bin and receives at most one.

    The number of steps is the largest number of bins that one worker sends or receives, which is the minimum. The
    sizes of the steps differ by at most 1.
    """
    ends = [(("from", move.source), ("to", move.target)) for move in moving]
    count = max(Counter(end for pair in ends for end in pair).values(), default=0)
    step = [-1] * len(moving)
    used: dict[tuple[tuple[str, int], int], int] = {}  # the move that an end makes in a step

    def put(move: int, at: int) -> None:
        step[move] = at
        used.update({(end, at): move for end in ends[move]})

    def swap(path: list[int], a: int, b: int) -> None:
        for move in path:
            for end in ends[move]:
                del used[end, step[move]]
        for move in path:
            put(move, a + b - step[move])

    def path(end: tuple[str, int], a: int, b: int) -> list[int]:
        """The moves that are connected to ``end``, which moves nothing in step b, by steps a and b alternately."""
        found = []
        while (move := used.get((end, a))) is not None:
            found.append(move)
            end = ends[move][ends[move][0] == end]
            a, b = b, a
        return found

    for move, (source, target) in enumerate(ends):
        a, b = (next(s for s in range(count) if (end, s) not in used) for end in (source, target))
        # Exchange the steps of the path, so that the target is free in step a too. The path cannot reach the source,
        # because it would arrive there by a move of step a.
        swap(path(target, a, b), a, b)
        put(move, a)
    while count:
        sizes = Counter(dict.fromkeys(range(count), 0))
        sizes.update(step)
        large, small = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        if sizes[large] - sizes[small] <= 1:
            break
        starts = (end for m, pair in enumerate(ends) if step[m] == large for end in pair if (end, small) not in used)
        paths = (path(end, large, small) for end in starts)
        swap(next(p for p in paths if len(p) % 2), large, small)  # this path has one more move of the larger step
    return [[move for move, at in zip(moving, step, strict=True) if at == s] for s in range(count)]


MIGRATIONS: dict[str, Migration] = {
    "all": lambda moving: [list(moving)] if moving else [],
    "fluid": chunks(1),
    "batched": batched,
}
"""The migrations that have a name."""


def steps(moving: Sequence[BinMove], migration: str | Migration = "batched") -> list[list[BinMove]]:
    """Distribute moves to steps: ``migration`` is a name of `MIGRATIONS`, or a function such as ``chunks(8)``.

    Raises StateError if there is no migration with that name.
    """
    if isinstance(migration, str) and migration in MIGRATIONS:
        migration = MIGRATIONS[migration]
    if not callable(migration):
        known = ", ".join(MIGRATIONS)
        raise StateError(f"there is no migration {shorten(migration)}; the migrations are {known}, and bins.chunks(n)")
    return migration(moving)


def _bits(bins: int) -> int:
    """Return how many top bits select one of ``bins`` bins. Raises StateError unless that is a power of 2."""
    if not is_integer(bins) or not 1 <= bins <= 1 << 32 or bins & (bins - 1):
        raise StateError(f"bins={shorten(bins)}: the number of bins is a power of 2, such as 16 or 256, at most 2**32")
    return int(bins).bit_length() - 1
