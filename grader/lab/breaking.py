"""Break it: a student's histories against the wrong solutions of a lab.

A wrong solution is exposed by a history to which it answers otherwise than the right one. `lab build` writes the
solutions to break.json, and proves that they can be exposed (`cover`):

    number, title          of the lab
    solution               the right solution
    wrong                  for each wrong solution its text, its area, what is wrong with it (``says``), and ``parts``:
                           the functions and classes of the module that can reach what is wrong
    areas                  for each area that is hidden the title of its task
    known                  how many changes the shortest set of histories has that is known to expose all
    set                    these histories; not in the students' copy
    shops                  whether it is lab 6 (`shops`): ``text`` is then the folder of a wrong shop, and ``parts`` the
                           right one of labs/checkout that has the same messages, if there is one

All of these are the author's. A history is only text: `histories` cuts the file, and the reader of the lab's checks.py
accepts or refuses each line. The solutions run in one process, which is killed if one of them hangs. For each history
a solution is imported anew, and a restart in a history is another import: what a killed process has lost, an import has
lost, too.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ..errors import SubmissionError, UsageError
from ..outcomes import Outcome
from ..worker import Answer, NoValueError, Runner, Student
from ..worker.protocol import Asks
from .judge import ask
from .reading import Makes, NoHistoryError, Piece, Reader, changes_of

BREAK = "break.json"
HISTORIES = "histories.txt"
MOST = 40
"""The maximum number of changes in a history."""
SECONDS = 0.5
"""CPU seconds that the right solution may take for a history."""
_WRONG = 2.0
"""CPU seconds that all wrong solutions may take together for a history, and one alone, which is then exposed."""
_LINES, _LETTERS, _BYTES = 200, 2000, 1 << 16
"""The maximum number of histories, of letters in one, and of bytes in a file."""
BONUS, NEAR = 0.1, 1.5
"""The share of the points that is added if all changes together are at most NEAR times those of the known set."""
HOST = '''"""All solutions in one module. The name "2:7:Max" is the class Max of solution 2 in its import 7."""

CODES, MADE = {}, {}


def __getattr__(name):
    if name.count(":") != 2:
        raise AttributeError(name)
    number, life, name = name.split(":")
    if number not in CODES:
        CODES[number] = compile(TEXTS[int(number)], f"solution {number}", "exec")
    if (number, life) not in MADE:
        MADE.clear()
        MADE[number, life] = {"__name__": "solution"}
        exec(CODES[number], MADE[number, life])
    if name not in MADE[number, life]:
        raise AttributeError(name)
    return MADE[number, life][name]
'''
_TRACE = re.compile(r"\s*trace {3}")
"""What `check` prints before a trace."""
_LABELS = ("rule", "right", "got", "says", "flag", "printed", "again", "to do", *Outcome)
_OTHER = re.compile(rf"\s*(task \d+: |visible: |Only case |({'|'.join(f'{label:7}' for label in _LABELS)}) )")
"""What `check` prints before all other lines, but for those that continue the line above."""


@dataclass(frozen=True)
class Wrong:
    """A wrong solution."""

    area: str
    says: str
    text: str
    parts: Sequence[str]


@dataclass(frozen=True)
class Broken:
    """The content of break.json."""

    number: int
    title: str
    solution: str
    wrong: Sequence[Wrong]
    areas: Mapping[str, str]
    known: int
    shops: bool = False

    @property
    def most(self) -> int:
        """The most changes with which there is a bonus."""
        return int(self.known * NEAR)

    def module(self) -> str:
        """Return the text of a module with all solutions."""
        return host([self.solution, *(one.text for one in self.wrong)])


def host(texts: Sequence[str]) -> str:
    """Return the text of a module with several solutions, which `Breaker` asks. The first is the right one."""
    return f"{HOST}\n\nTEXTS = {list(texts)!r}\n"


def read_broken(path: Path) -> Broken:
    """Read a break.json. Raises UsageError if it is none."""
    try:
        return broken_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} is missing; take the folder break/ from your teacher") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged ({error}); take it from where you got it again") from None


def broken_of(text: str) -> Broken:
    """Return the content of a break.json. Raises ValueError, KeyError or TypeError if it is none."""
    said = json.loads(text)
    wrong = [Wrong(*(one[name] for name in ("area", "says", "text", "parts"))) for one in said["wrong"]]
    about = {name: said[name] for name in ("number", "title", "solution", "areas", "known")}
    return Broken(**about, wrong=wrong, shops=said.get("shops", False))


def read_reader(checks: Path) -> Reader | None:
    """Return the reader of a checks.py; None if it has none."""
    found: Reader | None = runpy.run_path(str(checks)).get("reader")
    return found


@dataclass(frozen=True)
class History:
    """A history in a file. ``places``: for each of its lines where it begins in ``text``, its number and its column."""

    text: str
    places: tuple[tuple[int, int, int], ...]

    @property
    def line(self) -> int:
        """The number of its first line."""
        return self.places[0][1]

    def at(self, place: int) -> tuple[int, int]:
        """Return the line and the column of a place in the text, both from 1."""
        start, line, column = max(one for one in self.places if one[0] <= max(place, 0))
        return line, column + place - start


def histories(text: str) -> list[History]:
    """Return the histories of a file, one a line. Raises SubmissionError if it is too large.

    A comment begins with #. A line that begins with a blank continues the line above. What `check` prints can be
    pasted: its traces are read, and its other lines are left out.

    >>> [one.text for one in histories("+a | -a  # a comment\\n    trace   +a |\\n            +b\\n    right   1\\n+c")]
    ['+a | -a', '+a | +b', '+c']
    """
    found, above, other = list[History](), "", False
    for number, raw in lines(text):
        line = raw.partition("#")[0].rstrip()
        printed = _TRACE.match(line)
        body = line[printed.end() :] if printed else line.lstrip()
        column = len(line) - len(body) + 1
        goes_on = bool(above) and not printed and column > 1
        other = _OTHER.match(line) is not None or (other and goes_on)
        above = body
        if other or not body:
            continue
        if goes_on:
            one = found.pop()
            found.append(History(f"{one.text} {body}", (*one.places, (len(one.text) + 1, number, column))))
        else:
            found.append(History(body, ((0, number, column),)))
    return found


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file of histories with their numbers. Raises SubmissionError if it is too large."""
    if len(text.encode()) > _BYTES:
        raise SubmissionError(f"it has more than {_BYTES:,} bytes", "leave histories out")
    yield from enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), 1)


