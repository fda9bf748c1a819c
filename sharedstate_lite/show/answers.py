"""Reads answers as people type them. docs/predictions.md has the grammar.

Each form of an answer reads a text as a value, or as None if the text is not an answer, and compares two values.
``wanted`` reads what the author of a question has written: the right answer, or a wrong one that has an explanation.

>>> from sharedstate_lite.show.answers import form
>>> number = form("How many rows?", 16, [], ())
>>> [number.read(text) for text in ("16", "about 16 rows", "2k", "188,796", "no rows", "not 16", "?")]
[16.0, 16.0, 2000.0, 188796.0, 0.0, None, None]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import pandas as pd

from ..replay.questions import NOTHING, SIGN, covers, orders, pattern, signs, tokens

FEW = 3
FILLERS = set("a an the and it is only just also both all of one them".split())
EMPTY = {"nothing", "none", "empty", "neither"}
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
WORDS = {
    **{word: n for n, word in enumerate(_UNITS.split())},
    **{word: 10 * n for n, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)},
    **dict.fromkeys(("none", "nothing", "empty", "never"), 0),
    **dict(zip(("once", "twice"), (1, 2), strict=True)),
}
SHARES = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
SCALES = {"k": 1000, "hundred": 100, "thousand": 1000, "million": 10**6}
_BOUND = re.compile(
    r"\b(?:not|than|least|most|between|under|over|below|above|or|up|hundred|thousand|million)\b|[<>≤≥≠]"
)
_TIMES = re.compile(r"\b(?:twice|double|triple|times|as (?:many|much))\b|fold\b|\d\s*[x×](?!\w)")
_COUNTED = re.compile(_TIMES.pattern + r"|\d\s*[x×]\s*\d")
"""One of several numbers, with how often it occurs, such as 1 twice or 1x2."""
_RELATIVE = re.compile(r"\b(?:more|fewer|less|extra|each|apiece|per(?!\s?cent))\b")
"""A number of something else than was asked, such as 0 more or 225 per category, unless the question has the word."""
_PRONOUN = re.compile(r"\b(?:the \w+|the|this|that|which|last|first|next|new|old|other|same|every|each|any|no) ones?\b")
_PERCENT = re.compile(r"%|\bper ?cent")
_POINT = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3})+(?![\d.])")
"""Perhaps thousands, with a point before each three digits."""
_SEPARATORS = ",'_\u00a0\u202f"
_GROUPED = r"[1-9]\d{{0,2}}(?:[{}]\d{{3}})+(?!\d)"
_SCALE = r"(?:\s*(k|hundred|thousand|million)\b)?(?!\w*[a-z_]\d)"
"""Letters may follow, such as those of a unit, and then no digits: 0x10 is none."""
_ONE = re.compile(
    rf"(?<![\w.])([-+]?(?:(?:{_GROUPED.format(_SEPARATORS + ' ')}|\d+)(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+)?)"
    rf"(?:\s*/\s*(\d+))?{_SCALE}"
)
"""One number, with a decimal point or comma, perhaps as a fraction."""
_MANY = re.compile(
    rf"(?<![\w.])([-+]?(?:(?:{_GROUPED.format(_SEPARATORS)}|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)(){_SCALE}"
)
"""One of several numbers, which commas and blanks separate."""


class ChangesLike(Protocol):
    """The methods of `Changes` that `emitted` calls."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the changes as a data frame: the columns of the rows, then time and diff."""

    def kinds(self) -> list[str]:
        """Return the kind of each row: +I, -U, +U or -D."""


def emitted(changes: ChangesLike) -> list[tuple[Any, ...]]:
    """Return changes as plain tuples, (kind, value, value, ...) for each row."""
    rows = changes.to_pandas().iloc[:, :-2].astype(object)
    return [(kind, *row) for kind, row in zip(changes.kinds(), rows.itertuples(index=False, name=None), strict=True)]


