"""The rules that every notebook follows, as checks that read a notebook without running it.

Each check takes a notebook and its path, and yields one sentence for each thing that is wrong.

A cell is collapsed if a reader does not need it: its tag is ``collapsed`` (it prepares what the next cell shows) or
``check`` (in ``with show.checks():`` it asserts what the text says, and no other cell needs it). Collapsed cells carry
``source_hidden``, which JupyterLab folds, and show nothing. A cell tagged ``write-it`` has the stub that the reader
completes; one tagged ``check-it`` checks it.

A number in the text is asserted by a cell of its section, above or below, in an assert that computes something; a
number before the first ``##`` heading by any cell of the notebook. Digits count, also in code spans that contain
nothing else (`` `{10, 20}` ``), and so do the words from four upwards. Two and three count only before what state is
counted in (``COUNTED``: two rows, three different arrangements). Not numbers in this sense: other code, formulas and
addresses of links; ``+1`` and ``-1``, the signs of changes; the ordinals of a list, the number in the title,
notebooks, rules and epochs by their number; versions of a system, as in Spark 4.1; years; the minutes in the box, which
``duration`` checks. A version is held by ``versions`` and by docs/systems.md instead (test_systems.py).

Links to other sites are not followed: the tests run without a network.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sharedstate_lite.show.page import SCRIPT

Notebook = Any
"""An nbformat notebook node."""
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
        lines = cell.source.removeprefix("with show.checks():\n").splitlines()
        if len(lines) > LINES:
            yield f"{name(cell)}: {len(lines)} lines; {LINES} is the maximum"
        if any(len(line) > COLUMNS for line in lines):
            yield f"{name(cell)}: a line is longer than {COLUMNS} characters"


def hidden(notebook: Notebook, path: Path) -> Iterator[str]:
    """Collapsed cells are folded and show nothing; asserts stand in ``with show.checks():`` of cells tagged check."""
    for cell in code(notebook):
        folded = bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
        tree = ast.parse(cell.source)
        asserts = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
        if folded != bool(HIDDEN & set(tags(cell))):
            yield f"{name(cell)}: tags collapsed and check go with metadata jupyter.source_hidden"
        if asserts and "check" not in tags(cell):
            yield f"{name(cell)}: an assert stands in a cell that is not tagged check"
        if "check" in tags(cell) and not asserts:
            yield f"{name(cell)}: a check without an assert"
        if "check" in tags(cell) and not (len(tree.body) == 1 and _is_checks(tree.body[0])):
            yield f"{name(cell)}: a check is one 'with show.checks():' and nothing else"
        if folded and tree.body and isinstance(tree.body[-1], ast.Expr) and not _call(tree.body[-1].value):
            yield f"{name(cell)}: a collapsed cell shows something"


def _is_checks(node: ast.stmt) -> bool:
    return isinstance(node, ast.With) and [ast.unparse(item) for item in node.items] == ["show.checks()"]


class Flow(ast.NodeVisitor):
    """The names that a cell takes from the cells above it, and those that it binds, in the order of evaluation."""

    def __init__(self, source: str) -> None:
        self.reads, self.binds, self.inside = set[str](), set[str](), dict[str, set[str]]()
        self.visit(ast.parse(source))

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802
        if isinstance(node.ctx, ast.Store):
            self.binds.add(node.id)
        elif node.id not in self.binds:
            self.reads.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.binds.add((node.asname or node.name).partition(".")[0])

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:  # noqa: N802
        for part in [node.value, *(node.targets if isinstance(node, ast.Assign) else [node.target])]:
            if part:
                self.visit(part)

    visit_AnnAssign = visit_NamedExpr = visit_Assign  # noqa: N815

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        self.visit(node.value)
        if isinstance(node.target, ast.Name) and node.target.id not in self.binds:
            self.reads.add(node.target.id)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:  # noqa: N802
        for part in [node.iter, node.target, *node.body, *node.orelse]:
            self.visit(part)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:  # noqa: N802
        for part in node.decorator_list:
            self.visit(part)
        self.inside[node.name] = _free(node)
        self.binds.add(node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.AST) -> None:  # noqa: N802
        self.reads |= _free(node) - self.binds

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda  # noqa: N815


def _free(node: ast.AST) -> set[str]:
    """The names that a function, a class or a comprehension reads and does not bind."""
    every = list(ast.walk(node))
    names = [n for n in every if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {n.arg for n in every if isinstance(n, ast.arg)}
    bound |= {n.name for n in every if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return {n.id for n in names if isinstance(n.ctx, ast.Load)} - bound


def robust(notebook: Notebook, path: Path) -> Iterator[str]:
    """A collapsed cell does not rely on a table with one row, which a reader's change may empty."""
    for cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)) if "collapsed" in tags(cell) else ():
            text = ast.unparse(node) if isinstance(node, ast.Call | ast.Subscript) else ""
            item = isinstance(node, ast.Call) and text.endswith(".item()")
            first = re.search(r"[=&|<>].*\]\.iloc\[0\]$", text) and isinstance(node, ast.Subscript)
            if item or first:
                yield f"{name(cell)}: {text} fails without a row, or with two"