@dataclass(frozen=True)
class Told:
    """The result of a history: the wrong solutions that it exposes, by number, or why it does not count (``word``)."""

    line: int
    text: str
    changes: int = 0
    exposes: tuple[int, ...] = ()
    word: str = ""
    at: tuple[int, int] = (0, 0)
    """The line and the column that ``word`` is about."""
    waited: bool = False
    """Whether a busy machine may be the reason."""
    blamed: bool = False
    """Whether the right solution does not give the answer that the lab calls right."""
    of: tuple[str, ...] = ()
    """The functions and classes that it is a history of, if the lab has several of them."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


class LateHistoryError(NoHistoryError):
    """There is no answer in time, perhaps because of a busy machine."""


class BlamedError(Exception):
    """The right solution does not give the answer that the lab calls right. The message has both."""


class _One:
    """A runner of one of the solutions of a host. ``names``: which functions and classes it was asked for."""

    def __init__(self, runner: Runner, number: int, lives: Iterator[int]) -> None:
        self._runner, self._number, self._lives = runner, number, lives
        self.limit, self.cpu = runner.limit, runner.cpu
        self.names = set[str]()
        self.restart()

    def restart(self) -> None:
        """Import the solution anew when it is next asked."""
        self._life = next(self._lives)

    def run(self, steps: Sequence[Sequence[Any]], asks: Asks | None = None) -> Answer:
        """Run the steps of `child.py`."""
        return self._runner.run([self._named(*step) for step in steps], asks)

    def _named(self, kind: str, *given: Any) -> list[Any]:
        if kind == "new" or (kind == "call" and not given[0]):
            self.names.add(given[1])
            given = (given[0], f"{self._number}:{self._life}:{given[1]}", *given[2:])
        return [kind, *given]


class Breaker:
    """Asks all solutions of a set. ``runner`` runs `host` with their texts."""

    def __init__(self, reader: Reader, runner: Runner, parts: Sequence[Sequence[str]]) -> None:
        """``parts``: those of the wrong solutions, in their order."""
        self._reader, self._runner, self._parts = reader, runner, [frozenset(some) for some in parts]
        self._lives, self._spent = count(), False
        self._several = len(frozenset[str]().union(*self._parts)) > 1
        self.of: tuple[str, ...] = ()
        """The functions and classes that `exposed` has asked last, if there are several in the lab."""
        self.hang = set[int]()
        """The wrong solutions that have not answered in time. `told` does not ask them again."""

    def right(self) -> Student:
        """Return the right solution."""
        return Student(_One(self._runner, 0, self._lives))

    def exposed(self, line: str, but: Collection[int] = ()) -> tuple[int, ...]:
        """Return the numbers, from 1, of the wrong solutions that a history exposes. ``but``: those not to be asked.

        Raises NoHistoryError if the history does not count, and LateHistoryError if the machine may be the reason.
        """
        if self._spent:
            raise LateHistoryError(0, "the time for all histories is used up")
        if len(line) > _LETTERS:
            raise NoHistoryError(_LETTERS, f"a history has at most {_LETTERS:,} letters")
        changes = changes_of(line)
        if len(changes) > MOST:
            raise changes[MOST].wrong(f"it has {len(changes)} changes; the limit is {MOST}")
        right = _One(self._runner, 0, self._lives)
        self._runner.limit(SECONDS)
        try:
            makes = self._reader(Piece(line), Student(right))
            case = makes(Student(right))
            seen = ask(case, Student(right))
        except NoValueError as failed:
            raise self._refused(failed.answer) from None
        if seen.none is not None:
            raise self._refused(seen.none)
        if seen.outcome != Outcome.PASS:
            raise BlamedError(f"{case.trace}: the right answer is {case.shape.show(case.right)}, not {seen.text}")
        self.of = tuple(sorted(right.names)) if self._several else ()
        taking_part = [number for number, parts in enumerate(self._parts, 1) if parts & right.names]
        if not taking_part:
            raise NoHistoryError(0, "no wrong solution takes part in it")
        self._runner.limit(_WRONG)
        return tuple(number for number in taking_part if number not in but and self._differs(number, makes))

    def _refused(self, why: Answer) -> NoHistoryError:
        if why.kind != Outcome.TIMEOUT:
            return NoHistoryError(0, f"the right solution has no answer: {why.why}")
        self._spent |= why.spent
        said = f"the right solution needs more than {SECONDS:g} s"
        return LateHistoryError(0, said) if why.waited else NoHistoryError(0, said)

    def _differs(self, number: int, makes: Makes) -> bool:
        for _ in range(2):  # the time may have been used up by others
            student = Student(_One(self._runner, number, self._lives))
            seen = ask(makes(student), student)
            if seen.none is None or seen.none.kind != Outcome.TIMEOUT:
                return seen.outcome != Outcome.PASS
            self._spent |= seen.none.spent
            self._runner.limit(_WRONG)
        self.hang.add(number)
        return True

    def told(self, found: Sequence[History]) -> Iterator[Told]:
        """Yield the result of each history, in their order."""
        for number, one in enumerate(found):
            try:
                if number >= _LINES:
                    raise NoHistoryError(0, f"only the first {_LINES} histories count")
                exposes = self.exposed(one.text, self.hang)
                yield Told(one.line, one.text, len(changes_of(one.text)), exposes, of=self.of)
            except BlamedError:
                yield Told(one.line, one.text, word="the lab is wrong about the right answer", blamed=True)
            except NoHistoryError as none:
                late = isinstance(none, LateHistoryError)
                yield Told(one.line, one.text, word=str(none), at=one.at(none.at), waited=late)


@dataclass(frozen=True)
class Score:
    """What all histories of a student expose together: the numbers of wrong solutions, each of them a point."""

    exposed: frozenset[int]
    changes: int
    near: bool
    """Whether there is a bonus, because the changes are few."""


def score(broken: Broken, told: Sequence[Told]) -> Score:
    """Return what histories are worth."""
    changes = sum(one.changes for one in told)
    return Score(frozenset().union(*(one.exposes for one in told)), changes, changes <= broken.most)
