"""Break it in lab 6: a student's histories against wrong shops. A history is a case in the form that `explore` prints.

A history runs in each shop that has its messages. It exposes a shop that is wrong at once (for `explore`, a suspect): a
value is still wrong `system.SOON` seconds after the last message. The right shop with the same messages runs the
history, too. If it is wrong as well, the machine was too slow, and nothing is exposed.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import SubmissionError, UsageError, VoidError
from ..lab.breaking import Broken, History, Told, lines
from ..lab.reading import NoHistoryError, Piece
from ..lab.shops import MOST
from ..session import Wish, ended_by_signals
from ..submission import read_submission
from ..terms import Limits
from .cases import RACES, SCENARIOS, Case, shorter
from .explorer import TIMES, Explorer
from .play import Run
from .steps import together
from .world import PHASE
from .writes import TraceError

ROOT = Path(__file__).resolve().parents[2]
RIGHT = ROOT / "labs" / "checkout"
"""The right shops."""
SECONDS = 600.0
"""No run begins later than so many seconds after the first shop was started."""
_LETTERS = 400
_RACES = [each.name for each in RACES]
_NAMES = [*(each.name for each in SCENARIOS), *_RACES]
_FAULTS = (r"(?:lose|late after silence|late|silence) (.+)", r"kill (\S+) (?:at|after) (.+)")
_SWAPS = (r"at step \d+ deliver (.+)",)
_WRITES = r"kill (\S+) before its \d+(?:st|nd|rd|th) write"
_NTH = r"(\d+(?:st|nd|rd|th))"


@dataclass(frozen=True)
class Written:
    """A case as a student has written it. ``parts``: what happens, each with the processes that it names."""

    text: str
    scenario: str
    parts: tuple[tuple[Piece, tuple[str, ...]], ...]


def written(line: Piece) -> Written:
    """Read a case. Raises NoHistoryError if no shop has such a case, because of its form.

    >>> written(Piece("payable,  kill order+stock at payment->order 200, 1st")).parts
    (('payment->order 200', ('order', 'stock', 'payment', 'order')),)
    """
    if len(line) > _LETTERS:
        raise NoHistoryError(_LETTERS, f"a history has at most {_LETTERS} letters")
    scenario = next((name for name in _NAMES if f"{line},".startswith(f"{name},")), "")
    if not scenario:
        first = line.parts(",")[0]
        raise first.wrong(f"{str(first)[:40]!r} is no scenario; the scenarios are: {'; '.join(_NAMES)}")
    race = scenario in _RACES
    rest = iter(parts := line.piece(len(scenario) + 1).parts(",") if line != scenario else [])
    if not race and not parts:
        raise line.wrong("nothing happens in it; write what, for example: payable, lose stock->order 200, 1st")
    found = list[tuple[Piece, tuple[str, ...]]]()
    for does in rest:
        if not race and (write := does.groups(_WRITES)):
            found.append((does, tuple(write)))
            continue
        groups = next(filter(None, map(does.groups, _SWAPS if race else _FAULTS)), list[Piece]())
        if not groups and race:
            raise does.wrong('in a race, messages change places: write "at step 2 deliver" and a message')
        if not groups:
            words = "lose, late, silence, late after silence, kill NAME at, kill NAME after"
            raise does.wrong(f"{str(does)[:40]!r} cannot happen; write one of these and a message: {words}")
        *victims, message = groups
        if not (ends := message.groups(r"(\S+)->(\S+) .+")):
            raise message.wrong("a message is written as explore prints it, for example order->stock POST /take")
        if not (nth := next(rest, does)).groups(_NTH):
            raise nth.wrong("after a message comes which of those with the same words it is, for example 1st")
        found.append((message, (*(name for some in victims for name in some.split("+")), *ends)))
    return Written(", ".join(" ".join(part.split()) for part in (scenario, *parts)), scenario, tuple(found))


def histories(text: str) -> list[History]:
    """Return the cases of a file, one a line, without the ids that `explore` prints. Raises SubmissionError.

    >>> [one.text for one in histories("# mine\\n  L3: payable, late order->stock POST /take/#, 1st  # stock is taken")]
    ['payable, late order->stock POST /take/#, 1st']
    """
    found = []
    for number, raw in lines(text):
        line = re.sub(r"(^|\s)#.*", "", raw).rstrip()
        body = re.sub(r"^\s*([A-Z][\d.]+:\s*)?", "", line)
        if body:
            found.append(History(body, ((0, number, len(line) - len(body) + 1),)))
    return found


@dataclass
class _Tried:
    """A history, and in which shops it happened (``fits``), was wrong, or did not happen (``missed``)."""

    history: History
    case: Written | None = None
    none: NoHistoryError | None = None
    fits: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    others: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """For each shop without this case, the messages of its scenario."""
    late = blamed = False

    def read(self) -> None:
        """Read what is written."""
        try:
            self.case = written(Piece(self.history.text))
        except NoHistoryError as none:
            self.none = none

    def run(self, explorer: Explorer, number: int, until: float) -> None:
        """Run it in a shop, unless it is too late."""
        if self.case is None or self.late:
            return
        if time.monotonic() > until:
            self.late = True
        elif (case := explorer.find(self.case.text)) is None:
            self.others[number] = explorer.messages(self.case.scenario)
        elif (run := _run(explorer, case)) is None:
            self.missed.append(number)
        else:
            self.fits.append(number)
            self.wrong += [number] * bool(run.violations)

    def compare(self, explorer: Explorer, numbers: frozenset[int]) -> None:
        """Run it in the right shop. If that is wrong, too, none of the shops ``numbers`` is exposed."""
        if self.case is None or not numbers.intersection(self.wrong):
            return
        case = explorer.find(self.case.text)
        if case is not None and (run := _run(explorer, case)) is not None and run.violations:
            self.wrong = [number for number in self.wrong if number not in numbers]
            self.blamed = True

    def told(self) -> Told:
        """Return what came of it."""
        one, word, place = self.history, "", 0
        waited = bool(self.late or self.blamed or self.missed)
        if self.none is not None or self.case is None:
            word, place = str(self.none), self.none.at if self.none else 0
        elif self.wrong:
            pass
        elif self.late:
            word = "the time for all histories is used up"
        elif self.blamed:
            word = "the right shop is wrong for as long, because this machine is too slow: try it again"
        elif self.missed:
            word = f"it did not happen in {TIMES} tries in {_shops(self.missed)}: try it again"
        elif not self.fits:
            none = self._explained(self.case)
            word, place = str(none), none.at
        if word:
            return Told(one.line, one.text, word=word, at=one.at(place), waited=waited, blamed=self.blamed)
        changes, of = max(1, len(self.case.parts)) if self.case else 0, tuple(f"shop {number}" for number in self.fits)
        return Told(one.line, one.text, changes, tuple(self.wrong), waited=waited, of=of)

    def _explained(self, case: Written) -> NoHistoryError:
        """Return why no shop has a case, and what there is."""
        every = dict.fromkeys(said for some in self.others.values() for said in some)
        names = list(dict.fromkeys(name for said in every for name in said.split()[0].split("->")))
        for what, some in case.parts:
            for name in some:
                if name not in names:
                    return what.wrong(f"no shop has a process {name!r}; they are {together(sorted(names))}")
        shops: dict[tuple[str, ...], list[int]] = {}
        for number, messages in self.others.items():
            shops.setdefault(messages, []).append(number)
        have = "; ".join(f"{_shops(numbers)}: {', '.join(messages)}" for messages, numbers in shops.items())
        first = case.parts[0][0] if case.parts else Piece(case.text)
        unknown = "->" in first and not any(shorter(said, first) for said in every)
        why = "no shop has this message" if unknown else "the messages of no shop allow this case"
        return first.wrong(f"{why}. In {case.scenario!r}, there are in {have}")


def _run(explorer: Explorer, case: Case) -> Run | None:
    """Run a case; None if it does not happen, or if this machine lets no process be killed at its writes."""
    try:
        return explorer.run(case)
    except TraceError:
        return None


def _shops(numbers: Iterable[int]) -> str:
    found = [str(number) for number in numbers]
    return f"shop{'s' * (len(found) > 1)} {together(found)}"


def told(broken: Broken, folder: Path, text: str, say: Callable[[str], None] = lambda step: None) -> list[Told]:
    """Return the result of each history of a file. ``folder``: where the wrong shops are; ``say`` receives each step.

    Raises SubmissionError if the file is too large, UsageError if the folder is damaged, and VoidError if a shop does
    not run on this machine.
    """
    if sys.platform != "linux":
        raise UsageError("the histories of lab 6 run only on Linux, because of epoll and /proc; on Windows, use WSL")
    found = histories(text)
    tried = [_Tried(one) for one in found[:MOST]]
    for one in tried:
        one.read()
    folders = [folder.resolve() / wrong.text for wrong in broken.wrong]
    rights = sorted({right for wrong in broken.wrong for right in wrong.parts})
    with ended_by_signals(), contextlib.chdir(ROOT):  # child processes would import from the current folder
        until = time.monotonic() + SECONDS
        for number, shop in enumerate(folders if any(one.case for one in tried) else [], 1):
            say(f"shop {number} of {len(folders)}")
            with _exploring(shop) as explorer:
                for one in tried:
                    one.run(explorer, number, until)
        for right in rights:
            mine = frozenset(number for number, wrong in enumerate(broken.wrong, 1) if right in wrong.parts)
            suspects = [one for one in tried if mine.intersection(one.wrong)]
            if suspects:
                say("what is wrong, in the right shop")
                with _exploring(RIGHT / right) as explorer:
                    for one in suspects:
                        one.compare(explorer, mine)
    over = f"only the first {MOST} histories count"
    return [
        *(one.told() for one in tried),
        *(Told(one.line, one.text, word=over, at=one.at(0)) for one in found[MOST:]),
    ]


@contextlib.contextmanager
def _exploring(folder: Path) -> Iterator[Explorer]:
    """Yield an explorer of a shop, which prints nothing, after one run of each scenario without a fault."""
    try:
        submission = read_submission(folder)
    except (SubmissionError, OSError) as error:
        raise UsageError(f"{folder} is no shop ({error}); take the folder from where you got it again") from None
    wish = Wish(submission, (PHASE,), Limits(), 0, 0, "python -m grader break", PHASE)
    with contextlib.redirect_stdout(io.StringIO()), Explorer(wish, folder.name) as explorer:
        try:
            explorer.plain(1)
        except SubmissionError as error:
            raise VoidError(f"{folder.name} does not run on this machine: {error}") from error
        yield explorer


__all__ = ["SECONDS", "histories", "told", "written"]
