"""Asks questions about the next step and judges the answers, leniently in format and strictly in content.

An answer is text such as ``-U Vegetable 50, +U Vegetable 60``. The order of the rows, upper and lower case, quotes,
brackets, and spaces or commas between values are ignored. +1 and -1 are accepted in place of a kind of change, and
a number can be rounded to two or more decimals. A word and a number can be swapped. An answer with a missing or an
extra row is wrong. If no row is expected, the answer is ``nothing``. An answer that cannot be parsed, or that has a row
with a value missing, is neither right nor wrong.

>>> from sharedstate_lite.replay.questions import Question
>>> question = Question("What will MAX send?", "rows", (("-U", "Vegetable", 50), ("+U", "Vegetable", 60)))
>>> question.check("+1 vegetable 60; -1 vegetable 50").right
True
>>> question.check("+U Vegetable 60").text
'Not quite: it is -U Vegetable 50, +U Vegetable 60.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .messages import Values, typed_values

NOTHING = ("nothing", "none", "no", "no change", "no changes", "no rows", "nothing at all", "0", "-", "()", "[]")
YES, NO = ("yes", "y", "true", "dropped"), ("no", "n", "false", "kept")
PLUS, MINUS = ("1", "+", "insert"), ("-", "delete")
SIGN = re.compile(r"[+-](?:\d+|[iud])?|insert|delete")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[^\s,;()\[\]{}]+")

Pattern = tuple[tuple[str, ...], ...]
"""The accepted ways to type a row: for each of its tokens, a tuple of the accepted words."""


@dataclass(frozen=True)
class Verdict:
    """The result of judging an answer.

    ``right`` is True or False, or None if the answer cannot be parsed. ``text`` is the reply to the user.
    """

    right: bool | None
    text: str


@dataclass(frozen=True)
class Question:
    """A question with the expected answer.

    ``form`` is ``rows`` (changes with a kind or diff), ``keys`` (rows without diffs) or ``yes`` (yes or no).
    ``expected`` contains one tuple per row. A tuple is (kind or signed diff as text, value, ...) for the form
    ``rows``, the values for ``keys``, and ("yes",) or ("no",) for ``yes``. ``hint`` shows how to type an answer.
    ``short`` contains the positions of columns that an answer can omit because the question names their values, and
    ``columns`` the names of the columns, if they are known.
    """

    text: str
    form: str
    expected: tuple[Values, ...]
    hint: str = ""
    short: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """The expected answer as a user would type it."""
        first = 0 if self.form == "keys" else 1
        rows = (" ".join([*map(str, row[:first]), *(typed_values((v,)) for v in row[first:])]) for row in self.expected)
        return ", ".join(rows) or "nothing"

    def check(self, text: str) -> Verdict:
        """Judge an answer typed by the user."""
        typed = " ".join(_folded(text).split()).rstrip(".!")
        if not typed:
            return Verdict(None, f"Type an answer{self._example}.")
        if self.form == "yes":
            if typed not in YES + NO:
                return Verdict(None, "Answer yes or no.")
            return self._verdict((typed in YES) == (self.expected == (("yes",),)))
        if typed in NOTHING:
            return self._verdict(not self.expected)
        words = tokens(typed if re.search(r"\band\b", self.answer) else typed.replace(" and ", ", "))
        if self.form == "rows" and not any(SIGN.fullmatch(w) for w in words[:1]):
            return Verdict(None, f"Start each row with its kind, or with + or -{self._example}.")
        rows = list(self.expected)
        right = any(covers(words, list(map(self._patterns, each))) for each in (rows, self._single(rows)))
        if not right and rows and not self._complete(words):
            names = f": {', '.join(self.columns)}" if self.columns else ""
            return Verdict(None, f"Type all values of each row{names}{self._example}.")
        return self._verdict(right)

    def sealed(self) -> dict[str, Any]:
        """Return what a judge in a page needs: the accepted patterns of each row, and the sizes that a row can have."""
        rows = list(self.expected)
        return {
            "form": self.form,
            "answer": self.answer,
            "yes": self.expected == (("yes",),),
            "rows": [list(map(self._patterns, each)) for each in (rows, self._single(rows))],
            "sizes": sorted(self._sizes()),
            "columns": self.columns,
        }

    @property
    def _example(self) -> str:
        return f" ({self.hint})" if self.hint else ""

    def _verdict(self, right: bool) -> Verdict:
        return Verdict(right, "Right." if right else f"Not quite: it is {self.answer}.")

    def _single(self, rows: list[Values]) -> list[Values]:
        """Replace each row with a diff of n by n rows with a diff of 1, or of -n by n rows with a diff of -1."""
        if self.form != "rows":
            return rows
        counts = [abs(int(r[0])) if re.fullmatch(r"[+-]\d+", str(r[0])) else 1 for r in rows]
        if sum(counts) > 200:
            return rows
        return [
            r if n == 1 else (f"{str(r[0])[0]}1", *r[1:]) for r, n in zip(rows, counts, strict=True) for _ in range(n)
        ]

    def _patterns(self, row: Values) -> list[Pattern]:
        sign: Pattern = (signs(str(row[0])),) if self.form == "rows" else ()
        return [(*sign, *each) for some in self._values(row) for each in orders(some)]

    def _values(self, row: Values) -> list[Values]:
        """Return the values that an answer has for a row: all, or without those that it can omit."""
        values = row[1:] if self.form == "rows" else row
        left = tuple(v for i, v in enumerate(values) if i not in self.short)
        return [values, left] if left else [values]

    def _complete(self, words: Sequence[str]) -> bool:
        """Return whether the words can be rows that have as many values as an expected row."""
        row = "|".join(f"{'s' * (self.form == 'rows')}[sv]{{{size}}}" for size in self._sizes())
        return bool(re.fullmatch(f"(?:{row})+", "".join("s" if SIGN.fullmatch(word) else "v" for word in words)))

    def _sizes(self) -> set[int]:
        some = [values for row in self.expected for values in self._values(row)]
        return {size for values in some for size in (len(values), len(pattern(values)))}


def signs(kind: str) -> tuple[str, ...]:
    """Return the accepted words for a kind or a diff."""
    low = kind.casefold()
    if low[1:].isdigit() and low[1:] != "1":
        return (low,)
    rest = (f"{low[0]}1", *(PLUS if low[0] == "+" else MINUS))
    return (low, *rest) if low[1:] != "1" else (*rest, *(("+i", "+u") if low[0] == "+" else ("-d", "-u")))


def pattern(values: Sequence[Any]) -> Pattern:
    """Return, for each token of the values, the words that are accepted for it."""
    return tuple(t for v in values for t in _value(v))


def orders(values: Sequence[Any]) -> list[Pattern]:
    """Return the pattern of the values. A word and a number cannot be confused, so either of them can stand first."""
    numbers = [bool(re.fullmatch(r"[+-]?\d+(?:\.\d+)?", str(value))) for value in values]
    turned = [pattern(values[::-1])] if sorted(numbers) == [False, True] else []
    return [pattern(values), *turned]


def tokens(text: str) -> list[str]:
    """Split a text into lower-case words, including the words inside quotes. Empty quotes become an empty word."""
    out: list[str] = []
    for token in _TOKEN.findall(_folded(text)):
        quoted = len(token) > 1 and token[0] in "'\"" and token[-1] == token[0]
        inner = tokens(token[1:-1].replace("''", "'")) if quoted else [token]
        out += inner or [""]
    return out


def covers(words: Sequence[str], rows: Sequence[Sequence[Pattern]]) -> bool:
    """Return True if the words consist of exactly these rows, in any order.

    Each row is given as a list of alternative patterns.
    """
    if not rows:
        return not words
    tried = set()
    for at, patterns in enumerate(rows):
        for each in patterns:
            if each not in tried and _begins(words, each):
                tried.add(each)
                if covers(words[len(each) :], [*rows[:at], *rows[at + 1 :]]):
                    return True
    return False


def same(word: str, wanted: str) -> bool:
    """Return True if two words are equal, or are equal as numbers.

    ``word`` can be a number rounded to between 2 and 12 decimals.
    """
    if word == wanted:
        return True
    try:
        typed, value = float(word), float(wanted)
    except ValueError:
        return False
    decimals = len(word.partition(".")[2])
    return typed == value or (2 <= decimals <= 12 and "e" not in word and round(value, decimals) == typed)


def _folded(text: str) -> str:
    return text.casefold().replace("−", "-")


def _value(value: Any) -> Iterator[tuple[str, ...]]:
    if value is None:
        yield ("null", "none", "na")
    elif isinstance(value, bool):
        yield ("true", "yes") if value else ("false", "no")
    elif isinstance(value, float):
        yield (repr(value),)
    else:
        yield from [(w,) for w in tokens(str(value))] or [("",)]


def _begins(words: Sequence[str], pattern: Pattern) -> bool:
    return len(words) >= len(pattern) and all(
        any(same(word, wanted) for wanted in some) for word, some in zip(words, pattern, strict=False)
    )
