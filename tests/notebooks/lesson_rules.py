"""The rules that every lesson follows, as checks that read a notebook without running it.

Each check takes a notebook and its path, and yields one sentence for each thing that is wrong.

A cell is collapsed if a reader does not need it: its tag is ``collapsed`` (it prepares what the next cell shows) or
``check`` (it asserts what the text says). Collapsed cells carry ``source_hidden``, which JupyterLab folds, and show
nothing. A cell tagged ``write-it`` has the stub that the reader completes; one tagged ``check-it`` checks it.

A number in the text is asserted by a cell of its section, above or below; a number before the first ``##`` heading by
any cell of the notebook. :mod:`notebook_rules` defines what counts as a number.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import notebook_rules as rules
from notebook_rules import Notebook, code, name, tags

LINES, COLUMNS = 25, 92
HIDDEN = {"collapsed", "check"}
READING = 160
"""Words per minute."""
ASKED = {"predict": 1, "write-it": 6, "stepper": 2}
"""Minutes for each."""
FIRST_WORDS, FIRST_CELLS = 2000, 40
LONGEST = 60
"""Minutes."""
_BOX = re.compile(r"^(\d+) minutes · .+$", re.M)


def number(path: Path) -> str:
    """The number of a notebook as its file name has it, such as 02b."""
    return path.name.partition("-")[0]


def texts(notebook: Notebook) -> list[Any]:
    """The Markdown cells."""
    return [c for c in notebook.cells if c.cell_type == "markdown"]


def sections(notebook: Notebook) -> Iterator[list[Any]]:
    """The cells of each section: up to the first ``##`` heading, then from one to the next."""
    part: list[Any] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.match(r"## ", cell.source) and part:
            yield part
            part = []
        part.append(cell)
    yield part


def headings_first(notebook: Notebook, path: Path) -> Iterator[str]:
    """A ``##`` heading is the first line of its cell, so that sections are made of whole cells."""
    for cell in texts(notebook):
        if re.search(r"\n## ", cell.source):
            yield f"{name(cell)}: a ## heading stands inside a cell; begin a new cell with it"


def small(notebook: Notebook, path: Path) -> Iterator[str]:
    """A cell has at most 25 lines of at most 92 characters."""
    for cell in code(notebook):
        lines = cell.source.splitlines()
        if len(lines) > LINES:
            yield f"{name(cell)}: {len(lines)} lines; {LINES} is the maximum"
        if any(len(line) > COLUMNS for line in lines):
            yield f"{name(cell)}: a line is longer than {COLUMNS} characters"


def hidden(notebook: Notebook, path: Path) -> Iterator[str]:
    """Collapsed cells are folded and show nothing; asserts stand in them alone; a check asserts something."""
    for cell in code(notebook):
        folded = bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
        tree = ast.parse(cell.source)
        asserts = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
        if folded != bool(HIDDEN & set(tags(cell))):
            yield f"{name(cell)}: tags collapsed and check go with metadata jupyter.source_hidden"
        if asserts and not folded:
            yield f"{name(cell)}: an assert stands in a visible cell; tag it check"
        if "check" in tags(cell) and not asserts:
            yield f"{name(cell)}: a check without an assert"
        if folded and tree.body and isinstance(tree.body[-1], ast.Expr) and not _call(tree.body[-1].value):
            yield f"{name(cell)}: a collapsed cell shows something"


def _call(node: ast.expr) -> bool:
    """Whether an expression is a call, such as ``server.close()``, which returns nothing to show."""
    return isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id == "print")


