"""Which solutions share code, by winnowing and by equal trees.

`source` reads a solution, and `pairs` compares solutions in two ways. What the stub has counts in neither. `links` puts
all copies of a solution into a group. `usual` is what a pair of the class usually shares.

- Fingerprints: hashes of runs of tokens, of which winnowing keeps a few (Schleimer, Wilkerson and Aiken, "Winnowing:
  Local Algorithms for Document Fingerprinting", SIGMOD 2003). Names, comments, docstrings and the order of methods do
  not matter. 19 tokens in a row that two solutions share are always found; fewer than 16 never are.
- Trees: the functions of two solutions are equal after renaming.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import keyword
import re
import tokenize
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import median
from typing import Any

_RUN, _WINDOW = 16, 4
"""The number of tokens in a run, and the number of runs of which winnowing keeps one."""
_MOST = 200_000
"""The number of characters of a solution that are compared."""
_COPY = 0.9
"""Solutions that share this part of the longer one are copies of each other."""
_SKIP = (tokenize.COMMENT, tokenize.NL)
_LAYOUT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_NAME = re.compile(r"(keyword\()?\b(id|arg|attr|name)='(\w+)'")


@dataclass(frozen=True)
class Source:
    """A solution. ``prints`` maps each fingerprint to the lines that it covers, ``parts`` counts equal statements."""

    id: str
    text: str
    published: bool
    prints: dict[int, set[int]]
    parts: Counter[str]


@dataclass(frozen=True)
class Pair:
    """Two solutions, the share of the fingerprints of the shorter one that both have, and these lines in each."""

    one: Source
    other: Source
    share: float
    equal: bool
    """Whether everything outside the stub is equal after renaming."""
    lines: tuple[list[int], list[int]]

    @property
    def copy(self) -> bool:
        """Whether they are equal, or share nearly all of the longer one."""
        few, many = sorted((len(self.one.prints), len(self.other.prints)))
        return self.equal or self.share * few >= _COPY * many


@dataclass(frozen=True)
class Link:
    """Pairs that belong together, the most similar first: those of a group of copies, or between two such groups."""

    pairs: list[Pair]
    sides: list[list[Source]]
    """The group, or both groups. A group can be a single solution."""


def code_of(text: str) -> str:
    """Return the code cells of a notebook as one text, without magics and shell lines."""
    cells = [cell for cell in json.loads(text)["cells"] if type(cell) is dict and cell.get("cell_type") == "code"]
    lines = "\n".join(map(_source_of, cells)).splitlines()
    return "\n".join("" if line.lstrip().startswith(("%", "!", "?")) else line for line in lines) + "\n"


def _source_of(cell: dict[str, Any]) -> str:
    source = cell.get("source")
    return "".join(part for part in (source if type(source) is list else [source]) if type(part) is str)


def source(id: str, text: str, stub: str = "", published: bool = False) -> Source:
    """Return a solution without what the stub has. ``published``: whether it is not a student's."""
    tokens = _tokens(text[:_MOST])
    runs, (given, common) = _runs(tokens), _of_stub(stub)
    prints: dict[int, set[int]] = {}
    for at in _winnowed(runs):
        if runs[at] not in given:
            prints.setdefault(runs[at], set()).update(range(tokens[at][1], tokens[at + _RUN - 1][1] + 1))
    return Source(id, text, published, prints, _parts(text[:_MOST]) - common)


@cache
def _of_stub(text: str) -> tuple[set[int], Counter[str]]:
    return set(_runs(_tokens(text))), _parts(text)


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return the tokens with their lines. All names are "n", all strings "s". A syntax error ends the list."""
    found, begins = list[tuple[str, int]](), True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _LAYOUT:
                begins = True
            elif token.type not in _SKIP and not (token.type == tokenize.STRING and begins):  # a docstring
                name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
                word = "n" if name else "s" if token.type == tokenize.STRING else token.string
                found.append((word, token.start[0]))
                begins = False
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def _runs(tokens: Sequence[tuple[str, int]]) -> list[int]:
    """Return a hash of each run of tokens. It does not differ from process to process, as Python's own does."""
    words = [word for word, _ in tokens]
    return [zlib.crc32("\n".join(words[at : at + _RUN]).encode()) for at in range(len(words) - _RUN + 1)]