def independent(notebook: Notebook, path: Path) -> Iterator[str]:
    """What a check binds is for checks: no other cell reads it, so a check that fails stops nothing."""
    checked: dict[str, str] = {}
    inside: dict[str, set[str]] = {}
    for cell in code(notebook):
        flow = Flow(cell.source)
        inside |= flow.inside
        reads, todo = set[str](), [*flow.reads]
        while todo:  # what is called reads, too
            if (each := todo.pop()) not in reads:
                reads.add(each)
                todo += inside.get(each, ())
        if "check" not in tags(cell):
            for each in sorted(reads & {*checked}):
                yield f"{name(cell)}: it reads {each}, which the check in {checked[each]} has bound"
        for each in flow.binds:
            checked.pop(each, None)
            if "check" in tags(cell):
                checked[each] = name(cell)


def _call(node: ast.expr) -> bool:
    """Whether an expression is a call, such as ``server.close()``, which returns nothing to show."""
    return isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id == "print")


def predictions(notebook: Notebook, path: Path) -> Iterator[str]:
    """``show.predict(question, guess=None)``; a collapsed cell directly above binds the question and its answer."""
    cells, names = code(notebook), list[str]()
    for at, cell in enumerate(cells):
        if not any(_is(n, "show.predict") for n in ast.walk(ast.parse(cell.source))):
            continue
        call = re.fullmatch(r"show\.predict\((\w+), guess=None\)(  # .+)?", cell.source)
        if not call:
            yield f"{name(cell)}: a prediction is one line, 'show.predict(question, guess=None)  # what to type'"
            continue
        above = list(itertools.takewhile(lambda c: "collapsed" in tags(c), reversed(cells[:at])))
        asked = [n for c in above[:1] for n in _values_of(c.source, call[1]) if _is(n, "show.question")]
        names.append(call[1])
        if len(asked) != 1:
            yield f"{name(cell)}: no cell tagged collapsed binds {call[1]} by show.question directly above"
            continue
        answer = asked[0].args[1]
        values = [v for c in above if isinstance(answer, ast.Name) for v in _values_of(c.source, answer.id)]
        if not isinstance(answer, ast.Name) or not any(answer.id in _assigned(c.source) for c in above):
            yield f"{name(cell)}: the answer must be a name that a collapsed cell directly above assigns"
        elif any(_literal(value) for value in values):
            yield f"{name(above[0])}: the answer is a literal; compute it"
    for each in sorted({n for n in names if names.count(n) > 1}):
        yield f"{path.name}: two questions are called {each}"


