"""The master of a lab: a folder that its author writes, and from which everything else is built.

    lab.toml       number, title, minutes, hand_in, memory_mib, [tasks], [points]
    lab.ipynb      the prose; cells with the tag `teacher` are left out of the student's copy
    solution.py    the solution, with regions
    checks.py      the checks, in the order of the ladder
    mutants.toml   wrong solutions

`read` checks each file on its own. `disagreements` compares the prose, the points and the checks.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from ..errors import UsageError
from .checks import Check, load
from .fields import HAND_IN, LAB, MUTANT, Toml, read_text
from .regions import MasterError, regions, stub

PUBLIC = "public"
"""The value of SECRET in a checks.py, unless the teacher gives a secret."""
FILES = ("lab.toml", "lab.ipynb", HAND_IN, "checks.py", "mutants.toml")
_SECRET = re.compile(r'^SECRET = "(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A wrong solution."""

    name: str
    line: int
    """The line of its table in mutants.toml."""
    text: str
    """Its whole module."""
    check: str
    trace: str
    says: str
    rule: int | None


@dataclass(frozen=True)
class Master:
    """A master whose files are valid, each on its own."""

    number: int
    title: str
    minutes: int
    memory_mib: int
    tasks: dict[int, str]
    points: dict[str, float]
    cases: dict[str, int]
    """For each check the number of cases that the solution is asked."""
    solution: str
    stub: str
    checks_text: str
    """checks.py, with the secret."""
    secret: bool
    """Whether the teacher has given a secret."""
    checks: list[Check]
    notebook: Any
    mutants: list[Mutant]


def read(folder: Path, work: Path, secret: str = PUBLIC) -> Master:
    """Read a master. ``work`` is an empty folder for a copy of checks.py. Raises MasterError with all problems."""
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        listed = ", ".join(missing)
        raise MasterError(f"{folder} has no {listed}; a master has the files {', '.join(FILES)}; see docs/labs.md")
    problems: list[str] = []

    def part(made: Callable[..., Any], *args: Any) -> Any:
        try:
            return made(*args)
        except MasterError as error:
            problems.extend(error.problems)

    solution = read_text(folder / HAND_IN)
    lab = part(_read_lab, folder / "lab.toml")
    started = part(stub, solution)
    text = part(_with_secret, read_text(folder / "checks.py"), secret)
    checks = part(_read_checks, text, work) if text else []
    notebook = part(_read_notebook, folder / "lab.ipynb")
    mutants = part(_read_mutants, folder / "mutants.toml", solution, [one.id for one in checks or []])
    if problems:
        raise MasterError(*problems)
    return Master(
        **{name: lab[name] for name in ("number", "title", "minutes", "memory_mib", "points")},
        cases=lab.get("cases", {}),
        tasks={int(number): title for number, title in lab["tasks"].items()},
        solution=solution,
        stub=started,
        checks_text=text,
        secret=secret != PUBLIC,
        checks=checks,
        notebook=notebook,
        mutants=mutants,
    )


def _read_lab(path: Path) -> dict[str, Any]:
    toml = Toml(path)
    if problems := toml.problems(toml.values, LAB, "", {"cases"}):
        raise MasterError(*problems)
    return toml.values


def _with_secret(text: str, secret: str) -> str:
    lines = _SECRET.findall(text)
    if len(lines) > 1 or (lines and lines[0] != PUBLIC):
        raise MasterError(f'checks.py: SECRET must be set once, to "{PUBLIC}"\n  example: SECRET = "{PUBLIC}"')
    if secret != PUBLIC and not lines:
        raise MasterError(
            "checks.py: there is no SECRET, so no check depends on the secret; build this lab without --secret"
            f'\n  example: SECRET = "{PUBLIC}"\n           KEYS = drawn(f"{{SECRET}} keys", 3, 10, 99)'
        )
    return _SECRET.sub(f'SECRET = "{secret}"', text)


def _read_checks(text: str, work: Path) -> list[Check]:
    path = work / "checks.py"
    path.write_text(text, encoding="utf-8")
    try:
        for line, name in _imports(text):
            if name != "grader.lab" and name.partition(".")[0] not in sys.stdlib_module_names:
                raise MasterError(
                    f"checks.py, line {line}: imports {name}; checks use only the standard library and grader.lab"
                    "\n  example: from grader.lab import BAG, Case, check"
                )
        return load(path)
    except UsageError as error:
        raise MasterError(str(error).replace(str(path), "checks.py")) from None
    except SyntaxError as error:
        raise MasterError(f"checks.py, line {error.lineno}: {error.msg}; the file must be valid Python") from None
    except MasterError:
        raise
    except Exception as error:
        raise MasterError(f"{where(error, path)}: {type(error).__name__}: {error}") from None


