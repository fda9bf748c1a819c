"""The student's copies: checks.py without hidden checks, and the notebook without cells for teachers."""

from __future__ import annotations

import ast
import copy
import re
import symtable
from typing import Any

from .checks import Check
from .master import Master
from .regions import MasterError, regions

TEACHER = "teacher"
"""The tag of cells that are left out of the student's notebook."""
_LONG = 30
"""A line of the solution with this many characters, or two lines in a row, must not be in the student's copy."""


def student_checks(text: str, checks: list[Check]) -> str:
    """Return checks.py with the visible checks, and with what these use. Raises MasterError.

    Everything else is left out with the comments above it. ``text`` consists of imports, assignments, functions and
    classes.
    """
    hidden = {one.cases.__name__ for one in checks if one.hidden}
    visible = {one.cases.__name__ for one in checks if not one.hidden}
    lines, body = text.splitlines(), ast.parse(text).body
    made, uses = [], []
    for at, node in enumerate(body):
        table = symtable.symtable("\n".join(lines[_first(node) - 1 : node.end_lineno]), "checks.py", "exec")
        made.append(
            {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        )
        uses.append(_used(table))
        docstring = at == 0 and isinstance(node, ast.Expr)
        if not made[-1] and not docstring:
            rule = "outside of functions there may only be imports, assignments, functions and classes"
            raise MasterError(f"checks.py, line {node.lineno}: {rule}")
    names, more = set(visible), set(visible)
    while more:
        more = set().union(*(used for done, used in zip(made, uses, strict=True) if done & more)) - names
        names |= more
    if "SECRET" in names or hidden & names:
        rule = f"a visible check uses {min({'SECRET'} & names or hidden & names)}, which only hidden checks may use"
        raise MasterError(f"checks.py: {rule}")
    out, before = [], 0
    for at, node in enumerate(body):
        if (at == 0 and not made[at]) or made[at] & names or _future(node):
            if isinstance(node, ast.Import | ast.ImportFrom) and not _future(node):
                kept = copy.copy(node)
                kept.names = [one for one in node.names if (one.asname or one.name.partition(".")[0]) in names]
                out += [*lines[before : node.lineno - 1], ast.unparse(kept)]
            else:
                out += lines[before : node.end_lineno]
        before = node.end_lineno or before
    return "\n".join(out).strip("\n") + "\n"


def _first(node: Any) -> int:
    decorated: list[int] = [mark.lineno for mark in getattr(node, "decorator_list", ())]
    return min([int(node.lineno), *decorated])


def _future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _used(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    names = {one.get_name() for one in table.get_symbols() if (one.is_referenced() if top else one.is_global())}
    return names.union(*map(_used, table.get_children()))


def student_notebook(notebook: Any, teacher: bool = False) -> Any:
    """Return the notebook without outputs and, unless ``teacher``, without cells that have the tag `teacher`."""
    made = copy.deepcopy(notebook)
    made.cells = [cell for cell in made.cells if teacher or TEACHER not in cell.metadata.get("tags", ())]
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return made


def solved(text: str) -> str:
    """Return the solution without the lines that mark its regions."""
    marks = {line for region in regions(text) for line in (region.first, region.last)}
    return "\n".join(line for number, line in enumerate(text.splitlines(), 1) if number not in marks) + "\n"


def leaks(master: Master, files: dict[str, str]) -> list[str]:
    """Return which hidden checks, lines of the solution and cells for teachers are in the student's files.

    ``files`` maps names to texts. checks.py may repeat lines of the solution: its answers are recomputed in plain
    Python, so it can contain the same loops.
    """
    found = []
    secret = [
        line for region in regions(master.solution) for line in _lines(master.solution, region.first, region.last)
    ]
    cells = [cell.source for cell in master.notebook.cells if TEACHER in cell.metadata.get("tags", ())]
    for name, text in files.items():
        for one in (one for one in master.checks if one.hidden):
            if re.search(rf"""["'`]{re.escape(one.id)}["'`\\]""", text) or one.rule in text:
                found.append(f"{name} (student's copy): contains the hidden check {one.id}; leave it out")
        if name != "checks.py":
            here = set(_lines(text))
            found += [
                f"{name} (student's copy): contains a line of the solution; leave it out: {line!r}"
                for line in secret
                if line in here
            ]
        found += [f"{name} (student's copy): contains a cell for teachers" for cell in cells if cell and cell in text]
    return found


def _lines(text: str, first: int = 0, last: int | None = None) -> list[str]:
    """Return the long lines between two lines, and any two lines in a row, without indentation and comments."""
    lines = [line.strip() for line in text.splitlines()[first : last and last - 1]]
    lines = [line for line in lines if line and not line.startswith("#")]
    pairs = [f"{one}\n{two}" for one, two in zip(lines, lines[1:], strict=False)]
    return [line for line in [*lines, *pairs] if len(line) >= _LONG]
