"""The names and numbers of the assignment: phases, kinds of request, statuses, rules, limits.

The record's columns hold the codes; reports and messages use the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PHASES = ("contract", "duplicates", "load", "scarcity", "faults", "speed")
"""In the order in which they run."""

POWER_CUT = "powercut"
"""A separate run after the phases, outside verdict and score."""

RUNS = (*PHASES, POWER_CUT)
"""The column ``phase`` of orders, users and items is an index into this."""

JUDGED = PHASES[:5]
"""The phases that make the verdict."""


class Kind(IntEnum):
    """The kind of a request. Its subject is a row of orders, users or items."""

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
    """What happened instead of an answer. A status from 100 up is HTTP's."""

    TIMEOUT = -1
    RESET = -2
    GARBAGE = -3
    REFUSED = -4
    DROPPED = -5
    UNCONNECTED = -6


NEVER_WRITTEN = (Status.REFUSED, Status.DROPPED, Status.UNCONNECTED)
"""No byte of the request reached a socket, so it certainly had no effect."""

SHED = (429, Status.REFUSED)
"""The answers of a system that sheds load: certainly no effect, and no refusal either."""
SHED_AGAIN = "what was shed"
"""The wave that repeats the shed requests of a phase's main wave."""


def status_word(status: int) -> str:
    """A status in words."""
    if status >= 100:
        return f"answered {status}"
    return {
        Status.TIMEOUT: "no answer within the timeout",
        Status.RESET: "the connection closed without an answer",
        Status.GARBAGE: "an answer that is not HTTP",
        Status.REFUSED: "the connection was refused, so nothing was sent",
        Status.DROPPED: "not sent, as no connection was free in time",
        Status.UNCONNECTED: "not connected in time, so nothing was sent",
    }[Status(status)]


class Entity(IntEnum):
    """The thing that a value of a snapshot belongs to."""

    ORDER = 0
    USER = 1
    ITEM = 2


class State(IntEnum):
    """The result of one read of a snapshot."""

    READ = 0
    UNKNOWN = 1
    """4xx: the system does not know the id."""
    MALFORMED = 2
    LOST = 3
    """5xx or no answer, after all retries."""


GOODPUT, SLOWEST_MS = 0.99, 1000.0
"""A rate is sustained if this share of the checkouts is done, with at most this p99 from the due time."""

SPEED_ENDED = "a rate that is not held was found"
"""Why the speed phase ended, unless its time ended first. Records hold this text."""

RULES = (
    "contract",
    "ok_not_paid",
    "refused_but_paid",
    "charged_times",
    "taken_times",
    "negative",
    "oversold",
    "leaked",
    "unstable",
    "false_refusal",
    "unavailable",
)

SAFETY = ("ok_not_paid", "refused_but_paid", "charged_times", "taken_times", "negative", "oversold", "unstable")
"""Rules that protect money and stock. Breaking one caps the score."""


@dataclass(frozen=True)
class Limits:
    """The limits of a run, in seconds unless a field says otherwise."""

    timeout: float = 10.0
    ready: float = 60.0
    convergence: float = 60.0
    pause: float = 3.0
    """How long SIGSTOP pauses a process."""
    probe: float = 3.0
    success: float = 0.9
    """The share of the load phase's checkouts that must be done."""
    budget: float = 720.0
    """The whole run, without the build."""
    top_rate: int = 1000
    """The highest rate of the load phase, in checkouts a second."""
    stable: float = 2.0
    """Between the two snapshots of a pair that must agree."""
    restart: float = 1.0
    """A process that exited by itself is restarted within this time."""
    build: float = 600.0
    memory: int = 8 << 30
    """Bytes of memory of all services together."""
    disk: int = 8 << 30
    """Bytes in all data folders together."""
    files: int = 200_000
    """Files in all data folders together."""
