"""The epochs in which each visit is inserted, changed and deleted, and each product moves to another category.

Each visit is inserted in one epoch, its *birth*. In later epochs, its length can change once, and it can be deleted.
All visits with the same birth form a *block*, and a permutation scatters them over the positions of the block. The
visits at the first positions are deleted, and the visits at the next positions change. Three quarters of these events
happen within `SOON` epochs after the birth. The others happen at any later time, so old rows are deleted too, and the
share of deletes is nearly constant. The positions are spread evenly over the epochs, so the visits of one epoch can be
computed without the other epochs. A visit that is both changed and deleted changes halfway between birth and deletion.
All products are inserted in epoch 1 and can move in any later epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .draws import Whole, bits, key, uniform, unshuffled
from .spec import Spec

SOON = 8
"""Three quarters of the deletes and changes happen within this many epochs after the birth."""

_DIE, _CHANGE, _BOTH, _ROUND, _TURN, _SCATTER, _MOVE, _SPLIT = range(1, 9)


@dataclass(frozen=True)
class Schedule:
    """The events of a shop, computed from its ``spec``. Epochs are numbered from 1, visits and products from 0."""

    spec: Spec

    def coming(self, epoch: int) -> Whole:
        """Return the numbers of the visits that are inserted in the epoch; shape (n,)."""
        start, stop = (edge * self.spec.visits // self.spec.epochs for edge in (epoch - 1, epoch))
        return np.arange(start, stop, dtype=np.int64)

    def going(self, epoch: int) -> tuple[Whole, npt.NDArray[np.bool_]]:
        """Return the visits deleted in the epoch, and whether the length of each has changed before; shapes (n,)."""
        births = np.arange(1, epoch, dtype=np.int64)
        visits = self._dead(births, np.full_like(births, epoch))
        return visits, self._both(visits) & (self._birth(visits) + 2 <= epoch)

    def changing(self, epoch: int) -> Whole:
        """Return the numbers of the visits whose length changes in the epoch; shape (n,)."""
        births = np.arange(1, epoch, dtype=np.int64)
        dead, spec = self._quota(births, self.spec.deletes), self.spec
        # The same fraction of the deleted visits and of the remaining visits changes.
        both = self._quota(births, spec.deletes + spec.updates * (1 - spec.deletes))
        out = [self._picked(births, np.full_like(births, epoch), both - dead, dead, _CHANGE)]
        for end in (2 * epoch - births, 2 * epoch - births + 1):
            visits = self._dead(births[end <= spec.epochs], end[end <= spec.epochs])
            out.append(visits[self._both(visits)])
        return np.concatenate(out)

    def moving(self, epoch: int) -> Whole:
        """Return the numbers of the products that move to another category in the epoch; shape (n,)."""
        spec, first = self.spec, np.array([1], dtype=np.int64)
        if epoch == 1:
            return np.empty(0, dtype=np.int64)
        quota = np.array([int(spec.moves * spec.products + 0.5)], dtype=np.int64)
        positions, which = self._positions(first, first * epoch, (quota * 0, quota), spec.epochs, _MOVE)
        turns = bits(key(spec.seed, _MOVE), first)[which]
        return unshuffled(positions, np.full_like(positions, spec.products), spec.seed, turns)

    def _block(self, births: Whole) -> tuple[Whole, Whole]:
        """Return the first visit and the size of the block of each birth; shapes (n,)."""
        starts = (births - 1) * self.spec.visits // self.spec.epochs
        return starts, births * self.spec.visits // self.spec.epochs - starts

    def _quota(self, births: Whole, share: float) -> Whole:
        """Return the size of each block times ``share``, as whole numbers; shape (n,).

        They are rounded up or down at random, so that the rounding errors cancel on average.
        """
        sizes = self._block(births)[1]
        exact = share * sizes + uniform(key(self.spec.seed, _ROUND), births)
        return np.minimum(sizes, np.floor(exact).astype(np.int64))

    def _both(self, visits: Whole) -> npt.NDArray[np.bool_]:
        """Return, for each deleted visit, whether it also changes if there is an epoch between birth and deletion."""
        return uniform(key(self.spec.seed, _BOTH), visits) < self.spec.updates

    def _birth(self, visits: Whole) -> Whole:
        """Return the epoch in which each visit is inserted."""
        return ((visits + 1) * self.spec.epochs - 1) // self.spec.visits + 1

    def _dead(self, births: Whole, epochs: Whole) -> Whole:
        quota = self._quota(births, self.spec.deletes)
        return self._picked(births, epochs, quota, quota * 0, _DIE)

    def _picked(self, births: Whole, epochs: Whole, quota: Whole, skip: Whole, what: int) -> Whole:
        """Return the visits of each block that have the event ``what`` in the corresponding epoch of ``epochs``.

        In each block, the visits at ``quota`` positions have the event, starting at position ``skip``.
        """
        starts, sizes = self._block(births)
        scatter = bits(key(self.spec.seed, _SCATTER), births)
        soon = np.floor(0.75 * quota + uniform(key(self.spec.seed, _SPLIT, what), births)).astype(np.int64)
        parts = []
        for span, first, last in ((SOON, skip, skip + soon), (self.spec.epochs, skip + soon, skip + quota)):
            positions, which = self._positions(births, epochs, (first, last), span, what)
            members = unshuffled(positions, sizes[which], self.spec.seed, scatter[which])
            parts.append(starts[which] + members)
        return np.concatenate(parts)

    def _positions(
        self, births: Whole, epochs: Whole, edges: tuple[Whole, Whole], span: int, what: int
    ) -> tuple[Whole, Whole]:
        """Return the positions of each block that have the event ``what`` in the corresponding epoch of ``epochs``.

        Only the positions between ``edges`` are considered. The second result contains, for each position, the index of
        its block in ``births``.
        The positions of a block are spread evenly over ``span`` epochs after the birth. They start at a random epoch,
        because otherwise blocks with only a few positions would have all events in the first epochs.
        """
        span_left = np.minimum(span, self.spec.epochs - births)
        after = epochs - births - 1
        turn = bits(key(self.spec.seed, _TURN, what, span), births) % span_left.astype(np.uint64)
        at = (after - turn.astype(np.int64)) % span_left
        quota = np.where(after < span_left, edges[1] - edges[0], 0)
        first, last = -(-at * quota // span_left), -(-(at + 1) * quota // span_left)
        count = last - first
        which = np.repeat(np.arange(len(births)), count)
        before = np.cumsum(count) - count
        return edges[0][which] + first[which] + np.arange(len(which)) - before[which], which
