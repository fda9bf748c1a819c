"""What the live half of a run notes for the judging half, besides the columns of the tables.

``Notes`` are about a phase. A phase that has more to say has a class of its own, which names it; ``SentWave`` is about
a wave of requests, and ``Exchange`` about one request of the contract phase. All of them are JSON objects in the
record, without the fields that have their default.

>>> note = Scarcity(begin_s=1.5, rounds=[Round("stock", 2, (0, 5), 3)])
>>> content(note)
{'begin_s': 1.5, 'rounds': [{'by': 'stock', 'enough': 2, 'orders': [0, 5], 'snapshot': 3}]}
>>> notes_from("scarcity", content(note)) == note
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar


@dataclass
class Notes:
    """The notes about a phase. Times are in seconds since the run began; None: it did not come to that."""

    phase: ClassVar[str] = ""
    """The phase that this class is for."""
    begin_s: float | None = None
    end_s: float | None = None
    """None: the phase was cut off."""
    settled_s: float | None = None
    """How long the effects took to settle; None: they never did."""
    skipped: str = ""
    """Why the phase was not run, although it was requested."""
    stopped: str = ""
    """Why the phase could not go on, because of the submission."""
    orders: int | None = None
    """How many orders it has set up."""

    def __init_subclass__(cls, phase: str) -> None:
        """Remember the class of a phase's notes."""
        cls.phase = phase
        _CLASSES[phase] = cls


_CLASSES: dict[str, type[Notes]] = {}


def _many(kind: type) -> Any:
    return field(default_factory=list, metadata={"of": kind})


@dataclass
class Contract(Notes, phase="contract"):
    """``silent``: whether the system stopped answering, so that no later phase was run."""

    silent: bool = False


@dataclass
class Load(Notes, phase="load"):
    """``rate``: checkouts per second."""

    rate: float | None = None


@dataclass
class Round:
    """One round of scarcity: ``by`` stock or credit, there was enough for ``enough`` of the orders."""

    by: str
    enough: int
    orders: tuple[int, int]
    """The first and the last row."""
    snapshot: int
    """The number of the snapshot that ended the round."""

    def __post_init__(self) -> None:
        """JSON has no tuples."""
        self.orders = (self.orders[0], self.orders[1])


@dataclass
class Scarcity(Notes, phase="scarcity"):
    """The rounds, in their order."""

    rounds: list[Round] = _many(Round)


@dataclass
class Struck:
    """A fault, the service that it hit, and how many checkouts were in flight."""

    what: str
    service: str
    under_way: int


@dataclass
class Faults(Notes, phase="faults"):
    """``left_out``: the faults for which no time was left."""

    faults: list[Struck] = _many(Struck)
    left_out: list[str] = field(default_factory=list)


@dataclass
class Step:
    """One rate (checkouts per second) of the speed phase, the number of its wave, and the cores that services used."""

    wave: int
    rate: int
    cores: float


@dataclass
class Speed(Notes, phase="speed"):
    """``ended``: why no further rate was tried. ``limit_found``: whether that is a rate which was not held."""

    steps: list[Step] = _many(Step)
    ended: str = ""
    limit_found: bool = False


@dataclass
class Cut:
    """A power cut: its number, the numbers of its first and last order, after how many answers, and when it was up."""

    cut: int
    first: int
    last: int
    answers: int = 0
    at_s: float = 0.0
    blocks: int = 0
    """The unsynced blocks of 4 KiB that it discarded, of ``files`` files."""
    files: int = 0


@dataclass
class PowerCuts(Notes, phase="powercut"):
    """``not_back``: why the system did not start again after the last cut."""

    cuts: list[Cut] = _many(Cut)
    not_back: str = ""


@dataclass
class SentWave:
    """Requests that were sent together. Times are in nanoseconds since the run began."""

    phase: str
    name: str
    start: int
    requests: int
    counts: bool = True
    """Whether the figures of the phase count its checkouts."""
    may_refuse: bool = False
    """Whether its orders may be refused, because there is too little stock or credit for some of them."""
    again: bool = False
    """Whether it repeats the checkouts that the system shed in a wave that counts."""
    end: int = 0
    cpu: float = 0.0
    """The CPU seconds of the generator."""
    opened: int = 0
    """How many connections it opened."""


@dataclass
class Exchange:
    """One request of the contract phase, the answer that it should get, and the one that it got."""

    title: str
    service: str
    request: str
    expected: str
    got: str = ""
    agreed: bool = False
    asked: bool = True
    """False: not sent or not judged, and ``got`` says why."""
    reads: bool = False
    """Whether it only reads, so that a wrong value may be late."""
    why: str = ""
    """What is wrong with the form of its fields."""
    status: int = 0
    differs: str = ""
    """How often each answer came, if repetitions of a wrong read got different ones."""
    again: bool = False
    """Whether it repeats an earlier one at the end of the run."""


def content(note: Any) -> dict[str, Any]:
    """Return the fields of a note as values of JSON, without those that have their default."""
    found = {}
    for each in fields(note):
        value = getattr(note, each.name)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if value != default:
            found[each.name] = _json(value)
    return found


def _json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return content(value) if is_dataclass(value) else value


def empty_notes(phase: str) -> Notes:
    """Return notes about a phase that say nothing yet."""
    return _CLASSES.get(phase, Notes)()


def notes_from(phase: str, told: Mapping[str, Any]) -> Notes:
    """Return the notes about a phase from their fields. Raises TypeError for a field that it does not have."""
    kind = _CLASSES.get(phase, Notes)
    parts = {each.name: each.metadata["of"] for each in fields(kind) if "of" in each.metadata}
    values: dict[str, Any] = dict(told)
    for name in parts.keys() & values.keys():
        values[name] = [parts[name](**part) for part in values[name]]
    return kind(**values)
