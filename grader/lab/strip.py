"""The student's copies: checks.py without hidden checks, and the notebook without cells for teachers."""

from __future__ import annotations

import ast
import copy
import re
import symtable
from typing import Any

from .checks import Check
from .master import Master
from .regions import MasterError, first_line, regions

TEACHER = "teacher"
"""The tag of cells that are left out of the student's notebook."""
_LONG = 30
"""A line of the solution with this many characters, or two lines in a row, must not be in the student's copy."""


def student_checks(text: str, checks: list[Check]) -> str:
    """Return checks.py with the visible checks, and with what these use. Raises MasterError.

    Everything else is left out with the comments above it. ``text`` consists of imports, assignments, functions and
    classes.
    """
    lines, body = text.splitlines(), ast.parse(text).body
    tables = [symtable.symtable("\n".join(lines[first_line(node) - 1 : node.end_lineno]), "", "exec") for node in body]
    made = [
        {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()} for table in tables
    ]
    for at, node in enumerate(body):
        if not made[at] and not (at == 0 and isinstance(node, ast.Expr)):
            rule = "outside of functions there may only be imports, assignments, functions and classes"
            raise MasterError(f"checks.py, line {node.lineno}: {rule}")
    more = names = {one.cases.__name__ for one in checks if not one.hidden}
    while more:
        more = set().union(*(_used(table) for done, table in zip(made, tables, strict=True) if done & more)) - names
        names = names | more
    secret = {"SECRET", *(one.cases.__name__ for one in checks if one.hidden)}
    if secret & names:
        raise MasterError(f"checks.py: a visible check uses {min(secret & names)}, which only hidden checks may use")
    out, before = [], 0
    for at, node in enumerate(body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [one for one in node.names if (one.asname or one.name.partition(".")[0]) in names]
            out += [*lines[before : node.lineno - 1], ast.unparse(node)] if node.names else []
        elif not made[at] or made[at] & names:
            out += lines[before : node.end_lineno]
        before = node.end_lineno or before
    return "\n".join(out).strip("\n") + "\n"


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
    """Return which hidden checks, lines of the solution, hints and cells for teachers are in the student's files.

    ``files`` maps names to texts. checks.py may repeat lines of the solution: its answers are recomputed in plain
    Python, so it can contain the same loops.
    """
    found = []
    parts = [(region.first, region.last) for region in regions(master.solution)]
    secret = [line for first, last in parts for line in _lines(master.solution, first, last)]
    cells = [cell.source for cell in master.notebook.cells if TEACHER in cell.metadata.get("tags", ())]
    for name, text in files.items():
        here = set(_lines(text)) if name != "checks.py" else set()
        what = [
            f"the hidden check {one.id}"
            for one in master.checks
            if one.hidden and (re.search(rf"""["'`]{re.escape(one.id)}["'`\\]""", text) or one.rule in text)
        ]
        what += [f"a line of the solution: {line!r}" for line in secret if line in here]
        what += [f"the hint of [{one.name}]" for one in master.mutants if one.says in text]
        what += ["a cell for teachers" for cell in cells if cell and cell in text]
        found += [f"{name} (student's copy): contains {one}; leave it out" for one in what]
    return found


def _lines(text: str, first: int = 0, last: int | None = None) -> list[str]:
    """Return the long lines between two lines, and any two lines in a row, without indentation and comments."""
    lines = [line.strip() for line in text.splitlines()[first : last and last - 1]]
    lines = [line for line in lines if line and not line.startswith("#")]
    pairs = [f"{one}\n{two}" for one, two in zip(lines, lines[1:], strict=False)]
    return [line for line in [*lines, *pairs] if len(line) >= _LONG]
