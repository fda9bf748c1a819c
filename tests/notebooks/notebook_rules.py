"""What every notebook keeps to, as checks that read it without running it.

Each check takes a notebook and returns what is wrong, one sentence each; none means all
is well. ``CHECKS`` are the ones that hold for every notebook of the kit.

The convention for numbers: a number in prose is asserted by a code cell above it in the
same section (from one ``##`` heading to the next). Digits count, and so do the words from
four upwards; one, two and three are words of any sentence. Not numbers in this sense:
what stands in code, links and formulas of ``+1`` and ``-1``; the ordinals of a list and
the number in the title; rules by their number; epochs by their name; years.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

Notebook = Any
"""An nbformat notebook node."""
CELL_LINES, FUNCTION_LINES, COLUMNS = 25, 15, 92
WORDS = {word: number for number, word in enumerate("four five six seven eight nine ten eleven twelve".split(), 4)} | {
    "dozen": 12,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
}
PARTS = ["you can", "**Time**", "**Difficulty**", "Predict before you run", "Change one thing"]
PARTS += ["What must always hold", "Where the simplification ends", "Check yourself", "<details>"]
"""What the text of a notebook contains, in this order, as the curriculum's shape of a notebook asks."""
READING, PER_PREDICTION, PER_CELL = 160, 1.0, 0.2
"""Words a minute, and minutes for a prediction and for a code cell."""


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
            elif not any(isinstance(n, ast.Name) and n.id == wanted for n in ast.walk(ast.parse(after.source))):
                yield f"{name(after)}: does not use {wanted}"
        if "answer" in tags(cell) and (not at or "predict" not in tags(cells[at - 1])):
            yield f"{name(cell)}: no cell tagged predict before it"
        if cell.cell_type == "markdown" and re.search(r"^#+ Predict", cell.source, re.M):
            rest = cells[at + 1 :]
            stop = next(
                (i for i, c in enumerate(rest) if c.cell_type == "markdown" and "\n#" in "\n" + c.source), len(rest)
            )
            if not any("predict" in tags(c) for c in rest[:stop]):
                yield f"{name(cell)}: says predict, and no cell tagged predict follows in its section"


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
    re.compile(r"`[^`]*`"),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"<[^>]*>"),
    re.compile(r"(?<=\])\([^)]*\)"),  # a link's address
    re.compile(r"^# \d\d\b", re.M),  # the title's number
    re.compile(r"^\s*(\*\*)?\d+\.(\*\*)?\s", re.M),  # a list's ordinals
    re.compile(r"\b[Rr]ules? \d+( (and|to) \d+)?"),
    re.compile(r"\b[Ee]poch \d+"),
    re.compile(r"\b(19|20)\d\d\b"),  # a year
    re.compile(r"(?<![\w.])[+−-]1\b(?![.,]\d)"),
    re.compile(r"^\*\*Time\*\*.*?\*\*Difficulty\*\*", re.M | re.S),  # see `duration`
]
_NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w])")


def stated(markdown: str) -> set[float]:
    """The numbers that a text states."""
    for pattern in _NOT_PROSE:
        markdown = pattern.sub(" ", markdown)
    digits = {float(n.replace(",", "").replace("−", "-")) for n in _NUMBER.findall(markdown)}
    return digits | {float(WORDS[w]) for w in re.findall(r"[a-z]+", markdown.lower()) if w in WORDS}


def asserted(source: str) -> set[float]:
    """The numbers that occur in the asserts of a cell."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
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
    """The minutes that a notebook announces are those that reading and trying it takes, within five."""
    told = minutes_and_limit(notebook)
    if told is None:
        yield f"{path.name}: no line '**Time** N minutes to read and try, N minutes to run at most'"
        return
    words = sum(len(c.source.split()) for c in notebook.cells if c.cell_type == "markdown")
    tried = sum("predict" in tags(c) for c in notebook.cells)
    needs = words / READING + PER_PREDICTION * tried + PER_CELL * len(code(notebook))
    if abs(told[0] - needs) > 5:
        yield f"{path.name}: announces {told[0]} minutes; its {words} words, cells and predictions take {needs:.0f}"


def minutes_and_limit(notebook: Notebook) -> tuple[int, int] | None:
    """What a notebook says of its time: minutes to read, and minutes that a run may take."""
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    found = re.search(r"\*\*Time\*\* (\d+) minutes to read and try, (\d+) minutes? to run at most", text)
    return (int(found[1]), int(found[2])) if found else None


# --- links ---------------------------------------------------------------------

_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|(?:href|src)=[\"']([^\"']+)")


def links(notebook: Notebook, path: Path) -> Iterator[str]:
    """A relative link leads to a file of the repository, a link within the page to one of its headings."""
    texts = [
        re.sub(r"```.*?```|`[^`]*`", " ", c.source, flags=re.S) for c in notebook.cells if c.cell_type == "markdown"
    ]
    headings = {h.strip().replace(" ", "-") for t in texts for h in re.findall(r"(?m)^#+ (.*)$", t)}
    for target in (a or b for t in texts for a, b in _LINK.findall(t)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        if file and not (path.parent / file).exists():
            yield f"{path.name}: {target} leads nowhere"
        if not file and anchor not in headings:
            yield f"{path.name}: there is no heading {target}"


CHECKS: list[Callable[[Notebook, Path], Iterator[str]]] = [
    clean,
    small,
    predictions,
    shape,
    numbers,
    duration,
    links,
]