def predictions(notebook: Notebook, path: Path) -> Iterator[str]:
    """``guess = None``, then ``show.predict(..., guess=guess)``, whose answer a collapsed cell above has computed."""
    cells = code(notebook)
    for at, cell in enumerate(cells):
        calls = [n for n in ast.walk(ast.parse(cell.source)) if _is_predict(n)]
        if not calls:
            continue
        body = ast.parse(cell.source).body
        first = body[0]
        if not (isinstance(first, ast.Assign) and ast.unparse(first) == "guess = None" and len(body) == 2):
            yield f"{name(cell)}: a prediction is 'guess = None' and one call of show.predict"
            continue
        (call,) = calls
        if [k.arg for k in call.keywords if ast.unparse(k.value) == "guess"] != ["guess"]:
            yield f"{name(cell)}: show.predict needs guess=guess"
        above = cells[at - 1] if at else None
        if above is None or "collapsed" not in tags(above):
            yield f"{name(cell)}: no cell tagged collapsed computes the answer directly above"
        elif not (isinstance(call.args[1], ast.Name) and call.args[1].id in _assigned(above.source)):
            yield f"{name(cell)}: the answer must be a name that the cell above assigns"
        elif any(_literal(value) for value in _values_of(above.source, call.args[1].id)):
            yield f"{name(above)}: the answer is a literal; compute it"
        elif not all(isinstance(whys, ast.Name) and whys.id in _assigned(above.source) for whys in call.args[2:]):
            yield f"{name(cell)}: the explanations tell the answer; assign them in the collapsed cell above, as whys"


