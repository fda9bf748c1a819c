"""docs/architecture.md says how much there is to read; the sources are counted here."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AFTERNOON = 2_000
"""Lines of code that full and shared state may be made of."""
ENTRIES = ("full", "shared", "partial", "catalog", "checkpoint", "oracle")
"""What they import, in one step or several, is the core."""
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text: str) -> int:
    """Lines that hold code: no docstrings, comments or blank lines."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def parts() -> dict[str, tuple[list[str], int]]:
    """The rows of the table: part, its rooms, the most lines that it may have."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("## How much there is to read")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ([0-9,]+) \|$", section, re.MULTILINE)
    return {part: (rooms.split(", "), int(most.replace(",", ""))) for part, rooms, most in rows}


def test_counting_leaves_out_what_is_not_code() -> None:
    """A docstring, a comment and a blank line are no code; a line that is continued counts as it stands."""
    assert lines_of_code('"""Doc."""\n\n# why\nx = (1 +\n     2)\n') == 2


def test_every_part_is_as_short_as_the_page_says() -> None:
    """Each part of the core has at most the lines that its row states, and the first two fit an afternoon."""
    sizes = {}
    for part, (rooms, most) in parts().items():
        sizes[part] = sum(lines_of_code((ROOT / "sharedstate_lite" / f"{room}.py").read_text()) for room in rooms)
        assert sizes[part] <= most, f"{part}: {sizes[part]} lines; shorten it, or say so on the page"
    assert len(sizes) == 6
    assert sum(list(sizes.values())[:2]) <= AFTERNOON


def core() -> set[str]:
    """The modules that the entries reach by imports."""
    found, ahead = set(), list(ENTRIES)
    while ahead:
        name = ahead.pop()
        if name in found or not (ROOT / "sharedstate_lite" / f"{name}.py").is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse((ROOT / "sharedstate_lite" / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                ahead += [node.module] if node.module else [alias.name for alias in node.names]
    return found


def test_every_module_of_the_core_is_in_one_part() -> None:
    """The table leaves no module of the core out and names none twice."""
    assert sorted(room for rooms, _ in parts().values() for room in rooms) == sorted(core())
