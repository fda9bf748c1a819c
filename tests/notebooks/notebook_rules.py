"""What every notebook keeps to, as checks that read it without running it.

Each check takes a notebook and returns what is wrong, one sentence each; none means all
is well. ``CHECKS`` are the ones that hold for every notebook of the kit.

The convention for numbers: a number in prose is asserted by a code cell above it in the
same section (from one ``##`` heading to the next), in an assert that computes something.
Digits count, in the code spans that are nothing else too (`` `{10, 20}` ``), and so do the
words from four upwards. One, two and three are words of any sentence; two and three count
before what state is counted in (``COUNTED``: two rows, three different arrangements). Not
numbers in this sense: what stands in code, formulas and addresses of links; ``+1`` and
``-1``, the signs of changes; the ordinals of a list, the number in the title, notebooks,
rules and epochs by their number; years; the line of time and difficulty, which
``duration`` holds to what :mod:`times` counts.

Links to other sites are not followed: the tests run without a network.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import times

Notebook = Any
"""An nbformat notebook node."""
CELL_LINES, FUNCTION_LINES, COLUMNS = 25, 4, 92
_UNITS = (
    "four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS = {
    **{word: number for number, word in enumerate(_UNITS.split(), 4)},
    **{word: 10 * number for number, word in enumerate(_TENS.split(), 2)},
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
}
COUNTED = "rows arrangements batches bytes copies entries groups handles holes keys messages upqueries values"
"""Before these, two and three are numbers; an adjective may stand between."""
PARTS = ["you can", "**Time**", "**Difficulty**", "Predict before you run", "Change one thing"]
PARTS += ["What must always hold", "Where the simplification ends", "Check yourself", "<details>"]
"""What the text of a notebook contains, in this order, as the curriculum's shape of a notebook asks."""


def name(cell: Any) -> str:
    """What a complaint calls a cell."""
    return f"cell {cell.get('id', '?')}"


def code(notebook: Notebook) -> list[Any]:
    """The code cells."""
    return [c for c in notebook.cells if c.cell_type == "code"]


def tags(cell: Any) -> list[str]:
    """A cell's tags."""
    return list(cell.metadata.get("tags", []))


def clean(notebook: Notebook, path: Path) -> Iterator[str]:
    """Outputs are not committed, and every cell has an id of its own."""
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        yield f"format {notebook.nbformat}.{notebook.nbformat_minor} knows no cell ids; use 4.5"
    seen: set[str] = set()
    for cell in notebook.cells:
        if not cell.get("id") or cell["id"] in seen:
            yield f"{name(cell)}: its id is missing or taken"
        seen.add(cell.get("id", ""))
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            yield f"{name(cell)}: its output is committed; clear it"


def small(notebook: Notebook, path: Path) -> Iterator[str]:
    """Cells are short and define neither classes nor long functions."""
    for cell in code(notebook):
        lines = cell.source.splitlines()
        if len(lines) > CELL_LINES:
            yield f"{name(cell)}: {len(lines)} lines; {CELL_LINES} is the most"
        if any(len(line) > COLUMNS for line in lines):
            yield f"{name(cell)}: a line is longer than {COLUMNS} characters"
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ClassDef):
                yield f"{name(cell)}: defines class {node.name}; a class lives in the library"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                long = (node.end_lineno or node.lineno) - node.lineno + 1
                if long > FUNCTION_LINES:
                    yield f"{name(cell)}: function {node.name} has {long} lines; {FUNCTION_LINES} is the most"


def predictions(notebook: Notebook, path: Path) -> Iterator[str]:
    """A cell tagged predict assigns None and is followed by one tagged answer that uses the name."""
    cells = notebook.cells
    for at, cell in enumerate(cells):
        after = cells[at + 1] if at + 1 < len(cells) else None
        if "predict" in tags(cell):
            wanted = _asked(cell.source)
            if wanted is None:
                yield f"{name(cell)}: a prediction is one assignment of None, to be typed over"
            elif after is None or "answer" not in tags(after):
                yield f"{name(cell)}: no cell tagged answer follows"
            elif not _compares(after.source, wanted):
                yield f"{name(after)}: has no compare({wanted}, what happened)"
        if "answer" in tags(cell) and (not at or "predict" not in tags(cells[at - 1])):
            yield f"{name(cell)}: no cell tagged predict before it"
        if cell.cell_type == "markdown" and re.search(r"^#+ Predict", cell.source, re.M):
            rest = cells[at + 1 :]
            stop = next(
                (i for i, c in enumerate(rest) if c.cell_type == "markdown" and "\n#" in "\n" + c.source), len(rest)
            )
            if not any("predict" in tags(c) for c in rest[:stop]):
                yield f"{name(cell)}: says predict, and no cell tagged predict follows in its section"


def _compares(source: str, wanted: str) -> bool:
    """Whether a cell ends with ``show.compare(wanted, ...)``, so that a reader sees both side by side."""
    last = ast.parse(source).body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 2:
        return False
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return called == "compare" and isinstance(call.args[0], ast.Name) and call.args[0].id == wanted


def _asked(source: str) -> str | None:
    """The name that a cell assigns None to, where it does nothing else."""
    body = ast.parse(source).body
    if len(body) == 1 and isinstance(body[0], ast.Assign) and isinstance(target := body[0].targets[0], ast.Name):
        value = body[0].value
        return target.id if isinstance(value, ast.Constant) and value.value is None else None
    return None


