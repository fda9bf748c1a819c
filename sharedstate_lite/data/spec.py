"""The parameters of a generated shop, and their limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import Error
from . import limits

_LIMITS = {
    "visits": (1, 1 << 40),
    "products": (1, 1 << 32),
    "users": (1, 1 << 40),
    "categories": (1, 1 << 32),
    "epochs": (1, 100_000),
    "seed": (0, limits.MOST_SEED),
}
"""Parameter -> smallest and largest value. Within these limits, all arithmetic is exact."""

_SHARES = {
    "skew": ("an exponent", limits.MOST_SKEW),
    "deletes": ("a fraction", 1.0),
    "updates": ("a fraction", 1.0),
    "moves": ("a fraction", 1.0),
}


@dataclass(frozen=True)
class Spec:
    """The parameters of a shop. Raises Error for values that are invalid or contradict each other.

    ``visits`` is the number of inserted visits, and ``epochs`` the number of epochs. ``products``, ``users`` and
    ``categories`` are the numbers of different names. ``skew`` is the exponent of the Zipf distribution of visits over
    products; 0 means uniform. ``deletes`` is the fraction of the visits that are deleted, and ``updates`` the fraction
    whose length changes once. Both happen after the epoch of the insertion, so they do not happen to visits of the last
    epoch. ``moves`` is the fraction of the products whose category changes once. Another ``seed`` gives another shop
    with the same parameters.
    """

    visits: int = 1_000_000
    products: int = 10_000
    users: int = 100_000
    categories: int = 100
    skew: float = 1.1
    deletes: float = 0.1
    updates: float = 0.05
    moves: float = 0.01
    epochs: int = 100
    seed: int = 7

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            object.__setattr__(self, name, limits.whole(name, getattr(self, name), low, high))
        for name, (what, most) in _SHARES.items():
            object.__setattr__(self, name, limits.number(name, getattr(self, name), what, most))
        if self.deletes + self.updates > 1:
            raise Error(
                f"deletes={self.deletes:g}, updates={self.updates:g}: together, they are more than all visits. "
                "Choose fractions that add up to at most 1."
            )
        if self.epochs > self.visits:
            raise Error(
                f"epochs={self.epochs}: every epoch needs a visit, but there are only {self.visits} visits. "
                "Choose fewer epochs."
            )
        if self.epochs == 1 and (self.deletes or self.updates or self.moves):
            raise Error(
                "epochs=1: deletes, updates and moves happen after epoch 1. Set all three to 0, or choose more epochs."
            )
        if self.moves and self.categories == 1:
            raise Error(
                "categories=1: products cannot move to another category. Set moves to 0, or choose more categories."
            )
        if self.visits > self.epochs << 32:
            raise Error(f"epochs={self.epochs}: an epoch can have at most {1 << 32} visits. Choose more epochs.")

    @classmethod
    def make(cls, **given: Any) -> Spec:
        """Return a spec with the given parameters, and defaults for the others.

        The default of ``epochs`` is at most ``visits``. With a single epoch, the defaults of ``deletes``, ``updates``
        and ``moves`` are 0. With a single category, the default of ``moves`` is 0. Raises Error for an unknown or
        invalid parameter.
        """
        unknown = given.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise Error(
                f"{', '.join(sorted(unknown))}: no such parameter. "
                f"The parameters are {', '.join(f.name for f in fields(cls))}."
            )
        visits = given.get("visits")
        if "epochs" not in given and isinstance(visits, int) and visits < cls.epochs:
            given["epochs"] = max(1, visits)
        if given.get("epochs") == 1:
            given = {"deletes": 0, "updates": 0, "moves": 0, **given}
        if given.get("categories") == 1:
            given = {"moves": 0, **given}
        return cls(**given)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as a dict."""
        return asdict(self)
