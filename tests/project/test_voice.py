"""Phrases that the project's prose does not use, in docs, docstrings, comments and messages."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PHRASES = (
    r"whoever",
    r"(?<![`\"])nobody",  # in quotes it is the user of that name
    r"somebody",
    r"(is|are|was|were|be|been|being) told",
    r"(is|are|was|were) had",
    r"to be had",
    r"as it is called",
    r"comes? of",
    r"no more,",
    r"or else it",
    r"and so on with",
    r"(goes|go|gone|went) on with",
    r"would not do",
    r"comes? to nothing",
    r"let fall",
    r"tells? of",
    r"where from",
    r"such a one",
    r"of one's own",
    r"(is|are) said",
    r"whose end",
)
"""Each has a plain equivalent: "is told" is "is reported" or "receives", "nobody" names who does not."""
FOUND = re.compile(rf"\b({'|'.join(PHRASES)})(?!\w)", re.IGNORECASE)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / name / "README.md" for name in ("grader", "labs", "notebooks")]
SOURCES = [path for name in ("sharedstate_lite", "grader") for path in sorted((ROOT / name).rglob("*.py"))]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of prose: of a page all but headings and code; of a source its strings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                yield from enumerate(token.string.splitlines(), token.start[0])
        return
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        if not code and not line.startswith("#"):
            yield number, line


def phrases(path: Path) -> list[str]:
    """Where a phrase of the list stands in a file; sentences that ask a question are left out."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for number, line in prose(path)
        for found in FOUND.finditer(line)
        if not line[found.end() :].partition(".")[0].rstrip().endswith("?")
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_pages(path: Path) -> None:
    """No page uses one of the phrases."""
    assert phrases(path) == []


def test_sources() -> None:
    """No docstring, comment or message of the packages uses one of the phrases."""
    assert [line for path in SOURCES for line in phrases(path)] == []


def test_a_phrase_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phrase in a docstring, a comment or a page is found; one in a heading, in code or in a question is not."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "a.py").write_text('"""The caller is told."""\nnobody = 1  # whoever asks\n')
    (tmp_path / "a.md").write_text("# Nobody\nIs it that nobody asks?\nIt is had.\n```\nnobody\n```\n")
    assert phrases(tmp_path / "a.py") == ["a.py:1: is told", "a.py:2: whoever"]
    assert phrases(tmp_path / "a.md") == ["a.md:3: is had"]
