"""docs/architecture.md against the sources: the order of the rooms, who imports whom, and how long each room is."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = "sharedstate_lite"
LIBRARY = ("errors", "oracle")
"""The helper library: the rooms of the table from the first of these to the second."""
COMMANDS = {f"{TOP}.spark.session.classes", f"{TOP}.spark.session.cluster"}
"""Commands below the face that may import it; ``__main__`` modules may, too."""
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Import(NamedTuple):
    """One imported name: from which module, to which module, and where it stands."""

    source: str
    target: str
    line: int


def lines_of_code(text: str) -> int:
    """Lines that hold code: no docstrings, comments or blank lines."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def page() -> str:
    """docs/architecture.md."""
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def table() -> dict[str, int]:
    """The rooms in the order of the page's table, each with its lines of code, rounded up to 50."""
    rows = re.findall(r"^\| `([\w/]+?)/?` \|.*\| ([0-9,]+) \|$", page(), re.MULTILINE)
    return {room: int(most.replace(",", "")) for room, most in rows}


def modules(root: Path) -> dict[str, Path]:
    """Every module of the library below ``root``, generated ones left out."""
    paths = [path for path in sorted((root / TOP).rglob("*.py")) if not path.stem.endswith("_pb2")]
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def room(module: str, rooms: list[str]) -> str:
    """The room of a module: the longest name in the table that leads to it. Raises AssertionError for none."""
    parts = module.split(".")[1:]
    if parts == [] or parts == ["__main__"]:
        return "face"
    found = [name for name in ("/".join(parts[:2]), parts[0]) if name in rooms]
    assert found, f"{module} is in no room of docs/architecture.md"
    return found[0]


@cache
def imports(root: Path) -> list[Import]:
    """Every import inside the library: at the top, inside functions, and under TYPE_CHECKING."""
    paths = modules(root)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    found = []
    for name, tree in trees.items():
        package = name.split(".") if paths[name].name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) + 1 - node.level] if node.level else []
                base = ".".join([*above, node.module] if node.module else above)
                targets = [f"{base}.{a.name}" if _is_module(trees, base, a.name) else base for a in node.names]
            else:
                continue
            found += [Import(name, target, node.lineno) for target in targets if target in trees]
    return found


def _is_module(trees: dict[str, ast.Module], package: str, name: str) -> bool:
    """Whether ``from package import name`` gives a module rather than what the package's ``__init__`` binds."""
    if f"{package}.{name}" not in trees or package not in trees:
        return f"{package}.{name}" in trees
    bound: set[str] = set()
    for node in ast.walk(trees[package]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.level and node.module:
            bound |= {alias.asname or alias.name for alias in node.names}
    return name not in bound


def upward(found: list[Import], rooms: list[str]) -> list[str]:
    """Imports of a room that stands later in the table; commands may import the face."""
    order = {name: at for at, name in enumerate(rooms)}
    wrong = []
    for each in found:
        command = each.source in COMMANDS or each.source.endswith("__main__")
        if order[room(each.source, rooms)] < order[room(each.target, rooms)] and not (command and each.target == TOP):
            wrong.append(f"{each.source}:{each.line} imports {each.target}")
    return wrong


def circles(found: list[Import]) -> list[list[str]]:
    """Groups of modules that import one another in a circle (Tarjan's strongly connected components)."""
    graph: dict[str, list[str]] = {}
    for each in found:
        if each.source != each.target:
            graph.setdefault(each.source, []).append(each.target)
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in graph.get(module, ()):
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return groups


def classes(root: Path) -> Iterator[tuple[str, str]]:
    """The name and the module of every class of the library."""
    for name, path in modules(root).items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, name


def test_counting_leaves_out_what_is_not_code() -> None:
    """A docstring, a comment and a blank line are no code; every line of a continued statement is."""
    assert lines_of_code('"""Doc."""\n\n# why\nx = (1 +\n     2)\n') == 2


def test_a_room_imports_only_rooms_before_it() -> None:
    """The table of docs/architecture.md is the order; late and type-only imports count."""
    assert upward(imports(ROOT), list(table())) == []


def test_no_circle_of_files() -> None:
    """No module imports itself through others, late and type-only imports included."""
    assert circles(imports(ROOT)) == []


@pytest.mark.parametrize("how", ["{}", "def late():\n    {}", "if TYPE_CHECKING:\n    {}"])
def test_a_breach_is_found(tmp_path: Path, how: str) -> None:
    """An upward import and a circle are found at the top of a file, in a function and under TYPE_CHECKING."""
    for path, text in {
        "storage/batch.py": how.format("from ..sql.parse import parse"),
        "sql/parse.py": "from ..storage import batch",
    }.items():
        (tmp_path / TOP / path).parent.mkdir(parents=True)
        (tmp_path / TOP / path).write_text(text)
    found = imports(tmp_path)
    assert [text.partition(" ")[2] for text in upward(found, list(table()))] == [f"imports {TOP}.sql.parse"]
    assert circles(found) == [[f"{TOP}.sql.parse", f"{TOP}.storage.batch"]]


def test_the_layers_contract_is_the_table() -> None:
    """import-linter's layers name the same rooms in the same order; spark's and worker's own rooms are this test's."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"].startswith("the rooms of the library"))
    rooms = list(dict.fromkeys(name.partition("/")[0] for name in table() if name != "face"))
    assert [f"{TOP}.{name}" for name in reversed(rooms)] == layers


def test_each_room_is_as_long_as_the_page_says() -> None:
    """A room's number on the page is its lines of code, rounded up to 50; so is the helper library's."""
    rooms = table()
    sizes = Counter(dict.fromkeys(rooms, 0))
    for name, path in modules(ROOT).items():
        sizes[room(name, list(rooms))] += lines_of_code(path.read_text(encoding="utf-8"))
    assert {name: -(-lines // 50) * 50 for name, lines in sizes.items()} == rooms
    first, last = (list(rooms).index(name) for name in LIBRARY)
    helper = sum(sizes[name] for name in list(rooms)[first : last + 1])
    assert f"**the helper library**: {-(-helper // 50) * 50:,} lines" in page()


def test_a_class_has_one_name() -> None:
    """No two classes of the library share a name; a room is part of a module's name, not of a class's."""
    where: dict[str, list[str]] = {}
    for name, module in classes(ROOT):
        where.setdefault(name, []).append(module)
    assert {name: places for name, places in where.items() if len(places) > 1} == {}
