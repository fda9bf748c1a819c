"""Rewrites Markdown as GitHub and Jupyter read it into Markdown as MkDocs reads it, and links into links of the site.

MkDocs uses Python-Markdown, which differs in three ways. It needs a blank line before a list or a table, it needs four
spaces to nest a list, and it does not read Markdown inside HTML unless the element asks for it.

>>> print(adapted("Two words:\\n- full\\n  - state"))
Two words:
<BLANKLINE>
- full
    - state
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

_FENCE = re.compile(r" *(```+|~~~+)")
_HEADING = re.compile(r"(#{1,6}) +\S")
_ITEM = re.compile(r"( *)([-*+]|\d+[.)])( +)(?=\S)")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def outside_fences(text: str, change: Callable[[list[str]], list[str]]) -> str:
    """Apply ``change`` to the lines between fenced code blocks, and return the result."""
    out: list[str] = []
    plain: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            out.append(line)
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif found:
            out += [*change(plain), line]
            plain, fence = [], found[1]
        else:
            plain.append(line)
    return "\n".join([*out, *change(plain)])


def adapted(text: str) -> str:
    """Return Markdown that MkDocs reads as GitHub and Jupyter read ``text``."""
    out: list[str] = []
    columns: list[int] = []  # for each open list item, the column in which its content begins
    fence = before = ""
    listed = False  # whether the lines since the last blank one began with a list item
    for line in re.sub(r"<details(?![^>]*markdown)", '<details markdown="1"', text).splitlines():
        indent = len(line) - len(line.lstrip(" "))
        found = _FENCE.match(line)
        item = None if fence else _ITEM.match(line)
        # A line at the margin continues the paragraph of a list item if no blank line comes before it.
        if line.strip() and not fence and (item or indent or not before):
            while columns and indent < columns[-1]:
                columns.pop()
        row = line.startswith("|") and not before.startswith("|")
        if before and not fence and (row or (item and not listed)):
            out.append("")
            before = ""
        if not before:
            listed = item is not None
        shift = 4 * len(columns) - columns[-1] if columns and indent >= columns[-1] else 0
        out.append((" " * shift + line)[max(-shift, 0) :] if line.strip() else "")
        if item:
            columns.append(item.end())
        if fence:
            fence = "" if found and found[1].startswith(fence) else fence
        elif found:
            fence = found[1]
        before = line.strip()
    return "\n".join(out)


def relinked(text: str, source: str, pages: Mapping[str, str], repository: str) -> str:
    """Return Markdown whose relative links lead to pages of the site.

    ``source`` is the file that contains the text, and ``pages`` maps files to files of the site. All of them are
    relative to the root of the checkout, or of the site. A link to a file that is not on the site leads to
    ``repository``; if that is empty, only its words remain.

    >>> pages = {"docs/a.md": "docs/a.md", "notebooks/01.ipynb": "notebooks/01.md"}
    >>> relinked("[b](../notebooks/01.ipynb#Now:-the-end), [c](c.py)", "docs/a.md", pages, "")
    '[b](../notebooks/01.md#now-the-end), c'
    """
    here = posixpath.dirname(pages[source])

    def moved(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        path, hash_, fragment = target.partition("#")
        if _EXTERNAL.match(target):
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
        anchor = hash_ + re.sub(r"[^\w-]", "", fragment.lower())  # as MkDocs makes addresses of headings
        if not path:
            return f"{mark}[{words}]({anchor})"
        if file in pages:
            return f"{mark}[{words}]({posixpath.relpath(pages[file], here or '.')}{anchor})"
        return f"{mark}[{words}]({repository}/{file}{hash_}{fragment})" if repository else words

    return outside_fences(text, lambda lines: _LINK.sub(moved, "\n".join(lines)).split("\n") if lines else lines)


def faults(text: str) -> list[str]:
    """Return what is wrong with the fences and headings of a page, each with its line.

    >>> faults("# Title\\n\\n```python\\nx = {1}```\\n\\n### Run")
    ['line 4: a fence ends behind other text', 'line 3: the fence is not closed']
    """
    found, fence, opened, level = [], "", 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            elif line.rstrip().endswith(fence):
                found.append(f"line {number}: a fence ends behind other text")
        elif match:
            fence, opened = match[1], number
        elif heading := _HEADING.match(line):
            depth = len(heading[1])
            if depth > level + 1 or depth == level == 1:
                found.append(f"line {number}: a heading of level {depth} comes after one of level {level}")
            level = depth
    return found + ([f"line {opened}: the fence is not closed"] if fence else [])
