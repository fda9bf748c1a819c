"""Names and numbers that the assignment defines: request kinds, statuses, rules and limits.

The columns of a record contain the numeric codes. Reports and messages use the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUBMISSION, MACHINE, GRADER = "submission", "void", "grader"
"""What ended a run early: the kind of the failure in its record."""


class Kind(IntEnum):
    """The kind of a request. It determines whether the request's subject is a row of orders, users or items."""

    CHECKOUT = 0
    CREATE_ORDER = 1
    ADD_ITEM = 2
    FIND_ORDER = 3
    CREATE_USER = 4
    ADD_FUNDS = 5
    FIND_USER = 6
    CREATE_ITEM = 7
    ADD_STOCK = 8
    FIND_ITEM = 9
    BATCH_ORDERS = 10
    BATCH_USERS = 11
    BATCH_ITEMS = 12
    PAY = 13
    SUBTRACT = 14


class Status(IntEnum):
    """Status codes of requests without a valid HTTP answer. A status of 100 or more is an HTTP status."""

    TIMEOUT = -1
    RESET = -2
    GARBAGE = -3
    REFUSED = -4
    DROPPED = -5
    UNCONNECTED = -6


NEVER_WRITTEN = (Status.REFUSED, Status.DROPPED, Status.UNCONNECTED)
"""If a request has one of these statuses, no byte of it was written to a socket, so it cannot have had an effect."""

SHED = (429, Status.REFUSED)
"""If a request has one of these statuses, the system shed it. It had no effect, and does not count as refused."""


def done(status: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which statuses are 2xx.

    >>> done(np.array([200, 204, 404, -1])).tolist()
    [True, True, False, False]
    """
    return np.asarray((status >= 200) & (status < 300))


def denied(status: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which statuses say that the request had no effect: every 4xx, and what was never written."""
    return np.asarray((status >= 400) & (status < 500) | np.isin(status, NEVER_WRITTEN))


def refused(status: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which statuses refuse a request for what it asks: every 4xx except 429."""
    return np.asarray((status >= 400) & (status < 500) & (status != 429))


def status_word(status: int) -> str:
    """Return a status in words, for example "answered 200"."""
    if status >= 100:
        return f"answered {status}"
    return {
        Status.TIMEOUT: "no answer within the timeout",
        Status.RESET: "the connection closed without an answer",
        Status.GARBAGE: "an answer that is not HTTP",
        Status.REFUSED: "the connection was refused, so nothing was sent",
        Status.DROPPED: "not sent, because no connection was free in time",
        Status.UNCONNECTED: "no connection was made in time, so nothing was sent",
    }[Status(status)]


class Entity(IntEnum):
    """The kind of thing that a value in a snapshot belongs to."""

    ORDER = 0
    USER = 1
    ITEM = 2


class State(IntEnum):
    """The result of one read in a snapshot."""

    READ = 0
    UNKNOWN = 1
    """Answered 4xx: the system does not know the id."""
    MALFORMED = 2
    LOST = 3
    """Answered 5xx or not at all, even after all retries."""


GOODPUT, SLOWEST_MS = 0.99, 1000.0
"""A rate is sustained if at least this share of the checkouts is done, and the p99 of their latencies is at most this
many milliseconds, measured from the time when each was due."""

RULES = (
    "contract",
    "ok_not_paid",
    "refused_but_paid",
    "charged_times",
    "taken_times",
    "negative",
    "oversold",
    "leaked",
    "never_sold",
    "unstable",
    "false_refusal",
    "unavailable",
)

SAFETY = ("ok_not_paid", "refused_but_paid", "charged_times", "taken_times", "negative", "oversold", "unstable")
"""The rules that protect money and stock. A violation of any of them caps the score."""


GRAVITY = (
    ("charged_times", "taken_times", "refused_but_paid", "ok_not_paid", "negative", "oversold"),
    ("unstable",),
    ("leaked", "never_sold", "contract"),
    ("false_refusal",),
    ("unavailable",),
)
"""The rules, the gravest first. Those in one group are equally grave."""


@dataclass(frozen=True)
class Limits:
    """The limits of a run, in seconds unless a field says otherwise."""

    timeout: float = 10.0
    ready: float = 60.0
    convergence: float = 60.0
    """The longest wait until all effects are complete."""
    still: float = 60.0
    """The longest wait if nothing moves: two snapshots are equal, and each wrong order has a definite answer."""
    pause: float = 3.0
    """The duration of a pause (SIGSTOP)."""
    probe: float = 3.0
    success: float = 0.9
    """The share of the load phase's checkouts that must succeed."""
    budget: float = 720.0
    """The time for the entire run, excluding the build."""
    top_rate: int = 1000
    """The highest rate of the load phase, in checkouts per second."""
    stable: float = 2.0
    """The time between the two snapshots of a pair, which must be equal."""
    restart: float = 1.0
    """A process that exited by itself is restarted within this time."""
    build: float = 600.0
    memory: int = 8 << 30
    """The maximum memory of all services together, in bytes."""
    disk: int = 8 << 30
    """The maximum size of all data folders together, in bytes."""
    files: int = 200_000
    """The maximum number of files in all data folders together."""


BUDGETS = {"quick": 110.0, "full": 700.0}
"""The time for the phases of a run, in seconds, by its mode."""
QUICK_STILL = 20.0
"""`Limits.still` of a quick run, in seconds."""
WAITS = 60.0
"""Seconds that a run usually takes beyond its budget, because its phases wait until all effects are complete."""