class Form:
    """What kind of answer a question expects."""

    whole: bool = False
    """Whether all numbers of the answer are whole ones."""

    @property
    def hint(self) -> str:
        """One sentence that says how to type an answer."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """Return the value that a text has, or None if it is not an answer."""
        raise NotImplementedError

    def wanted(self, value: Any) -> Any:
        """Return the value of an answer that the author has written, or None."""
        return self.read(text_of(value))

    def equal(self, read: Any, wanted: Any) -> bool:
        """Return whether a text that was read is this answer."""
        return bool(read == wanted)

    def unclear(self, text: str) -> bool:
        """Return whether a text that is not right may be it, because 2.500 was typed for 2,500."""
        return self.whole and bool(_POINT.search(text))


@dataclass(frozen=True)
class NumberAnswer(Form):
    """One number. ``words`` are other answers that have an explanation, and ``nouns`` are the words of the question.

    ``percent``: it is a percentage. ``shares``: it is one of at least 1%, and 0.76 means 76%.
    """

    percent: bool
    shares: bool
    times: bool
    words: tuple[str, ...]
    nouns: frozenset[str]
    whole: bool = False

    def direction(self, read: float | str | None, wanted: float | str | None) -> str:
        """Return whether a wrong number is too high or too low.

        Return "" if the right one is at most `FEW` and whole: then few numbers would remain.
        """
        if not isinstance(read, float) or not isinstance(wanted, float) or (self.whole and abs(wanted) <= FEW):
            return ""
        return "That is too high." if read > wanted else "That is too low."

    @property
    def hint(self) -> str:
        """How to type a number."""
        return f"Type one {'whole ' if self.whole else ''}number, such as 12."

    def read(self, text: str) -> float | str | None:
        """Read one number, with or without a unit, or one of the words. A sum may come first: 9 + 9 = 18."""
        found = _numbers(_ONE, re.sub(r"^[-+*/×(),.\d\s]*=", "", text), self.nouns)
        if not found or len(found) > 1:
            same = self.times and "as" in self.nouns and _plain(text)[:1] == ["same"]
            return 1.0 if same else next((each for each in self.words if _plain(text) == _plain(each)), None)
        value, share = found[0]
        if not self.percent and (share and self.whole or _PERCENT.search(_folded(text))):
            return None
        if not self.times and _TIMES.search(_folded(text)):
            return None
        if any(word not in self.nouns for word in _RELATIVE.findall(_folded(text))):
            return None
        share = share or (self.shares and 0 < value < 1)
        return 100 * value if share and self.percent and not _PERCENT.search(_folded(text)) else value

    def equal(self, read: float | str, wanted: float | str) -> bool:
        """Compare two numbers; one that is not whole may be rounded."""
        if isinstance(read, str) or isinstance(wanted, str):
            return read == wanted
        return read == wanted or (wanted % 1 != 0 and abs(read - wanted) <= 0.005 * abs(wanted))


@dataclass(frozen=True)
class NumbersAnswer(Form):
    """Several numbers, ``counts`` of them or any number, in a given order or in any."""

    counts: frozenset[int]
    ordered: bool
    whole: bool = False

    @property
    def hint(self) -> str:
        """How many numbers to type."""
        return "Type numbers with commas between them."

    def read(self, text: str) -> tuple[float, ...] | None:
        """Read numbers. A comma separates them, unless it makes them too few."""
        if _COUNTED.search(_folded(text)):
            return None
        for each in (text, text.replace(",", ", ")):
            found = _numbers(_MANY, each, ())
            if found and (not self.counts or len(found) in self.counts):
                values = [value for value, _ in found]
                return tuple(values if self.ordered else sorted(set(values)))
        return None


@dataclass(frozen=True)
class NamesAnswer(Form):
    """One of the choices, or any number of them in any order."""

    choices: tuple[str, ...]
    many: bool

    @property
    def hint(self) -> str:
        """Which names to type."""
        return f"Type {'names out of' if self.many else 'one of'}: {', '.join(self.choices)}."

    def read(self, text: str) -> frozenset[str] | None:
        """Read names. A word that is none of the choices makes the text no answer."""
        found, words = set[str](), _words(text)
        if self.many and "".join(words) in EMPTY:
            return frozenset()
        if self.many and (words == ["all"] or (words == ["both"] and len(self.choices) == 2)):
            return frozenset(self.choices)
        while words:
            plain = {name: _plain(name) for name in self.choices}
            fits = [(each, name) for name, each in plain.items() if words[: len(each)] == each]
            if fits:
                longest, name = max(fits, key=lambda each: len(each[0]))
                found.add(name)
                words = words[len(longest) :]
            elif words.pop(0) not in FILLERS:
                return None
        return frozenset(found) if found and (self.many or len(found) == 1) else None


@dataclass(frozen=True)
class PartsAnswer(Form):
    """A value for each name: with the names in any order, or without them in the order of the question."""

    names: tuple[str, ...]
    choices: tuple[str, ...]
    whole: bool = False

    @property
    def hint(self) -> str:
        """Which parts to type."""
        what = f"one of {', '.join(self.choices)}" if self.choices else "a number"
        return f"Type {what} for each: {', '.join(self.names)}."

    def read(self, text: str) -> dict[str, Any] | None:
        """Read a value for each name."""
        found = self.wanted(text)
        return found if found is not None and len(found) == len(self.names) else None

    def wanted(self, value: Any) -> dict[str, Any] | None:
        """Read the values of some names, such as ``left 1``."""
        names = {name.casefold(): name for name in self.names}
        parts = re.split(rf"\b({'|'.join(map(re.escape, names))})\b", _folded(text_of(value)))
        if len(parts) == 1:
            return self._row(parts[0])
        behind = self._row(parts[0], 1) is not None  # such as ``0 left, 1 right``
        labels, values = parts[1::2], [parts[0], *parts[2:-1:2]] if behind else parts[2::2]
        read = [self._row(each, 1) for each in values]
        if len(set(labels)) < len(labels) or None in read:
            return None
        return {names[label]: next(iter(each.values())) for label, each in zip(labels, read, strict=True) if each}

    def _row(self, text: str, count: int = 0) -> dict[str, Any] | None:
        """Values without their names."""
        count = count or len(self.names)
        if self.choices:
            words = _plain(text)
            known = all(word in self.choices for word in words)
            values: Sequence[Any] = words if known and len(words) == count else []
        else:
            values = NumbersAnswer(frozenset({count}), True).read(text) or []
        return dict(zip(self.names, values, strict=False)) if values else None

    def equal(self, read: dict[str, Any], wanted: dict[str, Any]) -> bool:
        """Return whether each part that is wanted was read."""
        return all(read[name] == value for name, value in wanted.items())


@dataclass(frozen=True)
class RowsAnswer(Form):
    """Rows in any order. If they are changes, each begins or ends with its kind, or with + or -.

    ``sizes`` are the numbers of words that a row can have, without its kind. ``words`` are the values that are known,
    ``nouns`` the words of the question, and ``units`` those that it has behind a number.
    """

    signed: bool
    sizes: frozenset[int]
    words: frozenset[str]
    nouns: frozenset[str]
    units: tuple[str, ...]

    @property
    def hint(self) -> str:
        """How to type rows."""
        how = "Start each row with its kind, or with + or -, and type all of its values as the page spells them"
        return f"{how}, such as +1 Pear 5; or type nothing." if self.signed else "Type all values of a row, or nothing."

    def read(self, text: str) -> list[str] | None:
        """Read the words of all rows. An unknown word, or a row of another size, makes the text no answer."""
        typed = tokens(re.sub(r"(?<!\S)([+-])(?=[^\W\d]{2})", r"\1 ", text.strip().rstrip(".!?")))
        if " ".join(typed) in NOTHING or (EMPTY & {*typed} and "not" not in typed and not re.search(r"\d", text)):
            return []
        words = list[str]()
        for word in map(self._number, typed):
            unit = words and word and _is_number(words[-1]) and any(each.startswith(word) for each in self.units)
            if word in self.words or not (unit or word in FILLERS):
                words.append(word)
        if words == ["0"] or words in (["0", "rows"], ["0", "changes"]):
            return []
        known = all(word in self.words | self.nouns or SIGN.fullmatch(word) or _is_number(word) for word in words)
        row = "|".join(f"[sv]{{{size}}}" for size in sorted(self.sizes)) or "[sv]+"
        rows = f"(?:s(?:{row}))+|(?:(?:{row})s)+" if self.signed else f"(?:{row})+"
        kinds = "".join("s" if word == "1" or SIGN.fullmatch(word) else "v" for word in words)
        return words if known and re.fullmatch(rows, kinds) else None

    def _number(self, word: str) -> str:
        """Fifty is 50, and 50s, with a unit of the question, as well."""
        if word in WORDS and word not in self.words:
            return str(WORDS[word])
        found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)([a-z]+)", word)
        return found[1] if found and any(each.startswith(found[2]) for each in self.units) else word

    def wanted(self, value: Any) -> list[Sequence[Any]] | None:
        """Read rows that the author has written, as tuples or as a text."""
        return _wanted_rows(value, self.signed)

    def equal(self, read: list[str], wanted: list[Sequence[Any]]) -> bool:
        """Compare all rows, in any order, with the kind before or behind the values of each."""
        if not self.signed:
            return covers(read, [orders(row) for row in wanted])
        rows = [(signs(str(row[0])), orders(row[1:])) for row in wanted]
        first = [[(kind, *row) for row in each] for kind, each in rows]
        last = [[(*row, kind) for row in each] for kind, each in rows]
        return covers(read, first) or covers(read, last)


def form(text: str, answer: Any, whys: Collection[Any], choices: Sequence[str]) -> Form:
    """Return the form of a question's answer."""
    nouns = frozenset(_words(text))
    if isinstance(answer, Mapping):
        return PartsAnswer(tuple(map(str, answer)), tuple(choices), _whole(answer.values()))
    if choices:
        return NamesAnswer(tuple(map(str, choices)), isinstance(answer, Set))
    if isinstance(answer, Real):
        times = bool({"times", "often", "factor"} & nouns)
        words = tuple(each for each in whys if isinstance(each, str))
        percent = bool(_PERCENT.search(_folded(text)))
        shares = percent and float(answer) >= 1 and "points" not in nouns
        return NumberAnswer(percent, shares, times, words, nouns, _whole([answer]))
    every = [answer, *whys]
    if isinstance(answer, Set) or (isinstance(answer, list | tuple) and answer and not any(map(_row, answer))):
        sizes = {len(each) for each in every if isinstance(each, tuple)} if isinstance(answer, tuple) else set[int]()
        return NumbersAnswer(frozenset(sizes), not isinstance(answer, Set), _whole(answer))
    signed = any(SIGN.fullmatch(str(next(iter(row), "")).casefold()) for each in every for row in _rows(each))
    rows = [pattern(row[1:] if signed else row) for each in every for row in _wanted_rows(each, signed)]
    values = frozenset(word for row in rows for accepted in row for word in accepted)
    units = tuple(re.findall(r"\d\s+([a-z]+)", _folded(text)))
    return RowsAnswer(signed, frozenset(map(len, rows)), values, nouns, units)


