"""A question asked before a step, and a typed answer judged: read leniently, judged strictly.

An answer is text: ``-U Vegetable 50, +U Vegetable 60``. Order, case, quotes, brackets,
blanks or commas between values, and +1 or -1 for a kind of change make no difference, and
2 decimals do for a fraction; a missing or an added row does. ``nothing`` means that
nothing comes. What cannot be read is neither right nor wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .messages import Values, typed_values

NOTHING = ("nothing", "none", "no", "no change", "no changes", "no rows", "nothing at all", "0", "-", "()", "[]")
YES, NO = ("yes", "y", "true", "dropped"), ("no", "n", "false", "kept")
PLUS, MINUS = ("+", "insert"), ("-", "delete")
SIGN = re.compile(r"[+-](?:\d+|[iud])?|insert|delete")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[^\s,;()\[\]{}]+")

Pattern = tuple[tuple[str, ...], ...]
"""A row as it may be typed: for each token the words that will do."""


@dataclass(frozen=True)
class Verdict:
    """``right`` is True, False, or None where the answer was not understood; ``word`` says so in plain words."""

    right: bool | None
    text: str


@dataclass(frozen=True)
class Question:
    """``text`` asks; ``form`` is rows (of changes), keys (rows without diffs) or yes (yes or no).

    ``expected`` are tuples: (kind or signed diff as text, value, ...) for rows, the values
    for keys, ("yes",) or ("no",). ``hint`` shows how an answer is typed. ``short`` are the
    columns (positions among the values) that may be left out, because they were asked by.
    """

    text: str
    form: str
    expected: tuple[Values, ...]
    hint: str = ""
    short: tuple[int, ...] = ()

    @property
    def answer(self) -> str:
        """The expected answer as it would be typed."""
        shown = [" ".join(str(v) if i == 0 and self.form != "keys" else typed_values((v,)) for i, v in enumerate(row))
                 for row in self.expected]  # fmt: skip
        return ", ".join(shown) or "nothing"

    def check(self, text: str) -> Verdict:
        """Judge a typed answer."""
        said = " ".join(text.casefold().replace("−", "-").split()).rstrip(".!")
        if not said:
            return Verdict(None, f"Type what you expect{self._example}.")
        if self.form == "yes":
            if said not in YES + NO:
                return Verdict(None, "Answer yes or no.")
            return self._verdict((said in YES) == (self.expected == (("yes",),)))
        if said in NOTHING:
            return self._verdict(not self.expected)
        words = _words(said)
        if self.form == "rows" and not any(SIGN.fullmatch(w) for w in words[:1]):
            return Verdict(None, f"Begin each row with its kind, + or -{self._example}.")
        rows = list(self.expected)
        return self._verdict(
            any(_covers(words, list(map(self._patterns, each))) for each in (rows, self._single(rows)))
        )

    @property
    def _example(self) -> str:
        return f", as in {self.hint}" if self.hint else ""

    def _verdict(self, right: bool) -> Verdict:
        return Verdict(right, "Right." if right else f"Not quite: it is {self.answer}.")

    def _single(self, rows: list[Values]) -> list[Values]:
        """Rows with a diff of n as n rows: both ways of saying it will do."""
        if self.form != "rows":
            return rows
        counts = [(str(r[0])[0], abs(int(r[0])) if re.fullmatch(r"[+-]\d+", str(r[0])) else 1, r) for r in rows]
        many = sum(n for _, n, _ in counts) > 200
        return rows if many else [(f"{sign}1", *r[1:]) for sign, n, r in counts for _ in range(n) if n > 1] + [
            r for _, n, r in counts if n == 1
        ]  # fmt: skip

    def _patterns(self, row: Values) -> list[Pattern]:
        """The ways in which a row may be typed."""
        sign: Pattern = ()
        values = row
        if self.form == "rows":
            sign, values = (_signs(str(row[0])),), row[1:]
        whole = [t for v in values for t in _value(v)]
        left = [t for i, v in enumerate(values) if i not in self.short for t in _value(v)]
        return [(*sign, *whole), (*sign, *left)] if left else [(*sign, *whole)]


def _signs(kind: str) -> tuple[str, ...]:
    """What will do for a kind or a diff."""
    low = kind.casefold()
    if low[1:].isdigit() and low[1:] != "1":
        return (low,)
    rest = (f"{low[0]}1", *(PLUS if low[0] == "+" else MINUS))
    return (low, *rest) if low[1:] != "1" else (*rest, *(("+i", "+u") if low[0] == "+" else ("-d", "-u")))


def _value(value: Any) -> Iterator[tuple[str, ...]]:
    """The tokens of a value, each with the words that will do."""
    if value is None:
        yield ("null", "none", "na")
    elif isinstance(value, bool):
        yield ("true", "yes") if value else ("false", "no")
    elif isinstance(value, float):
        yield (repr(value),)
    else:
        yield from [(w,) for w in _words(str(value).casefold().replace("−", "-"))] or [("",)]


def _words(text: str) -> list[str]:
    """The words of a text, those in quotes too; empty quotes are an empty word."""
    out: list[str] = []
    for token in _TOKEN.findall(text):
        quoted = len(token) > 1 and token[0] in "'\"" and token[-1] == token[0]
        inner = _TOKEN.findall(token[1:-1].replace("''", "'")) if quoted else [token]
        out += inner or [""]
    return out


def _covers(words: Sequence[str], rows: list[list[Pattern]]) -> bool:
    """Whether the words are these rows, each once, in any order."""
    if not rows:
        return not words
    tried = set()
    for at, patterns in enumerate(rows):
        for pattern in patterns:
            if pattern not in tried and _begins(words, pattern):
                tried.add(pattern)
                if _covers(words[len(pattern) :], rows[:at] + rows[at + 1 :]):
                    return True
    return False


def _begins(words: Sequence[str], pattern: Pattern) -> bool:
    return len(words) >= len(pattern) and all(
        any(_same(word, wanted) for wanted in some) for word, some in zip(words, pattern, strict=False)
    )


def _same(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    try:
        typed, value = float(word), float(wanted)
    except ValueError:
        return False
    decimals = len(word.partition(".")[2])
    return typed == value or (2 <= decimals <= 12 and "e" not in word and round(value, decimals) == typed)