def shape(notebook: Notebook, path: Path) -> Iterator[str]:
    """The parts that every notebook has are there, in order."""
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    at = 0
    for part in PARTS:
        found = text.find(part, at)
        if found < 0:
            yield f"{path.name}: {part!r} is missing, or not in its place"
        else:
            at = found
    if not re.match(r"# \d\d · ", text):
        yield f"{path.name}: the first line is '# NN · title'"
    elif text[2:4] != path.name[:2]:
        yield f"{path.name}: its title says {text[2:4]}"


# --- numbers -------------------------------------------------------------------

_NOT_PROSE = [
    re.compile(r"```.*?```", re.S),
    re.compile(r"`(?![\s\d.,{}()\[\]]+`)[^`]*`"),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"<[^>]*>"),
    re.compile(r"(?<=\])\([^)]*\)"),  # a link's address
    re.compile(r"^# \d\d\b", re.M),  # the title's number
    re.compile(r"^\s*(\*\*)?\d+\.(\*\*)?\s", re.M),  # a list's ordinals
    re.compile(r"\b[Rr]ules? \d+( (and|to) \d+)?"),
    re.compile(r"\b[Ee]pochs? \d+( (and|to) \d+)?"),
    re.compile(r"\b[Nn]otebooks? \d\d[a-z]?( (and|to) \d\d[a-z]?)?"),
    re.compile(r"\b[Ll]abs? \d( (and|to) \d)?"),
    re.compile(r"\b(19|20)\d\d\b"),  # a year
    re.compile(r"(?<![\w.])[+−-]1\b(?![.,]\d)"),
    re.compile(r"^\*\*Time\*\*.*?\*\*Difficulty\*\*( \d of 5)?", re.M | re.S),  # see `duration`
]
_COUNTED = re.compile(rf"\b(two|three)(?: [a-z-]+)? (?:{COUNTED.replace(' ', '|')})\b")
_NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w])")


def stated(markdown: str) -> set[float]:
    """The numbers that a text states."""
    for pattern in _NOT_PROSE:
        markdown = pattern.sub(" ", markdown)
    digits = {float(n.replace(",", "").replace("−", "-")) for n in _NUMBER.findall(markdown)}
    words = {float(WORDS[w]) for w in re.findall(r"[a-z]+", markdown.lower()) if w in WORDS}
    return digits | words | {{"two": 2.0, "three": 3.0}[w] for w in _COUNTED.findall(markdown.lower())}


def asserted(source: str) -> set[float]:
    """The numbers that occur in the asserts of a cell; an assert of literals alone claims nothing."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and any(isinstance(n, ast.Name) for n in ast.walk(node.test)):
            for each in ast.walk(node.test):
                if isinstance(each, ast.Constant) and isinstance(each.value, int | float):
                    found |= {float(each.value), -float(each.value)}
    return found


def numbers(notebook: Notebook, path: Path) -> Iterator[str]:
    """Every number in prose is asserted above it, in its section (see the module)."""
    known: set[float] = set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            known |= asserted(cell.source)
            continue
        for part in re.split(r"(?m)^(?=## )", cell.source):
            if part.startswith("## "):
                known = set()
            for number in sorted(stated(part) - known):
                yield f"{name(cell)}: nothing above it in its section asserts {number:g}"


def duration(notebook: Notebook, path: Path) -> Iterator[str]:
    """The line of its time is the one that its words, predictions, steppers and cells make; see :mod:`times`."""
    cells = code(notebook)
    if not cells or cells[-1] is not notebook.cells[-1] or "perf_counter()" not in cells[-1].source:
        yield f"{path.name}: the last cell is code and prints the time since the first"
    ran = times.announced(notebook)
    if ran is None:
        yield f"{path.name}: says no measured time to run; see tests/notebooks/times.py"
    elif times.header(notebook) != times.line(times.count(notebook), ran, path.name[:2]):
        yield f"{path.name}: its time is not what is counted; python tests/notebooks/times.py --write mends it"


# --- links ---------------------------------------------------------------------

_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|(?:href|src)=[\"']([^\"']+)")


def links(notebook: Notebook, path: Path) -> Iterator[str]:
    """A relative link leads to a file of the repository; what follows a # is one of its headings."""
    texts = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    for target in (a or b for t in map(_without_code, texts) for a, b in _LINK.findall(t)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        if file and not (path.parent / file).exists():
            yield f"{path.name}: {target} leads nowhere"
        elif anchor and anchor not in _headings(_markdown(path.parent / file) if file else texts):
            yield f"{path.name}: there is no heading {target}"


def _without_code(markdown: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`", " ", markdown, flags=re.S)


def _markdown(path: Path) -> list[str]:
    """The texts of a notebook or a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return ["".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown"]
    return [text]


def _headings(texts: list[str]) -> set[str]:
    """The headings as Jupyter makes them addresses."""
    return {h.strip().replace(" ", "-") for t in texts for h in re.findall(r"(?m)^#+ (.*)$", _without_code(t))}


# --- all notebooks together ----------------------------------------------------


def functions(notebook: Notebook) -> set[str]:
    """The names of the functions that a notebook defines."""
    trees = [ast.parse(c.source) for c in code(notebook)]
    return {n.name for t in trees for n in ast.walk(t) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def repeated(notebooks: dict[str, Notebook]) -> list[str]:
    """Functions that more than one notebook defines: what is needed twice lives in the library."""
    where: dict[str, list[str]] = {}
    for path, notebook in notebooks.items():
        for function in functions(notebook):
            where.setdefault(function, []).append(path)
    return [f"{f} is defined in {', '.join(sorted(p))}" for f, p in sorted(where.items()) if len(p) > 1]


CHECKS: list[Callable[[Notebook, Path], Iterator[str]]] = [
    clean,
    small,
    predictions,
    shape,
    numbers,
    duration,
    links,
]
