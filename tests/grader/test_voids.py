"""docs/grader.md lists every place that can make a run or a result void, and why no submission can cause it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATES = {"VOID", "MACHINE", "GRADER"}
"""The names of the states that are void."""


def voids(node: ast.AST) -> bool:
    """Whether a node raises VoidError, or passes, stores or returns a void state."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return isinstance(node.exc.func, ast.Name) and node.exc.func.id == "VoidError"
    values: list[ast.AST | None] = []
    if isinstance(node, ast.Call):
        values = [*node.args]
    elif isinstance(node, ast.Dict):
        values = [*node.values]
    elif isinstance(node, ast.Return):
        values = [node.value]
    return any(
        isinstance(value, ast.Name)
        and value.id in STATES
        or isinstance(value, ast.Attribute)
        and ast.unparse(value) in ("Verdict.VOID", "Outcome.VOID")
        or isinstance(value, ast.Constant)
        and value.value == "void"
        for value in values
    )


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Each function of a module with its qualified name, outer ones first."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if isinstance(node, ast.FunctionDef):
                yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")


def sites() -> Counter[str]:
    """How many places of each function can make something void; a nested function counts for the outer one."""
    found = Counter[str]()
    for path in sorted((ROOT / "grader").rglob("*.py")):
        inside: set[ast.AST] = set()
        for name, function in functions(ast.parse(path.read_text())):
            if function not in inside:
                nodes = {*ast.walk(function)}
                inside |= nodes
                if many := sum(map(voids, nodes)):
                    found[f"{path.relative_to(ROOT / 'grader')} {name}"] = many
    return found


def rows() -> list[tuple[str, str, str]]:
    """The rows of the table: place, cause, why a submission cannot cause it."""
    page = (ROOT / "docs" / "grader.md").read_text()
    table = page.partition("### All ways to a void run")[2].partition("\n### ")[0]
    return re.findall(r"^\| `([^`|]+)` \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)


def test_the_table_has_every_place_that_can_void() -> None:
    """A place that is missing, or gone, fails; so does a function that has got one more. Each row has a reason."""
    listed = Counter[str]()
    for place, cause, why in rows():
        name, _, many = place.partition(" x ")
        listed[name] += int(many or 1)
        assert len(cause.split()) >= 2 and len(why.split()) >= 2, place
    assert listed == sites()


def test_a_new_place_is_noticed() -> None:
    """The search finds a raise, a stored state and a returned one, and no comparison with a state."""
    first = "def f():\n  if a == VOID:\n    raise VoidError('x')\n  fresh(1, VOID)\n  return {'kind': GRADER}\n"
    code = f"{first}def g():\n  return 'void'\ndef h():\n  return Verdict.VOID"
    found = {name: sum(map(voids, ast.walk(node))) for name, node in functions(ast.parse(code))}
    assert found == {"f": 3, "g": 1, "h": 1}
