"""MkDocs reads this project's Markdown as GitHub and Jupyter read it, and links lead to pages of the site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import markdown
import nbformat
import pytest
from bs4 import BeautifulSoup
from mkdocs.utils.yaml import yaml_load
from nbconvert.filters import markdown2html

from website.github_markdown import adapted, faults, relinked

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "bench/README.md"]
FILES += sorted((ROOT / "notebooks").glob("*.ipynb"))
STRUCTURE = "li ul ol table tr td details summary pre h1 h2 h3 em strong a blockquote".split()


def texts(path: Path) -> Iterator[str]:
    """The Markdown of a file."""
    if path.suffix == ".md":
        yield path.read_text(encoding="utf-8")
    else:
        cells = nbformat.read(path, as_version=4).cells
        yield from (cell.source for cell in cells if cell.cell_type == "markdown")


def shape(html: str) -> tuple[Counter[str], list[int], str]:
    """What a reader sees: how many elements of each kind, how deep each list item is, and the letters."""
    page = BeautifulSoup(html, "html.parser")
    for anchor in page.select("a.anchor-link"):
        anchor.decompose()
    tags = Counter(e.name for e in page.find_all(STRUCTURE))
    depths = [sum(p.name in ("ul", "ol") for p in e.parents) for e in page.find_all("li")]
    return tags, depths, re.sub(r"\s", "", page.get_text())


SETTINGS = yaml_load((ROOT / "website/mkdocs.yml").read_text())["markdown_extensions"]
EXTENSIONS = [name for each in SETTINGS for name in ([each] if isinstance(each, str) else each) if name != "toc"]


def by_mkdocs(text: str) -> str:
    """The HTML of a text with the extensions of the site."""
    return markdown.markdown(adapted(text), extensions=EXTENSIONS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_mkdocs_reads_what_jupyter_reads(path: Path) -> None:
    """Every text has the same lists, tables, code blocks, folds and letters. A formula may lose its backslashes."""
    for text in texts(path):
        if not re.search(r"\$.*\\.*\$", text):
            assert shape(by_mkdocs(text)) == shape(markdown2html(text))


HARD = [
    "words\n- a\n- b\nlazy\n\nwords",
    "1. one\n   - two\n\n     more\n   - three\n\n     ```python\n     x\n     ```\n2. four",
    "words\n| a | b |\n|---|---|\n| `x` | 2 |\n- y",
    "10. ten\n    - nested\n11. eleven",
    "<details><summary>A solution</summary>\n\n```python\nx = 1\n```\nSome *words*.\n\n- a\n</details>\n\nafter",
    "```\n- not a list\n| not | a table\n```\n- a list",
    "- a\n\n  ```\n  code\n  ```\n\n- b\n\nend",
]


@pytest.mark.parametrize("text", HARD)
def test_hard_cases(text: str) -> None:
    """Lists without blank lines, nested by two or three spaces, tables after text, and Markdown inside HTML."""
    assert shape(by_mkdocs(text)) == shape(markdown2html(text))


def test_without_the_change_they_would_differ() -> None:
    """Python-Markdown alone reads most of the hard cases in another way."""
    alone = [shape(markdown.markdown(text, extensions=EXTENSIONS)) for text in HARD]
    assert sum(a != shape(markdown2html(text)) for a, text in zip(alone, HARD, strict=True)) >= 5


PAGES = {"docs/a.md": "docs/a.md", "notebooks/01-x.ipynb": "notebooks/01-x.md", "README.md": "kit.md"}


@pytest.mark.parametrize(
    ("text", "source", "moved"),
    [
        ("[x](../notebooks/01-x.ipynb)", "docs/a.md", "[x](../notebooks/01-x.md)"),
        ("[x](docs/a.md#Some-heading)", "README.md", "[x](docs/a.md#some-heading)"),
        ("[the kit](../README.md)", "docs/a.md", "[the kit](../kit.md)"),
        ("[here](#Where-it-ends)", "notebooks/01-x.ipynb", "[here](#where-it-ends)"),
        ("[code](../bench/views.py), [a [b]](../labs)", "docs/a.md", "code, a [b]"),
        (
            "[out](https://example.org/X#Y) [mail](mailto:a@b)",
            "docs/a.md",
            "[out](https://example.org/X#Y) [mail](mailto:a@b)",
        ),
        ("```\n[x](../gone.md)\n```", "docs/a.md", "```\n[x](../gone.md)\n```"),
    ],
)
def test_links(text: str, source: str, moved: str) -> None:
    """A link leads to the page of its file; without one, its words remain. Addresses and code stay as they are."""
    assert relinked(text, source, PAGES, "") == moved


def test_links_to_the_repository() -> None:
    """If the repository is known, a file that is not on the site is shown there."""
    moved = relinked("[code](../bench/views.py#L3)", "docs/a.md", PAGES, "https://example.org/blob/1")
    assert moved == "[code](https://example.org/blob/1/bench/views.py#L3)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A\n\n## B\n\n```python\n# no heading\n```\n\n### C\n\n## D", []),
        ("# A\n\n~~~~\n```\n~~~~\n\n    # code", []),
        ("# A\n\n```\nx})```\n\n## B", ["line 4: a fence ends behind other text", "line 3: the fence is not closed"]),
        ("## A", ["line 1: a heading of level 2 comes after one of level 0"]),
        ("# A\n\n### B", ["line 3: a heading of level 3 comes after one of level 1"]),
        ("# A\n\n# B", ["line 3: a heading of level 1 comes after one of level 1"]),
    ],
)
def test_fences_and_headings(text: str, found: list[str]) -> None:
    """A fence that stays open, and a heading that skips a level, stop the build of the site."""
    assert faults(text) == found


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".md"], ids=lambda path: path.name)
def test_pages_have_whole_fences_and_headings(path: Path) -> None:
    """Each page of docs/, and the READMEs."""
    assert faults(path.read_text(encoding="utf-8")) == []