def _imports(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def where(error: BaseException, path: Path) -> str:
    """Return the last line of checks.py in a traceback: "checks.py, line 12"."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"checks.py, line {lines[-1]}" if lines else "checks.py"


def _read_notebook(path: Path) -> Any:
    try:
        text = read_text(path)
        said = json.loads(text)
        if said.get("nbformat") != 4 or not all("id" in cell for cell in said.get("cells", ())):
            rule = "the notebook must have format 4, and each cell an id"  # nbformat would draw ids by chance
            raise MasterError(f"lab.ipynb: {rule}; open it in JupyterLab and save it")
        node = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
        nbformat.validate(node)
        return node
    except json.JSONDecodeError as error:
        raise MasterError(f"lab.ipynb, line {error.lineno}: {error.msg}; a notebook is a JSON file") from None
    except nbformat.ValidationError as error:
        raise MasterError(f"lab.ipynb: {str(error).partition(chr(10))[0]}; save it again in JupyterLab") from None


def _read_mutants(path: Path, solution: str, ids: list[str]) -> list[Mutant]:
    toml = Toml(path)
    mutants, problems = [], []
    for name, values in toml.values.items():
        if not isinstance(values, dict):
            problems.append(toml.wrong("each wrong solution is a table", "", name, f"[{name}]"))
            continue
        # A missing trace is reported by the proof, which knows it.
        found = toml.problems(values, MUTANT, name, {"trace", "rule"})
        text = solution
        for old, new in values["replace"] if not found else []:
            if (many := text.count(old)) != 1:
                rule = f"each old text must occur exactly once in {HAND_IN}; this one occurs {many} times: {old!r}"
                found.append(toml.wrong(rule, name, "replace"))
            text = text.replace(old, new)
        try:
            compile(text, HAND_IN, "exec")
        except SyntaxError as error:
            found.append(toml.wrong(f"the wrong solution is not valid Python: {error.msg}", name, "replace"))
        if ids and not found and values["check"] not in ids:
            found.append(toml.wrong(f"there is no check {values['check']!r} in checks.py", name, "check"))
        problems += found
        if not found:
            optional = values.get("trace", ""), values["says"], values.get("rule")
            mutants.append(Mutant(name, toml.line(name), text, values["check"], *optional))
    if not toml.values:
        problems.append(f"{path.name}, line 1: there is no wrong solution, so nothing proves that checks find mistakes")
    if problems:
        raise MasterError(*problems)
    return mutants


def disagreements(master: Master) -> list[str]:
    """Return where the prose, the points and the checks do not agree."""
    found = []
    ids = [one.id for one in master.checks]
    for one in master.checks:
        at = f"checks.py, line {one.cases.__code__.co_firstlineno}: {one.id}"
        if one.id not in master.points:
            found.append(f'{at}: has no points in lab.toml\n  example: [points]\n  "{one.id}" = 4')
        if one.task not in master.tasks:
            found.append(f"{at}: its task {one.task} is not in [tasks] of lab.toml")
    for table, values in (("points", master.points), ("cases", master.cases)):
        for id in sorted(values.keys() - set(ids)):
            found.append(f"lab.toml: [{table}] {id}: there is no such check in checks.py")
    for before, after in zip(master.checks, master.checks[1:], strict=False):
        if after.task < before.task:
            found.append(
                f"checks.py: {after.id} (task {after.task}) stands after {before.id} (task {before.task}); "
                "checks are in the order of their tasks"
            )
    for task in sorted(master.tasks.keys() - {one.task for one in master.checks}):
        found.append(f"lab.toml: [tasks] {task}: no check checks this task")
    for region in regions(master.solution):
        if region.task not in master.tasks:
            found.append(f"{HAND_IN}, line {region.first}: task {region.task} is not in [tasks] of lab.toml")
    expected = [f"# Lab {master.number}: {master.title}"]
    for task, title in master.tasks.items():
        points = sum(master.points.get(one.id, 0) for one in master.checks if one.task == task)
        expected.append(f"## Task {task}: {title} ({points:g} points)")
    headings = [
        line.strip()
        for cell in master.notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if re.match(r"#+ (Lab|Task) \d+\b", line)
    ]
    for line in expected:
        if line not in headings:
            found.append(f"lab.ipynb: a markdown cell must have the heading of lab.toml\n  example: {line}")
    if not found and headings != expected:
        extra = [line for line in headings if line not in expected] or headings
        found.append(f"lab.ipynb: tasks have one heading each, in the order of lab.toml; found: {'; '.join(extra)}")
    return found