def text_of(value: Any) -> str:
    """Return an answer as a reader would type it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, list | tuple | Set):
        parts: Iterable[Any] = sorted(value, key=repr) if isinstance(value, Set) else value
        return ", ".join(" ".join(map(str, part)) if _row(part) else str(part) for part in parts) or "nothing"
    return f"{value:,}" if isinstance(value, Integral) and not isinstance(value, bool) else str(value)


def _row(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _rows(value: Any) -> list[Sequence[Any]]:
    if isinstance(value, str):
        return [tokens(value)]
    return [each if _row(each) else (each,) for each in value]


def _wanted_rows(value: Any, signed: bool) -> list[Sequence[Any]]:
    if not isinstance(value, str):
        return _rows(value)
    if value.strip().casefold() in NOTHING:
        return []
    if not signed:
        return [tokens(value)]
    return [tokens(row) for row in re.split(r"[,;]?\s+(?=[+-](?:\d|[IUD])\b)", value.strip())]


def _whole(values: Iterable[Any]) -> bool:
    return all(isinstance(each, Integral) for each in values)


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"[+-]?\d+(?:\.\d+)?", word))


def _folded(text: str) -> str:
    return re.sub("[−–]", "-", text.casefold().replace("’", "'"))


def _words(text: str) -> list[str]:
    return re.findall(r"[\w.]*\w", _folded(text))


def _plain(text: str) -> list[str]:
    """The words that matter; all words if none does."""
    words = _words(text)
    return [word for word in words if word not in FILLERS] or words


def _numbers(number: re.Pattern[str], text: str, nouns: Collection[str]) -> list[tuple[float, bool]] | None:
    """Return the numbers in a text, each with whether it is a fraction; None if the text is a bound or a negation."""
    text = re.sub(r"\bnot at all\b", "0", re.sub(r"\bor so\b", "", _folded(text)))
    text = re.sub(r"\bminus\s+(?=\w)", "-", _PRONOUN.sub("", text))
    text = re.sub(r"\bno (\w+)", lambda m: "0" if m[1] in nouns else m[0], text)
    text = re.sub(r"[a-z]+", lambda m: str(WORDS.get(m[0], m[0])), text)
    share = rf"(?:(\d+) |\ban? )?\b({'|'.join(SHARES)})s?\b"
    text = re.sub(share, lambda m: f"{m[1] or 1}/{SHARES[m[2]]}", text)
    # 6 of 12, if the question says 12, is 6.
    text = re.sub(r"\b(?:out )?of (?:all )?(?:the )?(\d+)\b", lambda m: "" if m[1] in nouns else m[0], text)
    if "thousands" in nouns:  # The answer is in thousands.
        text = re.sub(r"(?<=\d)\s*(?:k|thousand)\b", "", text)
    if _BOUND.search(number.sub(" ", text)) or re.search(r"n't\b", text):
        return None
    found = []
    for digits, below, scale in number.findall(text):
        if below and not float(below):
            return None
        if re.match(rf"[-+]?{_GROUPED.format(_SEPARATORS + ' ')}", digits):
            digits = re.sub(rf"[{_SEPARATORS} ]", "", digits)
        found.append((float(digits.replace(",", ".")) / float(below or 1) * SCALES.get(scale, 1), bool(below)))
    return found


__all__ = ["Form", "NumberAnswer", "emitted", "form", "text_of"]
