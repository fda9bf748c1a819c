"""Regions: the parts of a solution that the student writes. In the stub, each is one statement that raises.

        ### BEGIN SOLUTION task 2: each change meets the rows of the other side
        ...
        ### END SOLUTION

becomes ``raise NotImplementedError("task 2: each change meets the rows of the other side")``. A region holds whole
statements of one block in one function. It holds no other region and no line such as ``else:``, and is not in __init__,
because a class that cannot be made would fail every check.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import GraderError

_EXAMPLE = "\n  example:     ### BEGIN SOLUTION task 2: each row meets the other side\n               ...\n"
_EXAMPLE += "               ### END SOLUTION"
_MARK = re.compile(r"#.*\b(BEGIN|END)\s+SOLUTION\b", re.IGNORECASE)
_BEGIN = re.compile(r"\s*### BEGIN SOLUTION task (\d+): (\S.*)")
_END = re.compile(r"\s*### END SOLUTION\s*")


class MasterError(GraderError):
    """A master is not accepted. The message has one paragraph for each problem: file, line, rule, example."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Region:
    """A region: its task, its words, and the lines of its two markers, counted from 1."""

    task: int
    words: str
    first: int
    last: int


def regions(text: str, file: str = "solution.py") -> list[Region]:
    """Return the regions of a solution. Raises MasterError for markers that do not match."""
    found: list[Region] = []
    opened: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not _MARK.search(line):
            continue
        if begin := _BEGIN.fullmatch(line):
            if opened:
                raise _wrong(
                    file, number, f"a region begins inside the one that begins in line {opened[0]}; end it first"
                )
            opened = number, begin
        elif not _END.fullmatch(line):
            raise _wrong(file, number, f"this marker is neither a BEGIN nor an END: {line.strip()}")
        elif opened is None:
            raise _wrong(file, number, "a region ends here, but none has begun")
        else:
            at, begin = opened
            found.append(Region(int(begin[1]), begin[2].strip(), at, number))
            opened = None
    if opened:
        raise _wrong(file, opened[0], "this region has no END")
    if not found:
        raise _wrong(file, 1, "there is no region, so the stub would be the solution")
    return found


def stub(text: str, file: str = "solution.py") -> str:
    """Return the solution with a ``raise`` in place of each region. Raises MasterError.

    >>> print(stub('''def double(x):
    ...     ### BEGIN SOLUTION task 1: double it
    ...     return 2 * x
    ...     ### END SOLUTION
    ... '''), end="")
    def double(x):
        raise NotImplementedError("task 1: double it")
    """
    found = regions(text, file)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise MasterError(f"{file}, line {error.lineno}: {error.msg}; the solution must be valid Python") from None
    above: dict[ast.AST, tuple[ast.AST, str]] = {}
    for parent, child, field in _children(tree):
        above[child] = parent, field
    lines = text.splitlines()
    out, at = [], 0
    for region in found:
        first = _block(region, above, lines, file)
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        words = json.dumps(f"task {region.task}: {region.words}", ensure_ascii=False)
        out += [*lines[at : region.first - 1], f"{indent}raise NotImplementedError({words})"]
        at = region.last
    made = "\n".join([*out, *lines[at:]]) + "\n"
    try:
        compile(made, file, "exec")
    except SyntaxError as error:
        raise MasterError(f"{file}: the stub does not compile: {error.msg}: {(error.text or '').strip()}") from None
    return made


def _children(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield parent, child, field


def _block(region: Region, above: dict[ast.AST, tuple[ast.AST, str]], lines: list[str], file: str) -> int:
    """Return the first line of the region's statements. Raises MasterError if they cannot be replaced by one."""

    def inside(node: Any) -> bool:
        return isinstance(node, ast.stmt) and _begin(node) > region.first and (node.end_lineno or 0) < region.last

    block: list[Any] = [node for node in above if inside(node) and not inside(above[node][0])]
    covered = {line for node in block for line in range(_begin(node), node.end_lineno + 1)}
    for number in range(region.first + 1, region.last):
        if number not in covered and lines[number - 1].split("#")[0].strip():
            raise _wrong(
                file, number, "a region must hold whole statements, with everything that is indented below them"
            )
    if not block:
        raise _wrong(file, region.first, "the region has no statement")
    if len({(id(above[node][0]), above[node][1]) for node in block}) > 1:
        raise _wrong(file, region.first, "the statements of a region must be in one block")
    owner: ast.AST = block[0]
    while owner in above and not isinstance(owner := above[owner][0], ast.FunctionDef | ast.AsyncFunctionDef):
        pass
    if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        raise _wrong(file, region.first, "a region must be in a function")
    if owner.name == "__init__":
        raise _wrong(file, region.first, "a region must not be in __init__, or no check could make an object")
    return min(map(_begin, block))


def _begin(node: Any) -> int:
    decorated: list[int] = [mark.lineno for mark in getattr(node, "decorator_list", ())]
    return min([int(node.lineno), *decorated])


def _wrong(file: str, line: int, rule: str) -> MasterError:
    return MasterError(f"{file}, line {line}: {rule}{_EXAMPLE}")
