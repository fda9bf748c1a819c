"""Which visit and which product does what in which epoch.

Visit n comes in one epoch, its birth; it may change its length once, and it may go,
both in later epochs. That is decided by block, the visits of one birth: scattered by a
permutation, its first positions go and the next ones change, each in as many of the
epochs that are left as in any other. So "who goes in epoch e" is answered without
asking the others, in time proportional to the answer, and any epoch can be made alone.
A visit that both changes and goes changes half way. Products move between categories
in the same manner, all of them born in epoch 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .draws import Whole, bits, key, uniform, unshuffled
from .spec import Spec

_DIE, _CHANGE, _BOTH, _ROUND, _TURN, _SCATTER, _MOVE = range(1, 8)


@dataclass(frozen=True)
class Schedule:
    """The schedule of a spec; a pure function of it. Epochs are numbered from 1, visits and products from 0."""

    spec: Spec

    def coming(self, epoch: int) -> Whole:
        """The visits that come in the epoch; shape (n,)."""
        start, stop = (edge * self.spec.visits // self.spec.epochs for edge in (epoch - 1, epoch))
        return np.arange(start, stop, dtype=np.int64)

    def going(self, epoch: int) -> tuple[Whole, npt.NDArray[np.bool_]]:
        """The visits that go in the epoch, and for each whether it has changed its length before; shapes (n,)."""
        births = np.arange(1, epoch, dtype=np.int64)
        visits, born = self._dead(births, np.full_like(births, epoch))
        return visits, self._both(visits) & (born + 2 <= epoch)

    def changing(self, epoch: int) -> Whole:
        """The visits that change their length in the epoch; shape (n,)."""
        births = np.arange(1, epoch, dtype=np.int64)
        dead, spec = self._quota(births, self.spec.deletes), self.spec
        # The share is the same among those that go and those that stay.
        both = self._quota(births, spec.deletes + spec.updates * (1 - spec.deletes))
        stay, _ = self._picked(births, np.full_like(births, epoch), both - dead, dead, _CHANGE)
        out = [stay]
        for end in (2 * epoch - births, 2 * epoch - births + 1):
            visits, _ = self._dead(births[end <= spec.epochs], end[end <= spec.epochs])
            out.append(visits[self._both(visits)])
        return np.concatenate(out)

    def moving(self, epoch: int) -> Whole:
        """The products that move to another category in the epoch; shape (n,)."""
        spec, first = self.spec, np.array([1], dtype=np.int64)
        if epoch == 1:
            return np.empty(0, dtype=np.int64)
        quota = np.array([int(spec.moves * spec.products + 0.5)], dtype=np.int64)
        positions, which = self._positions(first, first * epoch, quota, quota * 0, _MOVE)
        turns = bits(key(spec.seed, _MOVE), first)[which]
        return unshuffled(positions, np.full_like(positions, spec.products), spec.seed, turns)

    def _block(self, births: Whole) -> tuple[Whole, Whole]:
        """Each block's first visit, and how many it has."""
        starts = (births - 1) * self.spec.visits // self.spec.epochs
        return starts, births * self.spec.visits // self.spec.epochs - starts

    def _quota(self, births: Whole, share: float) -> Whole:
        """How many of each block a share is: rounded up or down by chance, so that it holds over all blocks."""
        sizes = self._block(births)[1]
        exact = share * sizes + uniform(key(self.spec.seed, _ROUND), births)
        return np.minimum(sizes, np.floor(exact).astype(np.int64))

    def _both(self, visits: Whole) -> npt.NDArray[np.bool_]:
        """Whether a visit that goes changes before, if there is an epoch between."""
        return uniform(key(self.spec.seed, _BOTH), visits) < self.spec.updates

    def _dead(self, births: Whole, epochs: Whole) -> tuple[Whole, Whole]:
        quota = self._quota(births, self.spec.deletes)
        return self._picked(births, epochs, quota, quota * 0, _DIE)

    def _picked(self, births: Whole, epochs: Whole, quota: Whole, skip: Whole, what: int) -> tuple[Whole, Whole]:
        """The visits of blocks whose turn it is in ``epochs``, and their births: of each ``quota`` after ``skip``."""
        positions, which = self._positions(births, epochs, quota, skip, what)
        starts, sizes = self._block(births)
        turns = bits(key(self.spec.seed, _SCATTER), births)
        return starts[which] + unshuffled(positions, sizes[which], self.spec.seed, turns[which]), births[which]

    def _positions(self, births: Whole, epochs: Whole, quota: Whole, skip: Whole, what: int) -> tuple[Whole, Whole]:
        """Positions in blocks, and which block each is in.

        A block's ``quota`` positions are dealt out evenly over the epochs after its birth,
        starting with one of them by chance: few positions would else all come early.
        """
        later = self.spec.epochs - births
        turn = bits(key(self.spec.seed, _TURN, what), births) % later.astype(np.uint64)
        at = (epochs - births - 1 - turn.astype(np.int64)) % later
        first, last = -(-at * quota // later), -(-(at + 1) * quota // later)
        count = last - first
        which = np.repeat(np.arange(len(births)), count)
        before = np.cumsum(count) - count
        return skip[which] + first[which] + np.arange(len(which)) - before[which], which