def _winnowed(runs: Sequence[int]) -> set[int]:
    """Return the position of the smallest hash in each window, the rightmost of equal ones."""
    windows = (range(at, min(at + _WINDOW, len(runs))) for at in range(max(1, len(runs) - _WINDOW + 1)))
    return {min(window, key=lambda at: (runs[at], -at)) for window in windows} if runs else set()


def _parts(text: str) -> Counter[str]:
    """Return the functions, methods and other statements as texts with numbers in place of variables.

    Other names, imports, docstrings and annotations of functions are left out: an attribute can have the name of a
    method of dict in one solution, and another name in its copy. A text that is not valid Python has no parts.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        blocks = [node.body if isinstance(node, ast.ClassDef) else [node] for node in tree.body]
        return Counter(_part(node) for block in blocks for node in block if not _silent(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Counter()


def _silent(node: ast.stmt) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Import | ast.ImportFrom)


def _part(part: ast.stmt) -> str:
    ours = set[str]()
    for node in ast.walk(part):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body, node.returns = [line for line in node.body if not _silent(line)], None
        elif isinstance(node, ast.arg):
            node.annotation = None
            ours.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            ours.add(node.id)
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        if found[1] or found[2] in ("attr", "name"):
            return ""
        builtin = hasattr(builtins, found[3]) and found[3] not in ours
        return found[3] if builtin else names.setdefault(found[3], str(len(names)))

    return _NAME.sub(numbered, ast.dump(part))


def pairs(sources: Iterable[Source], least: float = 0.0) -> list[Pair]:
    """Return the pairs that share at least ``least``, or are equal, the most similar ones first."""
    found = []
    for one, other in combinations(sorted(sources, key=lambda each: (each.published, each.id)), 2):
        both = one.prints.keys() & other.prints.keys()
        share = _share(one, other)
        equal = bool(one.parts) and one.parts == other.parts
        if (share >= least and both or equal) and not one.published:
            ours, theirs = (sorted(set().union(*(each.prints[mark] for mark in both))) for each in (one, other))
            found.append(Pair(one, other, share, equal, (ours, theirs)))
    return sorted(found, key=lambda pair: (not pair.equal, -pair.share, pair.one.id, pair.other.id))


def links(found: Iterable[Pair]) -> list[Link]:
    """Return pairs, the most similar first, as one link for each group of copies and for each two groups."""
    found = list(found)
    group = {id(one): [one] for pair in found for one in (pair.one, pair.other)}
    for pair in found:
        one, other = group[id(pair.one)], group[id(pair.other)]
        if pair.copy and one is not other:
            one += other
            group.update((id(each), one) for each in other)
    made: dict[frozenset[int], Link] = {}
    for pair in found:
        sides = {id(side): side for side in (group[id(pair.one)], group[id(pair.other)])}
        ordered = [sorted(side, key=lambda each: (each.published, each.id)) for side in sides.values()]
        made.setdefault(frozenset(sides), Link([], ordered)).pairs.append(pair)
    return list(made.values())


def usual(sources: Iterable[Source]) -> float:
    """Return the median share of all pairs of students' solutions; 0.0 if there is no pair."""
    students = [one for one in sources if not one.published]
    return median([_share(one, other) for one, other in combinations(students, 2)] or [0.0])


def _share(one: Source, other: Source) -> float:
    """Return which part of the fingerprints of the solution with fewer of them the other one has, too."""
    return len(one.prints.keys() & other.prints.keys()) / max(1, min(len(one.prints), len(other.prints)))


def ranges(lines: Iterable[int]) -> str:
    """Return sorted numbers of lines as text.

    >>> ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
