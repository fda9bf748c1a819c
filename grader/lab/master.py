"""The master of a lab: a folder that its author writes, and from which everything else is built.

    lab.toml       number, title, minutes, hand_in, memory_mib, [tasks], [points]
    lab.ipynb      the prose; cells with the tag `teacher` are left out of the student's copy
    solution.py    the solution, with regions
    checks.py      the visible checks; the student's copy has this file
    hidden.py      the hidden checks
    mutants.toml   wrong solutions

`read` checks each file on its own. `disagreements` compares the prose, the points and the checks.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from ..errors import UsageError
from .checks import CHECKS, HIDDEN, Check, load
from .fields import HAND_IN, LAB, MUTANT, Fields, read_text
from .regions import MasterError, parsed, regions, stub

PUBLIC = "public"
"""The value of SECRET in a hidden.py, unless the teacher gives a secret."""
FILES = ("lab.toml", "lab.ipynb", HAND_IN, CHECKS, HIDDEN, "mutants.toml")
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

    lab: dict[str, Any]
    """The content of lab.toml."""
    solution: str
    stub: str
    checks_texts: dict[str, str]
    """checks.py and hidden.py, with the secret."""
    secret: bool
    """Whether the teacher has given a secret."""
    checks: list[Check]
    notebook: Any
    mutants: list[Mutant]

    @property
    def tasks(self) -> dict[int, str]:
        """What each task asks for, such as {1: "net"}."""
        return {int(number): title for number, title in self.lab["tasks"].items()}

    def points(self, checks: Iterable[Check]) -> float:
        """Return the points of some checks together."""
        total: float = sum(self.lab["points"].get(one.id, 0) for one in checks)
        return total


def read(folder: Path, work: Path, secret: str = PUBLIC) -> Master:
    """Read a master. ``work`` is an empty folder for a copy of its checks.

    Raises MasterError with all problems of the first file that has some.
    """
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        listed = ", ".join(missing)
        raise MasterError(f"{folder} has no {listed}; a master has the files {', '.join(FILES)}; see docs/labs.md")
    lab = Fields(folder / "lab.toml").checked(LAB, {"cases"})
    solution = read_text(folder / HAND_IN)
    started = stub(solution)
    texts = {CHECKS: read_text(folder / CHECKS), HIDDEN: _with_secret(read_text(folder / HIDDEN), secret)}
    checks = _read_checks(texts, work)
    mutants = _read_mutants(folder / "mutants.toml", solution, [one.id for one in checks])
    notebook = _read_notebook(folder / "lab.ipynb")
    return Master(lab, solution, started, texts, secret != PUBLIC, checks, notebook, mutants)


def _with_secret(text: str, secret: str) -> str:
    lines = _SECRET.findall(text)
    if lines not in ([], [PUBLIC]):
        raise MasterError(f'{HIDDEN}: SECRET must be set once, to "{PUBLIC}"\n  example: SECRET = "{PUBLIC}"')
    if secret != PUBLIC and not lines:
        raise MasterError(
            f"{HIDDEN}: there is no SECRET, so no check depends on the secret; build this lab without --secret"
            f'\n  example: SECRET = "{PUBLIC}"\n           KEYS = drawn(f"{{SECRET}} keys", 3, 10, 99)'
        )
    return _SECRET.sub(f'SECRET = "{secret}"', text)


def _read_checks(texts: dict[str, str], work: Path) -> list[Check]:
    for file, text in texts.items():
        (work / file).write_text(text, encoding="utf-8")
        for line, module in _imports(parsed(text, file)):
            first = module.partition(".")[0]
            if module != "grader.lab" and first not in sys.stdlib_module_names and (file, module) != (HIDDEN, "checks"):
                raise MasterError(
                    f"{file}, line {line}: imports {module}; checks use only the standard library and grader.lab"
                    "\n  example: from grader.lab import BAG, Case, check"
                )
    try:
        return load(work / CHECKS)
    except UsageError as error:
        raise MasterError(str(error).replace(f"{work}/", "")) from None
    except Exception as error:
        raise MasterError(f"{where(error, work)}: {type(error).__name__}: {error}") from None


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each imported module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, f"{'.' * node.level}{node.module or ''}"
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)


def where(error: BaseException, work: Path) -> str:
    """Return the last line of the checks in a traceback: "checks.py, line 12". ``work``: the folder with the checks."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == work]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else CHECKS


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
    toml = Fields(path)
    mutants, problems = [], []
    for name, values in toml.values.items():
        if not isinstance(values, dict):
            problems.append(toml.wrong("each wrong solution is a table", "", name, f"[{name}]"))
            continue
        # A missing trace is reported by the proof, which knows it.
        found = toml.problems(values, MUTANT, name, {"trace", "rule"})
        if not found and values["check"] not in ids:
            found.append(toml.wrong(f"there is no check {values['check']!r} in checks.py", name, "check"))
        text = solution
        for old, new in values["replace"] if not found else []:
            if (many := text.count(old)) != 1:
                rule = f"each old text must occur exactly once in {HAND_IN}; this one occurs {many} times: {old!r}"
                found.append(toml.wrong(rule, name, "replace"))
            text = text.replace(old, new)
        problems += found
        if not found:
            parsed(text, f"{path.name}, line {toml.line('replace', name)}: [{name}] replace: the wrong solution")
            optional = values.get("trace", ""), values["says"], values.get("rule")
            mutants.append(Mutant(name, toml.line("", name), text, values["check"], *optional))
    if not toml.values:
        problems.append(f"{path.name}, line 1: there is no wrong solution, so nothing proves that checks find mistakes")
    if problems:
        raise MasterError(*problems)
    return mutants


def disagreements(master: Master) -> list[str]:
    """Return where the prose, the points and the checks do not agree."""
    found, tasks, ids = [], master.tasks, {one.id for one in master.checks}
    for one in master.checks:
        at = f"{HIDDEN if one.hidden else CHECKS}, line {one.cases.__code__.co_firstlineno}: {one.id}"
        if one.id not in master.lab["points"]:
            found.append(f'{at}: has no points in lab.toml\n  example: [points]\n  "{one.id}" = 4')
        if one.task not in tasks:
            found.append(f"{at}: its task {one.task} is not in [tasks] of lab.toml")
    for table in ("points", "cases"):
        for id in sorted(master.lab.get(table, {}).keys() - ids):
            found.append(f"lab.toml: [{table}] {id}: there is no such check in checks.py")
    for task in sorted(tasks.keys() - {one.task for one in master.checks}):
        found.append(f"lab.toml: [tasks] {task}: no check checks this task")
    for region in regions(master.solution):
        if region.task not in tasks:
            found.append(f"{HAND_IN}, line {region.first}: task {region.task} is not in [tasks] of lab.toml")
    expected = [f"# Lab {master.lab['number']}: {master.lab['title']}"]
    for task, title in tasks.items():
        points = master.points(one for one in master.checks if one.task == task)
        expected.append(f"## Task {task}: {title} ({points:g} points)")
    prose = "\n".join(cell.source for cell in master.notebook.cells if cell.cell_type == "markdown")
    headings = [line.strip() for line in prose.splitlines() if re.match(r"#+ (Lab|Task) \d+\b", line)]
    if headings != expected:
        unlike = [line for line in headings if line not in expected] or headings
        rule = "the headings of the lab and of its tasks are not those of lab.toml, in this order"
        found.append("\n  ".join([f"lab.ipynb: {rule}; found: {'; '.join(unlike)}", "example:", *expected]))
    return found
