"""What is given out to be broken: the proof that all wrong solutions of a lab can be exposed, and by how few changes.

Each wrong solution must be exposed by its own shortest history, which is its trace in mutants.toml. The other histories
are drawn from those of the visible checks, alone and two in a row. The right solution must answer all of them rightly.
"""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from .breaking import BlamedError, Breaker, host, read_reader
from .checks import CHECKS
from .master import Master
from .prove import Proof, Say, workers
from .reach import reached
from .reading import NoHistoryError, Piece, changes_of
from .regions import MasterError

_DRAWN, _PAIRS = 150, 250
"""The number of histories that are drawn from the checks, and of pairs of histories."""
_EACH = 100
"""One process is asked so many histories."""


def breakable(master: Master, proof: Proof, work: Path, say: Say) -> dict[str, Any]:
    """Return the content of break.json, or {} if checks.py in ``work`` has no reader. Raises MasterError."""
    reader = read_reader(work / CHECKS)
    if reader is None:
        return {}
    texts = [master.solution, *(mutant.text for mutant in master.mutants)]
    parts = [parts_of(master.solution, text) for text in texts[1:]]
    own = [str(one["trace"]) for one in proof.mutants]
    with closing(workers([host(texts)] * 1000, master.lab["memory_mib"])) as started:

        def asked(lines: list[str], drawn: bool) -> Iterator[tuple[str, frozenset[int]]]:
            for number, line in enumerate(lines):
                if number % _EACH == 0:
                    say(f"break: histories {number + 1} to {min(number + _EACH, len(lines))} of {len(lines)}")
                    breaker = Breaker(reader, next(started), parts)
                try:
                    yield line, frozenset(breaker.exposed(line))
                except BlamedError as blamed:
                    raise MasterError(f"{CHECKS}: the reader blames the solution: {blamed}") from None
                except NoHistoryError as none:
                    if not drawn:
                        rule = f"the reader refuses {line!r} (column {none.at + 1}: {none})"
                        raise MasterError(f"{CHECKS}: {rule}; it reads whatever `check` prints") from None

        found = dict(asked(own, drawn=False))
        for number, (mutant, line) in enumerate(zip(master.mutants, own, strict=True), 1):
            if number not in found[line]:
                rule = f"its trace {line!r} does not expose it, as the reader of {CHECKS} reads it"
                raise MasterError(f"mutants.toml, line {mutant.line}: [{mutant.name}]: {rule}")
        draw, visible = random.Random("break"), [one for one in master.checks if not one.hidden]
        right = Breaker(reader, next(started), parts).right()
        traces = list(dict.fromkeys(case.trace for check in visible for case in check.cases(right)))
        found |= dict(asked(draw.sample(traces, min(len(traces), _DRAWN)), drawn=False))
        pairs = (" | ".join(draw.choices(own, k=2)) for _ in range(_PAIRS))
        found |= dict(asked([line for line in pairs if line not in found], drawn=True))
        chosen = cover(found, len(own))
        shorter = dict(asked([*dict.fromkeys(less for line in chosen for less in shortened(line))], drawn=True))
        chosen = cover(found | shorter, len(own))
    about = {"version": 1, "number": master.lab["number"], "title": master.lab["title"], "solution": master.solution}
    area = {one.id: f"hidden, task {one.task}" if one.hidden else one.id for one in master.checks}
    wrong = [
        {"area": area[mutant.check], "says": mutant.says, "text": mutant.text, "parts": some}
        for mutant, some in zip(master.mutants, parts, strict=True)
    ]
    areas = {area[one.id]: master.lab["tasks"][str(one.task)] for one in master.checks if one.hidden}
    notation = inspect.cleandoc(reader.__doc__ or "")
    known = sum(map(length, chosen))
    return {**about, "wrong": wrong, "areas": areas, "known": known, "set": chosen, "notation": notation}


def parts_of(solution: str, wrong: str) -> list[str]:
    """Return the functions and classes of a solution that can reach what differs in a wrong one.

    >>> right = "def f(): return g()\\ndef g(): return 1\\ndef h(): return 2"
    >>> parts_of(right, right.replace("1", "3"))
    ['f', 'g']
    """
    defined = [node.name for node in ast.parse(solution).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = [frozenset({name}) for name in defined]
    return [min(one) for one in names if reached(wrong, one) != reached(solution, one)]


def length(line: str) -> int:
    """Return the number of changes of a history."""
    return len(changes_of(line))


def shortened(line: str) -> Iterator[str]:
    """Yield a history without one of its changes, for each of them.

    >>> list(shortened("+a, +b | -a"))
    ['+b | -a', '+a | -a', '+a, +b']
    """
    steps = [[str(change) for change in step.parts(",")] for step in Piece(line).parts("|")]
    for number, step in enumerate(steps):
        for at in range(len(step)):
            less = [*steps[:number], [*step[:at], *step[at + 1 :]], *steps[number + 1 :]]
            yield " | ".join(", ".join(changes) for changes in less if changes)


def cover(exposes: Mapping[str, frozenset[int]], wrong: int) -> list[str]:
    """Return histories that expose the wrong solutions 1 to ``wrong`` with few changes, in a fixed order.

    The greedy set cover: the next one is that with the most new ones for its changes. In the end, histories are left
    out that the others make needless, the longest first.

    >>> cover({"+a | +b": frozenset({1, 2}), "+c": frozenset({2}), "+d | +e": frozenset({1, 2, 3})}, 3)
    ['+d | +e']
    """
    chosen, left = list[str](), set(range(1, wrong + 1))
    while left:
        best = max(exposes, key=lambda line: (len(exposes[line] & left) / max(1, length(line)), -length(line), line))
        chosen.append(best)
        left -= exposes[best]
    for line in sorted(chosen, key=length, reverse=True):
        others = [one for one in chosen if one != line]
        if len(frozenset().union(*(exposes[one] for one in others))) == wrong:
            chosen = others
    return chosen
