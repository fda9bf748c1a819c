"""The visits that every side takes, drawn once from a seed and written down.

Popularity is Zipf's: the n-th product is visited in proportion to 1/n**skew. A visit
that is retracted is drawn evenly from those that are live before its epoch, so every
retraction is valid and none meets its own insertion. Lengths are exponential, so that
a group's maximum is rarely a tie and is itself retracted now and then.

A stream is a sequence of stretches:

    fill        epochs of one size from the level before until exactly ``level`` visits are live
    trim        retractions alone, back to ``level``; not timed
    warm        epochs of the measured size; not timed
    timed       epochs of the measured size, one after the other
    pipelined   the same, but a side may take the next before it has answered the last

What it refuses: a stream that would retract more visits than are live.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shop:
    """Who visits what: numbers of products, categories and users, Zipf's exponent, and shares of an epoch's rows."""

    products: int = 10_000
    categories: int = 1_000
    users: int = 100_000
    skew: float = 1.0
    deletes: float = 0.1
    """Share of an epoch's rows that retract a visit."""
    moves: float = 0.0
    """Products that change their category, as a share of the epoch's rows (each is two more rows, in info)."""
    seed: int = 1

    def popularity(self) -> npt.NDArray[np.float64]:
        """How likely each product is to be visited; sums to 1."""
        weights = 1 / np.arange(1, self.products + 1) ** self.skew
        return np.asarray(weights / weights.sum())


class Window(NamedTuple):
    """How many epochs of one size are run at a level."""

    warm: int
    timed: int
    pipelined: int


class Stretch(NamedTuple):
    """Epochs ``first`` to ``last`` (excluded) of one kind, ``rows`` each, at a level of live visits."""

    kind: str
    level: int
    rows: int
    first: int
    last: int


def schedule(
    levels: Sequence[int], windows: Mapping[int, Window], *, deletes: float, fill: int
) -> tuple[list[Stretch], list[tuple[int, int]]]:
    """The stretches, and for every epoch how many visits it inserts and retracts.

    A window whose epochs would more than double the live visits is cut short, but never below five epochs.
    """
    if not 0 <= deletes < 0.5:
        raise ValueError(f"deletes={deletes}: with half the rows or more retracting, the shop never fills; choose less")
    stretches: list[Stretch] = []
    epochs: list[tuple[int, int]] = []
    live = 0

    def stretch(kind: str, level: int, rows: int, counts: list[tuple[int, int]]) -> None:
        nonlocal live
        if counts:
            stretches.append(Stretch(kind, level, rows, len(epochs), len(epochs) + len(counts)))
            epochs.extend(counts)
            live += sum(i - d for i, d in counts)

    def filling(level: int) -> list[tuple[int, int]]:
        counts, held = [], live
        while held < level:
            rows = min(fill, int(np.ceil((level - held) / (1 - 2 * deletes))))
            gone = min(held, int(rows * deletes))  # rounded down, so that every epoch fills
            come = min(rows - gone, level - held + gone)
            counts.append((come, gone))
            held += come - gone
        return counts

    def trimming(level: int) -> list[tuple[int, int]]:
        return [(0, min(fill, live - level - start)) for start in range(0, max(live - level, 0), fill)]

    def running(rows: int, count: int) -> list[tuple[int, int]]:
        counts, held = [], live
        for _ in range(count):
            gone = min(held, round(rows * deletes))
            counts.append((rows - gone, gone))
            held += rows - 2 * gone
        return counts

    for level in levels:
        stretch("fill", level, fill, filling(level) or trimming(level))
        for rows, window in windows.items():
            stretch("trim", level, fill, trimming(level))
            most = max(5, int(level / (rows * (1 - 2 * deletes))))
            for kind, count in zip(("warm", "timed", "pipelined"), window, strict=True):
                stretch(kind, level, rows, running(rows, min(count, most)))
        # Back to the level, so that the fills together are the whole way.
        stretch("trim", level, fill, trimming(level))
    return stretches, epochs


