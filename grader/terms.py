"""The words and numbers of the assignment: phases, kinds of request, statuses, rules, limits.

Codes are what the record's columns hold; names are what reports and messages say.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PHASES = ("contract", "duplicates", "load", "scarcity", "faults", "speed")
"""In the order in which they run."""

POWER_CUT = "powercut"
"""A run of its own after them, outside verdict and score."""

RUNS = (*PHASES, POWER_CUT)
"""What an order is made for; its phase is its place here."""

JUDGED = PHASES[:5]
"""The phases that make the verdict."""


class Kind(IntEnum):
    """What a request of the history is; its subject is a row of orders, users or items."""

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
    """What happened instead of an answer; from 100 up a status is HTTP's."""

    TIMEOUT = -1
    RESET = -2
    GARBAGE = -3
    REFUSED = -4
    DROPPED = -5
    UNCONNECTED = -6


NEVER_WRITTEN = (Status.REFUSED, Status.DROPPED, Status.UNCONNECTED)
"""No byte of the request reached a socket: definite, and without effect."""

SHED = (429, Status.REFUSED)
"""What a system that sheds load answers: definite, without effect, and no refusal."""
SHED_AGAIN = "what was shed"
"""The wave in which a phase sends again what was shed of its main one."""


def status_word(status: int) -> str:
    """An answer, in words."""
    if status >= 100:
        return f"answered {status}"
    return {
        Status.TIMEOUT: "no answer within the timeout",
        Status.RESET: "the connection closed without an answer",
        Status.GARBAGE: "an answer that is not HTTP",
        Status.REFUSED: "the connection was refused; nothing was sent",
        Status.DROPPED: "not sent: no connection was free in time",
        Status.UNCONNECTED: "no connection came about; nothing was sent",
    }[Status(status)]


class Entity(IntEnum):
    """What a value of a snapshot belongs to."""

    ORDER = 0
    USER = 1
    ITEM = 2


class State(IntEnum):
    """What a read of a snapshot gave."""

    READ = 0
    UNKNOWN = 1
    """4xx: the system says that there is no such thing."""
    MALFORMED = 2
    LOST = 3
    """5xx, or no answer, after every retry."""


GOODPUT, SLOWEST_MS = 0.99, 1000.0
"""A step of the speed phase is held with this share done and this p99, from the due time."""

SPEED_ENDED = "a rate that is not held was found"
"""Why the speed phase ended, where the time did not end it."""

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
"""Rules whose breach loses money or stock: one of them caps the whole score."""


@dataclass(frozen=True)
class Limits:
    """The numbers of a run; seconds unless the name says otherwise."""

    timeout: float = 10.0
    ready: float = 60.0
    convergence: float = 60.0
    pause: float = 3.0
    """How long a process is stopped by SIGSTOP."""
    probe: float = 3.0
    success: float = 0.9
    """Of what phase 3 offers, the share that must be done."""
    budget: float = 720.0
    """The whole run, build aside."""
    top_rate: int = 1000
    """Checkouts a second: the most that phase 3 offers."""
    stable: float = 2.0
    """Between the two snapshots of a pair."""
    restart: float = 1.0
    """Within which a process that exited by itself is started again."""
    build: float = 600.0
    memory: int = 8 << 30
    """Bytes that all services may take together."""
    disk: int = 8 << 30
    """Bytes that may be in all data folders together."""
    files: int = 200_000
    """And so many files."""