def _is_predict(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "show.predict"


def _assigned(source: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _values_of(source: str, target: str) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == target for t in node.targets):
            yield node.value


def _literal(node: ast.expr) -> bool:
    return not any(isinstance(n, ast.Name | ast.Call | ast.Subscript) for n in ast.walk(node))


def written(notebook: Notebook, path: Path) -> Iterator[str]:
    """One or two write-it cells (none in 00): each checked at once, with a folded solution that a check runs."""
    stubs = [cell for cell in code(notebook) if "write-it" in tags(cell)]
    if number(path) == "00":
        if stubs:
            yield f"{path.name}: 00 has no write-it"
        return
    if len(stubs) not in (1, 2):
        yield f"{path.name}: {len(stubs)} cells are tagged write-it; one or two"
    for part in sections(notebook):
        for at, cell in enumerate(part):
            if "write-it" not in tags(cell):
                continue
            rest = part[at + 1 :]
            if "NotImplementedError" not in cell.source:
                yield f"{name(cell)}: the stub raises NotImplementedError"
            if not any("check-it" in tags(c) for c in rest):
                yield f"{name(cell)}: no cell tagged check-it follows in its section"
            solutions = [s for c in rest if c.cell_type == "markdown" for s in _solutions(c.source)]
            if not solutions:
                yield f"{name(cell)}: no folded solution follows in its section"
            checks = "\n".join(textwrap.dedent(c.source) for c in rest if "check" in tags(c))
            for solution in solutions:
                if _flat(solution) not in _flat(checks):
                    yield f"{name(cell)}: no check runs the folded solution as it stands"


def _solutions(markdown: str) -> list[str]:
    folded = re.findall(r"<details>.*?</details>", markdown, re.S)
    return [block for fold in folded for block in re.findall(r"```python\n(.*?)```", fold, re.S)]


def _flat(source: str) -> str:
    return "\n".join(line.strip() for line in source.splitlines() if line.strip())


def shape(notebook: Notebook, path: Path) -> Iterator[str]:
    """Title, puzzle with a picture or code, box with the time, text, and an exit with a link."""
    first = texts(notebook)[0].source
    if not re.match(rf"# {number(path)} · ", first):
        yield f"{path.name}: the first line is '# {number(path)} · title'"
    opening = next(sections(notebook))
    if not any(c.cell_type == "code" and not HIDDEN & set(tags(c)) for c in opening):
        yield f"{path.name}: nothing is shown before the first ## heading; begin with the puzzle"
    last = texts(notebook)[-1].source
    if not last.startswith("## What you can do now"):
        yield f"{path.name}: the last text is '## What you can do now'"
    elif "](" not in last:
        yield f"{path.name}: the exit links to nothing"
    for cell in texts(notebook):
        if "**Try" in cell.source and "<details>" not in cell.source:
            yield f"{name(cell)}: something to try has no folded answer"


def stated(notebook: Notebook) -> int:
    """The minutes that the box states; 0 if there is none."""
    found = _BOX.search("\n".join(c.source for c in texts(notebook)))
    return int(found[1]) if found else 0


def minutes(notebook: Notebook) -> int:
    """The minutes for reading and for what is asked, rounded up to five."""
    words = sum(any(map(str.isalnum, word)) for c in texts(notebook) for word in c.source.split())
    asked = sum(any(_is_predict(n) for n in ast.walk(ast.parse(c.source))) for c in code(notebook))
    stubs = sum("write-it" in tags(c) for c in code(notebook))
    steppers = sum("show.stepper(" in c.source for c in code(notebook))
    extra = ASKED["predict"] * asked + ASKED["write-it"] * stubs + ASKED["stepper"] * steppers
    return 5 * math.ceil((words / READING + extra) / 5)


def duration(notebook: Notebook, path: Path) -> Iterator[str]:
    """The box states the minutes that words and questions make, at most an hour; 00 is short."""
    if stated(notebook) != minutes(notebook):
        yield f"{path.name}: the box says {stated(notebook)} minutes, and there are {minutes(notebook)}"
    if minutes(notebook) > LONGEST:
        yield f"{path.name}: {minutes(notebook)} minutes; {LONGEST} is the maximum, split it"
    words = sum(len(c.source.split()) for c in texts(notebook))
    if number(path) == "00" and (words > FIRST_WORDS or len(notebook.cells) > FIRST_CELLS):
        yield f"{path.name}: {words} words in {len(notebook.cells)} cells; at most {FIRST_WORDS} in {FIRST_CELLS}"


def numbers(notebook: Notebook, path: Path) -> Iterator[str]:
    """Every number in the text, and in a why, is asserted in its section (in the opening: anywhere)."""
    everywhere = set[float]().union(*(rules.asserted(c.source) for c in code(notebook)))
    for at, part in enumerate(sections(notebook)):
        known = everywhere
        if at:
            known = set[float]().union(*(rules.asserted(c.source) for c in part if c.cell_type == "code"))
        for cell in part:
            said = [_BOX.sub("", _without_title(cell.source))] if cell.cell_type == "markdown" else _whys(cell)
            for value in sorted(set[float]().union(*map(rules.stated, said)) - known):
                yield f"{name(cell)}: nothing in its section asserts {value:g}"


def _without_title(markdown: str) -> str:
    return re.sub(r"# \d\d[a-z]? ·", "#", markdown)


def _whys(cell: Any) -> list[str]:
    """The explanations of a prediction that are plain strings; those of f-strings take their numbers from values."""
    whys = [value for value in _values_of(cell.source, "whys") if isinstance(value, ast.Dict)]
    return [v.value for d in whys for v in d.values if isinstance(v, ast.Constant) and isinstance(v.value, str)]


def identical(notebooks: dict[str, Notebook], most: int = 4) -> list[str]:
    """Functions of more than four lines that stand in two notebooks, word for word: they belong in the library."""
    where: dict[str, set[str]] = {}
    for path, notebook in notebooks.items():
        for cell in code(notebook):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    if (node.end_lineno or 0) - node.lineno >= most:
                        where.setdefault(ast.unparse(node), set()).add(path)
    return [f"{', '.join(sorted(p))}: {text.splitlines()[0]}" for text, p in sorted(where.items()) if len(p) > 1]


CHECKS: list[Callable[[Notebook, Path], Iterator[str]]] = [
    rules.clean,
    headings_first,
    small,
    hidden,
    predictions,
    written,
    shape,
    duration,
    numbers,
    rules.links,
]


def is_lesson(notebook: Notebook) -> bool:
    """Whether a notebook is a lesson. The others follow :mod:`notebook_rules` until they are rewritten."""
    return bool(notebook.metadata.get("lesson"))