@dataclass(frozen=True)
class Stream:
    """The rows themselves, as arrays: visit number i is ``product[i], user[i], length[i]``, numbered as inserted.

    Epoch e inserts the visits ``inserted[e]`` to ``inserted[e+1]`` and retracts
    ``gone[retracted[e]:retracted[e+1]]``; product ``moved[k]`` goes from one category
    to another for k in ``moves[e]`` to ``moves[e+1]``.
    """

    shop: Shop
    stretches: list[Stretch]
    category: Ints
    """The category of every product before the first epoch."""
    product: Ints
    user: Ints
    length: Ints
    inserted: Ints
    gone: Ints
    retracted: Ints
    moved: Ints
    moved_from: Ints
    moved_to: Ints
    moves: Ints

    @property
    def epochs(self) -> int:
        """How many there are."""
        return len(self.inserted) - 1

    def visits(self, epoch: int) -> tuple[Ints, Ints]:
        """The visits that an epoch inserts, and those that it retracts, by number."""
        come = np.arange(self.inserted[epoch], self.inserted[epoch + 1])
        return come, self.gone[self.retracted[epoch] : self.retracted[epoch + 1]]

    def recategorised(self, epoch: int) -> slice:
        """Which of ``moved``, ``moved_from`` and ``moved_to`` belong to the epoch."""
        return slice(int(self.moves[epoch]), int(self.moves[epoch + 1]))

    def rows(self, epoch: int) -> int:
        """Rows of an epoch: insertions and retractions, in both relations."""
        come, gone = self.visits(epoch)
        return len(come) + len(gone) + 2 * len(self.moved[self.recategorised(epoch)])

    def save(self, folder: Path) -> None:
        """Write it down; the arrays are files of their own, so that a side maps them instead of reading them."""
        told = {"shop": asdict(self.shop), "stretches": self.stretches}
        (folder / "stream.json").write_text(json.dumps(told))
        for name in ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @staticmethod
    def load(folder: Path) -> Stream:
        """The stream that was saved there."""
        told = json.loads((folder / "stream.json").read_text())
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
        return Stream(Shop(**told["shop"]), [Stretch(*s) for s in told["stretches"]], **arrays)


ARRAYS = [f.name for f in fields(Stream) if f.name not in ("shop", "stretches")]


def draw(shop: Shop, stretches: list[Stretch], epochs: Sequence[tuple[int, int]]) -> Stream:
    """Draw the rows of a schedule; the same arguments give the same rows.

    Raises ValueError where an epoch would retract more visits than are live.
    """
    random = np.random.default_rng(shop.seed)
    come, go = (np.array([e[side] for e in epochs], np.int64) for side in (0, 1))
    total = int(come.sum())
    category = random.integers(0, shop.categories, shop.products)
    scale = np.cumsum(shop.popularity())
    product = np.minimum(np.searchsorted(scale, random.random(total), side="right"), shop.products - 1)
    user = random.integers(0, shop.users, total)
    length = 1 + np.minimum(random.exponential(60_000, total), 2**31 - 2).astype(np.int64)

    live, held, numbered = np.empty(total, np.int64), 0, 0
    gone = []
    for epoch, (inserts, deletes) in enumerate(epochs):
        if deletes > held:
            raise ValueError(f"epoch {epoch} retracts {deletes} visits, and {held} are live; insert them first")
        at = random.choice(held, deletes, replace=False, shuffle=False)
        gone.append(live[at])
        held -= deletes
        # The last live visits move into the places that became free, so an epoch costs no more than its rows.
        live[at[at < held]] = np.setdiff1d(live[held : held + deletes], gone[-1], assume_unique=True)
        live[held : held + inserts] = np.arange(numbered, numbered + inserts)
        held += inserts
        numbered += inserts

    now = category.copy()
    counts = np.minimum(np.round((come + go) * shop.moves).astype(np.int64), shop.products)
    moved, moved_from, moved_to = [], [], []
    for count in counts:
        chosen = random.choice(shop.products, count, replace=False)
        to = (now[chosen] + random.integers(1, max(shop.categories, 2), count)) % shop.categories
        moved.append(chosen)
        moved_from.append(now[chosen])
        moved_to.append(to)
        now[chosen] = to
    return Stream(
        shop,
        stretches,
        category,
        product,
        user,
        length,
        inserted=offsets(come),
        gone=joined(gone),
        retracted=offsets(go),
        moved=joined(moved),
        moved_from=joined(moved_from),
        moved_to=joined(moved_to),
        moves=offsets(counts),
    )


def offsets(counts: Ints) -> Ints:
    """Where each part begins, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def joined(parts: Sequence[Ints]) -> Ints:
    """The parts as one array, which may be empty."""
    return np.concatenate([np.empty(0, np.int64), *parts])


def reads(shop: Shop, category: Ints, share: float) -> Ints:
    """Categories that Zipf's readers ask for, in the order of their first read, until ``share`` of all were asked for.

    Readers like what visitors like: the most visited category is the most read one,
    which is the harder case for partial state, because the keys that are filled are
    then those with the most rows.
    """
    visits = np.bincount(category, weights=shop.popularity(), minlength=shop.categories)
    ranked = np.argsort(-visits, kind="stable")
    weights = 1 / np.arange(1, shop.categories + 1) ** shop.skew
    random = np.random.default_rng(shop.seed + 1)
    drawn = random.choice(shop.categories, shop.categories, replace=False, p=weights / weights.sum())
    return ranked[drawn[: max(1, round(shop.categories * share))]]
