"""Where an engine runs: in one process, over the bins of Spark without Spark, or on Spark; one test serves all.

A label stands for strategy, join and place; :func:`make` and :func:`restored` build the engine. In bins the worker
"processes" are exchanged all the time (see :mod:`rehearsal`). A micro-batch on Spark takes a second, so few tests run
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from partial_rehearsal import PartialRehearsal
from rehearsal import Rehearsal
from sparks import session_on

import sharedstate_lite as ss

ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("full", {"join": "linear"}),
    "full multi": ("full", {"join": "multi"}),
    "shared": ("shared", {"join": "auto"}),
    "shared linear": ("shared", {"join": "linear"}),
    "shared delta": ("shared", {"join": "delta"}),
    "partial": ("partial", {}),
}
"""Label -> strategy and options: every way in which an engine runs in one process."""

IN_BINS: dict[str, tuple[str, dict[str, Any]]] = {
    "full in bins": ("full", {"join": "linear", "bins": 3, "lose": 5}),
    "full multi in bins": ("full", {"join": "multi", "bins": 3, "lose": 5}),
    "shared in bins": ("shared", {"join": "linear", "bins": 3, "lose": 5}),
    "partial in bins": ("partial", {"bins": 3, "lose": 5}),
}
"""The same over the bins and stages of Spark."""

ON_SPARK: dict[str, tuple[str, dict[str, Any]]] = {
    "full on Spark": ("full", {"join": "linear", "bins": 2}),
    "shared on Spark": ("shared", {"join": "linear", "bins": 2}),
    "partial on Spark": ("partial", {"bins": 2}),
}
"""The same on Spark."""

EVERY = {**ENGINES, **IN_BINS, **ON_SPARK}

every_place = pytest.mark.parametrize("place", [ENGINES, IN_BINS], ids=["in one process", "in bins"])
"""Run a test over the engines of each place; on Spark there is no time for drawn sequences."""


def partial(label: str) -> bool:
    """Whether the engine keeps partial state, so that its views are read and emit by key."""
    return EVERY[label][0] == "partial"


def installs(label: str) -> bool:
    """Whether views can come and go: partial state in bins and on Spark keeps those that it was started with."""
    return label in ENGINES or not partial(label)


def make(label: str, views: Sequence[ss.View], **more: Any) -> Any:
    """A new engine of that label. ``more`` are other options."""
    kind, options = EVERY[label][0], {**EVERY[label][1], **more}
    if label in IN_BINS and partial(label):
        return PartialRehearsal(views, **options)
    if label in ON_SPARK:
        return ss.spark.engine(kind, views, session_on(), **options)
    maker: Any = Rehearsal if label in IN_BINS else ss.engine
    return maker(kind, views, **options)


def restored(label: str, path: Path) -> Any:
    """The engine of that label that checkpoint() wrote to ``path``."""
    rehearsal = PartialRehearsal if partial(label) else Rehearsal
    restore: Any = ss.spark.restore if label in ON_SPARK else rehearsal.restore if label in IN_BINS else ss.restore
    return restore(path)