def answered_later(notebook: Notebook, path: Path) -> Iterator[str]:
    """What a prediction is about is not told in sight: a cell that shows code comes before the next text."""
    for at, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and any(_is(n, "show.predict") for n in ast.walk(ast.parse(cell.source))):
            open_ = (c for c in notebook.cells[at + 1 :] if c.cell_type == "markdown" or not HIDDEN & set(tags(c)))
            if next(open_).cell_type == "markdown":
                yield f"{name(cell)}: a text follows the prediction; put what it tells into whys, or a cell between"


def _is(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == function


def _assigned(source: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _values_of(source: str, target: str) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == target for t in node.targets):
            yield node.value


def _literal(node: ast.expr) -> bool:
    return not any(isinstance(n, ast.Name | ast.Call | ast.Subscript) for n in ast.walk(node))


def written(notebook: Notebook, path: Path) -> Iterator[str]:
    """One or two write-it cells (none in 00): each checked at once, with a folded solution that a folded cell runs."""
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
            solutions = [s for c in rest if c.cell_type == "markdown" for s in folded_solutions(c.source)]
            if not solutions:
                yield f"{name(cell)}: no folded solution follows in its section"
            checks = "\n".join(textwrap.dedent(c.source) for c in rest if HIDDEN & set(tags(c)))
            for solution in solutions:
                if _flat(solution) not in _flat(checks):
                    yield f"{name(cell)}: no folded cell has the solution as it stands"


def folded_solutions(markdown: str) -> list[str]:
    folded = re.findall(r"<details>.*?</details>", markdown, re.S)
    return [block for fold in folded for block in re.findall(r"```python\n(.*?)```", fold, re.S)]


def _flat(source: str) -> str:
    return "\n".join(line.strip() for line in source.splitlines() if line.strip())


def shape(notebook: Notebook, path: Path) -> Iterator[str]:
    """The title above all, puzzle with a picture or code, box with the time, text, and an exit with a link."""
    if notebook.cells[0].cell_type != "markdown":
        yield f"{path.name}: a cell stands above the title"
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


def closed(notebook: Notebook, path: Path) -> Iterator[str]:
    """A notebook that starts Spark or PostgreSQL ends with a cell in sight that stops them."""
    text = "\n".join(c.source for c in code(notebook))
    stops = {"spark.session(": r"session\.stop\(\)", "postgres.Server(": r"(?:server|database)\.close\(\)"}
    last = notebook.cells[-1]
    for start, stop in stops.items():
        if start in text and not re.match(rf"# Close everything\n(?s:.*){stop}", last.source):
            yield f"{path.name}: the last cell is '# Close everything', and stops what {start}) has started"
        if start in text and HIDDEN & set(tags(last)):
            yield f"{path.name}: the last cell is folded"


def box(notebook: Notebook) -> int:
    """The minutes that the box states; 0 if there is none."""
    found = _BOX.search("\n".join(c.source for c in texts(notebook)))
    return int(found[1]) if found else 0


def minutes(notebook: Notebook) -> int:
    """The minutes for reading and for what is asked, rounded up to five."""
    words = sum(any(map(str.isalnum, word)) for c in texts(notebook) for word in c.source.split())
    asked = sum(any(_is(n, "show.predict") for n in ast.walk(ast.parse(c.source))) for c in code(notebook))
    stubs = sum("write-it" in tags(c) for c in code(notebook))
    steppers = sum("show.stepper(" in c.source for c in code(notebook))
    extra = ASKED["predict"] * asked + ASKED["write-it"] * stubs + ASKED["stepper"] * steppers
    return 5 * math.ceil((words / READING + extra) / 5)


def duration(notebook: Notebook, path: Path) -> Iterator[str]:
    """The box states the minutes that words and questions make, at most an hour; 00 is short."""
    if box(notebook) != minutes(notebook):
        yield f"{path.name}: the box says {box(notebook)} minutes, and there are {minutes(notebook)}"
    if minutes(notebook) > LONGEST:
        yield f"{path.name}: {minutes(notebook)} minutes; {LONGEST} is the maximum, split it"
    words = sum(len(c.source.split()) for c in texts(notebook))
    if number(path) == "00" and (words > FIRST_WORDS or len(notebook.cells) > FIRST_CELLS):
        yield f"{path.name}: {words} words in {len(notebook.cells)} cells; at most {FIRST_WORDS} in {FIRST_CELLS}"


def keys(notebook: Notebook, path: Path) -> Iterator[str]:
    """A key of the text is one of the stepper's; one that needs Python is said to need JupyterLab."""
    of = {key: bool(python) for keys, python in _KEYS.findall(SCRIPT) for key in keys.split()}
    for cell in texts(notebook):
        for sentence in re.split(r"(?<=[.?!])\s", cell.source):
            for key in set(re.findall(r"<kbd>(.*?)</kbd>", sentence)) - {"Shift", "Enter"}:
                if key not in of:
                    yield f"{name(cell)}: the stepper has no key {key}"
                elif of[key] and "JupyterLab" not in sentence:
                    yield f"{name(cell)}: the sentence about {key} does not say that it works in JupyterLab"


_KEYS = re.compile(r'\["([^"]+)", "[^"]+"(, true)?\]')
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
    re.compile(r"\b(Flink|Spark|Python|Kafka) \d+\.\d+"),
    re.compile(r"\b(19|20)\d\d\b"),  # a year
    re.compile(r"(?<![\w.])[+−-]1\b(?![.,]\d)"),
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
    """Every number in the text, and in a why, is asserted in its section (in the opening: anywhere)."""
    everywhere = set[float]().union(*(asserted(c.source) for c in code(notebook)))
    for at, part in enumerate(sections(notebook)):
        known = everywhere
        if at:
            known = set[float]().union(*(asserted(c.source) for c in part if c.cell_type == "code"))
        for cell in part:
            said = [_BOX.sub("", _without_title(cell.source))] if cell.cell_type == "markdown" else _whys(cell)
            for value in sorted(set[float]().union(*map(stated, said)) - known):
                yield f"{name(cell)}: nothing in its section asserts {value:g}"


def _without_title(markdown: str) -> str:
    return re.sub(r"# \d\d[a-z]? ·", "#", markdown)


def _whys(cell: Any) -> list[str]:
    """The explanations of a prediction that are plain strings; those of f-strings take their numbers from values."""
    whys = [value for value in _values_of(cell.source, "whys") if isinstance(value, ast.Dict)]
    return [v.value for d in whys for v in d.values if isinstance(v, ast.Constant) and isinstance(v.value, str)]


SYSTEMS = "../docs/systems.md"
_MARKED = re.compile(rf"\[([^\]]*)\]\({re.escape(SYSTEMS)}#[\w-]+\)")
_VERSION = re.compile(r"\b(?:Flink|Spark|Python|Kafka) \d+\.\d+")


def versions(notebook: Notebook, path: Path) -> Iterator[str]:
    """The version of a system stands in a link to the row of docs/systems.md that names its source."""
    for cell in texts(notebook):
        for found in _VERSION.findall(_MARKED.sub(" ", _without_code(cell.source))):
            yield f"{name(cell)}: {found} is no link to a row of {SYSTEMS}"


def visible_words(notebook: Notebook) -> int:
    """The words that a reader sees before anything is unfolded: those of the texts, without folds and addresses."""
    shown = (re.sub(r"<details>.*?</details>|(?<=\])\([^)]*\)", " ", c.source, flags=re.S) for c in texts(notebook))
    return sum(any(map(str.isalnum, word)) for text in shown for word in text.split())


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
    """The headings as Jupyter makes them addresses, and the places that a page names itself."""
    named = {each for text in texts for each in re.findall(r'<a id="([\w-]+)"></a>', text)}
    return named | {h.strip().replace(" ", "-") for t in texts for h in re.findall(r"(?m)^#+ (.*)$", _without_code(t))}


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
    clean,
    headings_first,
    small,
    hidden,
    robust,
    independent,
    predictions,
    answered_later,
    written,
    shape,
    closed,
    keys,
    duration,
    numbers,
    links,
    versions,
]
