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
from dataclasses import dataclass
from typing import Any

from ..errors import GraderError

_EXAMPLE = "\n  example:     ### BEGIN SOLUTION task 2: each row meets the other side\n               ...\n"
_EXAMPLE += "               ### END SOLUTION"
_MARK = re.compile(r"#.*\b(BEGIN|END)\s+SOLUTION\b", re.IGNORECASE)
_BEGIN = re.compile(r"\s*### BEGIN SOLUTION task (\d+): (\S.*)")
_END = re.compile(r"\s*### END SOLUTION\s*")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


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


def regions(text: str) -> list[Region]:
    """Return the regions of a solution. Raises MasterError for markers that do not match."""
    found: list[Region] = []
    opened: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        begin, end = _BEGIN.fullmatch(line), _END.fullmatch(line)
        if begin and opened:
            raise _wrong(number, f"a region begins inside the one that begins in line {opened[0]}; end it first")
        if begin:
            opened = number, begin
        elif end and opened:
            found.append(Region(int(opened[1][1]), opened[1][2].strip(), opened[0], number))
            opened = None
        elif end:
            raise _wrong(number, "a region ends here, but none has begun")
        elif _MARK.search(line):
            raise _wrong(number, f"this marker is neither a BEGIN nor an END: {line.strip()}")
    if opened or not found:
        raise _wrong(opened[0] if opened else 1, "this region has no END" if opened else "there is no region")
    return found


def stub(text: str) -> str:
    """Return the solution with a ``raise`` in place of each region. Raises MasterError.

    >>> print(stub('''def double(x):
    ...     ### BEGIN SOLUTION task 1: double it
    ...     return 2 * x
    ...     ### END SOLUTION
    ... '''), end="")
    def double(x):
        raise NotImplementedError("task 1: double it")
    """
    lines, out, at = text.splitlines(), list[str](), 0
    found, tree = regions(text), parsed(text, "solution.py")
    for region in found:
        first = lines[_first_line(region, tree, lines) - 1]
        indent = first[: len(first) - len(first.lstrip())]
        words = json.dumps(f"task {region.task}: {region.words}", ensure_ascii=False)
        out += [*lines[at : region.first - 1], f"{indent}raise NotImplementedError({words})"]
        at = region.last
    made = "\n".join([*out, *lines[at:]]) + "\n"
    parsed(made, "solution.py, the stub")
    return made


def parsed(text: str, file: str) -> ast.Module:
    """Return the tree of a module that compiles. Raises MasterError with the line if it does not."""
    try:
        compile(text, file, "exec")
        return ast.parse(text)
    except SyntaxError as error:
        raise MasterError(f"{file}, line {error.lineno}: {error.msg}; the file must be valid Python") from None


def _first_line(region: Region, tree: ast.Module, lines: list[str]) -> int:
    """Return the first line of the region's statements. Raises MasterError if they cannot be replaced by one."""

    def inside(node: Any) -> bool:
        return isinstance(node, ast.stmt) and first_line(node) > region.first and (node.end_lineno or 0) < region.last

    functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    lists = ((owner, block) for owner in functions for node in ast.walk(owner) for _, block in ast.iter_fields(node))
    blocks = ((owner.name, list(filter(inside, block))) for owner, block in lists if isinstance(block, list))
    name, block = next((found for found in blocks if found[1]), ("", []))
    covered = {line for node in block for line in range(first_line(node), node.end_lineno + 1)}
    for number in range(region.first + 1, region.last):
        if number not in covered and lines[number - 1].split("#")[0].strip():
            raise _wrong(number, "a region must hold whole statements of one block in a function, with all their lines")
    if not block:
        raise _wrong(region.first, "the region has no statement")
    if name == "__init__":
        raise _wrong(region.first, "a region must not be in __init__, or no check could make an object")
    return min(map(first_line, block))


def first_line(node: Any) -> int:
    """Return the first line of a statement, which is that of its first decorator."""
    return min([int(node.lineno), *(int(one.lineno) for one in getattr(node, "decorator_list", ()))])


def _wrong(line: int, rule: str) -> MasterError:
    return MasterError(f"solution.py, line {line}: {rule}{_EXAMPLE}")
