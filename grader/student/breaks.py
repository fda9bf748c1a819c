"""``python -m grader break [FOLDER]``: which wrong solutions one's own histories expose."""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from pathlib import Path

from ..errors import SubmissionError, UsageError
from ..lab.breaking import (
    BREAK,
    HISTORIES,
    Breaker,
    Broken,
    Told,
    histories,
    read_broken,
    read_reader,
    score,
)
from ..lab.checks import CHECKS
from ..lab.source import read
from ..statuses import FAILED, OK, Parser, status_of
from .local import Local

PLACE = "break"
"""The folder in a student's copy."""
_NAME, _MODULE, _WIDTH = "python -m grader break", "solutions", 78


def main(args: list[str]) -> int:
    """Run the command line. Returns 0 if all wrong solutions are exposed, 1 if not, and 64 for usage."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a console of Windows may lack a letter
    return status_of(_NAME, lambda: _main(args), "interrupted")


def _main(args: list[str]) -> int:
    parser = Parser(prog=_NAME, description=f"Find out which wrong solutions the histories in {HISTORIES} expose.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="the lab's folder (default: this folder)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args(args)
    place, checks = given.folder / PLACE, given.folder / CHECKS
    broken = read_broken(place / BREAK)
    if not broken.shops and not checks.is_file():
        raise UsageError(f"{checks} is missing; {PLACE}/ belongs into the folder of the lab, beside {CHECKS}")
    text, notes = text_of(place / HISTORIES)
    told = list[Told]()
    with tempfile.TemporaryDirectory() as made:
        try:
            for one in told_of(broken, place if broken.shops else checks, text, Path(made), _say):
                told.append(one)
                if not given.json:
                    print(_shown(one), flush=True)
        except SubmissionError as error:
            raise UsageError(f"{place / HISTORIES}: {error}") from None
    if given.json:
        print(json.dumps({"notes": notes, "histories": [one.as_json() for one in told], **summary(broken, told)}))
    else:
        print("\n".join([*notes, *_end(broken, told)]))
    return OK if len(score(broken, told).exposed) == len(broken.wrong) else FAILED


def text_of(path: Path) -> tuple[str, list[str]]:
    """Return the text of a file of histories, and notes on how it was read. Raises UsageError."""
    try:
        content, notes = read(path.read_bytes(), path.name)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; write a history into each line of this file") from None
    return content.decode(), notes


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def told_of(
    broken: Broken, of: Path, text: str, place: Path, say: Callable[[str], None] = lambda step: None
) -> Iterator[Told]:
    """Yield the result of each history of a file. Raises SubmissionError if the file is too large.

    ``of``: checks.py of the lab, or the folder with the shops; ``place``: an empty folder; ``say``: receives what takes
    seconds when it begins.
    """
    if broken.shops:  # a room above this one, which a student's copy of labs 1 to 3 lacks
        yield from import_module("grader.explore.breaking").told(broken, of, text, say)
        return
    found = histories(text)
    with breaking(broken, of, place) as breaker:
        yield from breaker.told(found)


@contextmanager
def breaking(broken: Broken, checks: Path, place: Path) -> Iterator[Breaker]:
    """Yield what asks the solutions of a set, in a plain process: all of its code is the lab's.

    ``place``: an empty folder for this code. Raises UsageError if checks.py has no reader.
    """
    reader = read_reader(checks)
    if reader is None:
        raise UsageError(f"{checks} has no reader, so it is of another lab, or of an earlier version of this one")
    (place / f"{_MODULE}.py").write_text(broken.module(), encoding="utf-8")
    with Local(place, _MODULE) as local:
        yield Breaker(reader, local, [one.parts for one in broken.wrong])


def summary(broken: Broken, told: Sequence[Told]) -> dict[str, object]:
    """Return what all histories expose together, as JSON."""
    won = score(broken, told)
    return {
        "exposed": sorted(won.exposed),
        "at_large": [number for number in range(1, len(broken.wrong) + 1) if number not in won.exposed],
        "changes": won.changes,
        "known": broken.known,
    }


def _shown(told: Told) -> str:
    numbers = ", ".join(map(str, told.exposes))
    line, column = told.at
    if told.word:
        where = f"line {line}, column {column}: " if line != told.line else f"column {column}: "
        said = f"{where if line else ''}{told.word}"
    else:
        said = f"exposes {numbers}" if numbers else "exposes no wrong solution"
        said += f"; read as a history of {', '.join(told.of)}" if told.of else ""
    return f"line {told.line}: {_cut(told.text)}\n{_filled(said, 4)}"


def _cut(text: str) -> str:
    return text if len(text) < _WIDTH - 12 else f"{text[: _WIDTH - 16]} ..."


def _filled(text: str, indent: int) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 5))


def _end(broken: Broken, told: Sequence[Told]) -> Iterator[str]:
    """Yield the lines about all histories together."""
    won, of = score(broken, told), len(broken.wrong)
    yield f"exposed: {len(won.exposed)} of {of}"
    for number in sorted(won.exposed):
        yield _filled(f"{number:3}  {broken.wrong[number - 1].says}", 0)
    left = [(one.area, number) for number, one in enumerate(broken.wrong, 1) if number not in won.exposed]
    if left:
        yield f"at large: {len(left)}"
    for area, some in groupby(left, lambda one: one[0]):
        about = f"{area} ({broken.areas[area]})" if area in broken.areas else area
        yield _filled(f"{about}: {', '.join(str(number) for _, number in some)}", 2)
    bonus = f"a bonus of 10 % with at most {broken.most}"
    yield f"changes: {won.changes}; the shortest set known that exposes all {of} has {broken.known}; {bonus}"
